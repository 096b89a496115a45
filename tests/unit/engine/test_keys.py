"""Ids of many keys are those of the plan, and so are the errors."""

import numpy as np
import pytest

from faintly.core import Universe
from faintly.engine import keys
from faintly.errors import UnknownKey
from faintly.planner import make_plan

MANY = keys.BULK_KEYS + 44


def plan_of(universe):
    return make_plan(
        protect="event",
        epsilon=1.0,
        sparsity=4,
        clients=1000,
        universe=universe,
        mechanism="retrieval",
        salt=bytes(range(16)),
    )


OPEN = plan_of(Universe.open())
ASCII = [f"page/{number}" for number in range(MANY)]
KINDS = {
    "few": ASCII[:3],
    "none": [],
    "ascii": ASCII,
    "tuple": tuple(ASCII),
    "lengths": ["x" * number for number in range(MANY)],
    "accents": [f"é{number}☃" for number in range(MANY)],
    "wide": [f"𝔉{number}" for number in range(MANY)],
    "bytes": [bytes([number % 256]) * (number % 70) for number in range(MANY)],
    "mixed": [*ASCII, b"page/1", 7],
    "integers": list(range(MANY)),
    "numpy text": np.array(ASCII),
    "numpy bytes": np.array([key.encode() for key in ASCII]),
    "numpy objects": np.array(ASCII, dtype=object),
    "numpy integers": np.arange(MANY),
    "numpy strings": [np.str_(key) for key in ASCII],
}


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_the_plan(kind):
    found = keys.ids_of(OPEN, KINDS[kind])
    assert found.dtype == np.uint64
    np.testing.assert_array_equal(found, OPEN.ids(KINDS[kind]))


def test_a_generator_is_read_once():
    np.testing.assert_array_equal(keys.ids_of(OPEN, iter(ASCII)), OPEN.ids(ASCII))


def test_long_lists_go_through_the_kernel(monkeypatch):
    """A list that fell back to the plan would be right and slow: nobody would notice."""
    monkeypatch.setattr(type(OPEN), "ids", None)
    for kind in ("ascii", "tuple", "accents", "bytes", "numpy text", "numpy objects"):
        assert len(keys.ids_of(OPEN, KINDS[kind])) == MANY


BAD = {
    "surrogate": [*ASCII, "\ud800", "\ud801"],
    "float": [*ASCII, 1.5],
    "bool": [*ASCII, True],
    "negative": [*ASCII, -1],
    "numpy surrogate": np.array([*ASCII, "\ud800"]),
}


@pytest.mark.parametrize("why", BAD)
def test_errors_are_those_of_the_plan(why):
    with pytest.raises(UnknownKey) as wanted:
        OPEN.ids(BAD[why])
    with pytest.raises(UnknownKey) as found:
        keys.ids_of(OPEN, BAD[why])
    assert str(found.value) == str(wanted.value)
    assert f"position {MANY}" in str(found.value)


def test_other_universes_are_left_to_the_plan():
    names = plan_of(Universe.named(ASCII))
    np.testing.assert_array_equal(keys.ids_of(names, ASCII), np.arange(MANY))
    indexed = plan_of(MANY)
    np.testing.assert_array_equal(keys.ids_of(indexed, np.arange(MANY)), np.arange(MANY))
    with pytest.raises(UnknownKey, match="outside"):
        keys.ids_of(indexed, [MANY])
