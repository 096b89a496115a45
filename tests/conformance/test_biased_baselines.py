"""The authors' settings of signed binning, and ALP: private as promised, biased as stated.

Both are enumerated with the server's own reading. Their bias is part of what they are, so the check
is that it equals the number which `relative_bias` states; mutants fail each check.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from faintly.audit import checks
from faintly.core import SparseVector, VectorBatch
from faintly.errors import FaintlyError, InvalidPlan
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly_baselines.alp import estimate
from tests.conformance import suite

GRID = (-1.0, 0.0, 0.5, 1.0)
COMMON = {"sparsity": 2, "epsilon": 1.0, "clients": 1000, "universe": 8, "decode": "direct"}


def build(name, protect, **changes):
    wanted = {**COMMON, "salt": bytes(16), **changes}
    return mechanism_of(make_plan(mechanism=name, protect=protect, **wanted))


def published(protect="user", **changes):
    return build("signed-binning-published", protect, **changes)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("sparsity", [1, 2])
def test_the_one_bit_response_keeps_epsilon(epsilon, sparsity):
    mechanism = published(epsilon=epsilon, sparsity=sparsity, steps=2)
    if mechanism.response is None:
        assert (epsilon, sparsity) == (2.0, 1)
        mechanism = published(epsilon=epsilon, sparsity=sparsity, steps=1)
    verdict = checks.check_privacy(mechanism, GRID, sparsity + 2)
    assert verdict.holds, verdict
    assert verdict.measured >= 0.999 * epsilon


@pytest.mark.parametrize("epsilon", [2.5, 4.0])
@pytest.mark.parametrize("sparsity", [1, 2])
def test_laplace_noise_keeps_epsilon_above_two(epsilon, sparsity):
    mechanism = published(epsilon=epsilon, sparsity=sparsity, steps=2, clients=20, failure=0.5)
    assert mechanism.response is None
    verdict = checks.check_privacy(mechanism, GRID, sparsity + 2)
    assert verdict.holds, verdict
    assert verdict.measured >= 0.9 * epsilon


@pytest.mark.parametrize("sparsity", [1, 2, 8])
def test_event_level_keeps_epsilon(sparsity):
    sizes = {"steps": 1, "clients": 1, "failure": 0.5}
    mechanism = published("event", sparsity=sparsity, **sizes)
    assert mechanism.bins == max(1, sparsity // 4)
    short = replace(mechanism, range=8)  # a shorter range is post-processing
    verdict = checks.check_privacy(short, (-1.0, 0.0, 1.0), 3)
    assert verdict.holds, verdict
    assert verdict.measured >= 0.9


def test_mutants_lose_more():
    sound = published(steps=2)
    bolder = replace(published(epsilon=1.1, steps=2), plan=sound.plan)
    assert not checks.check_privacy(bolder, GRID, 4).holds
    with pytest.raises(InvalidPlan, match="only keep"):
        mechanism_of(replace(published(epsilon=1.1).plan, budget=sound.plan.budget))
    quiet = published(epsilon=4.0, steps=1, clients=20, failure=0.5)
    loud = published(epsilon=5.0, steps=1, clients=20, failure=0.5)
    assert not checks.check_privacy(replace(loud, plan=quiet.plan), GRID, 4).holds


def test_a_bound_of_2k_without_a_clip_breaks_above_k_items():
    """Mutant: the authors' sensitivity of 2k at k = 1 trusts that nobody holds more items."""
    sound = published(epsilon=4.0, sparsity=1, steps=1, clients=20, failure=0.5)
    assert sound.clip == sound.steps
    trusting = replace(sound, clip=3)
    assert checks.check_privacy(sound, (-1.0, 0.0, 1.0), 3).holds
    verdict = checks.check_privacy(trusting, (-1.0, 0.0, 1.0), 3)
    assert verdict.measured > 2 * 4.0, verdict


@pytest.mark.parametrize("sparsity", [1, 2, 3])
def test_the_stated_bias_of_the_one_bit_response_is_exact(sparsity):
    mechanism = published(sparsity=sparsity, clients=100, steps=2)
    mean, variance = suite.exact_moments(mechanism, (1.0,) * sparsity)
    assert mean[:-1] == pytest.approx(
        [1 - mechanism.forecast.relative_bias()] * sparsity, abs=1e-12
    )
    assert mean[-1] == pytest.approx(0.0, abs=1e-12)
    assert variance[-1] == pytest.approx(mechanism.forecast.variance(sparsity), rel=1e-12)
    unclipped = replace(mechanism, clip=8 * mechanism.steps)
    assert suite.exact_moments(unclipped, (1.0,) * sparsity)[0][0] == pytest.approx(1.0)
    if sparsity > 1:
        assert mechanism.forecast.relative_bias() > 0.2


