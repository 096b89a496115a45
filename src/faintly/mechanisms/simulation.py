"""Totals of simulated reports, and the sums and means that simulations and forecasts share."""

from collections.abc import Callable, Iterator

import numpy as np

from faintly import kernels
from faintly.core import AnyArray, FloatArray, IdArray, IntArray, ReportBatch, VectorBatch
from faintly.mechanisms.part import Part
from faintly.primitives.entropy import Rng, uniform_seeds

SIMULATED_FIELDS = 2**22  # report fields that a simulation holds at once: 16 MiB
BLOCK = 2**15  # values that stay in a cache from one step to the next
LENGTHS = 64  # numbers of items at which a function of a client's length is computed
COUNTED = 2**24  # keys up to which sums use an array over the universe


class Simulation(Part):
    """The integers of many reports at once, for the evaluation."""

    def totals(self, vectors: VectorBatch, ids: IdArray, public: Rng, secret: Rng) -> IntArray:
        """Return integers with the law of `read` over one report of each vector.

        By default the reports are made and read; see `draws_sum`.

        Args:
            vectors: one per client, empty ones included.
            ids: keys to ask about.
            public: source of the seeds that reports carry.
            secret: source of the noise; must not share a generator with `public`.
        """
        mechanism, batches = self.mechanism, self._reports(vectors, public, secret)
        if self.plan.decode == "direct":
            sums = np.zeros(len(ids), dtype=np.int64)
            for batch in batches:
                sums += mechanism.read(batch, ids)
            return sums
        tables, mass = np.zeros(mechanism.tables.shape, dtype=np.int64), 0
        for batch in batches:
            cells = mechanism.tables.cells(batch)
            mass = kernels.scatter_add(tables, cells.index, cells.weight, mass)
        return mechanism.tables.gather(mechanism.tables.transform(tables), ids)[0]

    def _reports(self, vectors: VectorBatch, public: Rng, secret: Rng) -> Iterator[ReportBatch]:
        """Yield one report of each vector, as many at a time as memory allows."""
        mechanism = self.mechanism
        size = max(1, SIMULATED_FIELDS // len(mechanism.layout.widths))
        for start in range(0, len(vectors), size):
            part = vectors.slice(start, start + size)
            seeds = uniform_seeds(public, len(part), mechanism.seed_bytes)
            fields = mechanism.randomize(part, seeds, secret)
            sent = seeds if mechanism.layout.seed_bytes else np.zeros_like(seeds)
            yield ReportBatch(self.plan.digest, sent, fields)

    @property
    def draws_sum(self) -> bool:
        """Return whether `totals` draws the sum of all reports without making them."""
        return False


def sums_at(keys: AnyArray, weights: AnyArray, ids: IdArray) -> AnyArray:
    """Return, for each id, the sum of the weights beside keys that equal it."""
    known, places = np.unique(ids, return_inverse=True)
    sums = np.zeros(len(known) + 1, dtype=weights.dtype)
    np.add.at(sums, positions(known, keys.astype(np.uint64)), weights)
    return sums[places]


def positions(known: IdArray, keys: IdArray) -> IntArray:
    """Return where each key is among known ids in ascending order; len(known) where it is not."""
    most = int(max(keys.max(initial=0), known.max(initial=0)))
    if most < len(keys):  # then a table is faster than a search
        table = np.full(most + 1, len(known))
        table[known] = np.arange(len(known))
        return table[keys]
    place = np.searchsorted(known, keys)
    place[np.append(known, np.uint64(0))[place] != keys] = len(known)
    return place


def means_at(vectors: VectorBatch, weights: FloatArray, ids: IdArray) -> FloatArray:
    """Return, for each id, the mean over all clients of the weight of their row for it."""
    rows = vectors.indices
    most = int(max(rows.max(initial=0), ids.max(initial=0)))
    sums: AnyArray
    if most < COUNTED:
        sums = np.bincount(rows.view(np.int64), weights, most + 1)[ids]
    else:
        sums = sums_at(rows, weights, ids)
    means: FloatArray = sums / max(1, len(vectors))
    return means


def mean_square(vectors: VectorBatch) -> float:
    """Return the mean over all clients of the sum of their squared values."""
    return float(by_value(np.square, vectors).sum()) / max(1, len(vectors))


def sums_of(vectors: VectorBatch, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return, for each client, the sum of the function over its values."""
    sums = np.bincount(vectors.owners, by_value(function, vectors), minlength=len(vectors))
    return sums.astype(np.float64)  # bincount of no rows gives integers


def by_length(function: Callable[[int], float], lengths: IntArray) -> FloatArray:
    """Return the function of each length, interpolated between a few."""
    most = int(lengths.max(initial=1))
    known = np.unique(np.geomspace(1, max(1, most), LENGTHS).round().astype(int))
    return np.interp(lengths, known, [function(items) for items in known.tolist()])


def by_value(function: Callable[[FloatArray], FloatArray], vectors: VectorBatch) -> FloatArray:
    """Return the function of every value of the vectors, block by block."""
    out = np.empty(len(vectors.values))
    for start in range(0, len(out), BLOCK):
        part = slice(start, start + BLOCK)
        out[part] = function(vectors.values[part])
    return out


def rounding_variance(vectors: VectorBatch, steps: int) -> FloatArray:
    """Return the variance of unbiased rounding of each value to a grid of 1/steps."""

    def variance(values: FloatArray) -> FloatArray:
        scaled = values * steps
        share = scaled - np.floor(scaled)
        return share * (1 - share) / steps**2

    return by_value(variance, vectors)
