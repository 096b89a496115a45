"""Ingestion in bounded memory: slices, widening, spooled columns, and a transform that is kept."""

import gc
import json
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from faintly import kernels
from faintly.core import Plan, ReportBatch, Sketch
from faintly.core.sketch import table_type
from faintly.engine import Aggregator, Reader, aggregate, answers, columns
from faintly.engine.files import load_sketch, save_sketch
from faintly.errors import InvalidInput, InvalidPlan, Reject, ReportRejected, SketchRejected
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.wire import sketch_v1
from spec.generator import cases, vectors
from spec.generator.vectors import plan_of
from tests.every import every
from tests.unit.engine.samples import reports_of

aggregate_module = sys.modules["faintly.engine.aggregate"]
TABLES = [name for name in sorted(cases.PLANS) if cases.document(name)["decode"] == "table"]
DIRECT = [name for name in sorted(cases.PLANS) if cases.document(name)["decode"] == "direct"]
EVERY = pytest.mark.parametrize("name", [*TABLES, *DIRECT])


@EVERY
@every("size", [1, 3])
def test_slices_change_nothing(name, size, monkeypatch):
    plan, batch = plan_of(name), reports_of(name, 7)
    whole = aggregate(plan, [batch])
    monkeypatch.setattr(aggregate_module, "SLICE", size)
    monkeypatch.setattr(answers, "REPORTS", size)
    again = aggregate(plan, [batch])
    assert again == whole
    ids = np.arange(min(plan.universe.size or 9, 9), dtype=np.uint64)
    sliced = Reader(again).estimate_ids(ids, ids)
    monkeypatch.undo()
    at_once = Reader(whole).estimate_ids(ids, ids)
    for column in ("mean", "stderr", "score", "low_all"):
        assert getattr(sliced, column).tolist() == getattr(at_once, column).tolist()


@EVERY
def test_an_aggregator_resumes_a_sketch(name, tmp_path):
    plan, batch = plan_of(name), reports_of(name, 9)
    save_sketch(aggregate(plan, [batch.take(slice(5))]), tmp_path / "sketch")
    loaded = load_sketch(tmp_path / "sketch")
    for spool in (None, tmp_path):
        resumed = Aggregator.resume(loaded, spool)
        assert resumed.sketch() == loaded
        assert resumed.count == 5
        resumed.add(batch.take(slice(5, 9)))
        assert resumed.sketch() == aggregate(plan, [batch])
    assert loaded == aggregate(plan, [batch.take(slice(5))])


@pytest.mark.parametrize("name", TABLES)
@every("room", [0, 1, 10**9])
def test_tables_widen_when_their_mass_demands_it(name, room):
    """The planted mass leaves exactly `room` for what comes; the integers must not care."""
    plan, batch = plan_of(name), reports_of(name, 11)
    start, added = (
        aggregate(plan, [batch.take(slice(4))]),
        aggregate(plan, [batch.take(slice(4, 11))]),
    )
    heavy = replace(start, mass=2**31 - 1 - min(added.mass + room - 1, 2**31 - 1 - start.mass))
    assert heavy.tables.dtype == np.int32
    aggregator = Aggregator.resume(heavy)
    aggregator.add(batch.take(slice(4, 11)))
    found = aggregator.sketch()
    assert found.mass == heavy.mass + added.mass
    assert found.tables.dtype == (np.int32 if room else np.int64) == table_type(found.mass)
    assert heavy.merge(added) == found
    assert heavy.merge(added).tables.dtype == found.tables.dtype
    assert np.array_equal(found.tables, aggregate(plan, [batch]).tables)
    wide = replace(found, mass=2**40, tables=found.tables.astype(np.int64))
    ids = np.arange(min(plan.universe.size or 9, 9), dtype=np.uint64)
    assert Reader(found).totals(ids).tolist() == Reader(wide).totals(ids).tolist()


def test_entries_beyond_32_bits_are_exact():
    """One cell gets 2^31 - 1 twice: what 32 bits would wrap."""
    plan = plan_of("event-coarse")
    most = 2**31 - 1
    tables = np.array([[most, 0]], np.int32)
    full = Sketch(plan, np.array([1]), 0, most, tables=tables)
    twice = full.merge(full)
    assert twice.tables.tolist() == [[2 * most, 0]]
    assert mechanism_of(plan).tables.transform(full.tables).tolist() == [[most, most]]
    assert mechanism_of(plan).tables.transform(twice.tables).tolist() == [[2 * most, 2 * most]]
    back = sketch_v1.decode_sketch(
        vectors.sketch_bytes(twice), lambda plan: mechanism_of(plan).tables.sketch_shape
    )
    assert back == twice
    assert back.tables.dtype == np.int64
    with pytest.raises(InvalidInput, match="64 bits"):
        replace(full, mass=2**63 - 1).merge(full)


