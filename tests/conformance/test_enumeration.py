"""Every neighbouring pair, every hash, every report: the pure rows keep epsilon exactly.

Mutants beside them (half the noise, a biased coin, a wrong ratio, a wrong sensitivity) must
fail the very same check, and the plans that carry them must be refused.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from faintly.audit import checks
from faintly.core import EventLevel, UserLevel, WithinL1
from faintly.errors import InvalidPlan
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.primitives import noise

GRID = checks.GRID
FINE = (-1.0, -0.5, -0.125, 0.0, 0.125, 0.25, 0.375, 0.5, 1.0)
COARSE = (-1.0, 0.0, 0.25, 1.0)
TIGHT = 0.9  # the worst pair must come this close to epsilon, or the check is vacuous


def small(protect, epsilon, *, sparsity=1, bins=1, steps=1, clients=1, **options):
    """A mechanism with few enough reports to list; bins are any number in the prf family."""
    if protect != "user":
        options["bins"] = bins
    plan = make_plan(
        mechanism="signed-binning",
        protect=protect,
        epsilon=epsilon,
        sparsity=sparsity,
        clients=clients,
        universe=8,
        failure=0.5,
        decode="direct",
        family="prf",
        steps=steps,
        salt=bytes(16),
        **options,
    )
    return mechanism_of(plan)


def max_log_ratio(mechanism, left, right):
    """The largest |ln P(y|left)/P(y|right)| over every hash outcome and every report y."""
    return checks.worst_pair(mechanism, [(left, right)])[0]


def narrowed(mechanism):
    """The same mechanism with shorter reports where several bins would make them too many.

    Keeping bins within a range is post-processing, and `test_range_is_post_processing` shows
    that the worst loss is reached at any range.
    """
    return replace(mechanism, range=min(mechanism.range, {1: 10**6, 2: 8}.get(mechanism.bins, 3)))


def with_ratio(mechanism, bound):
    """The same mechanism with noise that falls by `bound` per step."""
    return replace(mechanism, noise=tuple(noise.laplace_thresholds(bound)))


def with_change(mechanism, epsilon, change):
    """The same mechanism with noise for a change of that many steps."""
    return with_ratio(mechanism, noise.exp_at_least(-noise.exact(epsilon) / change))


def lying(mechanism):
    """The plan that would carry a mutant's thresholds."""
    parameters = {**mechanism.plan.parameters, "noise": list(mechanism.noise)}
    return replace(mechanism.plan, parameters=parameters)


# epsilon, sparsity, bins, steps: k+2 items each, so that every case has vectors above k.
EVENT = [
    (0.5, 2, 1, 1),
    (0.5, 2, 1, 4),
    (0.5, 1, 2, 2),
    (1.0, 2, 1, 2),
    pytest.param(1.0, 2, 2, 1, marks=pytest.mark.long),
    (1.0, 1, 2, 4),
    (1.0, 1, 3, 1),
    (3.0, 3, 1, 4),
    (3.0, 2, 2, 1),
    (3.0, 1, 3, 2),
]


@pytest.mark.parametrize(("epsilon", "sparsity", "bins", "steps"), EVENT)
def test_event_row_keeps_epsilon_for_any_number_of_items(epsilon, sparsity, bins, steps):
    mechanism = small("event", epsilon, sparsity=sparsity, bins=bins, steps=steps)
    grid = GRID if bins * sparsity < 3 else COARSE
    verdict = checks.check_privacy(narrowed(mechanism), grid, sparsity + 2)
    assert verdict.holds, verdict
    assert verdict.measured >= TIGHT * epsilon, verdict


@pytest.mark.parametrize("clients", [1, 10])
def test_range_is_post_processing(clients):
    """A shorter or longer range of reports changes nothing about the worst loss."""
    mechanism = small("event", 1.0, sparsity=2, clients=clients)
    for reach in (1, 2, mechanism.range):
        verdict = checks.check_privacy(replace(mechanism, range=reach), GRID, 3)
        assert verdict.holds, verdict
        assert verdict.measured >= TIGHT, verdict


