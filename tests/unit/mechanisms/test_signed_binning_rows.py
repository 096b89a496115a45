"""The paper's parameter table as integers, the options, and the plans that must be refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

from faintly.core import Plan, ReportBatch, SparseVector, VectorBatch
from faintly.errors import BoundDoesNotApply, FaintlyError, InvalidPlan, UnsupportedUnit
from faintly.mechanisms import mechanism_class, mechanism_names, mechanism_of
from faintly.mechanisms.signed_binning import rows
from faintly.planner import make_plan
from faintly.primitives import noise
from faintly.primitives.entropy import seeded
from tests.every import every

DIRECT = {"decode": "direct", "family": "prf"}


def plan_of(protect="event", epsilon=1.0, sparsity=16, clients=10_000, universe=1000, **options):
    return make_plan(
        mechanism="signed-binning",
        protect=protect,
        epsilon=epsilon,
        sparsity=sparsity,
        clients=clients,
        universe=universe,
        salt=bytes(16),
        **options,
    )


def parameters_of(*args, **options):
    return plan_of(*args, **options).parameters


@every("epsilon", [0.25, 0.5, 1.0, 2.0, 3.0])
@every("sparsity", [1, 6, 11, 64, 100])
def test_event_row_has_the_papers_bins(epsilon, sparsity):
    paper = max(1, math.floor(epsilon**2 * sparsity / 4))
    direct = parameters_of("event", epsilon, sparsity, **DIRECT)
    assert direct["bins"] == paper
    table = parameters_of("event", epsilon, sparsity)
    assert table["bins"] == 2 ** math.ceil(math.log2(paper))
    assert direct["row"] == table["row"] == "event"
    assert direct["clip"] is None


@pytest.mark.parametrize(
    ("distance", "bins"), [(1.0, 64), (2.0, 16), (4.0, 4), (8.0, 1), (64.0, 1)]
)
def test_l1_row_has_the_papers_bins(distance, bins):
    assert parameters_of(f"l1:{distance:g}", 1.0, 64, **DIRECT)["bins"] == bins


@pytest.mark.parametrize(("epsilon", "change"), [(1.0, 32), (0.5, 32), (3.0, 32)])
def test_event_thresholds_are_those_of_a_change_of_two(epsilon, change):
    made = parameters_of("event", epsilon)
    assert made["steps"] == 16
    bound = noise.exp_at_least(-noise.exact(epsilon) / change)
    assert made["noise"] == noise.laplace_thresholds(bound)


@pytest.mark.parametrize("sparsity", [1, 20, 64, 500])
@pytest.mark.parametrize("clients", [100, 100_000])
@pytest.mark.parametrize("failure", [0.05, 0.001])
def test_user_row_has_the_papers_clip(sparsity, clients, failure):
    reach = math.sqrt(2 * sparsity * math.log(4 * clients / failure))
    options = {"clients": clients, "failure": failure, "universe": 1000}
    free = parameters_of("user", 1.0, sparsity, cap=None, **options)
    assert free["clip"] == math.ceil(reach * free["steps"])
    capped = parameters_of("user", 1.0, sparsity, **options)
    assert capped["clip"] == math.ceil(min(reach, sparsity) * capped["steps"])
    lower = parameters_of("user", 1.0, sparsity, cap=1, **options)
    assert lower["clip"] == lower["steps"]
    assert free["bins"] == capped["bins"] == lower["bins"] == 1
    bound = noise.exp_at_least(-1 / noise.exact(2 * capped["clip"]))
    assert capped["noise"] == noise.laplace_thresholds(bound)


@pytest.mark.parametrize(("bins", "delta"), [(1, 1e-5), (2, 1e-5), (4, 1e-9)])
def test_squeeze_row_has_the_papers_sensitivity_for_the_rounded_distance(bins, delta):
    distance, sparsity = 120.0, 64
    plan = plan_of(
        f"l1:{distance:g}",
        1.0,
        sparsity,
        delta=delta,
        decode="direct",
        row="squeeze",
        bins=bins,
    )
    steps = plan.parameters["steps"]
    assert steps == 2**16
    assert plan.hashing.family == "blake2s"
    assert plan.hashing.seed_bytes == 8
    rounded = distance + 2 * sparsity / steps
    exact = 3 * math.sqrt(bins * rounded * math.log(2 * bins / delta)) * steps
    change = rows.squeezed_steps(distance, sparsity, bins, steps, delta)
    assert exact <= change <= exact + 2
    guarantee = mechanism_of(plan).guarantee()
    assert guarantee.budget.delta == delta
    assert 0.99 < guarantee.budget.epsilon <= 1.0
    assert guarantee.conditions


def test_l1_noise_has_the_linear_ratio():
    made = parameters_of("l1:4", 1.0, 64)
    assert made["steps"] == 256
    ratio = noise.step_ratio(made["noise"])
    assert ratio <= 1 + noise.exact(1.0) / (4 * 256)
    assert float(ratio - 1) * 4 * 256 == pytest.approx(1.0, rel=1e-3)


def test_a_row_is_chosen_by_its_predicted_error():
    wide = {"epsilon": 1.0, "sparsity": 1024, "clients": 10_000, "universe": 5000}
    squeezed = plan_of("l1:1024", delta=1e-5, decode="direct", **wide)
    assert squeezed.parameters["row"] == "squeeze"
    # Not where the budget, the decoding or the family rule it out, and not where it is worse.
    assert plan_of("l1:1024", decode="direct", **wide).parameters["row"] == "l1"
    assert plan_of("l1:1024", delta=1e-5, **wide).parameters["row"] == "l1"
    prf = plan_of("l1:1024", delta=1e-5, decode="direct", family="prf", **wide)
    assert prf.parameters["row"] == "l1"
    assert plan_of("l1:2", delta=1e-5, decode="direct", **wide).parameters["row"] == "l1"


def test_pure_rows_ignore_delta():
    for protect in ("event", "user", "l1:2"):
        budget = mechanism_of(plan_of(protect, delta=1e-6)).guarantee().budget
        assert budget.delta == 0.0


@pytest.mark.parametrize("family", [{}, DIRECT])
def test_best_bins_are_no_worse_than_the_papers_in_the_papers_bytes(family):
    for sparsity in (6, 11, 64):
        paper = mechanism_of(plan_of(sparsity=sparsity, **DIRECT))
        best = mechanism_of(plan_of(sparsity=sparsity, bins="best", **family))
        assert best.forecast.variance(sparsity) <= paper.forecast.variance(sparsity) + 1e-9
        assert best.layout.record_bytes <= 5 + 4 * paper.bins


def test_best_bins_respect_a_byte_limit():
    mechanism = mechanism_of(plan_of(sparsity=64, bins="best", max_bytes=20, **DIRECT))
    assert mechanism.layout.record_bytes <= 20
    with pytest.raises(InvalidPlan, match="allow more"):
        plan_of(sparsity=64, bins="best", max_bytes=5, **DIRECT)


@pytest.mark.parametrize(
    ("clients", "universe", "sparsity", "bins", "record_bytes"),
    [(47_958, 1378, 6, 1, 9), (105_571, 5850, 11, 2, 13)],
)
def test_the_papers_datasets_fit_its_bytes(clients, universe, sparsity, bins, record_bytes):
    for options in ({}, DIRECT):
        plan = plan_of("event", 1.0, sparsity, clients, universe, **options)
        mechanism = mechanism_of(plan)
        assert mechanism.bins == bins
        assert mechanism.layout.record_bytes <= record_bytes


@pytest.mark.parametrize("bins", [1, 2, 8])
def test_layout_is_a_seed_and_packed_bins(bins):
    mechanism = mechanism_of(plan_of(bins=bins))
    values = 2 * mechanism.range + 1
    width = (values - 1).bit_length()
    assert mechanism.layout.widths == (width,) * bins
    assert mechanism.layout.limits == (values,) * bins
    assert mechanism.layout.record_bytes == 5 + math.ceil(bins * width / 8)
    assert mechanism.scale == 1 / (16 * bins)
    assert mechanism_of(plan_of(bins=bins, **DIRECT)).scale == 1 / 16


def test_range_leaves_room_for_k_items_and_the_noise():
    """Truncation touches any of n·b bins with probability at most β/10 (proof note)."""
    plan = plan_of(sparsity=8, clients=1000, failure=0.05, bins=2)
    mechanism = mechanism_of(plan)
    tail = mechanism.range - 8 * mechanism.steps
    law = noise.laplace_law(mechanism.noise, tail)
    assert (1 - law.sum()) * 1000 * 2 <= 0.05 / 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bins": 3, "decode": "table"}, "power of two"),
        ({"bins": 0}, "bins must be"),
        ({"bins": 5000}, "bins must be"),
        ({"bins": "many"}, "bins must be"),
        ({"steps": 3}, "power of two"),
        ({"steps": 2**21}, "power of two"),
        ({"steps": -4}, "power of two"),
        ({"row": "gauss"}, "row must be"),
        ({"colour": 1}, "no option 'colour'"),
    ],
    ids=str,
)
def test_options_that_cannot_work_are_refused(options, words):
    with pytest.raises(InvalidPlan, match=words):
        plan_of(**options)


@pytest.mark.parametrize("cap", [0, -1, "x", float("nan")])
def test_a_cap_that_cannot_work_is_refused(cap, deadline):
    with pytest.raises(InvalidPlan, match="cap"):
        plan_of("user", cap=cap)


@pytest.mark.parametrize("steps", [0, "4", 4.0, True])
def test_steps_that_are_not_a_count_are_refused(steps, deadline):
    with pytest.raises(InvalidPlan, match="steps"):
        plan_of(steps=steps)


@pytest.mark.parametrize(("protect", "row"), [("event", "user"), ("user", "l1"), ("l1:2", "event")])
def test_a_row_protects_its_own_unit_only(protect, row):
    with pytest.raises(UnsupportedUnit, match=row):
        plan_of(protect, row=row)


def test_noise_too_fine_is_refused_with_advice(deadline):
    with pytest.raises(FaintlyError, match="fewer steps"):
        plan_of("user", 0.001, 1000, steps=2**20)


def changed(plan: Plan, **parameters) -> Plan:
    return replace(plan, parameters={**plan.parameters, **parameters})


LIES = {
    "half the noise": lambda p: changed(p, noise=parameters_of("event", 2.0)["noise"]),
    "more steps": lambda p: changed(p, steps=32),
    "one threshold lower": lambda p: changed(
        p, noise=[p.parameters["noise"][0] - 1000, *p.parameters["noise"][1:]]
    ),
    "one threshold higher": lambda p: changed(
        p, noise=[*p.parameters["noise"][:-1], p.parameters["noise"][-1] * 5 // 4]
    ),
    "a smaller epsilon": lambda p: replace(p, budget=replace(p.budget, epsilon=0.9)),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_lying_event_plans_are_refused(lie):
    plan = plan_of("event", 1.0)
    assert mechanism_of(plan).guarantee().budget.epsilon <= 1.0
    with pytest.raises(InvalidPlan, match="only keep"):
        mechanism_of(lie(plan))


def test_lying_user_and_l1_plans_are_refused():
    user = plan_of("user")
    for plan in (
        changed(user, clip=user.parameters["clip"] + 1),
        changed(user, noise=plan_of("event").parameters["noise"]),
    ):
        with pytest.raises(InvalidPlan, match="only keep"):
            mechanism_of(plan)
    l1 = plan_of("l1:4")
    exponential = noise.laplace_thresholds(noise.exp_at_least(-1 / noise.exact(4 * 256)))
    with pytest.raises(InvalidPlan, match="only keep"):
        mechanism_of(changed(l1, noise=exponential))


def test_a_larger_promise_than_needed_is_allowed():
    plan = plan_of("event", 1.0)
    assert mechanism_of(replace(plan, budget=replace(plan.budget, epsilon=1.5)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"row": "user"},
        {"row": "l1"},
        {"row": None},
        {"row": ["event"]},
        {"bins": 3},
        {"bins": 0},
        {"bins": True},
        {"bins": 4097},
        {"bins": "1"},
        {"steps": 3},
        {"steps": 0},
        {"clip": 5},
        {"range": 0},
        {"range": 2**31},
        {"range": None},
        {"noise": []},
        {"noise": [0]},
        {"noise": [2**32]},
        {"noise": ["1"]},
        {"noise": [True]},
        {"noise": [1.5]},
        {"noise": None},
        {"noise": [1] * 41},
        {"extra": 1},
    ],
    ids=str,
)
def test_malformed_parameters_are_refused(wrong):
    with pytest.raises(InvalidPlan):
        mechanism_of(changed(plan_of("event"), **wrong))


@pytest.mark.parametrize("missing", ["row", "bins", "steps", "clip", "range", "noise"])
def test_missing_parameters_are_refused(missing):
    plan = plan_of("event")
    left = {name: value for name, value in plan.parameters.items() if name != missing}
    with pytest.raises(InvalidPlan, match="has the parameters"):
        mechanism_of(replace(plan, parameters=left))


def test_every_plan_survives_its_own_json():
    for protect in ("event", "user", "l1:2.5"):
        plan = plan_of(protect, 0.7)
        again = Plan.from_json(plan.to_json())
        assert again.digest == plan.digest
        assert mechanism_of(again).noise == mechanism_of(plan).noise


def test_registry():
    assert "signed-binning" in mechanism_names()
    assert mechanism_class("signed-binning").name == "signed-binning"
    with pytest.raises(InvalidPlan, match="mechanism must be one of"):
        mechanism_class("unsigned-binning")


def test_randomize_is_a_pure_function_of_its_arguments():
    mechanism = mechanism_of(plan_of(sparsity=4, bins=2))
    vectors = VectorBatch.of([SparseVector([1, 2], [0.5, -1.0]), SparseVector([])])
    seeds = np.array([3, 4], dtype=np.uint64)
    first = mechanism.randomize(vectors, seeds, seeded(1, "noise"))
    assert first.shape == (2, 2)
    assert first.dtype == np.uint32
    assert np.array_equal(first, mechanism.randomize(vectors, seeds, seeded(1, "noise")))
    assert not np.array_equal(first, mechanism.randomize(vectors, seeds, seeded(2, "noise")))


def test_reports_stay_within_their_range_however_many_items():
    """Above k nothing is cut; a bin that overflows its field stops at the range."""
    mechanism = mechanism_of(plan_of(sparsity=1, clients=1, failure=0.5, universe=4096))
    vectors = VectorBatch.of([SparseVector(range(4000))] * 50)
    fields = mechanism.randomize(vectors, np.arange(50, dtype=np.uint64), seeded(1, "noise"))
    assert fields.max() == 2 * mechanism.range
    assert fields.min() == 0


def test_variance_is_noise_plus_collisions():
    mechanism = mechanism_of(plan_of("event", 1.0, 16, bins=4))
    assert mechanism.noise_variance == pytest.approx(8.0, rel=1e-2)
    assert mechanism.forecast.variance(16.0) == pytest.approx(12.0, rel=1e-2)


def test_squares_are_exact_also_where_they_would_overflow():
    mechanism = mechanism_of(plan_of("event", 1.0, 4, bins=1))
    wide = replace(mechanism, range=2**31 - 1)
    fields = np.array([[2**32 - 2], [0], [2**31 - 1]], dtype=np.uint32)
    batch = ReportBatch(mechanism.plan.digest, np.zeros(3, dtype=np.uint64), fields)
    assert wide.tables.squares(batch) == 2 * (2**31 - 1) ** 2


def test_bound_does_not_apply_names_the_numbers():
    with pytest.raises(BoundDoesNotApply, match=r"got 4 < 12\.2"):
        plan_of("l1:4", 1.0, 64, delta=1e-5, decode="direct", row="squeeze", bins=1)
