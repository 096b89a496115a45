"""Keys become ids by stated rules; a client's own keys never show in an error."""

import hashlib

import numpy as np
import pytest

from faintly.core import Universe
from faintly.errors import InvalidPlan, InvalidVector, UnknownKey

SALT = bytes(range(16))


def ids(universe, keys, *, private=True):
    return universe.ids(keys, SALT, private=private).tolist()


@pytest.mark.parametrize("keys", [[0, 9, 3], (0, 9, 3), np.array([0, 9, 3], np.int8), range(10)])
def test_an_index_is_its_own_id(keys):
    assert ids(Universe.indexed(10), keys) == list(keys)


@pytest.mark.parametrize(
    ("keys", "position"),
    [([0, 10], 1), ([-1], 0), ([3, 2**40], 1), (np.array([1, 2**63], np.uint64), 1)],
)
def test_an_index_outside_is_named_by_position_only(keys, position):
    with pytest.raises(InvalidVector) as caught:
        ids(Universe.indexed(10), keys)
    assert str(caught.value) == f"key at position {position} is outside 0..9"


@pytest.mark.parametrize("key", ["4711", 4711.5, None, True, b"4711", (1, 2)])
def test_an_index_must_be_an_integer(key):
    with pytest.raises(InvalidVector, match=r"^key at position 0 is not an integer index$"):
        ids(Universe.indexed(10), [key])


def test_the_position_of_a_key_that_is_no_integer_is_its_own():
    with pytest.raises(InvalidVector, match=r"^key at position 2 is not an integer index$"):
        ids(Universe.indexed(10), [1, 2, "three"])


def test_a_public_question_may_be_quoted():
    with pytest.raises(UnknownKey, match="'oak'"):
        ids(Universe.named(["ash"]), ["oak"], private=False)
    with pytest.raises(UnknownKey, match="12"):
        ids(Universe.indexed(10), [12], private=False)


def test_names_have_their_position_as_id():
    universe = Universe.named(["ash", "birch"])
    assert ids(universe, ["birch", "ash"]) == [1, 0]
    assert (universe.size, universe.names[1]) == (2, "birch")
    with pytest.raises(InvalidVector) as caught:
        ids(universe, ["ash", "secret"])
    assert str(caught.value) == "key at position 1 is not one of the plan's names"


@pytest.mark.parametrize("key", [b"ash", 0, None, 0.5])
def test_a_name_must_be_text(key):
    with pytest.raises(InvalidVector, match=r"^key at position 0 is "):
        ids(Universe.named(["ash"]), [key])


def test_open_keys_are_hashed_as_utf8_without_normalisation():
    universe = Universe.open()
    digest = hashlib.blake2s("é".encode(), digest_size=8, key=SALT).digest()
    assert ids(universe, ["é"]) == [int.from_bytes(digest, "little")]
    assert ids(universe, ["é", "é".encode()])[0] == ids(universe, ["é".encode()])[0]
    assert ids(universe, ["é"]) != ids(universe, ["e\u0301"])
    assert ids(universe, [""]) != ids(universe, ["\0"])


def test_open_integers_are_their_own_ids():
    assert ids(Universe.open(), [0, np.int64(5), 2**64 - 1]) == [0, 5, 2**64 - 1]
    assert ids(Universe.open(), np.array([7, 2**63], np.uint64)) == [7, 2**63]
    assert Universe.open().size is None


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        ("a\ud800", "has a lone surrogate"),
        (-1, "is outside 0..2^64-1"),
        (2**64, "is outside 0..2^64-1"),
        (0.5, "is neither text, bytes nor an integer"),
        (True, "is neither text, bytes nor an integer"),
        (None, "is neither text, bytes nor an integer"),
    ],
)
def test_open_keys_that_are_refused(key, rule):
    with pytest.raises(InvalidVector) as caught:
        ids(Universe.open(), ["fine", key])
    assert str(caught.value) == f"key at position 1 {rule}"


def test_no_keys_are_no_ids():
    for universe in (Universe.indexed(3), Universe.named(["a"]), Universe.open()):
        found = universe.ids([], SALT, private=True)
        assert (found.dtype, len(found)) == (np.uint64, 0)


@pytest.mark.parametrize("size", [0, -1, 2**31 + 1])
def test_impossible_sizes(size):
    with pytest.raises(InvalidPlan, match=f"got {size}$"):
        Universe.indexed(size)


@pytest.mark.parametrize("names", [[], [""], ["a", "a"], ["a", 3], ["\udfff"]])
def test_impossible_names(names):
    with pytest.raises(InvalidPlan):
        Universe.named(names)


def test_the_largest_universe_is_allowed():
    assert Universe.indexed(2**31).size == 2**31