def test_tables_stay_narrow_while_what_they_hold_does(monkeypatch):
    """Working tables widen only for what is in them; a sketch is as wide as its mass says."""
    plan, batch = plan_of("event-coarse"), reports_of("event-coarse", 11)
    most, added = 2**31 - 1, []
    add = kernels.scatter_add
    monkeypatch.setattr(
        kernels, "scatter_add", lambda table, *rest: added.append(table.dtype) or add(table, *rest)
    )
    for held, dtype in ((0, np.int32), (most, np.int64)):
        tables = np.array([[held, 0]], np.int32)
        aggregator = Aggregator.resume(Sketch(plan, np.array([1]), 0, most, tables=tables))
        aggregator.add(batch)
        assert added[-1] == dtype
        alone = aggregate(plan, [batch])
        found = aggregator.sketch()
        assert found.mass == most + alone.mass
        assert found.tables.dtype == np.int64
        np.testing.assert_array_equal(found.tables, alone.tables.astype(np.int64) + tables)
        ids = np.arange(2, dtype=np.uint64)
        assert aggregator.reader().totals(ids).tolist() == Reader(found).totals(ids).tolist()


@pytest.mark.parametrize("name", DIRECT)
def test_spooled_reports_give_the_same_bytes(name, tmp_path, monkeypatch):
    plan, batch = plan_of(name), reports_of(name, 60)
    wanted = vectors.sketch_bytes(aggregate(plan, [batch]))
    monkeypatch.setattr(aggregate_module, "KEPT", 7)
    monkeypatch.setattr(columns, "MERGED", 9 * columns.record_bytes(1))
    parts = [batch.take(slice(start, start + 5)) for start in range(0, 60, 5)]
    aggregator = Aggregator(plan, tmp_path)
    spilled, spill = [], columns.spill
    monkeypatch.setattr(columns, "spill", lambda *run: spilled.append(run) or spill(*run))
    for part in parts:
        aggregator.add(part)
        assert not list(tmp_path.iterdir())
    assert len(spilled) == 6
    assert vectors.sketch_bytes(aggregator.sketch()) == wanted
    assert vectors.sketch_bytes(aggregate(plan, parts[::-1], tmp_path)) == wanted
    save_sketch(aggregator.sketch(), tmp_path / "sketch")
    assert [path.name for path in tmp_path.iterdir()] == ["sketch"]


@pytest.mark.parametrize("name", ["event-two-bins", "retrieval-blocks", "projection"])
def test_a_report_ingested_and_dropped_costs_no_memory(name):
    plan, batch = plan_of(name), reports_of(name, 1000)
    aggregator = Aggregator(plan)
    aggregator.add(batch)
    tracemalloc.start()
    for _ in range(3):
        aggregator.add(batch)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(10):
        aggregator.add(batch.take(np.arange(1000)))  # a batch of its own, which could be kept
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    # Small blocks that numpy hoards are some kilobytes; the seeds alone would be 80.
    assert grown < 40_000, f"{grown} bytes after 10,000 reports"
    assert aggregator.count == 14 * 1000


def test_temporaries_do_not_grow_with_the_batch():
    """A mutant without slices would make the cells of all reports at once."""
    plan = plan_of("event-two-bins")
    small, large = (reports_of("event-two-bins", count) for count in (2**15, 2**18))
    peaks = []
    for batch in (small, large):
        aggregator = Aggregator(plan)
        tracemalloc.start()
        aggregator.add(batch)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_a_generator_of_batches_is_not_collected():
    batch, alive = reports_of("event-two-bins", 1000), []

    class Watched(ReportBatch):
        def __del__(self):
            alive.pop()

    def batches():
        for _ in range(50):
            alive.append(None)
            assert len(alive) <= 2
            yield Watched(batch.plan_digest, batch.hash_seeds, batch.fields)

    aggregate(plan_of("event-two-bins"), batches())


@EVERY
def test_a_reader_of_the_live_tables_keeps_its_transform(name, monkeypatch):
    plan, batch = plan_of(name), reports_of(name, 8)
    made = []

    def counted(part, tables):
        made.append(tables)
        return transform(part, tables)

    transform = type(mechanism_of(plan).tables).transform
    monkeypatch.setattr(type(mechanism_of(plan).tables), "transform", counted)
    aggregator = Aggregator(plan)
    aggregator.add(batch.take(slice(4)))
    ids = np.arange(min(plan.universe.size or 5, 5), dtype=np.uint64)
    first = aggregator.reader()
    early = first.totals(ids).tolist()
    assert aggregator.reader() is first
    wide = aggregator.reader(0.5)
    assert wide.level == 0.5
    assert wide.estimate_ids(ids, ids).mean.tolist() == first.estimate_ids(ids, ids).mean.tolist()
    assert len(made) == (plan.decode == "table")
    aggregator.add(batch.take(slice(4, 8)))
    later = aggregator.reader()
    assert later.totals(ids).tolist() == Reader(aggregate(plan, [batch])).totals(ids).tolist()
    assert first.totals(ids).tolist() == early == wide.totals(ids).tolist()
    assert first.sketch.count == 4


