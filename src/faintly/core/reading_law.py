"""The exact law of a reading: the sum of what n reports say about one key.

A report says one of a few integers about a key. Their chances are known where nobody holds the
key. Elsewhere the law is taken from the exponential family through that one: chances proportional
to chance·e^(t·value). For readings of two values the family has every law, and a sum of reports
with different laws is no wider than a sum of as many with their mean law (Hoeffding 1956).

K(t) is the log of the mean of e^(t·value). The tail of the sum of n readings at x is that of
the normal law at

    r* = w + ln(u/w)/w,   w = ±√(2n·(s·y - K(s))),   u = 2·sinh(h·s/2)/h·√(n·K''(s)),

with y = x/n, K'(s) = y, and h the distance between values that a sum can have; x is first moved
by h/2 toward the mean (Lugannani and Rice 1980, Daniels 1987, Barndorff-Nielsen 1991).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from faintly.core.arrays import AnyArray, FloatArray, IntArray

MOST_STEPS = 100  # enough even for pure bisection; ten are usual
EXACT = 1e-13  # tolerance of a tilt: sums of 10^12 reports still have six digits
STEEPEST = 700.0  # beyond it e^t overflows a 64-bit float
CLOSE = 1e-12  # distance from an end, relative to the whole range
TINY = 1e-200  # floor of variances, where a law has only one value left
NEAR_MEAN = 1e-4  # below it ln(u/w)/w is taken from its limit, a sixth of the skewness


@dataclass(frozen=True)
class ReadingLaw:
    """What one report may say about a key that nobody holds, and how likely each is."""

    values: tuple[int, ...]
    chances: tuple[float, ...]

    @classmethod
    def coin(cls) -> "ReadingLaw":
        """Return the law of a fair sign."""
        return cls((-1, 1), (0.5, 0.5))

    @classmethod
    def rare(cls, chance: float) -> "ReadingLaw":
        """Return the law that is a fair sign with this chance, and 0 otherwise."""
        if chance >= 1:
            return cls.coin()
        return cls((-1, 0, 1), (chance / 2, 1 - chance, chance / 2))

    @cached_property
    def step(self) -> int:
        """Return h: sums of n readings differ by multiples of it."""
        return math.gcd(*(value - self.values[0] for value in self.values))

    @property
    def deviation(self) -> float:
        """Return the standard deviation of one reading."""
        return float(np.sqrt(self._moments(np.zeros(1))[1][0]))

    def scores(self, totals: IntArray, reports: int) -> FloatArray:
        """Return the normal score of P(a key nobody holds reads as much or more) for each total."""
        some, places = self._distinct(totals)
        found = np.full(len(some), -math.inf)
        inside = some >= reports * min(self.values) + self.step  # no possible totals lie in between
        above = np.minimum(some[inside], reports * max(self.values)) - self.step / 2
        found[inside] = self._root(self._saddle(above / reports), np.zeros(inside.sum()), reports)
        return found[places]

    def total_at(self, score: float, reports: int) -> float:
        """Return the total that has this score, interpolated between possible totals."""
        zero, far = np.zeros(1), np.full(1, STEEPEST / self._reach)
        slope = np.full(1, self.deviation * math.sqrt(reports))
        tilt = _solve(
            lambda t: (self._root(t, zero, reports), slope), score, score / slope, (-far, far)
        )
        return float(reports * self._moments(tilt)[0][0] + self.step / 2)

    def ends(self, totals: IntArray, reports: int, score: float) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper ends of the intervals of Clopper and Pearson, as totals.

        Under the law whose mean is the lower end, a total this large or larger has the tail of this
        score; under that of the upper end, a total this small or smaller.
        """
        some, places = self._distinct(totals)
        low = self._end(some, reports, score, -1)
        high = self._end(some, reports, score, 1)
        return low[places], high[places]

    def deviations(self, totals: IntArray, reports: int) -> FloatArray:
        """Return the standard deviation of a sum whose mean is the total; at the ends, half a step.

        A total at an end of its range does not show how far it could have moved.
        """
        half = self.step / 2
        least, most = reports * min(self.values) + half, reports * max(self.values) - half
        some, places = self._distinct(totals)
        tilts = self._saddle(some.clip(least, most) / reports)
        return np.sqrt(reports * self._moments(tilts)[1])[places]

    def roots(self, totals: FloatArray, means: FloatArray, reports: int) -> FloatArray:
        """Return (totals, means) the signed root of the deviance: its square is -2·ln L.

        L is the likelihood of a mean of the total, relative to the likeliest. Positive where the
        mean is the larger one. The law of two values has this likelihood whatever people hold.
        """
        # No tilt is steep enough for the very ends; just before, the likelihood is at its limit.
        margin = CLOSE * (max(self.values) - min(self.values))
        least, most = min(self.values) + margin, max(self.values) - margin
        shown, meant = (totals / reports).clip(least, most), (means / reports).clip(least, most)
        own, tilts = self._saddle(shown), self._saddle(meant)
        best = own * shown - self._growth(own)
        lost = best[:, None] - shown[:, None] * tilts + self._growth(tilts)
        sign = np.sign(meant - shown[:, None])
        return np.asarray(sign * np.sqrt(np.maximum(0.0, 2 * reports * lost)))

    def _distinct(self, totals: IntArray) -> tuple[IntArray, IntArray]:
        """Return distinct totals, and the position in them of each total.

        Many keys share few totals; listing all between the least and the largest avoids a sort.
        """
        if not len(totals):
            return totals, totals
        least, most = int(totals.min()), int(totals.max())
        places, left = np.divmod(totals - least, self.step)
        if left.any() or most - least > 2 * self.step * len(totals):
            return np.unique(totals, return_inverse=True)
        return np.arange(least, most + 1, self.step), places

    def _end(self, totals: IntArray, reports: int, score: float, side: int) -> FloatArray:
        """Return one end of each interval: the mean of the law with the total in its tail."""
        border = reports * (max if side > 0 else min)(self.values)
        found = np.full(len(totals), float(border))
        inside = totals != border
        # A total that no reports can have may lie within half a step of an end.
        half = self.step / 2
        least, most = reports * min(self.values) + half, reports * max(self.values) - half
        saddles = self._saddle((totals[inside] + side * half).clip(least, most) / reports)
        slopes = np.sqrt(reports * self._moments(saddles)[1])
        far = np.full(inside.sum(), side * STEEPEST / self._reach)
        tilts = _solve(
            lambda t: (self._root(saddles, t, reports), -slopes),
            -side * score,
            saddles + side * score / slopes,
            (np.minimum(saddles, far), np.maximum(saddles, far)),
        )
        found[inside] = reports * self._moments(tilts)[0]
        return found

    @property
    def _reach(self) -> int:
        return max(abs(value) for value in self.values)

    def _growth(self, tilts: FloatArray) -> FloatArray:
        """Return K of each tilt."""
        values, chances = np.array(self.values), np.array(self.chances)
        grown: FloatArray = np.log1p(chances @ np.expm1(np.multiply.outer(values, tilts)))
        return grown

    def _moments(self, tilts: FloatArray) -> AnyArray:
        """Return mean, variance and third central moment of each tilted law."""
        values = np.array(self.values, dtype=np.float64)[:, None]
        exponents = values * tilts
        weight = np.exp(exponents - exponents.max(axis=0)) * np.array(self.chances)[:, None]
        weight /= weight.sum(axis=0)
        mean = (weight * values).sum(axis=0)
        off = values - mean
        square = weight * off * off
        return np.stack([mean, square.sum(axis=0), (square * off).sum(axis=0)])

    def _saddle(self, means: FloatArray) -> FloatArray:
        """Return s with K'(s) = mean."""
        far = np.full(len(means), STEEPEST / self._reach)

        def mean_and_slope(tilts: FloatArray) -> tuple[FloatArray, FloatArray]:
            mean, variance, _ = self._moments(tilts)
            return mean, np.maximum(variance, TINY)

        return _solve(mean_and_slope, means, np.zeros(len(means)), (-far, far))

    def _root(self, saddles: FloatArray, tilts: FloatArray, reports: int) -> FloatArray:
        """Return r* of sums whose saddles these are, under the tilted laws."""
        mean, variance, third = self._moments(saddles)
        away = saddles - tilts
        gained = away * mean - self._growth(saddles) + self._growth(tilts)
        w = np.sign(away) * np.sqrt(np.maximum(0.0, 2 * reports * gained))
        u = 2 * np.sinh(self.step * away / 2) / self.step * np.sqrt(reports * variance)
        near = np.abs(w) < NEAR_MEAN
        skewness = third / np.maximum(variance, TINY) ** 1.5 / math.sqrt(reports)
        one_w = np.where(near, 1.0, w)
        ratio = np.maximum(TINY, np.where(near, 1.0, u) / one_w)
        return w + np.where(near, skewness / 6, np.log(ratio) / one_w)


def _solve(
    function: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    target: FloatArray | float,
    start: FloatArray,
    ends: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """Return where a monotone function takes its target values, by Newton's method.

    The function also gives its approximate slope. A step that leaves the interval known to hold
    the solution is replaced by a bisection.
    """
    low, high = ends
    place = np.clip(start, low, high)
    for _ in range(MOST_STEPS):
        value, slope = function(place)
        step = (value - target) / slope
        settled = np.abs(step) <= EXACT * (1 + np.abs(place))
        if settled.all():
            break
        beyond = (value > target) ^ (slope < 0)
        low, high = np.where(beyond, low, place), np.where(beyond, place, high)
        following = place - step
        outside = (following <= low) | (following >= high)
        following = np.where(outside, (low + high) / 2, following)
        place = np.where(settled, place, following)
    return place
