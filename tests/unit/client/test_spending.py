"""The costs of a charge in every account, checked by walking over all vectors of small grids."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faintly.core import EventLevel, UserLevel, WithinL1
from faintly.core.spending import Charge, Limits, Loss, Spending, decimal_of, exact
from faintly.errors import BudgetSpent, InvalidInput, PlanRefused

EVENT, USER = EventLevel(), UserLevel()
DISTANCES = st.sampled_from([0.1, 0.25, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, 64.0])
HALVES = (-1, -0.5, 0, 0.5, 1)
UNITS = st.one_of(st.just(EVENT), st.just(USER), DISTANCES.map(WithinL1))
EPSILONS = st.decimals("0.001", "16", places=3)
DELTAS = st.sampled_from(["0", "0.000001", "0.0000000001", "0.1"])
LOSSES = st.builds(lambda e, d: Loss(Fraction(e), exact(d)), EPSILONS, DELTAS)
CHARGES = st.builds(Charge, UNITS, LOSSES, st.one_of(st.none(), st.integers(1, 100)))


def l1(left, right):
    return sum(abs(a - b) for a, b in zip(left, right, strict=True))


def differ(unit, left, right):
    if isinstance(unit, UserLevel):
        return True
    if isinstance(unit, EventLevel):
        return sum(a != b for a, b in zip(left, right, strict=True)) <= 1
    return l1(left, right) <= unit.distance


def longest_walk(charged, account, items, coordinates, grid):
    """Return how many steps of `charged` the worst pair of neighbours of `account` needs."""
    every = itertools.product(grid, repeat=coordinates)
    vectors = [v for v in every if sum(x != 0 for x in v) <= items]
    near = [[j for j, w in enumerate(vectors) if differ(charged, v, w)] for v in vectors]
    worst = 0
    for start, here in enumerate(vectors):
        steps, frontier = {start: 0}, [start]
        while frontier:
            found = {n: steps[f] + 1 for f in frontier for n in near[f] if n not in steps}
            steps |= found
            frontier = list(found)
        ends = [j for j, there in enumerate(vectors) if differ(account, here, there)]
        worst = max(worst, *(steps[j] for j in ends))
    return worst


@pytest.mark.parametrize("items", [1, 2])
@pytest.mark.parametrize("charged", [EVENT, USER, WithinL1(0.5), WithinL1(1), WithinL1(1.5)])
def test_no_walk_is_longer_than_what_is_charged(charged, items):
    """Enumerated over all vectors of at most k items on a grid of half units."""
    for account in (EVENT, USER, WithinL1(1), WithinL1(2.5), WithinL1(4)):
        walked = longest_walk(charged, account, items, 2 * items, HALVES)
        steps = Charge(charged, Loss(Fraction(1)), items).steps(account)
        assert walked <= steps, (charged, account)
        if isinstance(account, UserLevel):
            assert walked == steps, "2k and 2k/L are reached, so nothing smaller would do"


def test_a_mutant_that_counts_k_instead_of_2k_is_caught():
    """The false remark that k items differ by k would undercharge; the enumeration sees it."""
    assert longest_walk(EVENT, USER, 1, 2, (-1, 0, 1)) == 2 > 1


def test_the_stated_conversions():
    user = Charge(USER, Loss.of("0.5"))
    assert [user.cost(unit) for unit in (EVENT, USER, WithinL1(3))] == [Loss.of("0.5")] * 3
    event = Charge(EVENT, Loss.of("0.1"), items=7)
    assert event.cost(USER) == Loss.of("1.4") == event.cost(WithinL1(3))
    assert Charge(EVENT, Loss.of("0.1")).cost(USER) is None
    assert Charge(EVENT, Loss.of("0.1")).cost(WithinL1(0.1)) is None
    for distance, steps in ((0.1, 20), (0.3, 7), (1.5, 2), (2, 1), (5, 1)):
        assert Charge(WithinL1(distance), Loss.of(1)).steps(EVENT) == steps
    assert Charge(WithinL1(4), Loss.of(1), items=7).cost(USER) == Loss.of(4)
    assert Charge(WithinL1(4), Loss.of(1)).cost(USER) is None
    assert Charge(WithinL1(4), Loss.of(1)).cost(WithinL1(9)) == Loss.of(3)


@given(CHARGES, UNITS)
def test_user_level_is_never_cheaper_than_another_account(charge, account):
    cost, user = charge.cost(account), charge.cost(USER)
    if user is not None and not isinstance(charge.unit, WithinL1):
        assert user.covers(cost)
    if isinstance(charge.unit, UserLevel):
        assert cost == charge.loss


@given(CHARGES, DISTANCES, DISTANCES)
def test_a_larger_distance_never_costs_less(charge, one, other):
    near, far = (charge.cost(WithinL1(distance)) for distance in sorted((one, other)))
    assert (near is None) == (far is None)
    assert near is None or far.covers(near)


@given(LOSSES, st.integers(1, 60))
def test_group_delta_is_the_sum_rounded_up_and_hardly_more(loss, steps):
    with localcontext() as context:
        context.prec = 100
        epsilon = Decimal(loss.epsilon.numerator) / Decimal(loss.epsilon.denominator)
        terms = sum(((epsilon * i).exp() for i in range(steps)), Decimal(0))
        truth = min(Fraction(1), loss.delta * Fraction(terms))
    grown = loss.over(steps)
    assert grown.epsilon == loss.epsilon * steps
    assert grown.delta <= truth * (1 + Fraction(1, 10**40)) or grown.delta == 1 == truth
    assert grown.delta >= truth * (1 - Fraction(1, 10**90))
    assert loss.delta > 0 or grown.delta == 0


def test_delta_of_a_huge_number_of_reports_is_one_and_not_an_overflow():
    assert Loss.of((16, "1e-12")).over(2 * 10**12).delta == 1
    assert Loss.of(("1e-80", "1e-12")).over(2).delta == 1
    assert Loss.of((16, 0)).over(2 * 10**12).delta == 0


@given(st.lists(st.tuples(CHARGES, st.integers(1, 1000)), max_size=6), UNITS)
def test_accounts_add_up_exactly_in_any_order(charges, account):
    forward, backward = Spending(), Spending()
    for charge, count in charges:
        forward = forward.plus(charge, count)
    for charge, count in reversed(charges):
        backward = backward.plus(charge, count)
    costs = [charge.cost(account) for charge, _ in charges]
    assert forward.spent(account) == backward.spent(account)
    if None in costs:
        assert forward.spent(account) is None
    else:
        total = sum((n * c.epsilon for (_, n), c in zip(charges, costs, strict=True)), Fraction(0))
        assert forward.spent(account).epsilon == total


def test_ten_tenths_are_one():
    tenth = Charge(EVENT, Loss.of(0.1))
    limits, spending = Limits.of({"event": 1}), Spending()
    for _ in range(10):
        spending = limits.admit(spending, tenth)
    assert spending.spent(EVENT) == Loss(Fraction(1))
    with pytest.raises(BudgetSpent, match="event account allows epsilon 1 and has spent epsilon 1"):
        limits.admit(spending, tenth)


@given(st.lists(CHARGES, max_size=12), st.integers(1, 40))
def test_what_is_admitted_stays_within_every_limit(charges, epsilon):
    limits = Limits.of({"event": (epsilon, "0.001"), "user": epsilon, "l1:2": epsilon})
    spending = Spending()
    for charge in charges:
        try:
            spending = limits.admit(spending, charge)
        except (BudgetSpent, PlanRefused):
            continue
    for account, limit in limits.accounts.items():
        assert limit.covers(spending.spent(account))


def test_spending_without_a_bound_leaves_nothing():
    spending = Spending().plus(Charge(EVENT, Loss.of(1)))
    limits = Limits.of({"user": 100})
    assert spending.spent(USER) is None
    assert limits.left(spending, USER) == Loss()
    with pytest.raises(BudgetSpent, match="an unbounded amount"):
        limits.admit(spending, Charge(USER, Loss.of(1)))


@given(st.decimals("0", "1000000", places=9))
def test_decimals_are_exact(number):
    assert Fraction(decimal_of(Fraction(number))) == Fraction(number)


@pytest.mark.parametrize("amount", [-1, "-0.1", "abc", math.inf, math.nan, None, (1, "x")])
def test_amounts_that_are_no_amounts(amount):
    with pytest.raises(InvalidInput, match="an amount must"):
        Loss.of(amount)


def test_a_ledger_without_limits_is_refused():
    with pytest.raises(InvalidInput, match="at least one limit"):
        Limits.of({})
