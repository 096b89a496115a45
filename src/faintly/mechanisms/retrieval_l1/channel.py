"""The channel of retrieval-l1: what a held item answers, in integers out of 2^32.

Of q symbols, `marked` say +1, as many say -1, and the rest say nothing. An item of value v is
first rounded to its sign, with probability |v| exactly, or to 0. A sign answers one of its own
symbols with probability plus/2^32, one of the other sign's with minus/2^32, else one that says
nothing; within its class the symbol is uniform. Zero, like an item that is not held, is uniform
over all. So P(y|v) = ρ_v(y)/q with ρ_v = 1 - |v| + |v|·ρ, linear in |v|.

l1 privacy needs |d ln ρ_v/dv| ≤ ε/L, that is, every ρ in [1/γ, γ] with γ = 1 + ε/L
(retrieval_l1.proof.md, Lemma 1). The best use of that is ρ = γ for the sign's own
symbols and 1/γ for all others, a fraction 1/(γ+1) = L/(2L+ε) of them being marked.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from faintly.core import FloatArray, IntArray
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng
from faintly.primitives.noise import FULL
from faintly.primitives.rounding import bernoulli


@dataclass(frozen=True, kw_only=True)
class Channel:
    """Symbols 0..marked-1 say +1, the next `marked` say -1, the others nothing."""

    order: int  # q, the number of symbols
    marked: int  # symbols for each sign
    plus: int  # weight out of 2^32 of the sign's own symbols together
    minus: int  # weight of the other sign's symbols together

    @property
    def silent(self) -> int:
        """Return how many symbols say nothing."""
        return self.order - 2 * self.marked

    @cached_property
    def ratios(self) -> list[Fraction]:
        """Return ρ of each class of symbols: own, other, and silent if there are any."""
        share = Fraction(self.order, FULL)
        ratios = [share * self.plus / self.marked, share * self.minus / self.marked]
        if self.silent:
            ratios.append(share * (FULL - self.plus - self.minus) / self.silent)
        return ratios

    @property
    def slope(self) -> Fraction:
        """Return the largest |d ln ρ_v/dv|: the loss for each unit of L1 distance."""
        return max(*self.ratios, 1 / min(self.ratios)) - 1

    @property
    def gain(self) -> Fraction:
        """Return the mean reading of an item of value 1."""
        return Fraction(self.plus - self.minus, FULL)

    @property
    def scale(self) -> float:
        """Return the value of one unit of the readings."""
        return float(1 / self.gain)

    @cached_property
    def absent_moment(self) -> float:
        """Return the second moment of the estimate at an item that is not held."""
        return float(Fraction(2 * self.marked, self.order) / self.gain**2)

    @cached_property
    def present_moment(self) -> float:
        """Return the second moment of the estimate at an item of value 1 or -1."""
        return float(Fraction(self.plus + self.minus, FULL) / self.gain**2)

    def variance_at(self, size: float) -> float:
        """Return n·Var at a key for which every client has a value of this size."""
        return (1 - size) * self.absent_moment + size * self.present_moment - size**2

    @property
    def worst_variance(self) -> float:
        """Return the largest n·Var over all values; it is quadratic in their size."""
        excess = self.present_moment - self.absent_moment
        return self.variance_at(min(1.0, max(0.0, excess / 2)))

    @cached_property
    def readings(self) -> IntArray:
        """Return what each symbol counts: 1, -1 or 0."""
        return np.repeat([1, -1, 0], [self.marked, self.marked, self.silent]).astype(np.int64)

    def factors(self, value: float) -> FloatArray:
        """Return ρ_v of every symbol for an item of value v."""
        own, other, silent = (*map(float, self.ratios), 1.0)[:3]
        pair = [own, other] if value > 0 else [other, own]
        heavy = np.repeat([*pair, silent], [self.marked, self.marked, self.silent])
        return 1 - abs(value) + abs(value) * heavy

    def draw(self, values: FloatArray, rng: Rng) -> IntArray:
        """Return a symbol for each value in [-1, 1].

        Privacy: the guarantee rests on the rounding as well as on the weights, so |v| is compared
        with random bits exactly.
        """
        certain = bernoulli(np.abs(values), rng)
        words = rng.words(len(values))
        own = words < self.plus
        other = ~own & (words < self.plus + self.minus)
        silent = ~own & ~other
        negative = np.where(values < 0, own, other)
        start = np.where(silent, 2 * self.marked, np.where(negative, self.marked, 0))
        count = np.where(silent, self.silent, self.marked)
        start, count = np.where(certain, start, 0), np.where(certain, count, self.order)
        return start + uniform_below(count, rng)


def best_channel(order: int, marked: int, slope: Fraction) -> Channel:
    """Return the channel of largest gain with this many marked symbols and at most this slope.

    The gain of the result is 0 or less where 32 bits are too few.
    """
    top = 1 + slope
    silent = order - 2 * marked
    minus = math.ceil(FULL * Fraction(marked, order) / top)
    if silent:
        least = math.ceil(FULL * Fraction(silent, order) / top)
        most = math.floor(FULL * Fraction(marked, order) * top)
        plus = min(most, FULL - minus - least)
    else:
        plus = FULL - minus
    return Channel(order=order, marked=marked, plus=plus, minus=minus)


def best_marked(order: int, slope: Fraction) -> Channel:
    """Return the best channel over `order` symbols: the marked fraction next to 1/(γ+1)."""
    ideal = order / (2 + slope)
    tried = {min(max(1, int(ideal) + more), order // 2) for more in (0, 1)}
    return max((best_channel(order, marked, slope) for marked in tried), key=_quality)


def _quality(channel: Channel) -> Fraction:
    """Return 1/(n·Var) at an absent item, or less where there is no gain."""
    return channel.gain * abs(channel.gain) * Fraction(channel.order, 2 * channel.marked)
