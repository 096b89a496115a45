"""Reading solutions and polynomials over small fields."""

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, WordArray
from faintly.kernels import threads
from faintly.kernels.arguments import arrays, elements, exactly
from faintly.kernels.hashing import MOST_WORDS, hash_words
from faintly.kernels.language import in_c
from faintly.kernels.native import call
from faintly.primitives import galois, hashing
from faintly.primitives.fields import LANE, Field

ROW_WORDS = {"prf": 256, "blake2s": 256, "wide": 2047}  # most of a row; `wide` keeps one for signs
FAMILIES = {"prf": 0, "blake2s": 1, "wide": 2}  # fields.c has the same numbers
POINT_BLOCK = 32  # points that read_points takes at a time; fields.c has the same number
POINT_REPORTS = 64  # from here on a table of the points' powers is faster
POINT_LOOKUPS = 2**12  # in that table: 4 MiB


def add_points(
    coefficients: WordArray, points: AnyArray, values: AnyArray, counts: AnyArray, bits: int
) -> WordArray:
    """Return polynomials changed to take given values, as `galois.add_points` does."""
    described = "coefficients u32[rows,size], counts i64[rows]"
    coefficients, counts = arrays(described, coefficients, counts)
    _check_field_bits(bits)
    elements(coefficients, 2**bits)
    points, values = _as_words(points, 2**bits, "points"), _as_words(values, 2**bits, "values")
    rows, size = coefficients.shape
    if not 0 <= counts.min(initial=0) <= counts.max(initial=0) <= size:
        raise TypeError("counts must say for each row how many points it has, at most its size")
    if not len(points) == len(values) == counts.sum():
        raise TypeError("points and values must be those of all rows")
    if in_c():
        out, repeated = coefficients.copy(), np.zeros(1, dtype=np.int64)
        call(
            "add_points",
            *(out, rows, size, counts, points, values, bits, *galois.tables(bits)),
            *(np.empty(3 * size, dtype=np.uint32), repeated),
        )
        if repeated[0]:
            raise IndexError("the points of a row must be distinct")
        return out
    return galois.add_points(coefficients, points, values, counts, bits)


def read_parity(seeds: IdArray, payload: WordArray, ids: IdArray) -> IntArray:
    """Return Σ_i (-1)^(<payload_i, a_i(x)> + c_i(x)) for each id x, hashing with HalfSipHash."""
    described = "seeds u64[n], payload u32[n,words], ids u64[keys]"
    seeds, payload, ids = arrays(described, seeds, payload, ids)
    if not 1 <= payload.shape[1] <= MOST_WORDS:
        raise TypeError("payload must have between 1 and 256 words")

    def read(some: slice, queried: slice, sums: IntArray) -> None:
        columns = np.ascontiguousarray(payload[some].T)  # contiguous along reports
        keys = ids[queried]
        call("read_parity", seeds[some], columns, *columns.shape, keys, len(keys), sums)

    if in_c():
        return threads.read_in_slices(read, len(seeds), len(ids), threads.PAIRS)[0]
    totals = np.zeros(len(ids), dtype=np.int64)
    for position, item in enumerate(ids):
        repeated = np.full(len(seeds), item, dtype=np.uint64)
        rows = hash_words(seeds, repeated, hashing.EQUATION, payload.shape[1])
        folded = np.bitwise_xor.reduce(rows & payload, axis=1, dtype=np.uint32)
        coins = hash_words(seeds, repeated, hashing.COIN, 1)[:, 0]
        totals[position] = hashing.to_signs(hashing.parity(folded) ^ (coins & 1)).sum()
    return totals


def read_inner(
    seeds: IdArray,
    symbols: AnyArray,
    ids: IdArray,
    readings: IntArray,
    *,
    field: Field,
    family: str,
) -> IntArray:
    """Return (2, ids): Σ_i s_i(x)·r and Σ_i r² with r = readings[<symbols_i, a_i(x)>].

    Args:
        seeds: (reports,).
        symbols: (reports, size) of the field.
        ids: (count,).
        readings: what each of the q symbols counts.
        field: of q elements; a power of two for the families prf and blake2s.
        family: that rows a_i(x) and signs s_i(x) are hashed by. In the family `wide` the
            sign is the lowest bit of the word after the row's.
    """
    symbols = exactly(symbols, np.uint8 if symbols.dtype == np.uint8 else np.uint32, 2, "symbols")
    seeds, ids, readings = _checked_readings(seeds, symbols, ids, readings, field.order)
    each = _word_symbols(symbols.shape[1], field, family)
    symbols = symbols.astype(np.uint8, copy=False)
    totals = np.zeros((2, len(ids)), dtype=np.int64)
    if in_c():
        size = symbols.shape[1]
        scratch = np.empty(size * field.order, dtype=np.uint32)
        call(
            "read_inner",
            *(seeds, symbols, size, len(seeds), ids, len(ids), readings),
            *(field.lanes, field.order, field.prime, each, FAMILIES[family], scratch, totals),
        )
        return totals
    for position, item in enumerate(ids):
        repeated = np.full(len(seeds), item, dtype=np.uint64)
        rows, signs = _hashed(seeds, repeated, symbols.shape[1], field.order, family)
        _count(totals[:, position], readings[field.inner(symbols, rows)], signs)
    return totals


