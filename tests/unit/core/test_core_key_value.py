"""Entries become two coordinates, and no two entries share one."""

import numpy as np
import pytest

from faintly.core import Universe
from faintly.core.key_value import coordinates, entry_universe, entry_vector, sides
from faintly.errors import InvalidInput


def test_an_entry_is_presence_and_value():
    made = entry_vector({"Alien": 0.5, b"Brazil": 0.0, 3: -1.0})
    assert made == {
        "Alien#held": 1.0,
        "Alien#value": 0.5,
        b"Brazil#held": 1.0,
        b"Brazil#value": 0.0,
        6: 1.0,
        7: -1.0,
    }


def test_coordinates_of_distinct_keys_are_distinct():
    keys = ["a", "a#held", "a#value", "a#held#held", b"a", 0, 1, 2]
    assert len(set(coordinates(keys))) == 2 * len(keys)


def test_sides_keep_the_order():
    assert sides(["a", "b"]) == (["a#held", "b#held"], ["a#value", "b#value"])
    assert sides(np.array([4, 0])) == ([8, 0], [9, 1])


def test_a_universe_doubles():
    assert entry_universe(Universe.indexed(5)).size == 10
    assert entry_universe(Universe.named(["a", "b"])).names == (
        "a#held",
        "a#value",
        "b#held",
        "b#value",
    )
    assert entry_universe(Universe.open()) == Universe.open()


@pytest.mark.parametrize("key", [1.5, True, None])
def test_other_keys_are_refused_without_showing_them(key):
    with pytest.raises(InvalidInput, match="neither text, bytes nor an integer"):
        coordinates([key])
