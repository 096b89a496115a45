"""Gaussian noise: the numbers of the note, the rules, and what reports look like."""

import math
from dataclasses import replace

import numpy as np
import pytest

from faintly.audit import audit
from faintly.core import Budget, ReportBatch, SparseVector, Universe, VectorBatch
from faintly.errors import BoundDoesNotApply, InvalidPlan, UnsupportedUnit
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.planner.search import rank
from faintly.primitives import gaussian as noise
from faintly.primitives.entropy import seeded
from tests.conformance import suite

ANALYTIC = 13.918  # σ²/Δ² at ε = 1, δ = 1e-5


def plan_of(*, distance=16, epsilon=1.0, delta=1e-5, sparsity=1024, universe=1000, **rest):
    return make_plan(
        protect=rest.pop("protect", f"l1:{distance}"),
        epsilon=epsilon,
        delta=delta,
        sparsity=sparsity,
        clients=10_000,
        universe=universe,
        mechanism="gaussian",
        decode=rest.pop("decode", "direct"),
        salt=bytes(16),
        **rest,
    )


@pytest.mark.parametrize("distance", [1, 2, 4, 8, 16, 32, 64, 128])
def test_variance_is_that_of_the_analytic_gaussian(distance):
    """Within 1 % of 13.918 times the squared length, at 1.25 kB for a thousand keys."""
    mechanism = mechanism_of(plan_of(distance=distance))
    expected = ANALYTIC * distance * min(2, distance)
    assert expected <= mechanism.forecast.variance(0) <= 1.01 * expected
    assert mechanism.layout.record_bytes <= 1250


def test_it_wins_at_many_items_and_long_distances():
    """k = 1024, L = 64: 1784 against 4225 of single answers; the planner sees it."""
    wanted = {"protect": "l1:64", "epsilon": 1.0, "delta": 1e-5, "sparsity": 1024}
    found = rank(**wanted, clients=10_000, universe=1000, decode="direct")
    worst = {}
    for one in found:
        worst[one.mechanism] = min(one.worst, worst.get(one.mechanism, math.inf))
    assert worst["gaussian"] == pytest.approx(1784, rel=0.002)
    assert worst["gaussian"] < 0.45 * worst["retrieval-l1"]
    assert found[0].mechanism == "gaussian"


def test_delta_is_the_continuous_one_and_rounded_up():
    assert noise.gaussian_delta(1.0, 1 / 3.7306**2) == pytest.approx(1e-5, rel=1e-3)
    for epsilon in (0.1, 1.0, 4.0):
        for reach in (0.01, 0.1, 1.0, 4.0):
            root = math.sqrt(reach)
            grid = np.linspace(-40, 40, 800_001)
            one = np.exp(-(grid**2) / 2)
            other = np.exp(-((grid - root) ** 2) / 2)
            step = (grid[1] - grid[0]) / math.sqrt(2 * math.pi)
            summed = float(np.maximum(one - math.exp(epsilon) * other, 0).sum()) * step
            assert noise.gaussian_delta(epsilon, reach) == pytest.approx(
                summed, rel=1e-3, abs=1e-12
            )


def test_growth_is_the_derivative():
    for epsilon, square, variance in [(1.0, 32.0, 448), (0.1, 128.0, 120_000), (4.0, 8.0, 30)]:
        spread = variance - noise.SMOOTHED
        step = 1e-5 * square
        high, low = (
            math.log(noise.gaussian_delta(epsilon, (square + side) / spread))
            for side in (step, -step)
        )
        rate = noise.growth(epsilon, square, variance)
        assert rate == pytest.approx((high - low) / (2 * step), rel=1e-4)


def test_the_ripple_bound_is_one():
    """Theta over its mean stays within the ripple, here checked where floats can see it."""
    centers = np.linspace(0, 1, 101)
    values = np.arange(-60, 61)
    theta = np.exp(-((values[:, None] - centers) ** 2) / (2 * 0.25)).sum(axis=0)
    swing = theta.max() / theta.mean() - 1
    assert swing <= 2 * math.exp(-2 * math.pi**2 * 0.25) * 1.01
    assert 2 * math.exp(-2 * math.pi**2 * noise.SMOOTHED) * 1.01 < noise.RIPPLE


REFUSED = [
    ({"delta": 0.0}, BoundDoesNotApply, r"give --delta .*form polynomial"),
    ({"protect": "event"}, UnsupportedUnit, "protects l1"),
    ({"protect": "user"}, UnsupportedUnit, "protects l1"),
    ({"decode": "table"}, InvalidPlan, "needs --decode direct"),
    ({"family": "blake2s"}, InvalidPlan, "needs --decode direct"),
    ({"universe": 5000}, InvalidPlan, "at most 4096 keys"),
    ({"universe": Universe.open()}, InvalidPlan, "use retrieval-l1"),
    ({"colour": 1}, InvalidPlan, "no option 'colour'"),
    ({"epsilon": 1e-5}, BoundDoesNotApply, "larger epsilon or delta"),
]


@pytest.mark.parametrize(("change", "error", "words"), REFUSED)
def test_what_it_cannot_honour_is_refused(change, error, words):
    with pytest.raises(error, match=words):
        plan_of(**change)


@pytest.mark.parametrize(
    ("name", "value"),
    [("variance", 447), ("variance", 2), ("steps", 3), ("steps", True), ("range", 0)],
)
def test_lying_plans_are_refused(name, value):
    plan = plan_of()
    with pytest.raises((InvalidPlan, BoundDoesNotApply)):
        mechanism_of(replace(plan, parameters={**plan.parameters, name: value}))


def test_a_smaller_promise_is_a_lie():
    plan = plan_of()
    for budget in (Budget(0.99, 1e-5), Budget(1.0, 9e-6)):
        with pytest.raises(InvalidPlan, match="only keep"):
            mechanism_of(replace(plan, budget=budget))


def test_reports_fit_and_add_up():
    mechanism = mechanism_of(plan_of(universe=7, sparsity=8))
    assert suite.check_reports(mechanism).holds
    vectors = VectorBatch.of([SparseVector([1, 4], [1.0, -1.0])] * 3 + [SparseVector([])])
    sent = mechanism.randomize(vectors, np.zeros(4, np.uint64), seeded(1, "secret"))
    still = replace(mechanism, variance_steps=3)
    assert sent.shape == (4, 7)
    batch = ReportBatch(mechanism.plan.digest, np.zeros(4, np.uint64), sent)
    ids = np.array([4, 1], dtype=np.uint64)
    expected = sent.astype(np.int64).sum(axis=0)[[4, 1]] - 4 * mechanism.range
    np.testing.assert_array_equal(mechanism.read(batch, ids), expected)
    assert still.forecast.variance(0) == 3


def test_any_number_of_items_is_taken():
    mechanism = mechanism_of(plan_of(universe=50, sparsity=8))
    vectors = VectorBatch.of([SparseVector(range(50))])
    assert mechanism.randomize(vectors, np.zeros(1, np.uint64), seeded(1, "x")).shape == (1, 50)
    assert not mechanism.enforces_sparsity


@pytest.mark.long
@pytest.mark.parametrize("distance", [0.5, 4])
def test_audits_pass(distance):
    """A sound plan fails a check once in a million audits; mutant: half of the variance."""
    plan = plan_of(universe=3, sparsity=8, distance=distance)
    found = audit(plan, samples=1000)
    assert found.passed, found

    def halved(plan):
        sound = mechanism_of(plan)
        return replace(sound, variance_steps=sound.variance_steps // 2)

    found = audit(plan, samples=1000, make=halved)
    assert "statement" in {one.check for one in found.findings if not one.holds}, found