# epsilon, distance, sparsity, bins, steps. The ratio 1+ε/(L·steps) is tight only in the limit of
# many small moves, so only the cases with a fine ratio are asked to come close.
L1 = [
    (0.5, 1.0, 1, 1, 1, False),
    (0.5, 1.0, 1, 1, 4, True),
    (0.5, 2.0, 1, 1, 2, True),
    (1.0, 0.5, 1, 1, 4, False),
    (1.0, 1.0, 1, 1, 2, False),
    (1.0, 2.0, 2, 1, 4, True),
    (1.0, 1.0, 1, 2, 1, False),
    (3.0, 1.0, 2, 1, 1, False),
    (3.0, 2.0, 1, 2, 1, False),
    (3.0, 2.0, 1, 3, 1, False),
]


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "distance", "sparsity", "bins", "steps", "tight"), L1)
def test_l1_row_keeps_epsilon(epsilon, distance, sparsity, bins, steps, tight):
    mechanism = small(f"l1:{distance:g}", epsilon, sparsity=sparsity, bins=bins, steps=steps)
    grid = FINE if sparsity + bins == 2 else (GRID if bins < 3 else COARSE)
    verdict = checks.check_privacy(narrowed(mechanism), grid, sparsity + 2)
    assert verdict.holds, verdict
    assert verdict.measured >= (TIGHT if tight else 0.5) * epsilon, verdict


def test_l1_row_approaches_epsilon_with_many_small_moves():
    """Six items that move by a sixth each: almost all of epsilon is spent, and no more."""
    mechanism = small("l1:1", 1.0, sparsity=4, steps=1)
    loss = max_log_ratio(mechanism, (0.0,) * 6, (1 / 6,) * 6)
    assert TIGHT <= loss <= 1.0 + checks.SLACK


USER = [(0.5, 1, 1), (0.5, 2, 1), (1.0, 1, 4), (1.0, 2, 1), (3.0, 1, 2), (3.0, 2, 2)]


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "sparsity", "steps"), USER)
@pytest.mark.parametrize("cap", [1, 1.5, None])
def test_user_row_keeps_epsilon_for_any_change(epsilon, sparsity, steps, cap):
    mechanism = small("user", epsilon, sparsity=sparsity, steps=steps, cap=cap)
    grid = GRID if sparsity == 1 else (-1.0, -0.25, 0.0, 0.5, 1.0)
    verdict = checks.check_privacy(mechanism, grid, sparsity + 2)
    assert verdict.holds, verdict
    assert verdict.measured >= TIGHT * epsilon, verdict


def biased_coin(mechanism, position):
    """One threshold at four fifths of what it should be."""
    changed = list(mechanism.noise)
    changed[position] = changed[position] * 4 // 5
    return replace(mechanism, noise=tuple(changed))


EVENT_MECHANISM = small("event", 1.0, sparsity=2, steps=2)
L1_MECHANISM = small("l1:1", 1.0, sparsity=1, steps=1)
USER_MECHANISM = small("user", 1.0, sparsity=2, steps=1)

MUTANTS = {
    "event, half the noise": with_change(EVENT_MECHANISM, 2.0, 4),
    "event, an item moves a bin by 1": with_change(EVENT_MECHANISM, 1.0, 2),
    "event, third coin biased": biased_coin(EVENT_MECHANISM, 2),
    "event, last coin biased": biased_coin(EVENT_MECHANISM, -1),
    "l1, half the noise": with_ratio(L1_MECHANISM, 1 / (1 + Fraction(2))),
    "l1, ratio e^(ε/(L·steps))": with_change(L1_MECHANISM, 1.0, 1),
    "user, half the noise": with_change(USER_MECHANISM, 2.0, 4),
    "user, sensitivity clip instead of 2·clip": with_change(USER_MECHANISM, 1.0, 2),
    "user, last coin biased": biased_coin(USER_MECHANISM, -1),
}


