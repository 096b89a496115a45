"""The same kernels from kernels.c, where it was compiled at install; same signatures.

Arguments are checked here, before any memory is touched; the C code trusts them.
"""

import ctypes
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, WordArray


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


def _call(name: str, *arguments: AnyArray | int) -> None:
    assert _library is not None
    function: Any = getattr(_library, name)
    function.restype = None
    function(
        *(
            ctypes.c_int64(value) if isinstance(value, int) else ctypes.c_void_p(value.ctypes.data)
            for value in arguments
        )
    )


def _exactly(array: AnyArray, dtype: type, dimensions: int, name: str) -> None:
    """Refuse an array whose bytes are not what the C code will read and write."""
    if array.dtype != dtype or array.ndim != dimensions or not array.flags.c_contiguous:
        raise TypeError(
            f"{name} must be a C-contiguous {np.dtype(dtype).name} array "
            f"of {dimensions} dimension(s)"
        )


def _as(array: AnyArray, dtype: type, dimensions: int, name: str) -> AnyArray:
    """Return the array as the C code wants it, copying where needed but never changing values."""
    converted: AnyArray = np.ascontiguousarray(array, dtype=dtype)
    if converted.ndim != dimensions:
        raise TypeError(f"{name} must have {dimensions} dimension(s)")
    return converted


def scatter_add(tables: IntArray, table: IntArray, index: IntArray, weight: IntArray) -> None:
    """Add weight[i] to tables[table[i], index[i]], in place."""
    _exactly(tables, np.int64, 2, "tables")
    table = _as(table, np.int64, 1, "table")
    index = _as(index, np.int64, 1, "index")
    weight = _as(weight, np.int64, 1, "weight")
    if not len(table) == len(index) == len(weight):
        raise TypeError("table, index and weight must have the same length")
    if len(index) and not (
        0 <= table.min() <= table.max() < tables.shape[0]
        and 0 <= index.min() <= index.max() < tables.shape[1]
    ):
        raise IndexError("a cell lies outside its table")
    _call("faintly_scatter_add", tables, tables.shape[1], table, index, weight, len(index))


def walsh_hadamard(rows: IntArray) -> None:
    """Replace each row f of 2^D integers by its transform Σ_r f[r]·(-1)^<r,c>, in place."""
    _exactly(rows, np.int64, 2, "rows")
    size = rows.shape[1]
    if size == 0 or size & (size - 1):
        raise TypeError("rows must have a power of two of columns")
    _call("faintly_walsh_hadamard", rows, rows.shape[0], size)


def read_linear(row: WordArray, matrix: WordArray, values: IntArray, codes: WordArray) -> IntArray:
    """Return Σ_i (-1)^<row_i,code>·values[i, A_i·code] for each code, over reports i."""
    row = _as(row, np.uint32, 1, "row")
    matrix = _as(matrix, np.uint32, 2, "matrix")
    values = _as(values, np.int64, 2, "values")
    codes = _as(codes, np.uint32, 1, "codes")
    width = matrix.shape[1]
    if not (len(row) == len(matrix) == len(values) and values.shape[1] == 2**width):
        raise TypeError("row, matrix and values must describe the same reports")
    totals = np.zeros(len(codes), dtype=np.int64)
    _call("faintly_read_linear", row, matrix, width, values, len(row), codes, len(codes), totals)
    return totals


def read_prf(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return Σ_i s_i(x)·values[i, h_i(x)] for each id x, hashing with HalfSipHash."""
    return _read_hashed("faintly_read_prf", seeds, values, ids)


def read_blake2s(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return Σ_i s_i(x)·values[i, h_i(x)] for each id x, hashing with keyed BLAKE2s."""
    return _read_hashed("faintly_read_blake2s", seeds, values, ids)


def _read_hashed(name: str, seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    seeds = _as(seeds, np.uint64, 1, "seeds")
    values = _as(values, np.int64, 2, "values")
    ids = _as(ids, np.uint64, 1, "ids")
    if len(seeds) != len(values) or values.shape[1] < 1:
        raise TypeError("seeds and values must describe the same reports")
    totals = np.zeros(len(ids), dtype=np.int64)
    _call(name, seeds, values, values.shape[1], len(seeds), ids, len(ids), totals)
    return totals
