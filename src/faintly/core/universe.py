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
from typing import Any, Self

import numpy as np

from faintly.core.arguments import listed, whole
from faintly.core.arrays import AnyArray, IdArray
from faintly.errors import InvalidPlan, InvalidVector, UnknownKey

Key = str | bytes | int
SURROGATE = "has a lone surrogate"
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
        size = whole(size, "a universe's size")
        if not 1 <= size <= MAX_SIZE:
            raise InvalidPlan(f"universe size must be between 1 and {MAX_SIZE}, got {size}")
        return cls("indexed", size)

    @classmethod
    def named(cls, names: Sequence[str]) -> Self:
        """Return the universe of the given names, in their order."""
        names = listed(names, "a universe's names", InvalidPlan)
        if not all(isinstance(name, str) for name in names):
            raise InvalidPlan(
                "a universe of names needs text; for numbers 0..SIZE-1 give the size alone, and "
                "for any keys the word open"
            )
        if not names or not all(names):
            raise InvalidPlan("a named universe needs at least one name, and no empty ones")
        names = [str(name) for name in names]  # not numpy's string type
        positions = {name: position for position, name in enumerate(names)}
        if len(positions) != len(names):
            raise InvalidPlan("a named universe lists a name twice; remove the repetition")
        try:
            "".join(names).encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidPlan("a name has a lone surrogate, which UTF-8 cannot write") from None
        return cls("named", len(names), tuple(names), positions)

    @classmethod
    def open(cls) -> Self:
        """Return the universe of all texts, byte strings and 64-bit integers."""
        return cls("open")

    def ids(self, keys: Iterable[Key] | AnyArray, salt: bytes, *, private: bool) -> IdArray:
        """Return the id of each key, or raise for the first that is not in the universe.

        Args:
            keys: integers for an indexed universe, names for a named one, anything for an open one.
            salt: the plan's salt, which keys the hash of an open universe.
            private: True where the keys are a client's own, so that errors must not show them.
        """
        sequence = keys if isinstance(keys, np.ndarray | list | tuple) else listed(keys, "keys")
        found, known = self.known(sequence, salt)
        if not known.all():
            position = int(np.argmin(known))
            raise self._bad(sequence[position], position, private)
        return found

    def known(self, keys: Sequence[Any] | AnyArray, salt: bytes) -> tuple[IdArray, AnyArray]:
        """Return the id of each key, and which keys this universe has; other ids mean nothing."""
        numbers = integers_or_list(keys) if self.kind == "indexed" else keys
        if isinstance(numbers, np.ndarray) and numbers.dtype.kind in "iu":
            known = numbers >= 0
            if self.size is not None:
                known &= numbers < self.size
            return numbers.astype(np.uint64), known
        found = [self._id(key, salt) for key in keys]
        known = np.array([id_ is not None for id_ in found], dtype=bool)
        return np.array([id_ or 0 for id_ in found], dtype=np.uint64), known

    def _id(self, key: Any, salt: bytes) -> int | None:
        if not is_key(key):
            return None
        if self.kind == "named":
            return self._positions.get(key) if isinstance(key, str) else None
        if not isinstance(key, str | bytes):
            return int(key) if 0 <= key < (self.size or 2**64) else None
        if self.kind == "indexed":
            return None
        try:
            return key_hash(key if isinstance(key, bytes) else key.encode("utf-8"), salt)
        except UnicodeEncodeError:
            return None

    def _bad(self, key: Any, position: int, private: bool) -> Exception:
        """Return the error of a key that has no id."""
        rule = self._rule(key)
        if private:
            return InvalidVector(f"key at position {position} {rule}")
        # A lone surrogate cannot be printed.
        shown = "" if rule == SURROGATE else int(key) if isinstance(key, np.integer) else key
        return UnknownKey(f"key {shown!r} at position {position} {rule}")

    def _rule(self, key: Any) -> str:
        whole = is_key(key) and not isinstance(key, str | bytes)
        if self.kind == "indexed" and not whole:
            return "is not an integer index"
        if not is_key(key):
            return "is neither text, bytes nor an integer"
        if self.kind == "named" and not isinstance(key, np.integer):
            return "is not one of the plan's names"
        if not whole:
            return SURROGATE
        return "is outside 0..2^64-1" if self.size is None else f"is outside 0..{self.size - 1}"


def is_key(key: object) -> bool:
    """Return whether an object can be a key of some universe; True and False cannot."""
    return isinstance(key, str | bytes | int | np.integer) and not isinstance(key, bool)


def key_hash(data: bytes, salt: bytes) -> int:
    """Return the 64-bit id of a byte string: BLAKE2s keyed with the salt, little-endian."""
    return int.from_bytes(hashlib.blake2s(data, digest_size=8, key=salt).digest(), "little")


def integers_or_list(keys: Sequence[Any] | AnyArray) -> Sequence[Any] | AnyArray:
    """Return keys that are all 64-bit integers as an array, and others as they are."""
    if isinstance(keys, np.ndarray) or not keys or not all(type(key) is int for key in keys):
        return keys
    for kind in (np.int64, np.uint64):
        try:
            return np.array(keys, dtype=kind)
        except OverflowError:
            continue
    return keys
