"""What simulations share: sums over made-up clients' reports, and means of what they hold."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from faintly import kernels
from faintly.core import AnyArray, FloatArray, IdArray, IntArray, ReportBatch, VectorBatch
from faintly.primitives.entropy import Rng, uniform_seeds

if TYPE_CHECKING:
    from faintly.mechanisms.base import Mechanism

SIMULATED_FIELDS = 2**22  # report fields that a simulation holds at once: 16 MiB
COUNTED = 2**24  # keys up to which rows are summed into an array of the universe


def totals(
    mechanism: "Mechanism", vectors: VectorBatch, ids: IdArray, public: Rng, secret: Rng
) -> IntArray:
    """Return what `read` gives over one report of each vector, by the plan's own decoding."""
    batches = _reports(mechanism, vectors, public, secret)
    if mechanism.plan.decode == "direct":
        sums = np.zeros(len(ids), dtype=np.int64)
        for batch in batches:
            sums += mechanism.read(batch, ids)
        return sums
    tables, mass = np.zeros(mechanism.table_shape, dtype=np.int64), 0
    for batch in batches:
        cells = mechanism.cells(batch)
        mass = kernels.scatter_add(tables, cells.index, cells.weight, mass)
    kernels.walsh_hadamard(tables)
    return mechanism.gather(tables, ids).sum(axis=0)


def _reports(
    mechanism: "Mechanism", vectors: VectorBatch, public: Rng, secret: Rng
) -> Iterator[ReportBatch]:
    size = max(1, SIMULATED_FIELDS // len(mechanism.layout.widths))
    for start in range(0, len(vectors), size):
        part = vectors.slice(start, start + size)
        seeds = uniform_seeds(public, len(part), mechanism.seed_bytes)
        fields = mechanism.randomize(part, seeds, secret)
        sent = seeds if mechanism.layout.seed_bytes else np.zeros_like(seeds)
        yield ReportBatch(mechanism.plan.digest, sent, fields)


def sums_at(keys: AnyArray, weights: AnyArray, ids: IdArray) -> AnyArray:
    """Return, for each id, the sum of the weights beside keys that equal it."""
    asked, places = np.unique(ids, return_inverse=True)
    sums = np.zeros(len(asked), dtype=weights.dtype)
    if len(asked):
        position = np.minimum(np.searchsorted(asked, keys.astype(np.uint64)), len(asked) - 1)
        met = asked[position] == keys
        np.add.at(sums, position[met], weights[met])
    return sums[places]


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
    return float((vectors.values**2).sum()) / max(1, len(vectors))


def rounding_variance(values: FloatArray, steps: int) -> FloatArray:
    """Return the variance of unbiased rounding of each value to a grid of so many steps."""
    share = values * steps - np.floor(values * steps)
    return share * (1 - share) / steps**2
