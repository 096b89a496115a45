"""The agreed key space, and how a key becomes a 64-bit id.

indexed  keys are 0..size-1, and a key is its own id
named    keys come from a fixed list, and an id is the position in it
open     any text, bytes or 64-bit integer; text and bytes become the first 8 bytes
         of BLAKE2s keyed with the plan's salt, integers are their own id
Text is hashed as its UTF-8 bytes without normalisation; lone surrogates are refused.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from faintly.core.arrays import AnyArray, IdArray
from faintly.errors import InvalidPlan, InvalidVector, UnknownKey

Key = str | bytes | int
MAX_SIZE = 2**31  # a D-bit code must fit the 32-bit arithmetic of the JavaScript client


@dataclass(frozen=True, slots=True)
class Universe:
    """The keys one collection can ask about."""

    kind: str
    size: int | None = None
    names: tuple[str, ...] | None = field(default=None, repr=False)
    _positions: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def indexed(cls, size: int) -> Self:
        """Return the universe of the integers 0..size-1."""
        if not 1 <= size <= MAX_SIZE:
            raise InvalidPlan(f"universe size must be between 1 and {MAX_SIZE}, got {size}")
        return cls("indexed", size)

    @classmethod
    def named(cls, names: Sequence[str]) -> Self:
        """Return the universe of the given names, in their order."""
        if not names or not all(isinstance(name, str) and name for name in names):
            raise InvalidPlan("a named universe needs at least one name, and no empty ones")
        positions = {name: position for position, name in enumerate(names)}
        if len(positions) != len(names):
            raise InvalidPlan("a named universe lists a name twice; remove the repetition")
        for name in names:
            _utf8(name, InvalidPlan)
        return cls("named", len(names), tuple(names), positions)

    @classmethod
    def open(cls) -> Self:
        """Return the universe of all texts, byte strings and 64-bit integers."""
        return cls("open")

    def ids(self, keys: Iterable[Key] | AnyArray, salt: bytes, *, private: bool) -> IdArray:
        """Return the id of each key.

        Args:
            keys: integers for an indexed universe, names for a named one, anything for an open one.
            salt: the plan's salt, which keys the hash of an open universe.
            private: True where the keys are a client's own, so that errors must not show them.
        """
        if self.kind == "indexed" or (isinstance(keys, np.ndarray) and keys.dtype.kind in "iu"):
            return self._integers(_listed(keys), private)
        out = np.empty(len(listed := _listed(keys)), dtype=np.uint64)
        for position, key in enumerate(listed):
            out[position] = self._id(key, position, salt, private)
        return out

    def label(self, index: int) -> Key:
        """Return the key that stands at `index` of an indexed or named universe."""
        return self.names[index] if self.names is not None else index

    def _integers(self, listed: Sequence[Key] | AnyArray, private: bool) -> IdArray:
        keys = np.asarray(listed)
        if keys.size == 0:
            return np.zeros(0, dtype=np.uint64)
        if keys.dtype.kind not in "iu":
            raise _bad(private, *_first_other(listed), "is not an integer index")
        limit = 2**64 if self.size is None else self.size
        outside = (keys < 0) if keys.dtype.kind == "i" else np.zeros(keys.shape, bool)
        if limit < 2**63:
            outside = outside | (keys >= limit)
        if outside.any():
            position = int(np.argmax(outside))
            raise _bad(private, position, keys[position], f"is outside 0..{limit - 1}")
        return keys.astype(np.uint64)

    def _id(self, key: Key, position: int, salt: bytes, private: bool) -> int:
        if isinstance(key, np.integer):
            key = int(key)
        if isinstance(key, bool) or not isinstance(key, str | bytes | int):
            raise _bad(private, position, key, "is neither text, bytes nor an integer")
        if self.kind == "named":
            found = self._positions.get(key) if isinstance(key, str) else None
            if found is None:
                raise _bad(private, position, key, "is not one of the plan's names")
            return found
        if isinstance(key, int):
            if not 0 <= key < 2**64:
                raise _bad(private, position, key, "is outside 0..2^64-1")
            return key
        try:
            data = key if isinstance(key, bytes) else key.encode("utf-8")
        except UnicodeEncodeError:
            raise _bad(private, position, "", "has a lone surrogate") from None
        return key_hash(data, salt)


def key_hash(data: bytes, salt: bytes) -> int:
    """Return the 64-bit id of a byte string: BLAKE2s keyed with the salt, little-endian."""
    return int.from_bytes(hashlib.blake2s(data, digest_size=8, key=salt).digest(), "little")


def _utf8(text: str, error: type[Exception]) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise error("a name has a lone surrogate, which UTF-8 cannot write") from None


def _listed(keys: Iterable[Key] | AnyArray) -> Sequence[Key] | AnyArray:
    return keys if isinstance(keys, np.ndarray | list | tuple) else list(keys)


def _first_other(keys: Sequence[Key] | AnyArray) -> tuple[int, object]:
    """Return position and value of the first key that is not an integer."""
    for position, key in enumerate(keys):
        if isinstance(key, bool | np.bool_) or not isinstance(key, int | np.integer):
            return position, key
    return 0, keys[0]  # integers all of them, but too large for 64 bits


def _bad(private: bool, position: int, key: object, rule: str) -> Exception:
    if private:
        return InvalidVector(f"key at position {position} {rule}")
    shown = int(key) if isinstance(key, np.integer) else key
    return UnknownKey(f"key {shown!r} at position {position} {rule}")
