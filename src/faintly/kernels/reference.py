"""The definition of correct: each kernel as plainly as numpy can say it."""

import numpy as np

from faintly.core.arrays import IdArray, IntArray, WordArray
from faintly.kernels import arguments
from faintly.primitives import hashing


def scatter_add(tables: IntArray, table: IntArray, index: IntArray, weight: IntArray) -> None:
    """Add weight[i] to tables[table[i], index[i]], in place."""
    arguments.cells(tables, table, index, weight)
    np.add.at(tables, (table, index), weight)


def walsh_hadamard(rows: IntArray) -> None:
    """Replace each row f of 2^D integers by its transform Σ_r f[r]·(-1)^<r,c>, in place."""
    arguments.power_of_two_columns(rows)
    count, size = rows.shape
    half = 1
    while half < size:
        pairs = rows.reshape(count, size // (2 * half), 2, half)
        top = pairs[:, :, 0] + pairs[:, :, 1]
        pairs[:, :, 1] = pairs[:, :, 0] - pairs[:, :, 1]
        pairs[:, :, 0] = top
        half *= 2


def read_linear(row: WordArray, matrix: WordArray, values: IntArray, codes: WordArray) -> IntArray:
    """Return Σ_i (-1)^<row_i,code>·values[i, A_i·code] for each code, over reports i."""
    row, matrix, values, codes = arguments.linear_reports(row, matrix, values, codes)
    reports = np.arange(len(row))
    totals = np.zeros(len(codes), dtype=np.int64)
    for position, code in enumerate(codes):
        where = np.zeros(len(row), dtype=np.int64)
        for bit in range(matrix.shape[1]):
            where |= hashing.parity(matrix[:, bit] & code).astype(np.int64) << bit
        signs = hashing.to_signs(hashing.parity(row & code))
        totals[position] = (signs * values[reports, where]).sum()
    return totals


def read_prf(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return Σ_i s_i(x)·values[i, h_i(x)] for each id x, hashing with HalfSipHash."""
    return _read_hashed(seeds, values, ids, "prf")


def read_blake2s(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return Σ_i s_i(x)·values[i, h_i(x)] for each id x, hashing with keyed BLAKE2s."""
    return _read_hashed(seeds, values, ids, "blake2s")


def _read_hashed(seeds: IdArray, values: IntArray, ids: IdArray, family: str) -> IntArray:
    seeds, values, ids = arguments.hashed_reports(seeds, values, ids)
    reports = np.arange(len(seeds))
    totals = np.zeros(len(ids), dtype=np.int64)
    for position, item in enumerate(ids):
        repeated = np.full(len(seeds), item, dtype=np.uint64)
        place = hashing.places(seeds, repeated, values.shape[1], family)
        totals[position] = (place.signs * values[reports, place.bins]).sum()
    return totals
