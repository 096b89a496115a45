"""k-fold and sampling, enumerated: every pair, every hash in every slot, every report."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

from faintly.audit import checks
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.primitives import noise
from faintly_baselines import slots as slotting
from tests.conformance import suite

SIGNS = (-1.0, 0.0, 1.0)
EPSILONS = [0.5, 1.0, 3.0]
PROTECT = {"k-fold": "event", "sampling": "user"}


def small(name, *, epsilon=1.0, sparsity=2, **options):
    plan = make_plan(
        mechanism=name,
        protect=PROTECT[name],
        epsilon=epsilon,
        sparsity=sparsity,
        clients=4,
        universe=8,
        decode=options.pop("decode", "direct"),
        salt=bytes(16),
        **options,
    )
    return mechanism_of(plan)


def double_epsilon(mechanism):
    """Mutant: the threshold of twice the epsilon."""
    keep = noise.response_threshold(
        Fraction(2 * mechanism.plan.budget.epsilon), outcomes=2 * mechanism.bins
    )
    return replace(mechanism, keep=keep)


def worst(mechanism, grid, items):
    groups = checks.neighbourhoods(mechanism.plan.unit, grid, items)
    return checks.worst_pair(mechanism, groups)[0]


CASES = [
    ("k-fold", 1, 3, 1),
    ("k-fold", 2, 3, 1),
    ("k-fold", 2, 4, 1),
    ("k-fold", 1, 3, 3),
    ("k-fold", 2, 3, 2),
    ("sampling", 1, 3, 1),
    ("sampling", 2, 4, 1),
    ("sampling", 3, 5, 1),
    ("sampling", 2, 3, 3),
]


@pytest.mark.long
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("name", "sparsity", "items", "bins"), CASES)
def test_epsilon_is_kept_and_used_up(name, sparsity, items, bins, epsilon):
    scheme = "optimal" if bins > 1 else "hashing"
    mechanism = small(name, epsilon=epsilon, sparsity=sparsity, scheme=scheme, bins=bins)
    loss = worst(mechanism, SIGNS, items)
    assert epsilon - 1e-8 < loss <= epsilon + checks.SLACK
    if epsilon == 1.0:
        assert worst(double_epsilon(mechanism), SIGNS, items) > 1.9 * epsilon


@pytest.mark.parametrize("name", PROTECT)
def test_halves_and_quarters_keep_it_too(name):
    mechanism = small(name)
    grid = (-1.0, -0.25, 0.0, 0.5, 1.0)
    assert worst(mechanism, grid, 3) <= 1.0 + checks.SLACK


@pytest.mark.long
@pytest.mark.parametrize("items", [1, 2, 3, 4, 5])
def test_three_slots_and_up_to_five_items(items):
    """k + 2 items at most, one of which turns, comes or goes, under every hash of one bit.

    A value of -1 is the other hash, and the order of the others does not matter.
    """
    mechanism = small("k-fold", sparsity=3)
    patterns = list(itertools.product(range(2), repeat=3))
    held = (1.0,) * items

    def worst_of(client):
        loss = 0.0
        for first in patterns:
            for others in itertools.combinations_with_replacement(patterns, items - 1):
                before = client.law.probabilities(held, (first, *others))
                turned = client.law.probabilities((-1.0, *held[1:]), (first, *others))
                gone = client.law.probabilities(held[1:], others)
                for after in (turned, gone):
                    loss = max(loss, float(np.abs(np.log(before / after)).max()))
        return loss

    loss = worst_of(mechanism)
    assert 0.5 < loss <= 1.0 + checks.SLACK
    if items <= 3:  # above k an item is dealt less often, and less is lost
        assert loss == pytest.approx(1.0, abs=1e-8)
        assert worst_of(double_epsilon(mechanism)) > 1.9


def sorted_law(held, dummies, slots, chances):
    """Mutant: the items stand in the order of their keys, and dummies behind them."""
    return slotting.deal_law([*held, *[(0.0, (0,) * slots)] * dummies][:slots], chances)


@pytest.mark.parametrize(("sparsity", "items"), [(2, 2), (2, 3), (3, 3), (3, 4)])
def test_sorted_slots_lose_k_epsilon(sparsity, items):
    """One item in front shifts the others: k-1 of them and a dummy, or k where k were held."""
    mechanism = small("k-fold", sparsity=sparsity)
    kept, other = mechanism.chances
    held = [(1.0, (0, 1, 0)[:sparsity]), (1.0, (1, 0, 1)[:sparsity])] * 2
    with_it = sorted_law(held[:items], sparsity - items, sparsity, (kept, other))
    without = sorted_law(held[1:items], sparsity - items + 1, sparsity, (kept, other))
    loss = float(np.abs(np.log(with_it / without)).max())
    shifted = sparsity if items > sparsity else sparsity - 1
    last = 0.0 if items > sparsity else math.log(max(2 * kept, 1 / (2 * other)))
    assert loss == pytest.approx(shifted * math.log(kept / other) + last, abs=1e-9)
    assert loss > 1.3


def test_the_suite_notices_sorted_slots():
    mechanism = small("k-fold")

    def law(values, outcome):
        held = list(zip(values, outcome, strict=True))
        return sorted_law(held, max(0, 2 - len(held)), 2, mechanism.chances)

    with mock.patch.object(mechanism.law, "probabilities", law):
        verdict = checks.check_privacy(mechanism, SIGNS, 4)
    assert not verdict.holds
    assert verdict.measured == pytest.approx(2.0, abs=1e-8)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("k-fold", {}),
        ("sampling", {}),
        ("sampling", {"scheme": "optimal", "bins": 2}),
        ("k-fold", {"scheme": "optimal", "bins": 2, "sparsity": 1}),
    ],
)
def test_reports_are_exactly_unbiased_up_to_k_items(name, options):
    mechanism = small(name, **options)
    for values in ((1.0,), (-0.5,), (0.75, -1.0))[: 1 + mechanism.plan.sparsity]:
        bias = suite.exact_bias(mechanism, values)
        np.testing.assert_allclose(bias, 0.0, atol=1e-8)


@pytest.mark.parametrize("name", PROTECT)
def test_above_k_items_the_share_that_is_cut_is_the_bias(name):
    mechanism = small(name, sparsity=1)
    bias = suite.exact_bias(mechanism, (1.0, -0.5))
    np.testing.assert_allclose(bias, [-0.5, 0.25, 0.0], atol=1e-8)


def test_the_bias_check_notices_missing_dummies():
    """Mutant: one of the items that are held is drawn, whatever their number."""
    mechanism = small("sampling")
    plain = slotting.dealt_law
    with mock.patch.object(slotting, "dealt_law", lambda held, _, *rest: plain(held, 0, *rest)):
        bias = suite.exact_bias(mechanism, (1.0,))
    np.testing.assert_allclose(bias, [1.0, 0.0], atol=1e-8)
