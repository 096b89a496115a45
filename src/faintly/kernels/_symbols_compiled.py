"""The kernels of `_symbols_reference` from kernels.c: same signatures, same integers."""

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, WordArray
from faintly.kernels._symbols_reference import LANE
from faintly.kernels.arguments import exactly
from faintly.kernels.compiled import _call
from faintly.primitives import hashing

MAX_ORDER = 256  # symbols are bytes


def hash_wide(seeds: IdArray, ids: IdArray, count: int) -> WordArray:
    """Return words (items, count) of BLAKE2s, eight from each call."""
    seeds = exactly(seeds, np.uint64, 1, "seeds")
    ids = exactly(ids, np.uint64, 1, "ids")
    if len(seeds) != len(ids) or not 0 <= count <= 2048:
        raise TypeError("seeds and ids must pair up, and the number of a block fit one byte")
    words = np.empty((len(ids), count), dtype=np.uint32)
    _call("faintly_hash_wide", seeds, ids, len(ids), count, words)
    return words


def solve_symbols(
    offsets: IntArray,
    rows: AnyArray,
    answers: AnyArray,
    free: AnyArray,
    tables: tuple[AnyArray, AnyArray, AnyArray],
) -> AnyArray:
    """Return for each segment a vector over the field that answers its equations."""
    order = len(tables[2])
    offsets = exactly(offsets, np.int64, 1, "offsets")
    own: AnyArray = np.array(rows, dtype=np.uint8, order="C")  # both are worked on in place
    said: AnyArray = np.array(answers, dtype=np.uint8, order="C")
    solutions: AnyArray = np.array(free, dtype=np.uint8, order="C")
    products, differences = _table(tables[0], order), _table(tables[1], order)
    over = exactly(tables[2], np.uint8, 1, "inverses")
    if solutions.ndim != 2 or own.shape != (len(said), solutions.shape[1]) or said.ndim != 1:
        raise TypeError("rows, answers and free must describe the same items")
    if len(offsets) != len(solutions) + 1 or offsets[0] != 0 or offsets[-1] != len(said):
        raise TypeError("offsets must lead from 0 to the number of items")
    if np.diff(offsets).min(initial=0) < 0:
        raise TypeError("offsets must ascend")
    for symbols in (own, said, solutions, over):
        if symbols.max(initial=0) >= order:
            raise IndexError(f"a symbol is not below {order}")
    most = max(1, solutions.shape[1])
    kept, pivots = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    _call(
        "faintly_solve_symbols",
        *(offsets, len(solutions), own, said, solutions.shape[1], solutions),
        *(products, differences, over, order, kept, pivots),
    )
    return solutions


def _table(table: AnyArray, order: int) -> AnyArray:
    checked = exactly(table, np.uint8, 2, "table")
    if not 2 <= order <= MAX_ORDER or checked.shape != (order, order) or checked.max() >= order:
        raise TypeError("a table of the field must have its elements for rows and columns")
    return checked


def read_symbols(
    seeds: IdArray,
    symbols: AnyArray,
    ids: IdArray,
    readings: IntArray,
    *,
    lanes: IdArray,
    prime: int,
) -> IntArray:
    """Return (2, ids): Σ_i s_i(x)·r and Σ_i r² with r = readings[<symbols_i, a_i(x)>]."""
    seeds = exactly(seeds, np.uint64, 1, "seeds")
    symbols = exactly(symbols, np.uint8, 2, "symbols")
    ids = exactly(ids, np.uint64, 1, "ids")
    readings = exactly(readings, np.int64, 1, "readings")
    lanes = exactly(lanes, np.uint64, 2, "lanes")
    order, size = len(readings), symbols.shape[1]
    if len(seeds) != len(symbols) or size < 1 or lanes.shape != (order, order):
        raise TypeError("seeds and symbols must describe the same reports, lanes the field")
    if not 2 <= order <= MAX_ORDER or not 2 <= prime <= order or symbols.max(initial=0) >= order:
        raise IndexError(f"a symbol is not below {order}")
    each = hashing.word_digits(order)
    words = -(-size // each)
    if words + 1 > 2048 or size * (prime - 1) >= 2**LANE or _coordinates(prime, order) > 64 // LANE:
        raise TypeError("rows are too long for the hash, or sums for their lanes")
    totals = np.zeros((2, len(ids)), dtype=np.int64)
    hashed = np.empty(8 * (words // 8 + 1), dtype=np.uint32)
    scratch = np.empty(size * order, dtype=np.uint64)
    _call(
        "faintly_read_symbols",
        *(seeds, symbols, size, len(seeds), ids, len(ids), readings),
        *(lanes, order, prime, each, hashed, scratch, totals),
    )
    return totals


def _coordinates(prime: int, order: int) -> int:
    count, reach = 0, 1
    while reach < order:
        reach, count = reach * prime, count + 1
    if reach != order:
        raise TypeError(f"no field of characteristic {prime} has {order} elements")
    return count
