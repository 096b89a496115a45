"""Naive perturbation, enumerated: what a unit allows, over keys that two people do not share."""

import math
from dataclasses import replace

import pytest

from faintly.audit import checks
from faintly.core import UserLevel
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.primitives import noise as coins

GRID = (-1.0, 0.0, 0.5, 1.0)


def small(protect, kind, *, epsilon=1.0, delta=0.0, sparsity=1, keys=2, **options):
    plan = make_plan(
        mechanism="naive",
        protect=protect,
        epsilon=epsilon,
        delta=delta,
        sparsity=sparsity,
        clients=4,
        universe=keys,
        failure=1e-9 if delta else 0.5,
        noise=kind,
        decode="direct",
        salt=bytes(16),
        **options,
    )
    return mechanism_of(plan)


def allowed_pairs(mechanism, items):
    """Neighbouring pairs; at user level only vectors of at most k items."""
    unit, most = mechanism.plan.unit, mechanism.plan.sparsity
    for pair in checks.neighbours(unit, GRID, items):
        held = max(sum(value != 0 for value in one) for one in pair)
        if held <= most or not isinstance(unit, UserLevel):
            yield pair


def worst(mechanism):
    return checks.worst_pair(mechanism, allowed_pairs(mechanism, mechanism.keys))[0]


def with_spread(mechanism, *spread):
    return replace(mechanism, noise=replace(mechanism.noise, spread=tuple(spread)))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize(("protect", "sparsity", "keys"), [("event", 1, 3), ("user", 1, 3)])
def test_response_keeps_epsilon_and_uses_it_up(protect, sparsity, keys, epsilon):
    mechanism = small(protect, "response", epsilon=epsilon, sparsity=sparsity, keys=keys)
    assert worst(mechanism) == pytest.approx(epsilon, abs=1e-7)
    assert worst(mechanism) <= epsilon + checks.SLACK


def test_response_at_user_level_with_four_keys_that_two_people_do_not_share():
    mechanism = small("user", "response", sparsity=2, keys=4)
    assert worst(mechanism) == pytest.approx(1.0, abs=1e-7)
    # Mutant: epsilon/k for each coordinate, as if both people held the same keys.
    careless = with_spread(mechanism, coins.response_threshold(coins.exact(1.0) / 2, outcomes=3))
    assert worst(careless) > 1.9


@pytest.mark.parametrize(
    ("protect", "sparsity", "keys", "steps"),
    [
        ("event", 1, 2, 1),
        ("event", 1, 2, 2),
        ("event", 1, 3, 1),
        ("user", 1, 2, 1),
        ("user", 1, 2, 2),
    ],
)
def test_laplace_keeps_epsilon_and_uses_it_up(protect, sparsity, keys, steps):
    mechanism = small(protect, "laplace", sparsity=sparsity, keys=keys, steps=steps)
    assert 0.999 < worst(mechanism) <= 1.0 + checks.SLACK
    # Mutant: noise for half of the change.
    half = coins.laplace_thresholds(coins.exp_at_least(-coins.exact(1.0) / steps))
    assert worst(with_spread(mechanism, *half)) > 1.9


def test_laplace_for_l1_rounds_inside_a_step():
    mechanism = small("l1:1", "laplace", steps=1)
    assert 0.6 < worst(mechanism) <= 1.0 + checks.SLACK
    # Mutant: the ratio that would do for whole steps.
    usual = coins.laplace_thresholds(coins.exp_at_least(-coins.exact(1.0)))
    quarters = [((0.0, 0.0), (0.25, 0.25)), ((0.0, 0.0), (0.25, -0.25))]
    broken, _ = checks.worst_pair(with_spread(mechanism, *usual), quarters)
    sound, _ = checks.worst_pair(mechanism, quarters)
    assert broken > 0.6 > 0.5 >= sound


def exact_delta(mechanism):
    epsilon, pairs = mechanism.plan.budget.epsilon, allowed_pairs(mechanism, mechanism.keys)
    return max(checks.exact_delta(mechanism, *pair, epsilon) for pair in pairs)


@pytest.mark.parametrize("protect", ["event", "user", "l1:2"])
def test_gaussian_keeps_delta_and_uses_it(protect):
    mechanism = small(protect, "gaussian", delta=1e-3, keys=1)
    claimed = mechanism.guarantee().budget.delta
    assert 0.9 * claimed <= exact_delta(mechanism) <= claimed <= 1e-3
    # Mutant: half of the variance.
    assert exact_delta(with_spread(mechanism, mechanism.noise.spread[0] // 2)) > 5e-3


def test_gaussian_at_user_level_over_two_keys():
    mechanism = small("user", "gaussian", delta=0.01, keys=2, epsilon=2.0, sparsity=2)
    assert exact_delta(mechanism) <= mechanism.guarantee().budget.delta <= 0.01
    # Mutant: the noise of one item.
    one = small("user", "gaussian", delta=0.01, keys=2, epsilon=2.0, sparsity=1)
    spread = one.noise.spread[0] * (mechanism.noise.steps / one.noise.steps) ** 2
    assert exact_delta(with_spread(mechanism, math.ceil(spread))) > 0.02
