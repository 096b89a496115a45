"""Estimates and their noise, with a few of them standing for many.

Estimates are binned at an eighth of their standard error, further out at a share of themselves,
in classes of standard errors that are nearly the same: a few hundred represent any number.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from faintly.core import AnyArray, Estimates, FloatArray, IntArray, ReadingLaw

BINS = 8  # of estimates to a standard error
LINEAR = 12.0  # standard errors up to which bins are even; then they grow with the estimate
CLASS = 0.02  # relative width of the classes of standard errors


@dataclass(frozen=True, slots=True, eq=False)
class Noisy:
    """Estimates of means, and the law of their noise."""

    mean: FloatArray
    # Standard error of each. Under an exact law it is that of a key that nobody holds, so that
    # keys differ only by noise outside the law.
    spread: FloatArray
    law: ReadingLaw | None = None
    unit: float = 1.0  # mean = unit·total, where a law is known
    reports: int = 1

    @classmethod
    def of(cls, found: Estimates) -> "Noisy":
        """Return the estimates with the law of their readings, where that is known."""
        read = found.readings
        if read is None:
            return cls(found.mean, found.stderr)
        unit = read.scale / found.reports
        own = read.law.deviations(read.totals, found.reports) * unit
        null = read.law.deviation * read.scale / math.sqrt(found.reports)
        spread = null * np.maximum(1.0, found.stderr / np.maximum(own, null))
        return cls(found.mean, spread, read.law, unit, found.reports)

    def take(self, chosen: AnyArray) -> "Noisy":
        """Return the chosen ones."""
        return replace(self, mean=self.mean[chosen], spread=self.spread[chosen])

    def roots(self, edges: FloatArray) -> FloatArray:
        """Return r of every estimate (rows) at every possible mean."""
        if self.law is None:
            return np.asarray((edges - self.mean[:, None]) / self.spread[:, None])
        found = self.law.roots(self.mean / self.unit, edges / self.unit, self.reports)
        null = self.law.deviation * self.unit * math.sqrt(self.reports)
        return np.asarray(found * (null / self.spread)[:, None])


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """Estimates of a population; nearly equal ones are merged and counted."""

    noisy: Noisy
    count: FloatArray

    @classmethod
    def of(cls, noisy: Noisy) -> "Crowd":
        """Return the crowd of these estimates."""
        kinds, spread = _classes(noisy.spread)
        places = np.rint(BINS * _stretched(noisy.mean / spread)).astype(np.int64)
        codes = _codes(kinds, places)
        count = np.bincount(codes)
        some = np.flatnonzero(count)

        def mean(values: FloatArray) -> FloatArray:
            return np.asarray(np.bincount(codes, weights=values)[some] / count[some])

        together = replace(noisy, mean=mean(noisy.mean), spread=mean(noisy.spread))
        return cls(together, count[some].astype(np.float64))


class Lattice:
    """A few nodes among many estimates, between which values are interpolated."""

    def __init__(self, noisy: Noisy) -> None:
        kinds, spread = _classes(noisy.spread)
        low = np.floor(BINS * _stretched(noisy.mean / spread))
        codes = _codes(kinds, low.astype(np.int64))
        nodes = np.unique(np.concatenate([codes, codes + 1]))
        self._low = np.searchsorted(nodes, codes)
        # Any estimate of a node gives its place; a node without estimates follows its neighbour.
        first = np.full(len(nodes), -1)
        first[self._low] = np.arange(len(codes))
        upper = first < 0
        first[upper] = first[np.flatnonzero(upper) - 1]
        shown = _unstretched((low[first] + upper) / BINS) * spread[first]
        self.nodes = replace(noisy, mean=shown, spread=spread[first])
        below, beyond = shown[self._low], shown[self._low + 1]
        self._share = (noisy.mean - below) / (beyond - below)

    def read(self, values: FloatArray) -> FloatArray:
        """Return the values of the nodes, interpolated linearly at every estimate."""
        low = values[self._low]
        return np.asarray(low + self._share * (values[self._low + 1] - low))


def _classes(spread: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the class of each standard error, and the class's representative."""
    kinds = np.rint(np.log(spread) / CLASS).astype(np.int64)
    return kinds, np.exp(kinds * CLASS)


def _codes(kinds: IntArray, places: IntArray) -> IntArray:
    """Return one number for each kind and place; the next place has the next number."""
    if not len(kinds):
        return kinds
    span = int(places.max() - places.min()) + 2
    return (kinds - kinds.min()) * span + places - places.min()


def _stretched(scores: FloatArray) -> FloatArray:
    """Return scores whose large values lie closer together."""
    size = np.abs(scores)
    far = LINEAR * (1 + np.log(np.maximum(size, LINEAR) / LINEAR))
    return np.asarray(np.sign(scores) * np.where(size <= LINEAR, size, far))


def _unstretched(places: FloatArray) -> FloatArray:
    """Return the scores that lie at these places."""
    size = np.abs(places)
    far = LINEAR * np.exp(np.maximum(size, LINEAR) / LINEAR - 1)
    return np.asarray(np.sign(places) * np.where(size <= LINEAR, size, far))
