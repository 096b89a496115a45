"""Baselines to compare with: the paper's numbers, the rules, and what reports look like."""

import math
from dataclasses import replace

import numpy as np
import pytest

from faintly import kernels
from faintly.core import Budget, ReportBatch, SparseVector, Universe, VectorBatch
from faintly.engine import Reader, aggregate
from faintly.errors import (
    BoundDoesNotApply,
    FaintlyError,
    InvalidPlan,
    TooManyItems,
    UnsupportedUnit,
)
from faintly.mechanisms import mechanism_class, mechanism_names, mechanism_of
from faintly.planner import make_plan
from faintly.primitives.entropy import seeded
from faintly.wire.report_v1 import encode_batch
from faintly_baselines import one_sparse
from faintly_baselines.slots import best_bins

OURS = {"k-fold": "event", "sampling": "user", "naive": "event"}


def plan_of(name, **changes):
    wanted = {
        "protect": OURS[name],
        "epsilon": 1.0,
        "sparsity": 6,
        "clients": 47_958,
        "universe": 1_378,
        "salt": bytes(16),
        **changes,
    }
    return make_plan(mechanism=name, **wanted)


@pytest.mark.parametrize("name", OURS)
def test_baselines_are_known_and_not_chosen(name):
    assert mechanism_class(name).baseline
    assert name in mechanism_names()
    assert name not in mechanism_names(baselines=False)


@pytest.mark.parametrize(
    ("name", "sparsity", "factor"), [("k-fold", 6, 6), ("k-fold", 100, 100), ("sampling", 6, 36)]
)
def test_variance_is_that_of_one_sparse_schemes_repeated_or_sampled(name, sparsity, factor):
    """(e+1)²/(e-1)² is 4.683."""
    mechanism = mechanism_of(plan_of(name, sparsity=sparsity))
    single = ((math.e + 1) / (math.e - 1)) ** 2
    assert mechanism.forecast.variance(1.0) == pytest.approx(factor * single, rel=1e-6)
    assert mechanism.forecast.worst_variance() == mechanism.forecast.variance(0.0)


def test_reports_are_read_a_block_at_a_time(monkeypatch):
    """Expanded all at once, the slots of many reports would take far more memory than they."""
    plan = plan_of("k-fold", epsilon=3.0, scheme="optimal", decode="direct")
    mechanism, rng, ids = mechanism_of(plan), seeded(1, "slots"), np.arange(3, dtype=np.uint64)
    seeds, fields = rng.words(500).astype(np.uint64), rng.words(500 * 6).reshape(-1, 6)
    sketch = aggregate(
        plan, [ReportBatch(plan.digest, seeds, fields % np.uint32(mechanism.layout.limits[0]))]
    )
    wanted = mechanism.variance(sketch, ids, np.zeros(3))
    read, sizes = kernels.read_slots, []

    def noted(seeds, *rest):
        sizes.append(len(seeds))
        return read(seeds, *rest)

    monkeypatch.setattr(kernels, "read_slots", noted)
    monkeypatch.setattr(one_sparse, "BLOCK", 6 * 64)
    assert mechanism.variance(sketch, ids, np.zeros(3)).tolist() == wanted.tolist()
    assert sizes == [6 * 64] * 7 + [6 * 52]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 1.3, 1.4, 2.0, 3.0, 5.0])
def test_optimal_bins_are_the_best(epsilon):
    def variance(bins):
        growth = math.exp(epsilon)
        return (growth + 2 * bins - 1) ** 2 / (bins * (growth - 1) ** 2)

    best = min(range(1, 400), key=variance)
    assert best_bins(epsilon) == best
    assert (best == 1) is (epsilon < 1.34)
    made = mechanism_of(plan_of("sampling", epsilon=epsilon, scheme="optimal", decode="direct"))
    assert made.bins == best
    assert made.forecast.variance(0.0) == pytest.approx(36 * variance(best), rel=1e-6)
    assert made.forecast.worst_variance() >= made.forecast.variance(0.0)


def test_bytes():
    """The paper has 4k + 4 and 8; one seed for all slots, or one cell a slot, needs fewer."""
    assert mechanism_of(plan_of("k-fold", decode="direct")).layout.record_bytes == 6
    assert mechanism_of(plan_of("k-fold", decode="table")).layout.record_bytes == 9
    assert mechanism_of(plan_of("sampling", decode="direct")).layout.record_bytes == 6
    assert mechanism_of(plan_of("sampling", decode="table")).layout.record_bytes == 2
    assert mechanism_of(plan_of("naive", noise="response")).layout.record_bytes == 345


