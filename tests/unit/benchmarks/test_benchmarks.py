"""The harness: what it counts, how it names a ratio, when a target is met."""

import gc
import json
import os
import time
from importlib import import_module

import numpy as np
import pytest

from benchmarks import (
    BENCHMARKS,
    QUICK_BENCHMARKS,
    Effort,
    Row,
    Timing,
    compare,
    comparison,
    document,
    measure,
    samples,
)
from benchmarks.decode import all_totals
from benchmarks.measure import CALLS, PROCESSOR, WALL, allocated_bytes, one_core, peak_bytes
from benchmarks.result import amount, cost, gain, rate
from benchmarks.script import show
from faintly.kernels import reference
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1

PAIR = (Timing(2.0, 3.0), Timing(8.0, 9.0))


def test_both_sides_take_turns_and_the_first_round_warms_up(monkeypatch):
    module = import_module("benchmarks.measure")  # the function of that name hides it
    monkeypatch.setattr(module, "TURN", 60)  # a pause of the machine ends no turn
    calls = []
    ours, theirs = compare(
        lambda: calls.append("ours"),
        lambda: calls.append("theirs"),
        Effort(rounds=3, seconds=60),
        before=lambda: calls.append("before"),
    )
    turn = ["before", "ours"] * CALLS + ["before", "theirs"] * CALLS
    assert calls == turn * 4
    assert 0 <= ours.best <= ours.median
    assert 0 <= theirs.best <= theirs.median


def test_no_round_begins_after_the_deadline():
    calls = []
    measure(lambda: calls.append(time.sleep(0.01)), Effort(rounds=50, seconds=0.005))
    assert len(calls) == 1


def test_the_slower_side_is_told_apart():
    """Mutant: the sides exchanged give the inverse."""
    slow, fast = (lambda: sum(range(200_000))), (lambda: sum(range(20_000)))
    effort = Effort(rounds=3, seconds=5)
    one, other = compare(slow, fast, effort)
    assert one.best > 2 * other.best
    one, other = compare(fast, slow, effort)
    assert other.best > 2 * one.best


def test_waiting_does_not_count_but_on_the_wall():
    if PROCESSOR is WALL:
        pytest.skip("the clock of the processor is too coarse here")
    effort = Effort(rounds=1, seconds=5)
    assert measure(lambda: time.sleep(0.02), effort).best < 0.01
    assert measure(lambda: time.sleep(0.02), effort, clock=WALL).best >= 0.02


def test_garbage_collection_rests_and_comes_back():
    states = []
    measure(lambda: states.append(gc.isenabled()), Effort(rounds=1, seconds=1))
    assert set(states) == {False}
    assert gc.isenabled()


def test_collection_comes_back_after_an_error():
    with pytest.raises(ZeroDivisionError):
        measure(lambda: 1 / 0, Effort(rounds=1, seconds=1))
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system cannot pin threads")
def test_one_core_is_one_core_and_ends(monkeypatch):
    monkeypatch.delenv("FAINTLY_THREADS", raising=False)
    before = os.sched_getaffinity(0)
    with one_core():
        assert len(os.sched_getaffinity(0)) == 1
        assert os.environ["FAINTLY_THREADS"] == "1"
    assert os.sched_getaffinity(0) == before
    assert "FAINTLY_THREADS" not in os.environ


def test_memory_of_a_call_is_counted_even_if_given_back():
    assert allocated_bytes(lambda: np.ones(2**20, dtype=np.uint8).sum()) >= 2**20
    assert allocated_bytes(lambda: None) < 2**16


def test_the_peak_sees_memory_that_was_given_back():
    before = peak_bytes()
    block = np.ones(2**26, dtype=np.uint8)
    del block
    assert peak_bytes() >= before
    assert peak_bytes() > 2**20


@pytest.mark.parametrize(
    ("row", "ratio", "met"),
    [
        (cost("a", "a", PAIR, at_most=0.25), 0.25, True),
        (cost("a", "a", PAIR, at_most=0.24), 0.25, False),
        (gain("a", "a", PAIR, at_least=4.0), 4.0, True),
        (gain("a", "a", PAIR, at_least=4.1), 4.0, False),
        (gain("a", "a", PAIR), 4.0, None),
    ],
)
def test_costs_are_ours_over_theirs_and_gains_the_other_way(row, ratio, met):
    assert (row.ratio, row.figure, row.met) == (ratio, ratio, met)


