"""Tables of sums: adding cells, transforming, looking up."""

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, NarrowArray, TableArray, WordArray
from faintly.kernels import threads
from faintly.kernels.arguments import arrays
from faintly.kernels.hashing import public_maps
from faintly.kernels.language import in_c
from faintly.kernels.native import call
from faintly.primitives import hashing

CELLS = "index u32[n], weight i32[n]"
MASS_BLOCK = 4096  # entries summed together; tables.c has the same number
COLUMNS = 64  # least part of a long row for a thread; whole vectors in every instruction set


def scatter_add(tables: TableArray, index: WordArray, weight: NarrowArray, mass: int) -> int:
    """Add weight[i] to the entry index[i] of the flattened tables, in place.

    Args:
        tables: (rows, columns) of int32 or int64.
        index: uint32 positions, row by row.
        weight: int32.
        mass: the sum of |weights| that the tables hold already. It bounds every entry of the
            tables and of their transform, so that neither can overflow.

    Returns:
        The mass with these cells; OverflowError before anything is added if it is too large.
    """
    bits = table_bits(tables, "tables")
    # Cells that lie in the tables would change while they are added.
    index, weight = (
        column.copy() if np.may_share_memory(tables, column) else column
        for column in arrays(CELLS, index, weight)
    )
    if in_c():
        measured = np.zeros(2, dtype=np.int64)
        call("measure_cells", index, weight, len(index), measured)
        largest, added = measured.tolist()
    else:
        largest = int(index.max(initial=0))
        added = int(np.abs(weight.astype(np.int64)).sum())
    if len(index) and largest >= tables.size:
        raise IndexError("a cell lies outside its table")
    if mass < 0 or mass + added >= 2 ** (bits - 1):
        raise OverflowError(f"tables of {bits} bits could overflow; widen them first")
    if in_c():
        call(f"scatter_add_{bits}", tables, tables.size, index, weight, len(index))
    else:
        np.add.at(tables.reshape(-1), index, weight)
    return mass + added