@EVERY
def test_a_mapped_sketch_answers_and_stays_as_it_is(name, tmp_path):
    plan, batch = plan_of(name), reports_of(name, 9)
    sketch, path = aggregate(plan, [batch]), tmp_path / "sketch"
    save_sketch(sketch, path)
    before = path.read_bytes()
    loaded = load_sketch(path)
    arrays = [
        part for part in (loaded.tables, loaded.hash_seeds, loaded.fields) if part is not None
    ]
    for part in arrays:
        assert not part.flags.writeable
        assert not part.flags.owndata
    ids = np.arange(min(plan.universe.size or 5, 5), dtype=np.uint64)
    wanted = Reader(sketch).totals(ids).tolist()
    assert Reader(loaded).totals(ids).tolist() == wanted
    # Another file takes its name; what is mapped is still the old one.
    save_sketch(sketch.merge(sketch), path)
    assert Reader(loaded).totals(ids).tolist() == wanted
    assert vectors.sketch_bytes(loaded) == before != path.read_bytes()


def test_a_mapped_file_is_not_copied(tmp_path, monkeypatch):
    """Tables of 4 MiB are checked, with far less than that in memory."""
    plan = replace_bits(plan_of("projection"), 19)
    path = tmp_path / "sketch"
    save_sketch(aggregate(plan, []), path)
    assert path.stat().st_size > 2**22
    monkeypatch.setattr(sketch_v1, "PIECE", 2**12)
    tracemalloc.start()
    loaded = load_sketch(path)
    save_sketch(loaded, tmp_path / "again")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def replace_bits(plan, bits):
    document = plan.document()
    document["hashing"] = {"family": "linear", "bits": bits, "maps": 2}
    return Plan.from_json(json.dumps(document))


def test_files_that_cannot_be_mapped(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(SketchRejected, match=r"empty: TRUNCATED"):
        load_sketch(tmp_path / "empty")
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(InvalidInput, match="cannot read"):
            load_sketch(path)


@pytest.mark.parametrize("name", [*TABLES, *DIRECT])
def test_a_batch_that_no_client_can_send_leaves_no_trace(name):
    plan, batch = plan_of(name), reports_of(name, 9)
    aggregator = Aggregator(plan)
    aggregator.add(batch)
    before = aggregator.sketch()
    fields = batch.fields.copy()
    fields[-1, -1] = mechanism_of(plan).layout.limits[-1]
    with pytest.raises(ReportRejected) as caught:
        aggregator.add(replace(batch, fields=fields))
    assert caught.value.code is Reject.OUT_OF_RANGE
    with pytest.raises(TypeError, match="uint32"):
        aggregator.add(replace(batch, fields=batch.fields.astype(np.int64)))
    assert aggregator.sketch() == before


@EVERY
@every("few", [0, 100])  # columns that are looked through one after another
def test_every_field_has_its_own_limit(name, few, monkeypatch):
    monkeypatch.setattr(aggregate_module, "FEW", few)
    batch, aggregator = reports_of(name, 9), Aggregator(plan_of(name))
    for column, limit in enumerate(aggregator.mechanism.layout.limits):
        if limit < 2**32:  # others no word can break
            fields = batch.fields.copy()
            fields[4, column] = limit
            with pytest.raises(ReportRejected):
                aggregator.add(replace(batch, fields=fields))
            fields[4, column] = limit - 1
            Aggregator(aggregator.plan).add(replace(batch, fields=fields))


def test_more_reports_than_can_be_counted_do_not_merge():
    plan = plan_of("event-coarse")
    half = Sketch(plan, np.array([2**61]), 0, 0, tables=np.zeros((1, 2), np.int32))
    with pytest.raises(InvalidInput, match="2\\^62"):
        half.merge(half)


def test_counts_that_are_not_those_of_the_reports_are_refused(tmp_path):
    name = DIRECT[0]
    true = aggregate(plan_of(name), [reports_of(name, 9)])
    save_sketch(true, tmp_path / "true.fns")
    assert load_sketch(tmp_path / "true.fns") == true
    save_sketch(replace(true, squares=true.squares + 1), tmp_path / "lie.fns")
    with pytest.raises(SketchRejected, match="counts are not those"):
        load_sketch(tmp_path / "lie.fns")


def test_public_maps_of_more_entries_than_32_bits_can_number_are_refused():
    """In direct mode too, since keys are read from the same cells."""
    with pytest.raises(InvalidPlan, match="entries"):
        make_plan(
            protect="event",
            epsilon=1.0,
            sparsity=4,
            clients=1000,
            universe=2**30,
            mechanism="signed-binning",
            family="linear",
            decode="direct",
            maps=8,
            bits=30,
        )
