"""The channel of retrieval-gf: what a held item answers, in integers out of 2^32.

q symbols come in mirrored pairs. An item of (rounded) value +1 answers the first symbol of a
pair of class c with probability plus[c]/2^32 and the second with minus[c]/2^32; value -1 swaps
them; value 0, like an item that is not held, answers each symbol with probability 1/q. The
server adds readings[c] for the first symbol of a pair and subtracts it for the second, so

    E[reading | u] = u·gain,   gain = Σ_c pairs[c]·(plus[c] - minus[c])·readings[c] / 2^32.

Symbols are numbered class by class, all first ones before all second ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from faintly import kernels
from faintly.core import FloatArray, IntArray, WordArray
from faintly.primitives import noise
from faintly.primitives.entropy import Rng
from faintly.primitives.noise import FULL


@dataclass(frozen=True, kw_only=True)
class Channel:
    """Integer weights and readings of the classes of symbol pairs."""

    bits: int  # of a symbol
    pairs: tuple[int, ...]  # pairs in each class
    plus: tuple[int, ...]  # weight out of 2^32 of the first symbol of a pair, for value +1
    minus: tuple[int, ...]  # the same of the second symbol
    readings: tuple[int, ...]  # what the server counts

    @property
    def size(self) -> int:
        """Return q, the number of symbols."""
        return 2**self.bits

    @cached_property
    def gain(self) -> Fraction:
        """Return the mean reading of an item of value 1."""
        classes = zip(self.pairs, self.plus, self.minus, self.readings, strict=True)
        return Fraction(sum(n * (a - b) * r for n, a, b, r in classes), FULL)

    @property
    def scale(self) -> float:
        """Return the value of one unit of the readings."""
        return float(1 / self.gain)

    @cached_property
    def absent_moment(self) -> float:
        """Return the second moment of the estimate at an item that is not held."""
        total = sum(2 * n * r * r for n, r in zip(self.pairs, self.readings, strict=True))
        return float(Fraction(total, self.size) / self.gain**2)

    @cached_property
    def present_moment(self) -> float:
        """Return the second moment of the estimate at an item of value 1 or -1."""
        classes = zip(self.pairs, self.plus, self.minus, self.readings, strict=True)
        total = sum(n * (a + b) * r * r for n, a, b, r in classes)
        return float(Fraction(total, FULL) / self.gain**2)

    @property
    def largest(self) -> float:
        """Return the largest value that one symbol can claim."""
        return max(self.readings) * self.scale

    @cached_property
    def weights(self) -> IntArray:
        """Return the weight out of 2^32 of every symbol for value +1."""
        return self._by_symbol(self.plus, self.minus)

    @cached_property
    def counted(self) -> IntArray:
        """Return the reading of every symbol."""
        return self._by_symbol(self.readings, [-reading for reading in self.readings])

    @cached_property
    def mirror(self) -> WordArray:
        """Return the other symbol of the pair of every symbol."""
        parts, start = [], 0
        for count in self.pairs:
            first = np.arange(start, start + count)
            parts += [first + count, first]
            start += 2 * count
        return np.concatenate(parts).astype(np.uint32)

    def _by_symbol(self, first: Sequence[int], second: Sequence[int]) -> IntArray:
        classes = zip(self.pairs, first, second, strict=True)
        return np.concatenate([np.repeat([a, b], n) for n, a, b in classes]).astype(np.int64)

    def factors(self, content: int) -> FloatArray:
        """Return ρ, the probability of every symbol times q, for a content of -1, 0 or 1."""
        if content == 0:
            return np.ones(self.size)
        heavy: FloatArray = self.weights.astype(np.float64) * (self.size / FULL)
        return heavy if content > 0 else heavy[self.mirror]

    def draw(self, contents: IntArray, rng: Rng) -> WordArray:
        """Return a symbol for each content in {-1, 0, 1}, from one word each.

        Privacy: the guarantee rests on this draw alone. Its probabilities are exactly the
        integer weights, however the contents were made.
        """
        words = rng.words(len(contents))
        drawn = np.searchsorted(np.cumsum(self.weights), words, side="right").astype(np.uint32)
        uniform = words >> np.uint32(32 - self.bits)
        return np.where(contents == 0, uniform, np.where(contents > 0, drawn, self.mirror[drawn]))

    def any_span_loss(self) -> Fraction:
        """Return ln(max ρ/min ρ): the loss when one factor may take another's place."""
        return noise.log_at_least(Fraction(max(self.plus), min(self.minus)))

    def one_factor_loss(self) -> Fraction:
        """Return the loss when one factor is added, removed or changed."""
        one = Fraction(FULL, self.size)  # the weight of a symbol of an item that is not held
        pairs = [Fraction(a, b) for a, b in zip(self.plus, self.minus, strict=True)]
        return noise.log_at_least(max(max(self.plus) / one, one / min(self.minus), *pairs))

    @cached_property
    def contrast(self) -> tuple[float, float]:
        """Return (max, Euclidean norm) of the Fourier coefficients of ρ/q off zero.

        They say how far from uniform a sum of several symbols is (proof note, Lemma 3).
        """
        both = np.stack([self.weights, self.weights[self.mirror]])
        kernels.walsh_hadamard(both)
        coefficients = np.abs(both[:, 1:]) / FULL
        norms = np.sqrt((coefficients**2).sum(axis=1))
        return float(coefficients.max()), float(norms.max())