def test_hashing_by_table_is_hadamard_response():
    one, other = (plan_of("sampling", decode="table", scheme=scheme) for scheme in SCHEMES)
    vectors = VectorBatch.of([SparseVector([3, 5, 9])] * 40)
    seeds = np.arange(40, dtype=np.uint64)
    fields = [
        mechanism_of(plan).randomize(vectors, seeds, seeded(1, "secret")) for plan in (one, other)
    ]
    np.testing.assert_array_equal(*fields)


SCHEMES = ("hashing", "hadamard")


@pytest.mark.parametrize(
    ("name", "changes", "error", "words"),
    [
        ("k-fold", {"protect": "user"}, UnsupportedUnit, "protects event"),
        ("k-fold", {"protect": "l1:2"}, UnsupportedUnit, "protects event"),
        ("sampling", {"protect": "event"}, UnsupportedUnit, "protects user"),
        ("k-fold", {"scheme": "best"}, InvalidPlan, "scheme must be one of"),
        ("k-fold", {"slots": 2}, InvalidPlan, "no option"),
        ("k-fold", {"bins": 2}, InvalidPlan, "bins must be between 1 and 1"),
        (
            "k-fold",
            {"decode": "table", "scheme": "optimal", "bins": 2},
            InvalidPlan,
            "one bin only",
        ),
        ("k-fold", {"sparsity": 9000}, InvalidPlan, "sparsity must be between"),
        ("sampling", {"scheme": "hadamard", "decode": "direct"}, InvalidPlan, "--decode table"),
        ("sampling", {"family": "blake2s", "decode": "direct"}, InvalidPlan, "prf directly"),
        ("sampling", {"epsilon": 1e-10}, BoundDoesNotApply, "too small"),
        ("naive", {"noise": "gaussian"}, BoundDoesNotApply, "delta above 0"),
        ("naive", {"noise": "response", "protect": "l1:2"}, UnsupportedUnit, "event and user"),
        ("naive", {"noise": "uniform"}, InvalidPlan, "noise must be one of"),
        ("naive", {"noise": "laplace", "steps": 3}, InvalidPlan, "power of two"),
        ("naive", {"noise": "response", "steps": 2}, InvalidPlan, "one step"),
        ("naive", {"decode": "table"}, InvalidPlan, "--decode direct"),
        ("naive", {"universe": Universe.open()}, InvalidPlan, "an integer for each key"),
    ],
)
def test_refusals(name, changes, error, words):
    with pytest.raises(error, match=words):
        plan_of(name, **changes)


BROKEN = {
    "k-fold": [{"keep": 2**31}, {"keep": 2**32}, {"bins": 0}, {"scheme": "x"}, {"keep": "1"}],
    "sampling": [{"keep": 2**31}, {"bins": 3}, {"scheme": None}],
    "naive": [
        {"noise": "x"},
        {"spread": 5},
        {"spread": []},
        {"spread": [2**32]},
        {"spread": [2**32 - 1]},
        {"range": 0},
        {"steps": 3},
        {"noise": "response"},
        {"noise": "gaussian"},
    ],
}


@pytest.mark.parametrize(
    ("name", "changes"), [(name, one) for name, many in BROKEN.items() for one in many], ids=str
)
def test_plans_that_no_calibration_makes_are_refused(name, changes):
    plan = plan_of(name)
    assert mechanism_of(plan)
    with pytest.raises(FaintlyError):
        mechanism_of(replace(plan, parameters={**plan.parameters, **changes}))


@pytest.mark.parametrize("name", OURS)
def test_a_plan_that_promises_more_is_refused(name):
    plan = plan_of(name)
    with pytest.raises(InvalidPlan, match="only keep"):
        mechanism_of(replace(plan, budget=Budget(0.9)))


