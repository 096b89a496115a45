"""What one item does: stay silent, or ask for m rows (or m + 1), and what a server makes of it.

With T_l the chance of asking for at least l rows, a set u ≠ 0 of rows has the mean f(u) = T_b of
its sign (-1)^<i,a_u>, where b is the bit length of u. A report reads

    r = Σ_{u≠0} w(u)·(-1)^<i,a_u>,  w(u) = w_1 up to m rows and w_2 with the last one,

a sum that depends on two things only: whether i is orthogonal to the first m rows, and to all.
Weights near f are best, and any are unbiased: mean = r / Σ w·f.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from faintly.core import FloatArray, IntArray, ReadingLaw
from faintly.errors import BoundDoesNotApply, InvalidPlan
from faintly.mechanisms import parameters as require
from faintly.primitives import noise
from faintly.primitives.noise import FULL

MAX_ROWS = 8  # of an item: 255 sums of rows, which is enough up to epsilon 5.5
MAX_WEIGHT = 16
WEIGHT_LOSS = 0.001  # of the variance, for smaller integers
SECOND_LEVEL = 0.97  # of the variance with one level: a second level must do better than that


@dataclass(frozen=True)
class Channel:
    """How many of 2^32 words make an item ask for m rows, and for m + 1."""

    rows: int  # m
    speak: tuple[int, ...]  # words for m rows and, with two levels, for m + 1

    @property
    def most(self) -> int:
        """Return the most rows that an item asks for."""
        return self.rows + len(self.speak) - 1

    @property
    def silent(self) -> int:
        """Return how many words leave an item silent."""
        return FULL - sum(self.speak)

    @property
    def tau(self) -> float:
        """Return the chance that an item speaks."""
        return sum(self.speak) / FULL

    @property
    def higher(self) -> float:
        """Return the share of speaking items that ask for the last row of two levels."""
        return self.speak[1] / sum(self.speak) if len(self.speak) == 2 else 0.0

    @property
    def growth(self) -> Fraction:
        """Return g': how much likelier a report can become by one more item."""
        asked = sum(words << (self.rows + step) for step, words in enumerate(self.speak))
        return Fraction(self.silent + asked, FULL)

    def loss(self) -> Fraction:
        """Return the larger of ln g' and -ln(1-τ), or a little more."""
        return noise.log_at_least(max(self.growth, Fraction(FULL, self.silent)))

    @cached_property
    def weights(self) -> tuple[int, int]:
        """Return w_1 and w_2, small integers that lose next to nothing; w_2 is 0 for one level."""
        if len(self.speak) == 1:
            return 1, 0
        least = 1 / self._mean(self.tau, self.tau * self.higher)
        for first in range(1, MAX_WEIGHT + 1):
            chosen = first, max(1, round(first * self.higher))
            if self._unheld(*chosen) <= (1 + WEIGHT_LOSS) * least:
                break
        return chosen

    @property
    def weights_of_sets(self) -> IntArray:
        """Return w(u) of every set u of rows."""
        first, second = self.weights
        made = np.full(2**self.most, second, dtype=np.int64)
        made[: 2**self.rows] = first
        made[0] = 0
        return made

    @property
    def _counts(self) -> tuple[int, int]:
        """Return how many sets of rows have w_1, and how many w_2."""
        return 2**self.rows - 1, 2**self.rows * (len(self.speak) - 1)

    def _mean(self, first: float, second: float) -> float:
        """Return Σ w·f for such weights: the mean of a reading of a held item."""
        low, high = self._counts
        return self.tau * (low * first + high * second * self.higher)

    def _unheld(self, first: float, second: float) -> float:
        low, high = self._counts
        return (low * first**2 + high * second**2) / self._mean(first, second) ** 2

    @property
    def scale(self) -> float:
        """Return the value of one unit of a reading."""
        return 1 / self._mean(*self.weights)

    @property
    def unheld(self) -> float:
        """Return V0: n·Var at a key that nobody holds."""
        return self._unheld(*self.weights)

    @cached_property
    def held(self) -> float:
        """Return V1: n·Var at a key that everybody holds."""
        readings = np.array(self.readings, dtype=np.float64)
        return float(self.held_chances @ readings**2) * self.scale**2 - 1

    def at_most(self, share: float) -> float:
        """Return the largest n·Var at a key of a set that at most this share of clients holds."""
        return max(self.unheld, (1 - share) * self.unheld + share * self.held)

    @property
    def readings(self) -> tuple[int, int, int]:
        """Return the readings: not orthogonal to the first rows, to these only, and to all."""
        first, second = self.weights
        low = (first - second) << self.rows
        return -first, low - first, low - first + (second << self.most)

    @property
    def unheld_chances(self) -> FloatArray:
        """Return the chance of each reading at a key that nobody holds."""
        first, every = 2.0**-self.rows, 2.0**-self.most
        return np.array([1 - first, first - every, every])

    @property
    def held_chances(self) -> FloatArray:
        """Return the chance of each reading at a key of value 1."""
        # An item that asked for m rows leaves the last of two levels to a coin.
        middle = self.tau * (1 - self.higher) / 2 if len(self.speak) == 2 else 0.0
        spoken = np.array([0.0, middle, self.tau - middle])
        chances: FloatArray = (1 - self.tau) * self.unheld_chances + spoken
        return chances

    @property
    def law(self) -> ReadingLaw:
        """Return the law of a reading at a key that nobody holds."""
        listed = zip(self.readings, self.unheld_chances.tolist(), strict=True)
        known = [(value, chance) for value, chance in listed if chance > 0]
        values, chances = zip(*known, strict=True)
        return ReadingLaw(values, chances)


