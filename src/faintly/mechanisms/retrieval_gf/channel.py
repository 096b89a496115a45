"""The channel of retrieval-gf: what a held item answers, in integers out of 2^32.

q symbols come in mirrored pairs. An item of (rounded) value +1 answers the first symbol of a
pair of class c with probability plus[c]/2^32 and the second with minus[c]/2^32; value -1 swaps
them; value 0, like an item that is not held, answers each symbol with probability 1/q. The
server adds readings[c] for the first symbol of a pair and subtracts it for the second, so

    E[reading | u] = u·gain,   gain = Σ_c pairs[c]·(plus[c] - minus[c])·readings[c] / 2^32.

Symbols are numbered class by class, all first ones before all second ones.

The best channel for a budget: a pair of symbols has factors (ρ₊, ρ₋) = q·(probability for +1, for
-1). With D = ρ₊ - ρ₋ the best readings are proportional to D and give n·Var = 4/χ at an item that
is not held, with χ = (2/q)·Σ_pairs D². Maximizing a convex sum over pairs that share one equation
(Σρ = q) puts all pairs but one at corners of the feasible set:

full, polynomial   ρ in [1/g, g], ρ₊/ρ₋ ≤ g:   N (1/g, 1/g)  E (1, 1/g)  A (g, 1)  M (g, g)
span-safe          max ρ/min ρ ≤ g:            N (m, m)      A (mg, m),  m set by the equation

with g = e^ε. Everything is integers out of 2^32, rounded so that the constraints hold exactly.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from faintly import kernels
from faintly.core import FloatArray, IntArray, WordArray
from faintly.errors import BoundDoesNotApply
from faintly.primitives import noise
from faintly.primitives.entropy import Rng
from faintly.primitives.noise import FULL

WHOLE_SEARCH = 32  # up to this many pairs every count of each corner is tried
WINDOW = 3  # beyond, counts this close to the continuous optimum
READING_LOSS = 1e-6  # relative n·Var given up for small integer readings
MAX_READING = 1024

PairClass = tuple[int, int, int]  # pairs, plus, minus


@dataclass(frozen=True, kw_only=True)
class Channel:
    """Integer weights and readings of the classes of symbol pairs."""

    bits: int  # of a symbol
    pairs: tuple[int, ...]  # pairs in each class
    plus: tuple[int, ...]  # weight out of 2^32 of the first symbol of a pair, for value +1
    minus: tuple[int, ...]  # the same of the second symbol
    readings: tuple[int, ...]  # what the server counts

    @property
    def order(self) -> int:
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
        return float(Fraction(total, self.order) / self.gain**2)

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
            return np.ones(self.order)
        heavy: FloatArray = self.weights.astype(np.float64) * (self.order / FULL)
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
        one = Fraction(FULL, self.order)  # the weight of a symbol of an item that is not held
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


def best_pairs(symbols: int, epsilon: float) -> list[PairClass]:
    """Return the classes of the best full channel; q may be any number of at least 2.

    With an odd q one symbol is its own mirror image: it has the least weight and the reading 0,
    and is not among the classes.
    """
    shrink = noise.exp_at_least(-noise.exact(epsilon))
    one = Fraction(FULL, symbols)
    least, most = math.ceil(one * shrink), math.floor(one / shrink)
    if most <= least:
        raise BoundDoesNotApply(
            f"epsilon is too small for {symbols} symbols out of 2^32; use fewer symbol_bits"
        )
    kinds = [  # N, E, A and M, rounded toward privacy
        (least, least),
        (math.floor(least / shrink), least),
        (most, math.ceil(most * shrink)),
        (most, most),
    ]
    pairs, alone = divmod(symbols, 2)
    best, found = -1, None
    for counts in _counts(pairs, kinds, symbols):
        used = sum(n * (a + b) for n, (a, b) in zip(counts, kinds, strict=True))
        rest = FULL - alone * least - used
        if not 2 * least <= rest <= 2 * most:
            continue
        # The last pair has the largest difference that its weight allows.
        high = min(most, rest - least, math.floor(rest / (1 + shrink)))
        classes = [(1, high, rest - high)]
        classes += [(n, *kind) for n, kind in zip(counts, kinds, strict=True)]
        score = sum(n * (a - b) ** 2 for n, a, b in classes)
        if score > best:
            best, found = score, classes
    assert found is not None
    return _merged(found)


def _counts(
    pairs: int, kinds: list[tuple[int, int]], symbols: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield how many pairs are N, E, A and M, with one pair left for the remainder."""
    share = _continuous(kinds, 2 * FULL / symbols)
    windows = []
    for kind in (1, 2, 3):
        middle = 0 if pairs <= WHOLE_SEARCH else round(share[kind] * pairs)
        reach = pairs if pairs <= WHOLE_SEARCH else WINDOW
        windows.append(range(max(0, middle - reach), min(pairs - 1, middle + reach) + 1))
    for even, apart, most in itertools.product(*windows):
        least = pairs - 1 - even - apart - most
        if least >= 0:
            yield least, even, apart, most


