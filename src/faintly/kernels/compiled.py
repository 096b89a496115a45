"""The same kernels from kernels.c, where it was compiled at install; same signatures.

Arguments are checked before any memory is touched; the C code trusts them. Large inputs are
cut into slices for several threads, in a way that no integer depends on.
"""

import ctypes
import os
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, NarrowArray, TableArray, WordArray
from faintly.kernels import arguments
from faintly.kernels.threads import parallel, threads
from faintly.primitives.hashing import LinearMaps

# The least that a thread is started for, each some tens of microseconds of work.
ENTRIES = 2**16  # of a table, transformed
KEYS = 2**15  # mapped, hashed or looked up
PAIRS = 2**15  # of a report and a key, where each is hashed
SLICED_PAIRS = 2**22  # of a cell and a code, where words hold 64 of them
LONG = 2**22  # entries of a row that threads share
MASS_BLOCK = 4096  # entries weighed together; kernels.c has the same number
COLUMNS = 64  # of such a row; whole vectors for every instruction set
NARROW = 32  # bytes of a record, up to which two copies nearby cost less than one from far away

INSTRUCTIONS = ("baseline", "avx2", "avx512", "neon")  # as faintly_instructions numbers them


def _load() -> ctypes.CDLL | None:
    if os.environ.get("FAINTLY_KERNEL") == "numpy":
        return None  # everything is then as on a machine without a compiler
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


def instructions() -> str:
    """Return the name of the instruction set that the compiled kernels use on this machine."""
    assert _library is not None
    return INSTRUCTIONS[_library.faintly_instructions()]


def call(name: str, *given: AnyArray | int) -> None:
    """Call a function of kernels.c with arrays and 64-bit integers."""
    assert _library is not None
    function: Any = getattr(_library, name)
    function.restype = None
    function(
        *(
            ctypes.c_void_p(value.ctypes.data)
            if isinstance(value, np.ndarray)
            else ctypes.c_int64(int(value))
            for value in given
        )
    )


