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


def cells(tables: AnyArray, table: AnyArray, index: AnyArray, weight: AnyArray) -> list[AnyArray]:
    """Return the columns of cells, all of which lie inside the tables."""
    in_place(tables, np.int64, 2, "tables")
    columns = [
        exactly(column, np.int64, 1, name)
        for name, column in (("table", table), ("index", index), ("weight", weight))
    ]
    same_length(table=table, index=index, weight=weight)
    if len(index) and not (
        0 <= table.min() <= table.max() < tables.shape[0]
        and 0 <= index.min() <= index.max() < tables.shape[1]
    ):
        raise IndexError("a cell lies outside its table")
    return columns


def power_of_two_columns(rows: AnyArray) -> None:
    """Refuse what no Walsh-Hadamard transform can take in place."""
    in_place(rows, np.int64, 2, "rows")
    if rows.shape[1] == 0 or rows.shape[1] & (rows.shape[1] - 1):
        raise TypeError("rows must have a power of two of columns")


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
