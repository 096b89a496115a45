"""The shuffle bound lies above two numeric computations, and its conditions are kept."""

import math

import numpy as np
import pytest

from faintly.core import Budget, EventLevel, Guarantee, UserLevel, WithinL1
from faintly.errors import BoundDoesNotApply
from faintly.planner import shuffle

CASES = [(0.25, 1000, 1e-3), (1.0, 1000, 1e-4), (2.0, 5000, 1e-5), (3.0, 6000, 1e-4)]


def binomial(count, share):
    """The binomial law, by logarithms."""
    k = np.arange(count + 1)
    logs = np.array(
        [math.lgamma(count + 1) - math.lgamma(i + 1) - math.lgamma(count - i + 1) for i in k]
    )
    return np.exp(logs + k * math.log(share) + (count - k) * math.log1p(-share))


def hockey_stick(law, other, epsilon):
    return np.maximum(0, law - math.exp(epsilon) * other).sum()


def clones_delta(local, clients, epsilon):
    """Delta of the pair that the paper reduces every randomizer to, summed exactly.

    C of the other reports are clones, A of them look like the first input. Given C, the
    first count is A plus a coin that is heads with odds e^local.
    """
    heads = math.exp(local) / (1 + math.exp(local))
    total = 0.0
    for count, weight in enumerate(binomial(clients - 1, math.exp(-local))):
        if weight > 1e-14:
            fair = binomial(count, 0.5) if count else np.ones(1)
            up, same = np.append(0, fair), np.append(fair, 0)
            law, other = heads * up + (1 - heads) * same, (1 - heads) * up + heads * same
            total += weight * hockey_stick(law, other, epsilon)
    return total


def response_delta(local, clients, ones, epsilon):
    """Exact delta of shuffled binary randomized response when `ones` others hold a one."""
    keep = math.exp(local) / (1 + math.exp(local))
    others = np.convolve(
        binomial(ones, keep) if ones else np.ones(1), binomial(clients - 1 - ones, 1 - keep)
    )
    law, other = np.convolve(others, [1 - keep, keep]), np.convolve(others, [keep, 1 - keep])
    return max(hockey_stick(law, other, epsilon), hockey_stick(other, law, epsilon))


def careless(local, clients, delta):
    """Mutant: the constant 8 of the theorem forgotten."""
    spread = math.sqrt(math.exp(local) * math.log(4 / delta) / clients)
    return math.log1p(-math.expm1(-local) / (1 + math.exp(-local)) * spread)


@pytest.mark.parametrize(("local", "clients", "delta"), CASES)
def test_bound_is_above_the_clones_computation(local, clients, delta):
    assert clones_delta(local, clients, shuffle.shuffled_epsilon(local, clients, delta)) <= delta


def test_a_bound_without_its_constant_is_caught():
    local, clients, delta = CASES[2]
    assert clones_delta(local, clients, careless(local, clients, delta)) > delta


@pytest.mark.parametrize(("local", "clients", "delta"), CASES)
def test_bound_is_above_exact_randomized_response(local, clients, delta):
    epsilon = shuffle.shuffled_epsilon(local, clients, delta)
    for ones in (0, clients // 2, clients - 1):
        assert response_delta(local, clients, ones, epsilon) <= delta


def test_clones_cover_randomized_response_so_both_checks_measure_the_same_thing():
    for ones in (0, 250, 499):
        assert response_delta(1.0, 500, ones, 0.15) <= clones_delta(1.0, 500, 0.15)


def test_bound_is_of_use_and_shrinks_with_the_crowd():
    found = [shuffle.shuffled_epsilon(1.0, 10**power, 1e-6) for power in (3, 4, 5, 6, 8)]
    assert found == sorted(found, reverse=True)
    assert found[0] < 1.0
    assert found[-1] < 0.01


@pytest.mark.parametrize(("clients", "delta"), [(100, 1e-6), (10**6, 0.0), (10**6, 1.0)])
def test_outside_the_conditions_there_is_no_number(clients, delta):
    with pytest.raises(BoundDoesNotApply):
        shuffle.shuffled_epsilon(1.0, clients, delta)


@pytest.mark.parametrize(
    ("unit", "delta", "word"),
    [(EventLevel(), 0.0, "user"), (WithinL1(4.0), 0.0, "user"), (UserLevel(), 1e-9, "pure")],
)
def test_neighbours_only_and_approximate_promises_are_not_amplified(unit, delta, word):
    with pytest.raises(BoundDoesNotApply, match=word):
        shuffle.amplified(Guarantee(unit, Budget(1.0, delta), "none"), 10**6, 1e-6)


def test_a_user_level_promise_is():
    guarantee = Guarantee(UserLevel(), Budget(1.0), "none")
    assert shuffle.amplified(guarantee, 10**6, 1e-6) == shuffle.shuffled_epsilon(1.0, 10**6, 1e-6)