def test_rates_and_amounts_have_no_other_side():
    fast = rate("a", "a", Timing(2.0, 4.0), 10, unit="x/s", at_least=5)
    assert (fast.figure, fast.ours_median, fast.met) == (5.0, 2.5, True)
    much = amount("a", "a", 9.0, unit="MiB", at_most=8)
    assert (much.figure, much.met) == (9.0, False)


def test_rows_survive_json_and_show_their_units():
    row = cost("a", "work", PAIR, at_most=2.5, per=1e9, unit="ns/cell", note="remark")
    again = Row.from_document(json.loads(json.dumps(row.document())))
    assert again == row
    assert row.cells() == ("work", "2 ns/cell", "8 ns/cell", "0.25x", "≤ 2.5x", "met")
    lines: list[str] = []
    show("title", [row], lines.append)
    assert lines[0] == "\ntitle"
    assert lines[-1] == "note: remark"


@pytest.mark.parametrize(
    ("seconds", "text"), [(2e-6, "2 µs"), (0.0123, "12.3 ms"), (7030.0, "7,030 s")]
)
def test_seconds_are_shown_in_their_size(seconds, text):
    row = gain("a", "a", (Timing(seconds, seconds), PAIR[1]))
    assert row.cells()[1] == text


def test_a_document_names_figures_machine_and_kernel():
    made = document([gain("decode_vs_loop", "a", PAIR)])
    assert made["decode_vs_loop"] == 4.0
    assert made["kernel"] in {"c", "numpy"}
    assert made["machine"]["cores"] >= 1
    assert json.loads(json.dumps(made)) == made


def test_quick_benchmarks_are_among_all():
    assert set(QUICK_BENCHMARKS) <= set(BENCHMARKS)


def test_the_decode_that_is_timed_is_the_right_one():
    """The totals behind the headline ratio equal a direct reading of the same reports."""
    plan = samples.one_cell_plan(500, 300)
    batches = list(samples.batches(plan, 500, 200))
    ids = np.arange(300, dtype=np.uint64)
    expected = sum(mechanism_of(plan).read(batch, ids) for batch in batches)
    np.testing.assert_array_equal(all_totals(plan, batches, ids), expected)


def test_the_loop_that_is_timed_is_the_papers_estimator():
    seeds, values = samples.paper_reports(300, 16)
    ids = np.arange(7, dtype=np.uint64)
    np.testing.assert_array_equal(
        comparison.paper_loop(seeds, values, ids), reference.read_hashed(seeds, values, ids)
    )


def test_the_loop_over_cells_that_is_timed_counts_hits():
    draw = samples.generator()
    cells, rows = (draw.integers(0, 32, shape, dtype=np.uint32) for shape in ((600, 2), (7, 3, 2)))
    cells[::5] = 0
    wanted = reference.read_hits(cells, rows, 3)[1]
    assert wanted.any()
    np.testing.assert_array_equal(comparison.hit_loop(cells, rows), wanted)


def test_a_machine_without_a_compiler_says_what_is_missing(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(SystemExit, match="there is no compiler no-such-compiler"):
        comparison.built()


def test_the_bare_addition_that_is_timed_adds():
    draw = samples.generator()
    index, weight = draw.integers(0, 64, 999, dtype=np.uint32), np.ones(999, dtype=np.int32)
    for kind in (np.int32, np.int64):
        tables, expected = np.zeros((2, 32), kind), np.zeros((2, 32), kind)
        comparison.bare_add(tables, index, weight)
        np.add.at(expected.reshape(-1), index, weight)
        np.testing.assert_array_equal(tables, expected)


@pytest.mark.parametrize(
    "plan",
    [
        samples.one_cell_plan(100, 50),
        samples.many_cell_plan(100, 50),
        samples.projection_plan(100, 50),
        samples.open_plan(100),
    ],
    ids=lambda plan: plan.mechanism,
)
def test_made_up_reports_are_valid(plan):
    layout = mechanism_of(plan).layout
    made = list(samples.batches(plan, 100, 30))
    assert [len(batch) for batch in made] == [30, 30, 30, 10]
    for batch in made:
        data = report_v1.encode_batch(batch, layout)
        again = report_v1.decode_batch(data, plan.digest, layout)
        np.testing.assert_array_equal(again.fields, batch.fields)
        np.testing.assert_array_equal(again.hash_seeds, batch.hash_seeds)


def test_made_up_vectors_hold_distinct_sorted_items():
    batch = samples.vectors(50, 8, 40)
    items = batch.indices.reshape(50, 8)
    assert (np.diff(items.astype(np.int64), axis=1) > 0).all()
    assert np.abs(batch.values).max() <= 1