def read_in_slices(
    read: Callable[[slice, slice, IntArray], None],
    reports: int,
    keys: int,
    *,
    pairs: int = PAIRS,
    sums: int = 1,
) -> IntArray:
    """Return `sums` totals for each key, from read(reports, keys, totals) on slices of both.

    Slices of keys write to their own totals. Where there are fewer keys than reports, slices
    of reports have totals of their own that are added up: integers do not mind the order.
    """
    totals = np.zeros((sums, keys), dtype=np.int64)
    if keys >= reports:
        parallel(
            lambda start, stop: read(slice(reports), slice(start, stop), totals[:, start:stop]),
            keys,
            -(-pairs // max(1, reports)),
        )
        return totals
    parts: list[IntArray] = []

    def work(start: int, stop: int) -> None:
        part = np.zeros_like(totals)
        read(slice(start, stop), slice(keys), part)
        parts.append(part)

    parallel(work, reports, -(-pairs // max(1, keys)))
    for part in parts:
        totals += part
    return totals


def scatter_add(tables: TableArray, index: WordArray, weight: NarrowArray, mass: int) -> int:
    """Add weight[i] to the entry index[i] of the flattened tables, in place; see reference."""
    bits = arguments.tables(tables, "tables")
    index, weight = arguments.apart(tables, *arguments.cells(index, weight))
    measured = np.zeros(2, dtype=np.int64)
    call("faintly_measure_cells", index, weight, len(index), measured)
    arguments.inside(int(measured[0]) if len(index) else -1, tables.size)
    mass = arguments.mass_after(mass, int(measured[1]), bits)
    call(f"faintly_scatter_add_{bits}", tables, tables.size, index, weight, len(index))
    return mass


def walsh_hadamard(rows: TableArray) -> None:
    """Replace each row f of 2^D integers by its transform Σ_r f[r]·(-1)^<r,c>, in place."""
    bits = arguments.power_of_two_columns(rows)
    count, size = rows.shape
    found = np.empty(2 + -(-rows.size // MASS_BLOCK), dtype=np.int64)
    call(f"faintly_weigh_{bits}", rows, 1, rows.size, found)  # all rows together: a quick look
    if _mass(found) >= 2 ** (bits - 1):
        each = np.empty(2 + count * -(-size // MASS_BLOCK), dtype=np.int64)
        call(f"faintly_weigh_{bits}", rows, count, size, each)
        arguments.transform_fits(_mass(each), bits)
    name = f"faintly_walsh_hadamard_{bits}"
    if size < LONG or count >= threads():
        least = -(-ENTRIES // size)
        parallel(lambda a, b: call(name, rows, a * size, b * size, size, found), count, least)
        return
    part = size // 8
    parallel(lambda a, b: call(name, rows, a * part, b * part, part, found), 8 * count, 1)
    for row in rows:
        _join(row, bits)


def _join(row: TableArray, bits: int) -> None:
    """Finish one row whose eighths are transformed: threads share its columns."""
    part = len(row) // 8
    parallel(
        lambda a, b: call(f"faintly_join_{bits}", row, part, a * COLUMNS, b * COLUMNS),
        part // COLUMNS,
        -(-ENTRIES // (8 * COLUMNS)),
    )


def total_mass(tables: TableArray) -> int:
    """Return the sum of |entries| of all tables, exactly."""
    bits = arguments.tables(tables, "tables", read_only=True)
    found = np.empty(2 + -(-tables.size // MASS_BLOCK), dtype=np.int64)
    call(f"faintly_weigh_{bits}", tables, 1, tables.size, found)
    return _mass(found)


def _mass(found: IntArray) -> int:
    """Return the largest sum of |entries| of a row, which comes in two halves."""
    return (int(found[0]) << 32) + int(found[1])


def gather(tables: TableArray, ids: IdArray, maps: LinearMaps, blocks: int) -> IntArray:
    """Return sum and largest over the maps of what tables hold for each id; see reference."""
    width, ids = arguments.gathered(tables, ids, maps.maps, blocks)
    found = np.zeros((2, len(ids)), dtype=np.int64)
    found[1] = np.iinfo(np.int64).min
    public = public_maps(maps)

    def work(a: int, b: int) -> None:
        some = (tables, tables.shape[1], blocks, ids[a:b], b - a)
        call(f"faintly_gather_{width}", *some, *public, found[0, a:b], found[1, a:b])

    parallel(work, len(ids), KEYS)
    return found


def public_maps(maps: LinearMaps) -> list[AnyArray | int]:
    """Return the public maps as kernels.c takes them."""
    columns = (maps.factor, maps.offset, maps.mask_key, maps.fold_key)
    sizes = (int(maps.bijective), maps.maps, maps.bits)
    return [*(np.ascontiguousarray(column) for column in columns), *sizes]


def map_codes(ids: IdArray, factor: WordArray, offset: WordArray, bits: int) -> WordArray:
    """Return the code of each id under a bijection of `bits` bits; see reference."""
    ids, factor, offset = arguments.bijection(ids, factor, offset, bits)
    codes = np.empty(len(ids), dtype=np.uint32)

    def work(a: int, b: int) -> None:
        rounds = (factor, offset, len(factor))
        call("faintly_map_codes", ids[a:b], b - a, *rounds, bits, codes[a:b])

    parallel(work, len(ids), KEYS)
    return codes


def hash_ids(key: int, ids: IdArray, tag: int) -> WordArray:
    """Return the hash of each id ‖ tag under one key."""
    ids = arguments.one_key(key, ids, tag)
    words = np.empty(len(ids), dtype=np.uint32)

    def work(a: int, b: int) -> None:
        call("faintly_hash_ids", key, ids[a:b], b - a, tag, words[a:b])

    parallel(work, len(ids), KEYS)
    return words


def read_cells(index: WordArray, weight: NarrowArray, codes: WordArray) -> IntArray:
    """Return Σ_i weight_i·(-1)^<index_i,code> for each code, over cells i of one table."""
    index, weight, codes = arguments.read_cells(index, weight, codes)

    def read(some: slice, asked: slice, totals: IntArray) -> None:
        columns, keys = (index[some], weight[some]), codes[asked]
        call("faintly_read_cells", *columns, len(columns[0]), keys, len(keys), totals)

    return read_in_slices(read, len(index), len(codes), pairs=SLICED_PAIRS)[0]


def read_prf(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return Σ_i s_i(x)·values[i, h_i(x)] for each id x, hashing with HalfSipHash."""
    return _read_hashed("faintly_read_prf", seeds, values, ids)


def read_blake2s(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return Σ_i s_i(x)·values[i, h_i(x)] for each id x, hashing with keyed BLAKE2s."""
    return _read_hashed("faintly_read_blake2s", seeds, values, ids)


def _read_hashed(name: str, seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    seeds, values, ids = arguments.hashed_reports(seeds, values, ids)

    def read(some: slice, asked: slice, totals: IntArray) -> None:
        mine, keys = seeds[some], ids[asked]
        call(name, mine, values[some], values.shape[1], len(mine), keys, len(keys), totals)

    return read_in_slices(read, len(seeds), len(ids))[0]


def hash_each(seeds: IdArray, ids: IdArray, tag: int) -> WordArray:
    """Return the word that ids[i] ‖ tag hashes to under seeds[i]."""
    arguments.one_byte(tag, "tag")
    seeds, ids = arguments.own_keys(seeds, ids, 1, arguments.MOST_WORDS)
    words = np.empty(len(ids), dtype=np.uint32)
    call("faintly_hash_each", seeds, ids, len(ids), tag, words)
    return words


def hash_words(seeds: IdArray, ids: IdArray, tag: int, count: int) -> WordArray:
    """Return words (items, count): entry [i, w] hashes ids[i] ‖ tag ‖ w under seeds[i]."""
    arguments.one_byte(tag, "tag")
    seeds, ids = arguments.own_keys(seeds, ids, count, arguments.MOST_WORDS)
    words = np.empty((len(ids), count), dtype=np.uint32)
    call("faintly_hash_words", seeds, ids, len(ids), tag, count, words)
    return words


def hash_wide(seeds: IdArray, ids: IdArray, count: int) -> WordArray:
    """Return words (items, count) of BLAKE2s, eight from each call."""
    seeds, ids = arguments.own_keys(seeds, ids, count, 8 * arguments.MOST_WORDS)
    words = np.empty((len(ids), count), dtype=np.uint32)
    call("faintly_hash_wide", seeds, ids, len(ids), count, words)
    return words


def solve_gf2(
    offsets: IntArray, order: WordArray, rows: WordArray, answers: IntArray, free: WordArray
) -> WordArray:
    """Return for each segment a vector over GF(2) that answers its equations; see reference."""
    offsets, order, rows, answers, free = arguments.equations(offsets, order, rows, answers, free)
    solutions = free.copy()
    words = rows.shape[1]
    longest = int(np.diff(offsets).max(initial=0))
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
    seeds, payload, ids = arguments.parity_reports(seeds, payload, ids)

    def read(some: slice, asked: slice, totals: IntArray) -> None:
        columns = np.ascontiguousarray(payload[some].T)  # the loop over reports runs along memory
        keys = ids[asked]
        call("faintly_read_parity", seeds[some], columns, *columns.shape, keys, len(keys), totals)

    return read_in_slices(read, len(seeds), len(ids))[0]


def read_slots(
    seeds: IdArray, slots: WordArray, ids: IdArray, bins: int
) -> tuple[IntArray, IntArray]:
    """Return Σ_i hit·sign and Σ_i hit for each id x, hashing with HalfSipHash; see reference."""
    seeds, slots, ids = arguments.slot_reports(seeds, slots, ids, bins)

    def read(some: slice, asked: slice, totals: IntArray) -> None:
        mine, keys = seeds[some], ids[asked]
        columns = (mine, *slots[:, some], len(mine))
        call("faintly_read_slots", *columns, bins, keys, len(keys), *totals)

    totals, hits = read_in_slices(read, len(seeds), len(ids), sums=2)
    return totals, hits


def project_prf(
    seeds: IdArray, offsets: IntArray, ids: IdArray, negative: AnyArray, groups: int
) -> IntArray:
    """Return Σ σ·s_g(x) over the items of each segment for each group; see reference."""
    seeds, offsets, negative = arguments.segments(seeds, offsets, negative)
    ids = arguments.projected_ids(ids, negative, groups)
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
    seeds, offsets, negative = arguments.segments(seeds, offsets, negative)
    codes = arguments.projected_codes(codes, negative, groups, bits)
    sums = np.empty((len(seeds), groups), dtype=np.int64)
    call("faintly_project_linear", seeds, offsets, len(seeds), codes, negative, groups, bits, sums)
    return sums


def shuffle_rows(records: AnyArray, keys: WordArray) -> AnyArray:
    """Return the rows in ascending order of their keys; rows of equal keys stay as they came."""
    records, keys = arguments.keyed_rows(records, keys)
    count, width = records.shape
    carried = width <= NARROW
    moved = np.empty_like(records) if carried else np.empty(0, dtype=np.uint8)
    pairs, shuffled = np.empty((2, count), dtype=np.uint64), np.empty_like(records)
    call("faintly_shuffle_rows", records, width, keys, count, carried, moved, *pairs, shuffled)
    return shuffled