@pytest.mark.parametrize("sparsity", [1, 2, 3])
def test_the_stated_bias_under_laplace_noise_is_exact(sparsity):
    """But for the range, which is left by less than one report in a million."""
    sizes = {"clients": 100, "steps": 2, "failure": 1e-4}
    mechanism = published(epsilon=4.0, sparsity=sparsity, **sizes)
    assert mechanism.response is None
    mean, variance = suite.exact_moments(mechanism, (1.0,) * sparsity)
    assert mean[:-1] == pytest.approx([1 - mechanism.forecast.relative_bias()] * sparsity, abs=1e-5)
    assert variance[-1] == pytest.approx(mechanism.forecast.variance(sparsity), rel=1e-4)


ALP = [(0.5, 3.0, False), (1.0, 3.0, False), (1.0, 1.0, False), (1.0, 3.0, True), (3.0, 3.0, False)]


def small_alp(epsilon, alpha, authors, rows=2):
    mechanism = build(
        "alp", "event", epsilon=epsilon, alpha=alpha, published=authors, rows=rows, sparsity=1
    )
    assert mechanism.columns <= 2
    return mechanism


@pytest.mark.parametrize(("epsilon", "alpha", "authors"), ALP)
def test_alp_keeps_epsilon_for_any_number_of_items(epsilon, alpha, authors):
    mechanism = small_alp(epsilon, alpha, authors)
    grid, items = (GRID, 3) if mechanism.columns == 1 else ((-1.0, 0.0, 1.0), 2)
    verdict = checks.check_privacy(mechanism, grid, items)
    assert verdict.holds, verdict
    assert verdict.measured == pytest.approx(mechanism.guarantee().budget.epsilon, abs=1e-9)
    assert (verdict.measured > 0.999 * epsilon) is not authors


def test_alp_published_spends_half_of_its_budget():
    """(1+ε/2)/(1-ε/2·¼) at α = 3: the authors' bound counts both parts as gains."""
    spent = small_alp(1.0, 3.0, True).guarantee().budget.epsilon
    assert spent == pytest.approx(math.log(1.5 / (1 - 0.75 / 6)), abs=1e-4)


def test_alp_mutants_lose_more():
    sound = small_alp(1.0, 3.0, False)
    quarter = replace(sound, flip=sound.flip * 3 // 4)
    assert not checks.check_privacy(quarter, GRID, 3).holds
    higher = replace(sound, level=sound.level * 11 // 10)
    assert not checks.check_privacy(higher, GRID, 3).holds
    for mutant, name in ((quarter, "flip"), (higher, "level")):
        parameters = {**sound.plan.parameters, name: getattr(mutant, name)}
        with pytest.raises(InvalidPlan, match="only keep"):
            mechanism_of(replace(sound.plan, parameters=parameters))


@pytest.mark.parametrize(
    ("epsilon", "alpha", "authors"), [*ALP[:-1], pytest.param(*ALP[-1], marks=pytest.mark.long)]
)
def test_the_stated_bias_of_alp_is_exact(epsilon, alpha, authors):
    mechanism = small_alp(epsilon, alpha, authors)
    mean, variance = suite.exact_moments(mechanism, (1.0,))
    assert mean[0] == pytest.approx(1 - mechanism.forecast.relative_bias(), abs=1e-9)
    assert mean[1] == pytest.approx(0.0, abs=1e-12)
    assert variance[1] == pytest.approx(mechanism.forecast.variance(1), rel=1e-9)
    assert variance.max() <= mechanism.forecast.worst_variance() * (1 + 1e-9)
    one = VectorBatch.of([SparseVector(np.arange(1), np.ones(1))])
    ids = np.arange(2, dtype=np.uint64)
    assert variance == pytest.approx(mechanism.forecast.variances(one, ids), rel=1e-9)
    assert mechanism.forecast.relative_bias() > 0.3


@pytest.mark.long
def test_the_stated_bias_counts_other_items():
    """Two items, three rows: what the other sets makes the mean smaller still."""
    alone = small_alp(1.0, 3.0, False, rows=3)
    both = replace(alone, plan=replace(alone.plan, sparsity=2))
    mean, variance = suite.exact_moments(both, (1.0, -1.0))
    assert mean == pytest.approx(
        [1 - both.forecast.relative_bias(), both.forecast.relative_bias() - 1, 0.0]
    )
    assert variance[-1] == pytest.approx(both.forecast.variance(2))
    assert both.forecast.relative_bias() > 1.01 * alone.forecast.relative_bias()


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_levels_follow_the_best_run_of_ones(columns):
    said, whole = estimate.levels(columns)
    for level in range(columns + 1):
        assert said[2**level - 1] == level * whole
    assert said[0] == 0
    if columns > 1:
        assert said[2] == whole  # first a zero, then a one: 0 and 2 tie


def test_units_that_are_not_protected_are_refused():
    for name, protect in (
        ("alp", "user"),
        ("alp", "l1:1"),
        ("signed-binning-published", "l1:1"),
    ):
        with pytest.raises(FaintlyError, match="protects"):
            build(name, protect)
    with pytest.raises(FaintlyError, match="does not suit"):
        build("alp", "event", alpha=0.001, epsilon=8.0)
