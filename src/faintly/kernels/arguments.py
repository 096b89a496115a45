"""What both implementations demand of their arguments, before any memory is touched."""

import numpy as np

from faintly.core.arrays import AnyArray


def exactly(array: AnyArray, dtype: type, dimensions: int, name: str) -> AnyArray:
    """Return the array in C order, or refuse one of another type or shape: values never change."""
    if array.dtype == np.bool_ and dtype is np.uint8:
        array = array.view(np.uint8)  # the same bytes, 0 and 1
    if array.dtype != dtype or array.ndim != dimensions:
        raise TypeError(f"{name} must be {np.dtype(dtype).name} of {dimensions} dimension(s)")
    return np.ascontiguousarray(array)


def in_place(array: AnyArray, dtype: type, dimensions: int, name: str) -> None:
    """Refuse an array that cannot be changed where it lies."""
    if array.dtype != dtype or array.ndim != dimensions or not array.flags.c_contiguous:
        raise TypeError(
            f"{name} must be a C-contiguous {np.dtype(dtype).name} array "
            f"of {dimensions} dimension(s)"
        )
    if not array.flags.writeable:
        raise TypeError(f"{name} must be writeable")


def same_length(**arrays: AnyArray) -> None:
    """Refuse columns of different lengths."""
    if len({len(array) for array in arrays.values()}) > 1:
        raise TypeError(f"{', '.join(arrays)} must have the same length")


def tables(array: AnyArray, name: str) -> int:
    """Return the bits of the integers of a table that can be changed in place."""
    bits = {np.dtype(np.int32): 32, np.dtype(np.int64): 64}.get(array.dtype)
    if bits is None:
        raise TypeError(f"{name} must be int32 or int64, C-contiguous")
    in_place(array, np.int32 if bits == 32 else np.int64, 2, name)
    return bits


def cells(index: AnyArray, weight: AnyArray) -> list[AnyArray]:
    """Return the columns of cells."""
    same_length(index=index, weight=weight)
    return [exactly(index, np.uint32, 1, "index"), exactly(weight, np.int32, 1, "weight")]


def mass_after(mass: int, added: int, bits: int) -> int:
    """Return the sum of |weights| in a table, or refuse what its integers might not hold.

    No entry of a table, and none of its transform, exceeds this sum.
    """
    if mass < 0 or mass + added >= 2 ** (bits - 1):
        raise OverflowError(f"tables of {bits} bits could overflow; widen them first")
    return mass + added


def power_of_two_columns(rows: AnyArray) -> int:
    """Return the bits of rows that a Walsh-Hadamard transform can take in place."""
    bits = tables(rows, "rows")
    if rows.shape[1] == 0 or rows.shape[1] & (rows.shape[1] - 1):
        raise TypeError("rows must have a power of two of columns")
    return bits


def linear_reports(
    row: AnyArray, matrix: AnyArray, values: AnyArray, codes: AnyArray
) -> list[AnyArray]:
    """Return the columns of linear reports and the codes to read."""
    checked = [
        exactly(row, np.uint32, 1, "row"),
        exactly(matrix, np.uint32, 2, "matrix"),
        exactly(values, np.int64, 2, "values"),
        exactly(codes, np.uint32, 1, "codes"),
    ]
    same_length(row=row, matrix=matrix, values=values)
    if values.shape[1] != 2 ** matrix.shape[1]:
        raise TypeError("values must have a column for each bin that the matrix can name")
    return checked


def hashed_reports(seeds: AnyArray, values: AnyArray, ids: AnyArray) -> list[AnyArray]:
    """Return the columns of hashed reports and the ids to read."""
    checked = [
        exactly(seeds, np.uint64, 1, "seeds"),
        exactly(values, np.int64, 2, "values"),
        exactly(ids, np.uint64, 1, "ids"),
    ]
    same_length(seeds=seeds, values=values)
    if values.shape[1] < 1:
        raise TypeError("values must have at least one column")
    return checked
