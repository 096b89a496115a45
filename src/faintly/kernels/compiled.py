"""The same kernels from kernels.c, where it was compiled at install; same signatures.

Arguments are checked before any memory is touched; the C code trusts them.
"""

import ctypes
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, NarrowArray, TableArray, WordArray
from faintly.kernels import arguments, reference
from faintly.kernels.arguments import exactly


def _load() -> ctypes.CDLL | None:
    suffix = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
    path = Path(__file__).with_name(f"_kernels{suffix}")
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        return None


_library = _load()


def available() -> bool:
    """Return whether the compiled kernels are there."""
    return _library is not None


def call(name: str, *arguments: AnyArray | int) -> None:
    """Call a function of kernels.c with arrays and 64-bit integers."""
    assert _library is not None
    function: Any = getattr(_library, name)
    function.restype = None
    function(
        *(
            ctypes.c_int64(value) if isinstance(value, int) else ctypes.c_void_p(value.ctypes.data)
            for value in arguments
        )
    )


def scatter_add(tables: TableArray, index: WordArray, weight: NarrowArray, mass: int) -> int:
    """Add weight[i] to the entry index[i] of the flattened tables, in place; see reference."""
    bits = arguments.tables(tables, "tables")
    index, weight = arguments.cells(index, weight)
    measured = np.zeros(2, dtype=np.int64)
    call("faintly_measure_cells", index, weight, len(index), measured)
    if len(index) and measured[0] >= tables.size:
        raise IndexError("a cell lies outside its table")
    mass = arguments.mass_after(mass, int(measured[1]), bits)
    call(f"faintly_scatter_add_{bits}", tables, index, weight, len(index))
    return mass


def walsh_hadamard(rows: TableArray) -> None:
    """Replace each row f of 2^D integers by its transform Σ_r f[r]·(-1)^<r,c>, in place."""
    bits = arguments.power_of_two_columns(rows)
    reference.check_masses(rows, bits)
    call(f"faintly_walsh_hadamard_{bits}", rows, rows.shape[0], rows.shape[1])


def look_up(tables: TableArray, cells: WordArray, flips: WordArray) -> IntArray:
    """Return the entry of the flattened tables at each cell, negated where a flip is odd."""
    bits = arguments.tables(tables, "tables")
    cells, flips = exactly(cells, np.uint32, 1, "cells"), exactly(flips, np.uint32, 1, "flips")
    arguments.same_length(cells=cells, flips=flips)
    if len(cells) and int(cells.max()) >= tables.size:
        raise IndexError("a cell lies outside its table")
    values = np.empty(len(cells), dtype=np.int64)
    call(f"faintly_look_up_{bits}", tables, cells, flips, len(cells), values)
    return values


def map_codes(ids: IdArray, factor: WordArray, offset: WordArray, bits: int) -> WordArray:
    """Return the code of each id under a bijection of `bits` bits; see reference."""
    ids = exactly(ids, np.uint64, 1, "ids")
    factor = exactly(factor, np.uint32, 1, "factor")
    offset = exactly(offset, np.uint32, 1, "offset")
    arguments.same_length(factor=factor, offset=offset)
    if not 1 <= bits <= 32:
        raise TypeError("bits must be between 1 and 32")
    codes = np.empty(len(ids), dtype=np.uint32)
    call("faintly_map_codes", ids, len(ids), factor, offset, len(factor), bits, codes)
    return codes


def hash_ids(key: int, ids: IdArray, tag: int) -> WordArray:
    """Return the hash of each id ‖ tag under one key."""
    ids = exactly(ids, np.uint64, 1, "ids")
    words = np.empty(len(ids), dtype=np.uint32)
    call("faintly_hash_ids", key, ids, len(ids), tag, words)
    return words


def read_cells(index: WordArray, weight: NarrowArray, codes: WordArray) -> IntArray:
    """Return Σ_i weight_i·(-1)^<index_i,code> for each code, over cells i of one table."""
    index, weight = arguments.cells(index, weight)
    codes = exactly(codes, np.uint32, 1, "codes")
    totals = np.empty(len(codes), dtype=np.int64)
    call("faintly_read_cells", index, weight, len(index), codes, len(codes), totals)
    return totals


