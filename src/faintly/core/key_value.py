"""Key-value data: each entry (key, value) of a client becomes two coordinates of its vector.

held   1 for every key that the client has
value  its value, in [-1, 1]
The mean of the first over clients is the key's frequency; the mean of the second divided by it
is the mean value among those who hold the key. An integer x becomes the integers 2x and 2x+1,
text and bytes get a suffix, so no two entries share a coordinate.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from faintly.core.arrays import AnyArray
from faintly.core.projection import number_of
from faintly.core.universe import Key, Universe, is_key
from faintly.errors import InvalidInput

SIDES = ("held", "value")


def entry_universe(universe: Universe) -> Universe:
    """Return the universe of the coordinates of entries whose keys are in `universe`."""
    if universe.names is not None:
        return Universe.named([str(key) for key in coordinates(universe.names)])
    return universe if universe.size is None else Universe.indexed(2 * universe.size)


def entry_vector(entries: Mapping[Key, float]) -> dict[Key, float]:
    """Return what a client reports for its entries: a mapping for `Client.report`.

    A key with the value 0 is held. One whose value is not a number is not held. Anything that is
    not a key stays as it is; the client leaves it out and counts it.

    >>> entry_vector({"Alien": 0.5})
    {'Alien#held': 1.0, 'Alien#value': 0.5}
    """
    if not isinstance(entries, Mapping):
        raise InvalidInput("entries must be a mapping of key to value, such as {'Alien': 0.5}")
    vector: dict[Key, float] = {}
    for key, value in entries.items():
        number = number_of(value)
        if not is_key(key):
            vector[key] = number
            continue
        held_key, value_key = coordinates([key])
        vector[held_key] = number if math.isnan(number) else 1.0
        vector[value_key] = number
    return vector


def coordinates(keys: Iterable[Key] | AnyArray) -> list[Key]:
    """Return the coordinates `held` and `value` of each key, in turn.

    >>> coordinates(["Alien", 3])
    ['Alien#held', 'Alien#value', 6, 7]
    """
    return [_coordinate(key, side) for key in keys for side in range(len(SIDES))]


def sides(keys: Sequence[Key] | AnyArray) -> tuple[list[Key], list[Key]]:
    """Return the coordinates `held` of all keys, and the coordinates `value` of all keys."""
    both = coordinates(keys)
    return both[0::2], both[1::2]


def _coordinate(key: Key, side: int) -> Key:
    if isinstance(key, str):
        return f"{key}#{SIDES[side]}"
    if isinstance(key, bytes):
        return key + b"#" + SIDES[side].encode()
    if not is_key(key):
        raise InvalidInput("a key is neither text, bytes nor an integer")
    return 2 * int(key) + side
