"""The kernels of fields.py from fields.c: same signatures, same integers."""

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, WordArray
from faintly.kernels import threads
from faintly.kernels._native import call
from faintly.kernels.fields import (
    checked_parities,
    checked_points,
    checked_polynomials,
    checked_vectors,
    word_symbols,
)
from faintly.primitives import galois
from faintly.primitives.fields import Field

FAMILIES = {"prf": 0, "blake2s": 1, "wide": 2}  # fields.c has the same numbers
POINT_BLOCK = 32  # of read_points, likewise
POINT_REPORTS = 64  # from which on a table of the points' powers pays
POINT_LOOKUPS = 2**12  # in that table: 4 MiB


def add_points(
    coefficients: WordArray, points: AnyArray, values: AnyArray, counts: AnyArray, bits: int
) -> WordArray:
    """Return each polynomial changed so that it takes given values; see galois."""
    coefficients, points, values, counts = checked_points(
        coefficients, points, values, counts, bits
    )
    out, (rows, size) = coefficients.copy(), coefficients.shape
    repeated = np.zeros(1, dtype=np.int64)
    call(
        "add_points",
        *(out, rows, size, counts, points, values, bits, *galois.tables(bits)),
        *(np.empty(3 * size, dtype=np.uint32), repeated),
    )
    if repeated[0]:
        raise IndexError("the points of a row must be distinct")
    return out


def read_parity(seeds: IdArray, payload: WordArray, ids: IdArray) -> IntArray:
    """Return Σ_i (-1)^(<payload_i, a_i(x)> + c_i(x)) for each id x, hashing with HalfSipHash."""
    seeds, payload, ids = checked_parities(seeds, payload, ids)

    def read(some: slice, asked: slice, totals: IntArray) -> None:
        columns = np.ascontiguousarray(payload[some].T)  # the loop over reports runs along memory
        keys = ids[asked]
        call("read_parity", seeds[some], columns, *columns.shape, keys, len(keys), totals)

    return threads.read_in_slices(read, len(seeds), len(ids), threads.PAIRS)[0]


def read_inner(
    seeds: IdArray,
    symbols: AnyArray,
    ids: IdArray,
    readings: IntArray,
    *,
    field: Field,
    family: str,
) -> IntArray:
    """Return (2, ids): Σ_i s_i(x)·r and Σ_i r² with r = readings[<symbols_i, a_i(x)>]."""
    seeds, symbols, ids, readings = checked_vectors(
        seeds, symbols, ids, readings, field=field, family=family
    )
    size, each = symbols.shape[1], word_symbols(field, family)
    totals = np.zeros((2, len(ids)), dtype=np.int64)
    scratch = np.empty(size * field.order, dtype=np.uint32)
    call(
        "read_inner",
        *(seeds, symbols, size, len(seeds), ids, len(ids), readings),
        *(field.lanes, field.order, field.prime, each, FAMILIES[family], scratch, totals),
    )
    return totals


def read_polynomial(
    seeds: IdArray,
    fields: WordArray,
    ids: IdArray,
    readings: IntArray,
    *,
    bits: int,
    hashed: bool,
) -> IntArray:
    """Return (2, ids): Σ_i s_i(x)·r and Σ_i r² with r = readings[P_i(γ_i(x))]."""
    seeds, fields, ids, readings = checked_polynomials(
        seeds, fields, ids, readings, bits=bits, hashed=hashed
    )
    totals = np.zeros((2, len(ids)), dtype=np.int64)
    lookups = fields.shape[1] * -(-bits // 4)
    if not hashed and len(seeds) >= POINT_REPORTS and lookups <= POINT_LOOKUPS:
        call(
            "read_points",
            *(fields, fields.shape[1], len(seeds), ids, len(ids), readings, bits),
            *(*galois.tables(bits), np.empty((16 * lookups + 1) * POINT_BLOCK, np.uint16), totals),
        )
        return totals
    table = np.empty(2**bits, dtype=np.uint32)
    call(
        "read_polynomial",
        *(seeds, fields, fields.shape[1], len(seeds), ids, len(ids), readings, bits),
        *(int(hashed), *galois.tables(bits), table, totals),
    )
    return totals
