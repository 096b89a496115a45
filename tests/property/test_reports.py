"""Whatever a person holds, a client sends one report of one length.

The plans are those that the planner makes by itself, for every unit and kind of universe, and
some of every domain of values that a mechanism can have.
"""

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from faintly import Client, SparseVector, Universe, make_plan
from faintly.client import Policy
from faintly.core.key_value import entry_vector
from faintly.errors import InvalidInput
from faintly.mechanisms import mechanism_of

SIZES = {"sparsity": 4, "clients": 1000}
UNIVERSES = {
    "indexed": 50,
    "large": 100_000,
    "named": ["ash", "birch", "ash#held", "ash#value"],
    "open": Universe.open(),
}
BUDGETS = [(0.5, 0.0), (4.0, 0.0), (1.0, 1e-6)]
# Every unit with every universe, and every budget with each of them in turn.
BY_DEFAULT = [
    make_plan(protect=unit, epsilon=epsilon, delta=delta, universe=universe, **SIZES)
    for (unit, universe), (epsilon, delta) in zip(
        itertools.product(("event", "user", "l1:1", "l1:8"), UNIVERSES.values()),
        itertools.cycle(BUDGETS),
        strict=False,
    )
]
OTHERS = [
    make_plan(protect="user", epsilon=1.0, universe=50, mechanism=name, **SIZES, **more)
    for name, more in (
        ("projection-choice", {"form": "unsigned", "values": "nonnegative"}),
        ("projection-choice", {"form": "bins", "decode": "table"}),
        ("projection-choice", {"form": "unsigned", "values": "set", "decode": "direct"}),
        ("collision", {}),
        ("collision-signed", {}),
        ("pckv", {}),
    )
]
CLIENTS = [Client(plan) for plan in BY_DEFAULT] + [
    Client(plan, policy=Policy.pinned(plan.digest, baselines=[plan.mechanism]))
    if mechanism_of(plan).baseline
    else Client(plan)
    for plan in OTHERS
]

KEYS = st.one_of(
    st.integers(0, 60),
    st.integers(),
    st.sampled_from(["ash", "birch", b"ash", "\ud800", "", "1", True, None, 1.0, math.nan]),
    st.text(),
    st.binary(),
    st.floats(),
    st.tuples(st.integers(0, 60), st.floats()),
    st.sampled_from([np.int64(3), np.uint8(4), np.float64(5.0), np.str_("ash"), np.bool_(True)]),
)
VALUES = st.one_of(
    st.floats(-1, 1),
    st.floats(),
    st.integers(),
    st.none(),
    st.booleans(),
    st.text(max_size=3),
    st.complex_numbers(),
    st.decimals(),
    st.fractions(),
    st.sampled_from([10**400, -(10**400), np.float32("nan"), np.True_, 5e-324, -0.0, [1], {}]),
)
ITEMS = st.one_of(
    st.dictionaries(KEYS, VALUES, max_size=12),
    st.lists(KEYS, max_size=40),
    st.sets(st.integers(0, 60), max_size=40),
    KEYS,
    st.lists(st.integers(0, 2**63 - 1), max_size=9, unique=True).map(SparseVector),
    st.lists(st.floats(), max_size=4).map(np.array),
)


def sent(client, items):
    return client.encode(client.report(items))


@pytest.fixture(scope="module")
def lengths():
    return [len(sent(client, {})) for client in CLIENTS]


@given(ITEMS)
@example({1: Fraction(10**400), 2: Decimal("sNaN"), 3: math.inf})
@example([[1, 2], {}, set(), object()])
@example(dict.fromkeys(range(50), -1.0))
def test_one_report_of_one_length(lengths, items):
    assert [len(sent(client, items)) for client in CLIENTS] == lengths


@given(st.dictionaries(KEYS, VALUES, max_size=12))
def test_entries_too(lengths, entries):
    assert [len(sent(client, entry_vector(entries))) for client in CLIENTS] == lengths


def test_many_more_items_than_the_plan_expects(lengths):
    for items in (range(5000), dict.fromkeys(range(-2500, 2500), 0.5)):
        assert [len(sent(client, items)) for client in CLIENTS] == lengths


def test_the_mutant_that_checks_strictly_stays_silent():
    """What this file shows is not so of `Plan.vector`, which a client used to call."""
    silent = 0
    for plan in BY_DEFAULT:
        for hostile in ({"oak": 1.0}, {1: 2.0}, {1: math.nan}, [2**70]):
            try:
                plan.vector(hostile)
            except InvalidInput:
                silent += 1
    assert silent >= 3 * len(BY_DEFAULT)