def check(rows: object, speak: object) -> Channel:
    """Return the channel of a plan's parameters, or refuse parameters that describe none."""
    channel = Channel(
        require.integer(rows, "rows", 1, MAX_ROWS),
        require.integers(speak, "speak", range(1, 3), 1, FULL - 1),
    )
    if channel.silent <= 0:
        raise InvalidPlan("speak must leave words for silence")
    require.integer(channel.most, "rows of both levels", 1, MAX_ROWS)
    return channel


@lru_cache(maxsize=256)
def best(
    epsilon: float, share: float, rows: int | None = None, levels: int | None = None
) -> tuple[Channel, ...]:
    """Return the channels within epsilon, the least variance first.

    Args:
        epsilon: the budget.
        share: largest share of the clients that hold a key of interest.
        rows: m, or None for every number of rows.
        levels: 1 or 2, or None: two only where that is worth it.
    """
    many = range(1, MAX_ROWS + 1) if rows is None else [rows]
    single = [one for each in many if (one := _single(epsilon, each))]
    double = [one for each in many if (one := _double(epsilon, each))]
    if levels is None:
        least = min((one.at_most(share) for one in single), default=math.inf)
        double = [one for one in double if one.at_most(share) < SECOND_LEVEL * least]
    found = [*(single if levels != 2 else []), *(double if levels != 1 else [])]
    if not found:
        raise BoundDoesNotApply(
            f"no such rows and levels suit epsilon {epsilon:g}; leave the options out"
            if single or levels == 2
            else "epsilon is too small for 32-bit thresholds; use a larger one"
        )
    return tuple(_useful(sorted(found, key=lambda one: (one.at_most(share), one.most))))


def _useful(channels: list[Channel]) -> Iterator[Channel]:
    """Yield each channel with fewer rows than all before it; others cost bits for nothing."""
    fewest = MAX_ROWS + 1
    for one in channels:
        if one.most < fewest:
            fewest = one.most
            yield one


def _single(epsilon: float, rows: int) -> Channel | None:
    ratio = noise.growth_at_most(epsilon)
    most = FULL - math.ceil(FULL / ratio)
    words = min(most, math.floor((ratio - 1) * FULL / (2**rows - 1)))
    return Channel(rows, (words,)) if words > 0 else None


def _double(epsilon: float, rows: int) -> Channel | None:
    if rows == MAX_ROWS:
        return None
    ratio = noise.growth_at_most(epsilon)
    silent = math.ceil(FULL / ratio)
    spoken = FULL - silent
    higher = math.floor((ratio * FULL - silent - (spoken << rows)) / 2**rows)
    return Channel(rows, (spoken - higher, higher)) if 0 < higher < spoken else None
