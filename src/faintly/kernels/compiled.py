"""The same kernels from kernels.c, where it was compiled at install; same signatures.

Arguments are checked before any memory is touched; the C code trusts them.
"""

import ctypes
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, WordArray
from faintly.kernels import arguments


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


def scatter_add(tables: IntArray, table: IntArray, index: IntArray, weight: IntArray) -> None:
    """Add weight[i] to tables[table[i], index[i]], in place."""
    table, index, weight = arguments.cells(tables, table, index, weight)
    _call("faintly_scatter_add", tables, tables.shape[1], table, index, weight, len(index))


def walsh_hadamard(rows: IntArray) -> None:
    """Replace each row f of 2^D integers by its transform Σ_r f[r]·(-1)^<r,c>, in place."""
    arguments.power_of_two_columns(rows)
    _call("faintly_walsh_hadamard", rows, rows.shape[0], rows.shape[1])


def read_linear(row: WordArray, matrix: WordArray, values: IntArray, codes: WordArray) -> IntArray:
    """Return Σ_i (-1)^<row_i,code>·values[i, A_i·code] for each code, over reports i."""
    row, matrix, values, codes = arguments.linear_reports(row, matrix, values, codes)
    totals = np.zeros(len(codes), dtype=np.int64)
    _call(
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
    _call(name, seeds, values, values.shape[1], len(seeds), ids, len(ids), totals)
    return totals