@pytest.mark.parametrize("mechanism", MUTANTS.values(), ids=MUTANTS)
def test_mutants_fail_the_same_check(mechanism):
    verdict = checks.check_privacy(mechanism, (*GRID, 0.25), 3)
    assert not verdict.holds, verdict
    assert verdict.measured > 1.02 * mechanism.plan.budget.epsilon, verdict


@pytest.mark.parametrize("mechanism", MUTANTS.values(), ids=MUTANTS)
def test_plans_that_carry_a_mutant_are_refused(mechanism):
    with pytest.raises(InvalidPlan, match="only keep"):
        mechanism_of(lying(mechanism))


@pytest.mark.parametrize("position", range(len(EVENT_MECHANISM.noise)))
def test_a_plan_with_any_biased_coin_is_refused(position):
    """Also where enumeration finds no loss: a change of four steps never meets two low digits."""
    with pytest.raises(InvalidPlan, match="only keep"):
        mechanism_of(lying(biased_coin(EVENT_MECHANISM, position)))


@pytest.mark.parametrize("mechanism", [EVENT_MECHANISM, L1_MECHANISM, USER_MECHANISM])
def test_the_sound_originals_pass_where_their_mutants_fail(mechanism):
    verdict = checks.check_privacy(mechanism, (*GRID, 0.25), 3)
    assert verdict.holds, verdict
    assert mechanism_of(lying(mechanism)).guarantee().budget.epsilon <= 1.0


def test_user_level_is_not_k_neighbouring():
    """Disjoint sets of k items are 2k apart: noise for a distance of k loses twice epsilon."""
    wrong = with_change(USER_MECHANISM, 1.0, USER_MECHANISM.plan.sparsity)
    loss = max_log_ratio(wrong, (1.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 1.0))
    assert loss == pytest.approx(2.0, abs=1e-6)


def test_neighbours_are_all_and_only_the_neighbours():
    event = list(checks.neighbours(EventLevel(), (-1.0, 0.0, 1.0), 2))
    assert len(event) == len(set(event)) == 9 * 4 // 2
    assert all(sum(a != b for a, b in zip(*pair, strict=True)) == 1 for pair in event)
    user = list(checks.neighbours(UserLevel(), (-1.0, 0.0, 1.0), 2))
    assert len(user) == 9 * 8 // 2
    near = list(checks.neighbours(WithinL1(1.0), (-1.0, 0.0, 0.5, 1.0), 2))
    assert ((0.0, 0.0), (0.5, 0.5)) in near
    assert ((0.0, 0.0), (0.5, 1.0)) not in near
    assert ((0.0, 0.0), (0.0, 1.0)) in near


def test_a_law_that_does_not_sum_to_one_is_noticed(monkeypatch):
    mechanism = small("event", 1.0)
    sound = mechanism.law.probabilities
    monkeypatch.setattr(mechanism.law, "probabilities", lambda *case: sound(*case) * 0.999)
    with pytest.raises(AssertionError, match=r"sums to 0\.99"):
        max_log_ratio(mechanism, (0.0,), (1.0,))


def test_a_report_that_only_one_side_can_send_is_an_infinite_loss(monkeypatch):
    mechanism = small("event", 1.0)
    laws = {(): [0.5, 0.5, 0.0], (1.0,): [0.5, 0.25, 0.25]}
    law = lambda values, outcome: np.array(laws[tuple(values)])  # noqa: E731
    monkeypatch.setattr(mechanism.law, "probabilities", law)
    assert max_log_ratio(mechanism, (0.0,), (1.0,)) == float("inf")
    assert checks.exact_delta(mechanism, (0.0,), (1.0,), 1.0) == pytest.approx(0.25)
    assert max_log_ratio(mechanism, (0.0,), (0.0,)) == 0.0
