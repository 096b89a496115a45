"""The kernels of tables.py from tables.c: same signatures, same integers."""

import numpy as np

from faintly.core.arrays import IdArray, IntArray, NarrowArray, TableArray, WordArray
from faintly.kernels import threads
from faintly.kernels._native import call
from faintly.kernels.compiled.hashing import public_maps
from faintly.kernels.tables import (
    apart,
    check_inside,
    check_transform,
    checked_cells,
    checked_cells_and_codes,
    checked_gather,
    mass_after,
    table_bits,
    transform_bits,
)
from faintly.kernels.threads import parallel
from faintly.primitives.hashing import LinearMaps

MASS_BLOCK = 4096  # entries weighed together; tables.c has the same number
COLUMNS = 64  # of a long row that threads share; whole vectors for every instruction set


def scatter_add(tables: TableArray, index: WordArray, weight: NarrowArray, mass: int) -> int:
    """Add weight[i] to the entry index[i] of the flattened tables, in place."""
    bits = table_bits(tables, "tables")
    index, weight = apart(tables, *checked_cells(index, weight))
    measured = np.zeros(2, dtype=np.int64)
    call("measure_cells", index, weight, len(index), measured)
    check_inside(int(measured[0]) if len(index) else -1, tables.size)
    mass = mass_after(mass, int(measured[1]), bits)
    call(f"scatter_add_{bits}", tables, tables.size, index, weight, len(index))
    return mass


def walsh_hadamard(rows: TableArray) -> None:
    """Replace each row f of 2^D integers by its transform Σ_r f[r]·(-1)^<r,c>, in place."""
    bits = transform_bits(rows)
    count, size = rows.shape
    found = np.empty(2 + -(-rows.size // MASS_BLOCK), dtype=np.int64)
    call(f"weigh_{bits}", rows, 1, rows.size, found)  # all rows together: a quick look
    if _mass(found) >= 2 ** (bits - 1):
        each = np.empty(2 + count * -(-size // MASS_BLOCK), dtype=np.int64)
        call(f"weigh_{bits}", rows, count, size, each)
        check_transform(_mass(each), bits)
    name = f"walsh_hadamard_{bits}"
    if size < threads.LONG or count >= threads.threads():
        least = -(-threads.ENTRIES // size)
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
        lambda a, b: call(f"join_{bits}", row, part, a * COLUMNS, b * COLUMNS),
        part // COLUMNS,
        -(-threads.ENTRIES // (8 * COLUMNS)),
    )


def total_mass(tables: TableArray) -> int:
    """Return the sum of |entries| of all tables, exactly."""
    bits = table_bits(tables, "tables", read_only=True)
    found = np.empty(2 + -(-tables.size // MASS_BLOCK), dtype=np.int64)
    call(f"weigh_{bits}", tables, 1, tables.size, found)
    return _mass(found)


def _mass(found: IntArray) -> int:
    """Return the largest sum of |entries| of a row, which comes in two halves."""
    return (int(found[0]) << 32) + int(found[1])


def gather(tables: TableArray, ids: IdArray, maps: LinearMaps, blocks: int) -> IntArray:
    """Return sum and largest over the maps of what tables hold for each id."""
    width, ids = checked_gather(tables, ids, maps.maps, blocks)
    found = np.zeros((2, len(ids)), dtype=np.int64)
    found[1] = np.iinfo(np.int64).min
    public = public_maps(maps)

    def work(a: int, b: int) -> None:
        some = (tables, tables.shape[1], blocks, ids[a:b], b - a)
        call(f"gather_{width}", *some, *public, found[0, a:b], found[1, a:b])

    parallel(work, len(ids), threads.KEYS)
    return found


def read_cells(index: WordArray, weight: NarrowArray, codes: WordArray) -> IntArray:
    """Return Σ_i weight_i·(-1)^<index_i,code> for each code, over cells i of one table."""
    index, weight, codes = checked_cells_and_codes(index, weight, codes)

    def read(some: slice, asked: slice, totals: IntArray) -> None:
        columns, keys = (index[some], weight[some]), codes[asked]
        call("read_cells", *columns, len(columns[0]), keys, len(keys), totals)

    return threads.read_in_slices(read, len(index), len(codes), threads.SLICED_PAIRS)[0]