@pytest.mark.parametrize(("noise", "delta"), [("gaussian", 1e-5), ("laplace", 0), ("response", 0)])
def test_naive_at_user_level_refuses_more_than_k_items(noise, delta):
    plan = plan_of("naive", protect="user", noise=noise, delta=delta, universe=20)
    mechanism = mechanism_of(plan)
    ids, seeds = np.arange(3, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    many = VectorBatch.of([SparseVector(range(7))])
    sources = seeded(1, "public"), seeded(1, "secret")
    assert mechanism.enforces_sparsity
    with pytest.raises(TooManyItems, match="at most 6"):
        mechanism.randomize(many, seeds, sources[1])
    with pytest.raises(TooManyItems, match="at most 6"):
        mechanism.simulation.totals(many, ids, *sources)
    assert not mechanism_of(plan_of("naive", noise="response")).enforces_sparsity


# n·MSE as the paper's tables have it: data set, unit, k, and what its naive method showed.
PAPER = [
    ("event", 6, 47_958, 0.0023),
    ("event", 11, 105_571, 0.0010),
    ("event", 100, 138_493, 0.00082),
    ("user", 6, 47_958, 0.014),
    ("user", 11, 105_571, 0.012),
    ("user", 100, 138_493, 0.081),
]


@pytest.mark.parametrize(("protect", "sparsity", "clients", "mse"), PAPER)
def test_the_paper_s_gaussian_has_twice_the_variance_that_is_needed(
    protect, sparsity, clients, mse
):
    """Its sensitivity is that of 2k coordinates moved by 2 each; k of them is the most."""
    plan = plan_of(
        "naive", protect=protect, sparsity=sparsity, clients=clients, delta=1e-5, noise="gaussian"
    )
    ours = mechanism_of(plan).forecast.variance(0.0)
    assert ours == pytest.approx(13.92 * 4 * (sparsity if protect == "user" else 1), rel=0.01)
    # Two digits of a figure, and the noise of its one run.
    assert mse * clients / ours == pytest.approx(2.0, rel=0.06)


@pytest.mark.parametrize(("length", "epsilon"), [(1, 1.0), (1, 3.0), (4, 3.0)])
def test_laplace_noise_for_l1_is_nearly_that_of_a_fine_grid(length, epsilon):
    """2·(L/ε)² is the least; mutant: the grid that does for events."""
    wanted = {"protect": f"l1:{length}", "epsilon": epsilon, "noise": "laplace"}
    own, coarse = (
        mechanism_of(plan_of("naive", **wanted, **steps)).forecast.variance(0.0)
        for steps in ({}, {"steps": 4})
    )
    least = 2 * (length / epsilon) ** 2
    assert least < own < 1.06 * least
    assert coarse > 1.15 * least


def test_response_reaches_the_lower_bound_at_event_level():
    mechanism = mechanism_of(plan_of("naive", noise="response"))
    exact = 2 * (math.e + 2) / (math.e - 1) ** 2
    assert mechanism.forecast.variance(0.0) == pytest.approx(exact, rel=1e-6)


def test_a_long_report_is_simulated_and_not_sent():
    plan = plan_of("naive", noise="laplace", universe=100_000, clients=1000)
    mechanism = mechanism_of(plan)
    assert mechanism.layout.record_bytes > 65_535
    clients = VectorBatch.of([SparseVector([7])] * 1000)
    ids = np.array([7, 99_999, 7], dtype=np.uint64)
    totals = mechanism.simulation.totals(clients, ids, seeded(1, "public"), seeded(1, "secret"))
    assert totals[0] == totals[2]
    assert abs(totals[0] * mechanism.scale / 1000 - 1) < 0.6  # seven standard errors
    assert abs(totals[1] * mechanism.scale / 1000) < 0.6
    seeds = np.zeros(1, dtype=np.uint64)
    fields = mechanism.randomize(VectorBatch.of([SparseVector([7])]), seeds, seeded(1, "secret"))
    with pytest.raises(InvalidPlan, match="for simulation"):
        encode_batch(ReportBatch(plan.digest, seeds, fields), mechanism.layout)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("k-fold", {"decode": "table"}),
        ("k-fold", {"decode": "table", "universe": Universe.open()}),
        ("k-fold", {"sparsity": 300, "decode": "table"}),
        ("sampling", {"decode": "direct", "scheme": "optimal", "epsilon": 3.0}),
        ("naive", {"noise": "response", "universe": 30}),
        ("naive", {"noise": "laplace", "universe": 30}),
    ],
)
def test_estimates_come_with_their_error(name, changes):
    """A strong signal is found within six standard errors, and no clients give no total."""
    plan = plan_of(name, **{"clients": 3000, "sparsity": 2, "epsilon": 2.0, **changes})
    mechanism, ids = mechanism_of(plan), np.array([4, 5], dtype=np.uint64)
    clients = VectorBatch.of([SparseVector([4], [0.75])] * 3000)
    seeds = np.random.default_rng(1).integers(0, 2**39, 3000, dtype=np.uint64)
    fields = mechanism.randomize(clients, seeds, seeded(1, "secret"))
    sent = seeds if mechanism.layout.seed_bytes else np.zeros_like(seeds)
    reader = Reader(aggregate(plan, [ReportBatch(plan.digest, sent, fields)]))
    found = reader.estimate_ids(ids, ids.tolist())
    assert np.all(np.abs(found.mean - [0.75, 0.0]) < 6 * found.stderr)
    assert mechanism.forecast.influence() >= 1
    nobody = mechanism.randomize(VectorBatch.of([]), seeds[:0], seeded(1, "secret"))
    assert nobody.shape == (0, len(mechanism.layout.widths))