def _continuous(kinds: list[tuple[int, int]], mean: float) -> list[float]:
    """Return the best shares of N, E, A and M for infinitely many pairs of this mean weight."""
    totals = [a + b for a, b in kinds]
    squares = [(a - b) ** 2 for a, b in kinds]
    best, shares = -1.0, [0.0] * 4
    for low, high in itertools.combinations(range(4), 2):
        if not totals[low] <= mean <= totals[high] or totals[low] == totals[high]:
            continue
        upper = (mean - totals[low]) / (totals[high] - totals[low])
        value = upper * squares[high] + (1 - upper) * squares[low]
        if value > best:
            best, shares = value, [0.0] * 4
            shares[low], shares[high] = 1 - upper, upper
    return shares


def _merged(classes: list[PairClass]) -> list[PairClass]:
    """Return the classes in order of falling difference, equal ones merged."""
    counts: dict[tuple[int, int], int] = {}
    for count, plus, minus in classes:
        counts[plus, minus] = counts.get((plus, minus), 0) + count
    kept = [(n, a, b) for (a, b), n in counts.items() if n]
    return sorted(kept, key=lambda one: (one[2] - one[1], -one[1]))


def pairs_variance(classes: list[PairClass], symbols: int) -> float:
    """Return n·Var at an item that is not held, with the best real readings."""
    squares = sum(n * (a - b) ** 2 for n, a, b in classes)
    return float(Fraction(2 * FULL**2, symbols * squares))


def full_channel(bits: int, epsilon: float) -> Channel:
    """Return the best channel where one factor changes at a time."""
    return _with_readings(bits, best_pairs(2**bits, epsilon))


def span_safe_channel(bits: int, epsilon: float) -> Channel:
    """Return the best channel for which any factor may take another's place."""
    best, least = None, math.inf
    for heavy in range(1, 2 ** (bits - 1) + 1):
        classes = _span_safe_pairs(2**bits, heavy, epsilon)
        variance = pairs_variance(classes, 2**bits)
        if variance < least:
            best, least = classes, variance
    assert best is not None
    return _with_readings(bits, best)


def _span_safe_pairs(symbols: int, heavy: int, epsilon: float) -> list[PairClass]:
    growth = noise.growth_at_most(epsilon)
    low = math.ceil(FULL / (symbols + heavy * (growth - 1)))
    # The heavy symbols share what is left equally. The powers of two in their number divide
    # `symbols` and 2^32 too, so one of the next few weights leaves a multiple of it.
    while (FULL - (symbols - heavy) * low) % heavy:
        low += 1
    high = (FULL - (symbols - heavy) * low) // heavy
    if high <= low:
        raise BoundDoesNotApply("epsilon is too small for 32-bit weights; use a larger one")
    return _merged([(heavy, high, low), (symbols // 2 - heavy, low, low)])


def _with_readings(bits: int, classes: list[PairClass]) -> Channel:
    """Return the channel with the smallest readings that lose at most READING_LOSS."""
    optimum = pairs_variance(classes, 2**bits)
    pairs, plus, minus = zip(*classes, strict=True)
    widest = plus[0] - minus[0]
    for top in range(1, MAX_READING + 1):
        readings = tuple(
            (2 * top * (a - b) + widest) // (2 * widest) for a, b in zip(plus, minus, strict=True)
        )
        channel = Channel(bits=bits, pairs=pairs, plus=plus, minus=minus, readings=readings)
        if channel.absent_moment <= optimum * (1 + READING_LOSS):
            break
    return channel