def read_linear(row: WordArray, matrix: WordArray, values: IntArray, codes: WordArray) -> IntArray:
    """Return Σ_i (-1)^<row_i,code>·values[i, A_i·code] for each code, over reports i."""
    row, matrix, values, codes = arguments.linear_reports(row, matrix, values, codes)
    totals = np.zeros(len(codes), dtype=np.int64)
    call(
        "faintly_read_linear",
        row,
        matrix,
        matrix.shape[1],
        values,
        len(row),
        codes,
        len(codes),
        totals,
    )
    return totals


def read_prf(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return Σ_i s_i(x)·values[i, h_i(x)] for each id x, hashing with HalfSipHash."""
    return _read_hashed("faintly_read_prf", seeds, values, ids)


def read_blake2s(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return Σ_i s_i(x)·values[i, h_i(x)] for each id x, hashing with keyed BLAKE2s."""
    return _read_hashed("faintly_read_blake2s", seeds, values, ids)


def _read_hashed(name: str, seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    seeds, values, ids = arguments.hashed_reports(seeds, values, ids)
    totals = np.zeros(len(ids), dtype=np.int64)
    call(name, seeds, values, values.shape[1], len(seeds), ids, len(ids), totals)
    return totals


def hash_words(seeds: IdArray, ids: IdArray, tag: int, count: int) -> WordArray:
    """Return words (items, count): entry [i, w] hashes ids[i] ‖ tag ‖ w under seeds[i]."""
    seeds = exactly(seeds, np.uint64, 1, "seeds")
    ids = exactly(ids, np.uint64, 1, "ids")
    if len(seeds) != len(ids) or not 0 <= tag < 256 or not 0 <= count <= 256:
        raise TypeError("seeds and ids must pair up, and tag and count fit one byte")
    words = np.empty((len(ids), count), dtype=np.uint32)
    call("faintly_hash_words", seeds, ids, len(ids), tag, count, words)
    return words


def hash_wide(seeds: IdArray, ids: IdArray, count: int) -> WordArray:
    """Return words (items, count) of BLAKE2s, eight from each call."""
    seeds = exactly(seeds, np.uint64, 1, "seeds")
    ids = exactly(ids, np.uint64, 1, "ids")
    if len(seeds) != len(ids) or not 0 <= count <= 2048:
        raise TypeError("seeds and ids must pair up, and the number of a block fit one byte")
    words = np.empty((len(ids), count), dtype=np.uint32)
    call("faintly_hash_wide", seeds, ids, len(ids), count, words)
    return words


def solve_gf2(
    offsets: IntArray, order: WordArray, rows: WordArray, answers: IntArray, free: WordArray
) -> WordArray:
    """Return for each segment a vector over GF(2) that answers its equations; see reference."""
    offsets = exactly(offsets, np.int64, 1, "offsets")
    order = exactly(order, np.uint32, 1, "order")
    rows = exactly(rows, np.uint32, 2, "rows")
    answers = exactly(answers, np.uint8, 1, "answers")
    solutions: WordArray = np.array(free, dtype=np.uint32, order="C")
    if solutions.ndim != 2 or len(offsets) != len(solutions) + 1:
        raise TypeError("free must have one row for each segment")
    items, words = rows.shape
    lengths = np.diff(offsets)
    if not (len(order) == len(answers) == items == offsets[-1]) or words != solutions.shape[1]:
        raise TypeError("offsets, order, rows and answers must describe the same items")
    if offsets[0] != 0 or lengths.min(initial=0) < 0 or answers.max(initial=0) > 1:
        raise TypeError("offsets must ascend from 0, and answers be 0 or 1")
    longest = int(lengths.max(initial=0))
    most = max(1, min(32 * words, longest))  # rows that can be independent
    basis = np.empty((most, max(1, words)), dtype=np.uint32)
    pivots, keys = np.empty(most, np.int64), np.empty(max(1, longest), np.uint64)
    sides = np.empty(most, dtype=np.uint8)
    call(
        "faintly_solve_gf2",
        *(offsets, len(solutions), order, rows, answers, words, solutions),
        *(basis, pivots, sides, keys),
    )
    return solutions


def read_parity(seeds: IdArray, payload: WordArray, ids: IdArray) -> IntArray:
    """Return Σ_i (-1)^(<payload_i, a_i(x)> + c_i(x)) for each id x, hashing with HalfSipHash."""
    seeds = exactly(seeds, np.uint64, 1, "seeds")
    payload = exactly(payload, np.uint32, 2, "payload")
    ids = exactly(ids, np.uint64, 1, "ids")
    if len(seeds) != len(payload) or not 1 <= payload.shape[1] <= 256:
        raise TypeError("seeds and payload must describe the same reports")
    totals = np.zeros(len(ids), dtype=np.int64)
    columns = np.ascontiguousarray(payload.T)  # the loop over reports runs along memory
    call("faintly_read_parity", seeds, columns, payload.shape[1], len(seeds), ids, len(ids), totals)
    return totals


def read_slots(
    seeds: IdArray, slots: WordArray, ids: IdArray, bins: int
) -> tuple[IntArray, IntArray]:
    """Return Σ_i hit·sign and Σ_i hit for each id x, hashing with HalfSipHash; see reference."""
    seeds = exactly(seeds, np.uint64, 1, "seeds")
    slots = exactly(slots, np.uint32, 2, "slots")
    ids = exactly(ids, np.uint64, 1, "ids")
    if slots.shape != (4, len(seeds)):
        raise TypeError("slots must have the rows word, mask, where and minus, one entry per seed")
    if not 1 <= bins < 2**32 or slots[0].max(initial=0) > 255 or slots[3].max(initial=0) > 1:
        raise TypeError("bins must fit 32 bits, word one byte and minus one bit")
    totals, hits = np.zeros(len(ids), dtype=np.int64), np.zeros(len(ids), dtype=np.int64)
    call(
        "faintly_read_slots",
        *(seeds, *slots, len(seeds)),
        *(bins, ids, len(ids), totals, hits),
    )
    return totals, hits


def project_prf(
    seeds: IdArray, offsets: IntArray, ids: IdArray, negative: AnyArray, groups: int
) -> IntArray:
    """Return Σ σ·s_g(x) over the items of each segment for each group; see reference."""
    seeds, offsets, negative = _segments(seeds, offsets, negative)
    ids = exactly(ids, np.uint64, 1, "ids")
    if len(ids) != len(negative) or not 1 <= groups <= 8192:
        raise TypeError("ids and negative must pair up, and groups be at most 8192")
    sums = np.empty((len(seeds), groups), dtype=np.int64)
    call("faintly_project_prf", seeds, offsets, len(seeds), ids, negative, groups, sums)
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
    """Return Σ σ·(-1)^<r_g,code> over the items of each segment for each group; see reference."""
    seeds, offsets, negative = _segments(seeds, offsets, negative)
    codes = exactly(codes, np.uint32, 1, "codes")
    if len(codes) != len(negative) or not 1 <= groups <= 8192 or not 1 <= bits <= 32:
        raise TypeError("codes and negative must pair up, groups be at most 8192 and bits 32")
    sums = np.empty((len(seeds), groups), dtype=np.int64)
    call("faintly_project_linear", seeds, offsets, len(seeds), codes, negative, groups, bits, sums)
    return sums


def _segments(
    seeds: IdArray, offsets: IntArray, negative: AnyArray
) -> tuple[IdArray, IntArray, AnyArray]:
    """Return the columns that describe segments of items, having checked that they fit."""
    seeds = exactly(seeds, np.uint64, 1, "seeds")
    offsets = exactly(offsets, np.int64, 1, "offsets")
    negative = exactly(negative, np.uint8, 1, "negative")
    if len(offsets) != len(seeds) + 1 or offsets[0] != 0 or offsets[-1] != len(negative):
        raise TypeError("seeds, offsets and negative must describe the same segments")
    if np.diff(offsets).min(initial=0) < 0 or negative.max(initial=0) > 1:
        raise TypeError("offsets must ascend, and negative be 0 or 1")
    return seeds, offsets, negative
