"""Tables of sums, as plainly as numpy can say it; tables.c gives the same integers."""

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, NarrowArray, TableArray, WordArray
from faintly.kernels import arguments
from faintly.primitives import hashing


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
    index, weight = apart(tables, *checked_cells(index, weight))
    check_inside(int(index.max()) if len(index) else -1, tables.size)
    mass = mass_after(mass, int(np.abs(weight.astype(np.int64)).sum()), bits)
    np.add.at(tables.reshape(-1), index, weight)
    return mass


def walsh_hadamard(rows: TableArray) -> None:
    """Replace each row f of 2^D integers by its transform Σ_r f[r]·(-1)^<r,c>, in place."""
    bits = transform_bits(rows)
    check_transform(_heaviest(rows), bits)
    count, size = rows.shape
    half = 1
    while half < size:
        pairs = rows.reshape(count, size // (2 * half), 2, half)
        top = pairs[:, :, 0] + pairs[:, :, 1]
        pairs[:, :, 1] = pairs[:, :, 0] - pairs[:, :, 1]
        pairs[:, :, 0] = top
        half *= 2


def _heaviest(rows: TableArray) -> int:
    """Return the largest sum of |entries| of a row, as an integer that cannot overflow."""
    magnitudes = np.abs(rows.astype(np.int64)).view(np.uint64)  # also right for -2^63
    upper = (magnitudes >> np.uint64(32)).sum(axis=1).tolist()
    lower = (magnitudes & hashing.LOW32).sum(axis=1).tolist()
    return max(((a << 32) + b for a, b in zip(upper, lower, strict=True)), default=0)


def total_mass(tables: TableArray) -> int:
    """Return the sum of |entries| of all tables, exactly."""
    table_bits(tables, "tables", read_only=True)
    return _heaviest(tables.reshape(1, -1))


def gather(tables: TableArray, ids: IdArray, maps: hashing.LinearMaps, blocks: int) -> IntArray:
    """Return (2, ids): sum and largest, over the maps, of what transformed tables hold for each id.

    A map has `blocks` tables, and the code of an id names one of them and an entry in it; the
    public sign of the id turns what stands there.
    """
    _, ids = checked_gather(tables, ids, maps.maps, blocks)
    size = tables.shape[1]
    found = np.zeros((2, len(ids)), dtype=np.int64)
    found[1] = np.iinfo(np.int64).min
    for j in range(maps.maps):
        here = np.array([j])  # an array, since scalar hashing would warn of overflow
        codes = maps.codes(ids, here).astype(np.int64)
        rows, columns = j * blocks + codes % blocks, codes // blocks & (size - 1)
        own = maps.masks(ids, here) * tables[rows, columns].astype(np.int64)
        found[0] += own
        np.maximum(found[1], own, out=found[1])
    return found


def read_cells(index: WordArray, weight: NarrowArray, codes: WordArray) -> IntArray:
    """Return Σ_i weight_i·(-1)^<index_i,code> for each code, over cells i of one table."""
    index, weight, codes = checked_cells_and_codes(index, weight, codes)
    totals = np.zeros(len(codes), dtype=np.int64)
    for position, code in enumerate(codes):
        totals[position] = (hashing.to_signs(hashing.parity(index & code)) * weight).sum()
    return totals


def table_bits(array: AnyArray, name: str, *, read_only: bool = False) -> int:
    """Return the bits of the integers of tables, which can be changed unless only read."""
    bits = {np.dtype(np.int32): 32, np.dtype(np.int64): 64}.get(array.dtype)
    if bits is None:
        raise TypeError(f"{name} must be int32 or int64, C-contiguous")
    check = arguments.where_it_lies if read_only else arguments.in_place
    check(array, np.int32 if bits == 32 else np.int64, 2, name)
    return bits


def checked_cells(index: AnyArray, weight: AnyArray) -> list[AnyArray]:
    """Return the columns of cells."""
    checked = [
        arguments.exactly(index, np.uint32, 1, "index"),
        arguments.exactly(weight, np.int32, 1, "weight"),
    ]
    arguments.same_length(index=index, weight=weight)
    return checked


def checked_cells_and_codes(index: AnyArray, weight: AnyArray, codes: AnyArray) -> list[AnyArray]:
    """Return the columns of cells and the codes to read."""
    return [*checked_cells(index, weight), arguments.exactly(codes, np.uint32, 1, "codes")]


def check_inside(largest: int, size: int) -> None:
    """Refuse cells of which the largest is not below `size`."""
    if largest >= size:
        raise IndexError("a cell lies outside its table")


def apart(tables: AnyArray, *columns: AnyArray) -> list[AnyArray]:
    """Return columns that do not change while the tables do."""
    return [column.copy() if np.may_share_memory(tables, column) else column for column in columns]


def mass_after(mass: int, added: int, bits: int) -> int:
    """Return the sum of |weights| in a table, or refuse what its integers might not hold.

    No entry of a table, and none of its transform, exceeds this sum.
    """
    if mass < 0 or mass + added >= 2 ** (bits - 1):
        raise OverflowError(f"tables of {bits} bits could overflow; widen them first")
    return mass + added


def transform_bits(rows: AnyArray) -> int:
    """Return the bits of rows that a Walsh-Hadamard transform can take in place."""
    bits = table_bits(rows, "rows")
    if rows.shape[1] == 0 or rows.shape[1] & (rows.shape[1] - 1):
        raise TypeError("rows must have a power of two of columns")
    return bits


def check_transform(heaviest: int, bits: int) -> None:
    """Refuse rows of which one has a sum of |entries| that might overflow in a transform."""
    if heaviest >= 2 ** (bits - 1):
        raise OverflowError(f"rows of {bits} bits could overflow; widen them first")


def checked_gather(array: AnyArray, ids: AnyArray, maps: int, blocks: int) -> tuple[int, AnyArray]:
    """Return the bits of tables that have `blocks` rows for each map, and the ids to read there."""
    bits = table_bits(array, "tables", read_only=True)
    rows, size = array.shape
    if blocks < 1 or rows != maps * blocks or size < 1 or size & (size - 1):
        raise TypeError("tables must have a row for each map and block, of 2^D columns")
    return bits, arguments.exactly(ids, np.uint64, 1, "ids")
