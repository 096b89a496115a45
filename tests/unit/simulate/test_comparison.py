"""Mechanisms are compared on the same data, and each does as it would alone."""

from dataclasses import replace

import numpy as np
import pytest

from evaluation.datasets import Synthetic
from faintly.core import VectorBatch
from faintly.data import true_means
from faintly.errors import InvalidInput, InvalidPlan, InvalidVector
from faintly.mechanisms import mechanism_names
from faintly.planner import make_plan
from faintly.simulate import compare, simulate
from faintly.simulate.plots import draw

CLIENTS, KEYS = 2_000, 64
IDS = np.arange(KEYS, dtype=np.uint64)
VECTORS = Synthetic(CLIENTS, KEYS, 4).vectors(0, None)
KNOWN = VECTORS, IDS, true_means(VECTORS, IDS)
SETTING = {"epsilon": 1.0, "sparsity": 4, "clients": CLIENTS, "universe": KEYS}
PLAN = make_plan(mechanism="retrieval", protect="event", salt=bytes(16), **SETTING)


@pytest.fixture(scope="module")
def comparison():
    return compare(PLAN, ["k-fold", "gaussian", "signed-binning"], *KNOWN, runs=3, seed=1)


def test_the_smallest_error_comes_first(comparison):
    errors = [one.result.mean("n_mse") for one in comparison.compared]
    assert errors == sorted(errors)
    names = [one.plan.mechanism for one in comparison.compared]
    assert sorted(names) == ["k-fold", "retrieval", "signed-binning"]


def test_each_does_as_it_would_alone(comparison):
    for one in comparison.compared:
        alone = simulate(one.plan, *KNOWN, runs=3, seed=1)
        assert alone.document() == one.result.document()
        assert one.result.mean("n_mse") == pytest.approx(
            one.result.mean("predicted_n_var"), rel=0.5
        )


def test_all_serve_what_the_plan_serves(comparison):
    """Fresh salts would make other ids in an open universe, and other results each time."""
    for one in comparison.compared:
        plan = one.plan
        own = {"mechanism": "", "parameters": {}, "hashing": PLAN.hashing, "decode": "table"}
        assert replace(plan, **own) == replace(PLAN, **own)
    assert comparison.of_plan.document() == simulate(PLAN, *KNOWN, runs=3, seed=1).document()


def test_mechanisms_that_refuse_are_listed_with_the_reason(comparison):
    (left,) = comparison.left_out
    assert left.mechanism == "gaussian"
    assert left.reason == "gaussian protects l1:DISTANCE, not event"
    assert comparison.document()["left_out"] == [
        {"mechanism": left.mechanism, "reason": left.reason}
    ]


def test_all_are_those_that_the_planner_chooses_from():
    found = compare(PLAN, ["all", "k-fold", "retrieval"], *KNOWN, runs=1, seed=1)
    names = [one.plan.mechanism for one in found.compared]
    names += [one.mechanism for one in found.left_out]
    assert sorted(names) == sorted([*mechanism_names(baselines=False), "k-fold"])


def test_progress_counts_every_run():
    steps = []
    compare(
        PLAN, ["signed-binning"], *KNOWN, runs=2, seed=1, on_step=lambda *step: steps.append(step)
    )
    assert [done for _, done, _ in steps] == [0, 1, 2, 2, 3, 4]
    assert {total for *_, total in steps} == {4}
    assert [title for title, *_ in steps][::3] == ["retrieval (the plan)", "signed-binning"]


def test_an_unknown_name_is_refused_with_those_there_are():
    with pytest.raises(InvalidPlan, match=r"must be one of .*retrieval.*got 'nobody'"):
        compare(PLAN, ["nobody"], *KNOWN, runs=1, seed=1)


def test_a_mechanism_that_refuses_long_vectors_says_so():
    plan = make_plan(mechanism="projection-choice", protect="l1:2", **SETTING)
    (refuses,) = _drawbacks(plan, "retrieval-l1")
    assert "refused on the device" in refuses


def _drawbacks(plan, other, known=KNOWN):
    found = compare(plan, [other], *known, runs=1, seed=1).compared
    return next(one.drawbacks for one in found if one.plan.mechanism == other)


def test_a_mechanism_that_takes_less_says_so():
    sets = VectorBatch(VECTORS.offsets, VECTORS.indices, np.ones(len(VECTORS.indices)))
    known = sets, IDS, true_means(sets, IDS)
    plan = make_plan(mechanism="projection-choice", protect="user", **SETTING)
    assert _drawbacks(plan, "wheel", known) == ("it takes sets, no other values",)


def test_data_that_one_mechanism_refuses_leaves_it_out():
    """Wheel is for sets. Where the plan itself refuses the data, there is nothing to compare."""
    negative = VectorBatch.from_rows(
        np.arange(CLIENTS), np.zeros(CLIENTS, dtype=np.uint64), -np.ones(CLIENTS), CLIENTS
    )
    known = negative, IDS, true_means(negative, IDS)
    any_value = make_plan(mechanism="projection-choice", protect="user", **SETTING)
    sets = make_plan(mechanism="wheel", protect="user", **SETTING)
    found = compare(any_value, ["wheel"], *known, runs=1, seed=1)
    assert [one.mechanism for one in found.left_out] == ["wheel"]
    with pytest.raises(InvalidVector):
        compare(sets, ["projection-choice"], *known, runs=1, seed=1)


@pytest.mark.parametrize(("name", "magic"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_it_is_drawn(comparison, tmp_path, name, magic):
    pytest.importorskip("matplotlib")
    draw(comparison, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(magic)


def test_one_run_is_drawn_without_a_spread(tmp_path):
    pytest.importorskip("matplotlib")
    draw(compare(PLAN, ["signed-binning"], *KNOWN, runs=1, seed=1), tmp_path / "a.png")
    assert (tmp_path / "a.png").exists()


def test_other_formats_are_refused(comparison, tmp_path):
    with pytest.raises(InvalidInput, match=r"\.png"):
        draw(comparison, tmp_path / "a.gif")
