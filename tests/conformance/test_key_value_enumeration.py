"""The loss over a change of one entry, by enumeration: within ε, and a careless plan is caught.

Vectors are all those of two keys, each absent or with a value of the grid: four coordinates.
Neighbours differ in one entry: added, removed, or with another value.
"""

import itertools

import pytest

from faintly.audit import checks
from faintly.core import EventLevel, UserLevel, WithinL1
from faintly.mechanisms import mechanism_of
from faintly.planner import entry_guarantee, key_value_plan, make_plan

ENTRIES = [(0.0, 0.0), (1.0, -1.0), (1.0, 0.0), (1.0, 0.5), (1.0, 1.0)]  # (held, value)

ROUTES = {
    "retrieval": {"sparsity": 2, "bits": 2},
    "signed-binning": {"sparsity": 2, "options": {"row": "l1", "bins": 2, "steps": 2}},
}


def neighbours():
    """Yield pairs of vectors that differ in one of two entries; coordinates stand in turn."""
    for other, (left, right) in itertools.product(ENTRIES, itertools.combinations(ENTRIES, 2)):
        yield (*left, *other), (*right, *other)


def worst_loss(plan, **small):
    return checks.worst_pair(mechanism_of(plan).law.small(**small), neighbours())


def wanted(mechanism, epsilon, **rest):
    return key_value_plan(
        protect="entry",
        epsilon=epsilon,
        entries=2,
        clients=1000,
        universe=4,
        mechanism=mechanism,
        **rest,
    )


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_one_entry_is_hidden_within_epsilon_by_two_coordinates_at_half(epsilon):
    plan = wanted("retrieval", epsilon, decode="direct")
    assert plan.unit == EventLevel()
    assert plan.budget.epsilon == epsilon / 2
    worst, pair = worst_loss(plan, **ROUTES["retrieval"])
    assert 0.99 * epsilon < worst <= epsilon + checks.SLACK, f"loss {worst} at {pair}"
    careless = make_plan(
        protect="event",
        epsilon=epsilon,
        sparsity=4,
        clients=1000,
        universe=8,
        mechanism="retrieval",
        decode="direct",
    )
    worst, _ = worst_loss(careless, **ROUTES["retrieval"])
    assert worst > 1.9 * epsilon
    assert entry_guarantee(careless).budget.epsilon == pytest.approx(2 * epsilon, rel=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_one_entry_is_hidden_within_epsilon_by_a_distance_of_two(epsilon):
    plan = wanted("signed-binning", epsilon)
    assert plan.unit == WithinL1(2.0)
    assert plan.budget.epsilon == epsilon
    worst, pair = worst_loss(plan, **ROUTES["signed-binning"])
    assert 0.7 * epsilon < worst <= epsilon + checks.SLACK, f"loss {worst} at {pair}"
    careless = make_plan(
        protect="l1:1",  # as if an entry were its presence alone
        epsilon=epsilon,
        sparsity=4,
        clients=1000,
        universe=8,
        mechanism="signed-binning",
    )
    worst, _ = worst_loss(careless, **ROUTES["signed-binning"])
    assert worst > 1.2 * epsilon
    assert entry_guarantee(careless).budget.epsilon == pytest.approx(2 * epsilon, rel=1e-6)


def test_a_person_is_hidden_within_epsilon():
    plan = key_value_plan(protect="user", epsilon=1.0, entries=2, clients=1000, universe=4)
    assert plan.unit == UserLevel()
    assert plan.sparsity == 4
    assert entry_guarantee(plan).budget.epsilon <= 1.0
