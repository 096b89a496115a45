"""Distinct items drawn by Zipf's law, many clients at once.

Item i of 0..d-1 has weight w[i] ∝ (i+1)^-s. A client draws its k items one after the other,
each by weight among those not yet drawn. Items arriving at independent
exponential times E[i]/w[i] come in that order, so the first k arrivals are the sample.

Drawing d times for every client would be slow. The heavy items, the head, get a time each. The
others arrive as one Poisson process: a number of arrivals until a time T, each at a uniform time
and of an item drawn by weight; the first arrival of an item counts. Where a client's k-th arrival
is later than T, its process is continued. The law is exact for any T.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from faintly.core import FloatArray, IntArray, NarrowArray

BLOCK_TIMES = 2**21  # arrival times held at once: 16 MiB


@dataclass(frozen=True)
class DistinctZipf:
    """Draws `count` distinct items of `universe`, item i having weight (i+1)^-exponent."""

    universe: int
    count: int
    exponent: float

    @cached_property
    def weights(self) -> FloatArray:
        """Return the weights, which add up to 1."""
        raw = np.arange(1, self.universe + 1, dtype=np.float64) ** -self.exponent
        return raw / raw.sum()

    @cached_property
    def horizon(self) -> float:
        """Return the time T by which nearly every client has seen its items."""
        wanted = min(self.count + 4 * np.sqrt(self.count) + 4, 0.999 * self.universe)
        low, high = 0.0, 64.0
        while self._arrived(high) < wanted:
            high *= 2
        while high - low > 1e-3 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self._arrived(middle) < wanted else (low, middle)
        return high

    @cached_property
    def head(self) -> int:
        """Return how many items get a time of their own: the number that minimizes the work."""
        tails = 1 - np.concatenate([[0.0], np.cumsum(self.weights)])
        # An arrival of the process costs several times as much as a time, because it is sorted.
        work = np.arange(self.universe + 1) + 6 * self.horizon * tails
        return int(np.argmin(work))

    def draw(self, clients: int, generator: np.random.Generator) -> IntArray:
        """Return (clients, count) distinct items, each row in ascending order."""
        if self.count == self.universe:
            return np.tile(np.arange(self.universe), (clients, 1))
        out = np.empty((clients, self.count), dtype=np.int64)
        size = max(1, BLOCK_TIMES // max(1, self.head))
        for start in range(0, clients, size):
            stop = min(start + size, clients)
            out[start:stop] = self._block(stop - start, generator)
        return out

    def _block(self, clients: int, generator: np.random.Generator) -> IntArray:
        times = generator.standard_exponential((clients, self.head))
        times /= self.weights[: self.head]
        items = np.broadcast_to(np.arange(self.head, dtype=np.int32), times.shape)
        chosen = np.empty((clients, self.count), dtype=np.int64)
        left, begin, end = np.arange(clients), 0.0, self.horizon
        if self.head == self.universe:
            begin = end = np.inf
        while len(left):
            if begin < end:
                times, items = self._with_tail(times, items, begin, end, generator)
            if times.shape[1] >= self.count:
                order = np.argpartition(times, self.count - 1, axis=1)[:, : self.count]
                # Done where the k-th arrival, which the partition puts last, is not later than
                # the process has run.
                done = times[np.arange(len(times)), order[:, -1]] <= end
                found = np.take_along_axis(items, order, axis=1)
                chosen[left[done]] = np.sort(found, axis=1)[done]
                left, times, items = left[~done], times[~done], items[~done]
            begin, end = end, 2 * end
        return chosen

    def _with_tail(
        self,
        times: FloatArray,
        items: NarrowArray,
        begin: float,
        end: float,
        generator: np.random.Generator,
    ) -> tuple[FloatArray, NarrowArray]:
        """Return times and items with the tail's first arrivals between two times appended."""
        tail = self.weights[self.head :]
        arrivals = generator.poisson(tail.sum() * (end - begin), len(times))
        owners = np.repeat(np.arange(len(times)), arrivals)
        when = generator.uniform(begin, end, len(owners))
        what = self.head + np.searchsorted(
            np.cumsum(tail), generator.random(len(owners)) * tail.sum(), side="right"
        )
        what = np.minimum(what, self.universe - 1)  # the last sum may be rounded down
        pair = owners * self.universe + what
        order = np.argsort(pair)
        pair = pair[order]
        starts = np.flatnonzero(np.concatenate([[True], pair[1:] != pair[:-1]])[: len(pair)])
        first = np.minimum.reduceat(when[order], starts) if len(starts) else when
        owners, what = np.divmod(pair[starts], self.universe)
        held = np.bincount(owners, minlength=len(times))
        place = np.arange(len(owners)) - np.repeat(np.cumsum(held) - held, held)
        more = np.full((len(times), int(held.max(initial=0))), np.inf)
        new = np.zeros(more.shape, dtype=np.int32)
        more[owners, place], new[owners, place] = first, what
        if begin > 0:
            more[arrived_before(items, new, times)] = np.inf
        return np.hstack([times, more]), np.hstack([items, new])

    def _arrived(self, time: float) -> float:
        return float(-np.expm1(-self.weights * time).sum())


def arrived_before(items: NarrowArray, new: NarrowArray, times: FloatArray) -> np.ndarray:
    """Return which new items have arrived before; few clients come here."""
    known = np.zeros(new.shape, dtype=bool)
    for row in range(len(new)):
        known[row] = np.isin(new[row], items[row][np.isfinite(times[row])])
    return known