def walsh_hadamard(rows: TableArray) -> None:
    """Replace each row f of 2^D integers by its transform Σ_r f[r]·(-1)^<r,c>, in place."""
    bits = table_bits(rows, "rows")
    count, size = rows.shape
    if size == 0 or size & (size - 1):
        raise TypeError("rows must have a power of two of columns")
    if in_c():
        _transform_in_c(rows, bits)
        return
    _check_transform(_heaviest(rows), bits)
    half = 1
    while half < size:
        pairs = rows.reshape(count, size // (2 * half), 2, half)
        top = pairs[:, :, 0] + pairs[:, :, 1]
        pairs[:, :, 1] = pairs[:, :, 0] - pairs[:, :, 1]
        pairs[:, :, 0] = top
        half *= 2


def _transform_in_c(rows: TableArray, bits: int) -> None:
    """Transform rows on several threads, which share the rows or the columns of a long one."""
    count, size = rows.shape
    found = _weighed(rows.reshape(1, -1), bits)  # all rows together: a fast check
    if _mass(found) >= 2 ** (bits - 1):
        _check_transform(_mass(_weighed(rows, bits)), bits)
    name = f"walsh_hadamard_{bits}"
    if size < threads.LONG or count >= threads.threads():
        least = -(-threads.ENTRIES // size)
        threads.parallel(
            lambda a, b: call(name, rows, a * size, b * size, size, found), count, least
        )
        return
    part = size // 8
    threads.parallel(lambda a, b: call(name, rows, a * part, b * part, part, found), 8 * count, 1)
    for row in rows:
        _join(row, bits)


def _join(row: TableArray, bits: int) -> None:
    """Finish one row whose eighths are transformed: threads share its columns."""
    part = len(row) // 8
    threads.parallel(
        lambda a, b: call(f"join_{bits}", row, part, a * COLUMNS, b * COLUMNS),
        part // COLUMNS,
        -(-threads.ENTRIES // (8 * COLUMNS)),
    )


def _check_transform(heaviest: int, bits: int) -> None:
    """Refuse rows whose transform might overflow."""
    if heaviest >= 2 ** (bits - 1):
        raise OverflowError(f"rows of {bits} bits could overflow; widen them first")


def _weighed(rows: TableArray, bits: int) -> IntArray:
    """Return the largest sum of |entries| of a row, and which blocks are light, from C."""
    count, size = rows.shape
    found = np.empty(2 + count * -(-size // MASS_BLOCK), dtype=np.int64)
    call(f"weigh_{bits}", rows, count, size, found)
    return found


def _mass(found: IntArray) -> int:
    """Return the largest sum of |entries| of a row, which comes in two halves."""
    return (int(found[0]) << 32) + int(found[1])


def _heaviest(rows: TableArray) -> int:
    """Return the largest sum of |entries| of a row, as an integer that cannot overflow."""
    magnitudes = np.abs(rows.astype(np.int64)).view(np.uint64)  # also right for -2^63
    upper = (magnitudes >> np.uint64(32)).sum(axis=1).tolist()
    lower = (magnitudes & hashing.LOW32).sum(axis=1).tolist()
    return max(((a << 32) + b for a, b in zip(upper, lower, strict=True)), default=0)


def total_mass(tables: TableArray) -> int:
    """Return the sum of |entries| of all tables, exactly."""
    bits = table_bits(tables, "tables", read_only=True)
    row = tables.reshape(1, -1)
    return _mass(_weighed(row, bits)) if in_c() else _heaviest(row)


def gather(
    tables: TableArray, ids: IdArray, maps: hashing.LinearMaps, blocks: int, *, signed: bool = True
) -> IntArray:
    """Return (2, ids): sum and largest, over the maps, of what transformed tables have for each id.

    A map has `blocks` tables, and the code of an id names one of them and an entry in it. The
    public sign of the id multiplies the entry, unless `signed` is False.
    """
    bits = table_bits(tables, "tables", read_only=True)
    rows, size = tables.shape
    if blocks < 1 or rows != maps.maps * blocks or size < 1 or size & (size - 1):
        raise TypeError("tables must have a row for each map and block, of 2^D columns")
    (ids,) = arrays("ids u64[n]", ids)
    found = np.zeros((2, len(ids)), dtype=np.int64)
    found[1] = np.iinfo(np.int64).min
    if in_c():
        public = public_maps(maps)

        def work(a: int, b: int) -> None:
            some = (tables, size, blocks, ids[a:b], b - a)
            call(f"gather_{bits}", *some, *public, int(signed), found[0, a:b], found[1, a:b])

        threads.parallel(work, len(ids), threads.KEYS)
        return found
    for j in range(maps.maps):
        here = np.array([j])  # an array, since scalar hashing would warn of overflow
        codes = maps.codes(ids, here).astype(np.int64)
        table, column = j * blocks + codes % blocks, codes // blocks & (size - 1)
        own = tables[table, column].astype(np.int64)
        if signed:
            own *= maps.masks(ids, here)
        found[0] += own
        np.maximum(found[1], own, out=found[1])
    return found


def read_cells(index: WordArray, weight: NarrowArray, codes: WordArray) -> IntArray:
    """Return Σ_i weight_i·(-1)^<index_i,code> for each code, over cells i of one table."""
    index, weight = arrays(CELLS, index, weight)
    (codes,) = arrays("codes u32[n]", codes)

    def read(some: slice, queried: slice, sums: IntArray) -> None:
        columns, keys = (index[some], weight[some]), codes[queried]
        call("read_cells", *columns, len(columns[0]), keys, len(keys), sums)

    if in_c():
        return threads.read_in_slices(read, len(index), len(codes), threads.SLICED_PAIRS)[0]
    totals = np.zeros(len(codes), dtype=np.int64)
    for position, code in enumerate(codes):
        totals[position] = (hashing.to_signs(hashing.parity(index & code)) * weight).sum()
    return totals


def table_bits(array: AnyArray, name: str, *, read_only: bool = False) -> int:
    """Return the bits of an integer of the tables; refuse tables that C cannot use in place."""
    fits = array.dtype in (np.int32, np.int64) and array.ndim == 2
    if not (fits and array.flags.c_contiguous and array.flags.aligned):
        raise TypeError(f"{name} must be int32 or int64, aligned, C-contiguous, of 2 dimensions")
    if not read_only and not array.flags.writeable:
        raise TypeError(f"{name} must be writeable")
    return 8 * array.itemsize
