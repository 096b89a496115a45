"""The kernels of binning.py from binning.c: same signatures, same integers."""

import numpy as np

from faintly.core.arrays import FloatArray, IdArray, IntArray, NarrowArray, WordArray
from faintly.kernels import arguments, binning, threads
from faintly.kernels._native import call
from faintly.kernels.binning import (
    check_bins,
    checked_amounts,
    checked_fields,
    checked_reports,
    checked_values,
    linear_width,
)
from faintly.kernels.compiled.hashing import public_maps
from faintly.primitives.hashing import LinearMaps


def round_values(values: FloatArray, steps: int, words: WordArray) -> tuple[NarrowArray, IntArray]:
    """Return values on the grid of 1/steps, and where one word did not decide."""
    values, words = checked_values(values, steps, words)
    rounded, found = np.empty(len(values), dtype=np.int32), np.zeros(2, dtype=np.int64)
    call("round_values", values, words, len(values), steps, rounded, found)
    bad, ties = found.tolist()
    if bad:
        raise ValueError("values must lie in [-1, 1]")
    if ties:  # once in 2^32 values: looking for them again costs nothing
        return binning.round_values(values, steps, words)
    return rounded, np.zeros(0, dtype=np.int64)


def bin_hashed(
    seeds: IdArray,
    offsets: IntArray,
    ids: IdArray,
    amounts: NarrowArray,
    *,
    bins: int,
    family: str,
) -> IntArray:
    """Return sums of s(x)·amount over the items of each client and bin."""
    seeds, offsets, ids, amounts = checked_amounts(seeds, offsets, ids, amounts)
    check_bins(bins, family)
    sums = np.zeros((len(seeds), bins), dtype=np.int64)
    call(f"bin_{family}", seeds, offsets, len(seeds), ids, amounts, bins, sums)
    return sums


def bin_linear(
    seeds: IdArray,
    offsets: IntArray,
    ids: IdArray,
    amounts: NarrowArray,
    *,
    bins: int,
    maps: LinearMaps,
) -> IntArray:
    """Return what `bin_hashed` does, hashing by the public maps."""
    seeds, offsets, ids, amounts = checked_amounts(seeds, offsets, ids, amounts)
    width = linear_width(bins)
    sums = np.zeros((len(seeds), bins), dtype=np.int64)
    call(
        "bin_linear",
        *(seeds, offsets, len(seeds), ids, amounts, width),
        *(*public_maps(maps), sums),
    )
    return sums


def linear_cells(
    seeds: IdArray, fields: WordArray, center: int, maps: LinearMaps
) -> tuple[WordArray, NarrowArray]:
    """Return index and weight of b cells per report."""
    seeds, fields, width = checked_fields(seeds, fields, center)
    index, weight = np.empty(fields.size, np.uint32), np.empty(fields.size, np.int32)
    largest = np.zeros(1, dtype=np.int64)
    call(
        "linear_cells",
        *(seeds, fields, len(seeds), center, width),
        *(maps.maps, maps.bits, index, weight.view(np.uint32), largest),
    )
    if largest[0] > 2 * center:
        raise ValueError(f"fields must be at most {2 * center}")
    return index, weight


def sum_squares(fields: WordArray, center: int) -> int:
    """Return Σ (field - center)² over all fields, exactly."""
    fields = arguments.exactly(fields, np.uint32, 2, "fields")
    arguments.word(center, "center")
    halves = np.zeros(2, dtype=np.uint64)
    call("sum_squares", fields, fields.size, center, halves)
    low, high = halves.tolist()
    return low + (high << 32)


def read_prf(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return Σ_i s_i(x)·values[i, h_i(x)] for each id x, hashing with HalfSipHash."""
    return _read_hashed("read_prf", seeds, values, ids)


def read_blake2s(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return Σ_i s_i(x)·values[i, h_i(x)] for each id x, hashing with keyed BLAKE2s."""
    return _read_hashed("read_blake2s", seeds, values, ids)


def _read_hashed(name: str, seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    seeds, values, ids = checked_reports(seeds, values, ids)

    def read(some: slice, asked: slice, totals: IntArray) -> None:
        mine, keys = seeds[some], ids[asked]
        call(name, mine, values[some], values.shape[1], len(mine), keys, len(keys), totals)

    return threads.read_in_slices(read, len(seeds), len(ids), threads.PAIRS)[0]