def _word_symbols(size: int, field: Field, family: str) -> int:
    """Return how many symbols of a row a word of the hash gives, or refuse a row too long."""
    power_of_two = field.prime == 2
    if family not in ROW_WORDS or not (power_of_two or family == "wide"):
        raise TypeError("rows are hashed by wide; or prf or blake2s, over a power of two")
    wide = family == "wide"
    each = hashing.word_digits(field.order) if wide else 32 // (field.order.bit_length() - 1)
    sums_fit = power_of_two or size * (field.prime - 1) < 2**LANE
    if -(-size // each) > ROW_WORDS[family] or not sums_fit:
        raise TypeError("rows are too long for the hash, or sums for their lanes")
    return each


def _hashed(
    seeds: IdArray, ids: IdArray, size: int, order: int, family: str
) -> tuple[AnyArray, IntArray]:
    """Return the rows and signs of ids."""
    if family == "wide":
        words = -(-size // hashing.word_digits(order))
        hashed = hashing.wide_words(seeds, ids, words + 1)
        rows = hashing.base_digits(hashed[:, :words], order, size)
        return rows, hashing.to_signs(hashed[:, words])
    bits = order.bit_length() - 1
    count = hashing.symbol_words(size, bits)
    hashed = hashing.hash_words(seeds, ids, hashing.SYMBOL, count, family)
    return hashing.unpack_symbols(hashed, size, bits), hashing.places(seeds, ids, 1, family).signs


def read_polynomial(
    seeds: IdArray,
    fields: WordArray,
    ids: IdArray,
    readings: IntArray,
    *,
    bits: int,
    hashed: bool,
) -> IntArray:
    """Return (2, ids): Σ_i s_i(x)·r and Σ_i r² with r = readings[P_i(γ_i(x))].

    P_i has the coefficients fields[i], constant term first. Where not `hashed`, an id is its
    own point γ and every sign is +1.
    """
    (fields,) = arrays("fields u32[n,size]", fields)
    _check_field_bits(bits)
    seeds, ids, readings = _checked_readings(seeds, fields, ids, readings, 2**bits)
    if not hashed and ids.max(initial=0) >= 2**bits:
        raise IndexError("an id is not a point of the field")
    totals = np.zeros((2, len(ids)), dtype=np.int64)
    if in_c():
        size, given, tables = fields.shape[1], (ids, len(ids), readings, bits), galois.tables(bits)
        lookups = size * -(-bits // 4)
        if not hashed and len(seeds) >= POINT_REPORTS and lookups <= POINT_LOOKUPS:
            powers = np.empty((16 * lookups + 1) * POINT_BLOCK, np.uint16)
            call("read_points", fields, size, len(seeds), *given, *tables, powers, totals)
        else:
            columns, scratch = (seeds, fields, size, len(seeds)), np.empty(2**bits, np.uint32)
            call("read_polynomial", *columns, *given, int(hashed), *tables, scratch, totals)
        return totals
    for position, item in enumerate(ids):
        if hashed:
            repeated = np.full(len(seeds), item, dtype=np.uint64)
            where, signs = hashing.points(seeds, repeated, bits)
        else:
            where, signs = np.full(len(seeds), item, np.uint32), np.ones(len(seeds), np.int64)
        symbols = galois.evaluate(fields, where, bits)
        _count(totals[:, position], readings[symbols], signs)
    return totals


def _count(totals: IntArray, read: IntArray, signs: IntArray) -> None:
    totals[0] += (signs * read).sum()
    totals[1] += (read * read).sum()


def _check_field_bits(bits: int) -> None:
    """Refuse bits that no field of polynomials has."""
    if not 1 <= bits <= galois.MAX_BITS:
        raise IndexError(f"there is no field of {bits} bits")


def _checked_readings(
    seeds: AnyArray, symbols: AnyArray, ids: AnyArray, readings: AnyArray, order: int
) -> list[AnyArray]:
    """Return the columns of reports over a field."""
    elements(symbols, order)
    if len(seeds) != len(symbols) or symbols.shape[1] < 1 or len(readings) != order:
        raise TypeError("seeds and symbols must describe the same reports, readings every symbol")
    return arrays("seeds u64[n], ids u64[keys], readings i64[order]", seeds, ids, readings)


def _as_words(symbols: AnyArray, order: int, name: str) -> AnyArray:
    """Return integers as words, or refuse those that are not elements of the field."""
    if symbols.dtype.kind not in "iu" or symbols.ndim != 1:
        raise TypeError(f"{name} must be integers of 1 dimension")
    elements(symbols, order)
    return symbols.astype(np.uint32)
