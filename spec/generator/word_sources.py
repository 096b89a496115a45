"""Sources of words for tests: listed ones, hashed ones, and a recorder of what was used."""

import hashlib
from collections.abc import Iterable

import numpy as np

from faintly.core import WordArray
from faintly.primitives.entropy import Rng


class WordsExhausted(LookupError):
    """A test vector lists fewer words than were asked for."""


class GivenWords:
    """Hands out the listed 32-bit words in their order, and no others.

    >>> source = GivenWords([7, 8, 9])
    >>> source.words(2).tolist(), source.left
    ([7, 8], 1)
    """

    def __init__(self, words: Iterable[int]) -> None:
        self._words = np.array(list(words), dtype=np.uint32)
        self._used = 0

    @property
    def left(self) -> int:
        """Return how many words nobody has asked for yet."""
        return len(self._words) - self._used

    def words(self, count: int) -> WordArray:
        """Return the next `count` words, or raise where the list ends."""
        if count > self.left:
            raise WordsExhausted(f"{count} words asked for, {self.left} of the list are left")
        start, self._used = self._used, self._used + count
        return self._words[start : self._used].copy()


class HashedWords:
    """Endless repeatable words: BLAKE2s of a label and a counter, eight words at a time."""

    def __init__(self, label: str) -> None:
        self._label = label.encode()
        self._counter = 0
        self._spare: list[int] = []

    def words(self, count: int) -> WordArray:
        """Return the next `count` words."""
        while len(self._spare) < count:
            block = self._counter.to_bytes(4, "little") + self._label
            digest = hashlib.blake2s(block).digest()
            self._spare += np.frombuffer(digest, dtype="<u4").tolist()
            self._counter += 1
        taken, self._spare = self._spare[:count], self._spare[count:]
        return np.array(taken, dtype=np.uint32)


class RecordedWords:
    """Passes words on from another source and keeps a list of them in `used`."""

    def __init__(self, source: Rng) -> None:
        self._source = source
        self.used: list[int] = []

    def words(self, count: int) -> WordArray:
        """Return the next `count` words of the source."""
        drawn = self._source.words(count)
        self.used += drawn.tolist()
        return drawn
