"""What a plan does not take is left out, moved or added up, and counted."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from faintly.core import SparseVector, Tally
from faintly.core.projection import number_of, project
from faintly.planner import make_plan


def plan_of(universe=10, sparsity=3):
    return make_plan(
        protect="event",
        epsilon=1.0,
        sparsity=sparsity,
        clients=9,
        universe=universe,
        mechanism="signed-binning",
    )


NAMED = plan_of(["ash", "birch"])
CASES = [
    ({1: 0.5, 2: -1}, {1: 0.5, 2: -1}, Tally()),
    ([3, 1], {1: 1, 3: 1}, Tally()),
    ([3, 3, 1], {1: 1, 3: 1}, Tally(repeated=1, clipped=1)),
    ({10: 1, -1: 1, 2**70: 1, "1": 1, None: 1, 1.0: 1, 4: 1}, {4: 1}, Tally(unknown=6)),
    ({1: 7, 2: -7.5, 3: math.inf, 4: 10**400}, {1: 1, 2: -1, 3: 1, 4: 1}, "clipped"),
    ({1: math.nan, 2: None, 3: "1", 4: 1j, 5: Decimal("sNaN"), 6: 0.25}, {6: 0.25}, "absent"),
    ({1: Fraction(1, 2), 2: Decimal("-0.25"), 3: True}, {1: 0.5, 2: -0.25, 3: 1}, Tally()),
    (range(5), dict.fromkeys(range(5), 1), Tally(beyond=2)),
    (7, {7: 1}, Tally()),
    (None, {}, Tally(unknown=1)),
    ("text", {}, Tally(unknown=1)),
    (np.array([[1, 2], [2, 11]]), {1: 1, 2: 1}, Tally(unknown=1, repeated=1, clipped=1)),
    (np.array(4), {4: 1}, Tally()),
    (SparseVector([1, 12], [0.5, 1]), {1: 0.5}, Tally(unknown=1)),
    ({0: 0.0, 1: -0.0}, {}, Tally()),
]


@pytest.mark.parametrize(("items", "held", "lost"), CASES)
def test_what_is_left_and_what_is_lost(items, held, lost):
    vector, tally = project(plan_of(), items)
    assert dict(zip(vector.indices.tolist(), vector.values.tolist(), strict=True)) == held
    if lost == "clipped":
        lost = Tally(clipped=4, beyond=1)
    if lost == "absent":
        lost = Tally(absent=5)
    assert tally == lost


def test_names_that_the_plan_does_not_have_are_left_out():
    vector, tally = project(NAMED, {"ash": 0.5, "oak": 1, b"birch": 1, 1: 1, "\ud800": 1})
    assert vector.indices.tolist() == [0]
    assert tally == Tally(unknown=4)
    assert len(project(NAMED, "ash")[0]) == 1


def test_text_and_its_bytes_are_one_key_of_an_open_universe():
    plan = make_plan(
        protect="event",
        epsilon=1.0,
        sparsity=3,
        clients=9,
        universe=NAMED.universe.open(),
        mechanism="signed-binning",
    )
    vector, tally = project(plan, {"ash": 0.75, b"ash": -0.5, "\ud800": 1, 2**64: 1, -1: 1})
    assert vector.values.tolist() == [0.25]
    assert tally == Tally(unknown=3, repeated=1)
    both, lost = project(plan, {"ash": math.inf, b"ash": -math.inf})
    assert len(both) == 0
    assert lost == Tally(repeated=1, absent=1)


@pytest.mark.parametrize(
    ("domain", "kept"),
    [
        ("signed", {1: -1.0, 2: -0.25, 3: 0.25, 4: 0.75, 5: 1.0}),
        ("nonnegative", {3: 0.25, 4: 0.75, 5: 1.0}),
        ("set", {4: 1.0, 5: 1.0}),
    ],
)
def test_values_go_to_the_nearest_that_is_taken(domain, kept):
    items = {1: -3, 2: -0.25, 3: 0.25, 4: 0.75, 5: 3}
    vector, tally = project(plan_of(sparsity=5), items, domain)
    assert dict(zip(vector.indices.tolist(), vector.values.tolist(), strict=True)) == kept
    assert tally.clipped == {"signed": 2, "nonnegative": 3, "set": 5}[domain]


def test_tallies_add_up():
    assert Tally(1, 2, 3, 4, 5) + Tally(unknown=10) == Tally(11, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("value", "number"),
    [(1, 1.0), (np.float32(0.5), 0.5), (np.True_, 1.0), (-(10**400), -math.inf)],
)
def test_numbers(value, number):
    assert number_of(value) == number
