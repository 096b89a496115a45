"""The kernels of projection.py from projection.c: same signatures, same integers."""

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, WordArray
from faintly.kernels import threads
from faintly.kernels._native import call
from faintly.kernels.projection import checked_codes, checked_ids, checked_segments, checked_slots


def read_slots(
    seeds: IdArray, slots: WordArray, ids: IdArray, bins: int
) -> tuple[IntArray, IntArray]:
    """Return Σ_i hit·sign and Σ_i hit for each id x, hashing with HalfSipHash."""
    seeds, slots, ids = checked_slots(seeds, slots, ids, bins)

    def read(some: slice, asked: slice, totals: IntArray) -> None:
        mine, keys = seeds[some], ids[asked]
        columns = (mine, *slots[:, some], len(mine))
        call("read_slots", *columns, bins, keys, len(keys), *totals)

    totals, hits = threads.read_in_slices(read, len(seeds), len(ids), threads.PAIRS, sums=2)
    return totals, hits


def project_prf(
    seeds: IdArray, offsets: IntArray, ids: IdArray, negative: AnyArray, groups: int
) -> IntArray:
    """Return Σ σ·s_g(x) over the items of each segment for each group."""
    seeds, offsets, negative = checked_segments(seeds, offsets, negative)
    ids = checked_ids(ids, negative, groups)
    sums = np.empty((len(seeds), groups), dtype=np.int64)
    call("project_prf", seeds, offsets, len(seeds), ids, negative, groups, sums)
    return sums


def project_linear(
    seeds: IdArray,
    offsets: IntArray,
    codes: WordArray,
    negative: AnyArray,
    *,
    groups: int,
    bits: int,
) -> IntArray:
    """Return Σ σ·(-1)^<r_g,code> over the items of each segment for each group."""
    seeds, offsets, negative = checked_segments(seeds, offsets, negative)
    codes = checked_codes(codes, negative, groups, bits)
    sums = np.empty((len(seeds), groups), dtype=np.int64)
    call("project_linear", seeds, offsets, len(seeds), codes, negative, groups, bits, sums)
    return sums
