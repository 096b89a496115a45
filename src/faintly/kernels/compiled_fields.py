"""The kernels of `reference_fields` from kernels.c: same signatures, same integers."""

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, WordArray
from faintly.kernels.arguments import ascending, exactly, same_length
from faintly.kernels.compiled import call
from faintly.primitives import galois, hashing
from faintly.primitives.fields import LANE, Field

FAMILIES = {"prf": 0, "blake2s": 1, "wide": 2}  # kernels.c has the same numbers
ROW_BLOCK, MULTIPLES = 16, 32  # of solve_words; kernels.c has the same numbers
POINT_BLOCK = 32  # of read_points, likewise
POINT_REPORTS = 64  # from which on a table of the points' powers pays
POINT_LOOKUPS = 2**12  # in that table: 4 MiB
MOST_WORDS = {"prf": 256, "blake2s": 256, "wide": 2047}  # the number of a block is one byte


def solve_field(
    offsets: IntArray, rows: AnyArray, answers: AnyArray, free: AnyArray, field: Field
) -> AnyArray:
    """Return for each segment a vector over the field that answers its equations."""
    own = exactly(rows, np.uint8, 2, "rows").copy()  # all three are worked on in place
    said = exactly(answers, np.uint8, 1, "answers").copy()
    solutions = exactly(free, np.uint8, 2, "free").copy()
    size = solutions.shape[1]
    if len(offsets) != len(solutions) + 1 or own.shape != (len(said), size):
        raise TypeError("offsets, rows, answers and free must describe the same items")
    offsets = ascending(offsets, len(said))
    for symbols in (own, said, solutions):
        _inside(symbols, field.order)
    kept, pivots = np.empty(max(1, size), np.int64), np.empty(max(1, size), np.int64)
    call(
        "faintly_solve_field",
        *(offsets, len(solutions), own, said, size, solutions),
        *(field.products, field.differences, field.inverses, field.order, field.prime),
        *(kept, pivots),
    )
    return solutions


def solve_words(
    offsets: IntArray,
    order: WordArray,
    rows: WordArray,
    answers: AnyArray,
    free: WordArray,
    *,
    field: Field,
    size: int,
) -> WordArray:
    """Return what `solve_field` does over GF(2^bits), of symbols in words; see reference."""
    order, rows = exactly(order, np.uint32, 1, "order"), exactly(rows, np.uint32, 2, "rows")
    answers = exactly(answers, np.uint8, 1, "answers")
    solutions = exactly(free, np.uint32, 2, "free").copy()
    offsets, words = ascending(offsets, len(rows)), rows.shape[1]
    if len(offsets) != len(solutions) + 1 or solutions.shape[1] != words:
        raise TypeError("free must have one row for each segment, as long as the others")
    same_length(order=order, rows=rows, answers=answers)
    bits = field.order.bit_length() - 1
    if field.prime != 2 or bits > 8 or size < 1 or words != hashing.symbol_words(size, bits):
        raise TypeError("rows are words with symbols of a power of two, as many as fit")
    _inside(answers, field.order)
    longest = int(np.diff(offsets).max(initial=0))
    stride = -(-(words + 1) // ROW_BLOCK) * ROW_BLOCK  # words, with the answer
    scratch = np.empty((MULTIPLES + longest) * stride + ROW_BLOCK, dtype=np.uint32)
    kept, pivots = np.empty(size, np.int64), np.empty(size, np.int64)
    call(
        "faintly_solve_words",
        *(offsets, len(solutions), order, rows, answers, size, solutions),
        *(field.products, field.inverses, bits, stride, scratch, kept, pivots),
        np.empty(max(1, longest), dtype=np.uint64),
    )
    return solutions


def _inside(symbols: AnyArray, order: int) -> None:
    if symbols.min(initial=0) < 0 or symbols.max(initial=0) >= order:
        raise IndexError(f"a symbol lies outside the field of {order} elements")


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
    if symbols.dtype != np.uint8:
        symbols = exactly(symbols, np.uint32, 2, "symbols")  # as they stand in a report
    seeds, ids, readings = _reports(seeds, symbols, ids, readings, field.order)
    symbols = exactly(symbols.astype(np.uint8, copy=False), np.uint8, 2, "symbols")
    size, power_of_two = symbols.shape[1], field.prime == 2
    if family not in FAMILIES or not (power_of_two or family == "wide"):
        raise TypeError("rows are hashed by wide; or prf or blake2s, over a power of two")
    each = hashing.word_digits(field.order)
    if family != "wide":
        each = 32 // (field.order.bit_length() - 1)
    sums_fit = power_of_two or size * (field.prime - 1) < 2**LANE
    if -(-size // each) > MOST_WORDS[family] or not sums_fit:
        raise TypeError("rows are too long for the hash, or sums for their lanes")
    totals = np.zeros((2, len(ids)), dtype=np.int64)
    scratch = np.empty(size * field.order, dtype=np.uint32)
    call(
        "faintly_read_inner",
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
    """Return (2, ids): Σ_i s_i(x)·r and Σ_i r² with r = readings[P_i(γ_i(x))]; see reference."""
    fields = exactly(fields, np.uint32, 2, "fields")
    if not 1 <= bits <= galois.MAX_BITS:
        raise IndexError(f"there is no field of {bits} bits")
    seeds, ids, readings = _reports(seeds, fields, ids, readings, 2**bits)
    if not hashed and ids.max(initial=0) >= 2**bits:
        raise IndexError("an id is not a point of the field")
    totals = np.zeros((2, len(ids)), dtype=np.int64)
    lookups = fields.shape[1] * -(-bits // 4)
    if not hashed and len(seeds) >= POINT_REPORTS and lookups <= POINT_LOOKUPS:
        call(
            "faintly_read_points",
            *(fields, fields.shape[1], len(seeds), ids, len(ids), readings, bits),
            *(*galois.tables(bits), np.empty((16 * lookups + 1) * POINT_BLOCK, np.uint16), totals),
        )
        return totals
    table = np.empty(2**bits, dtype=np.uint32)
    call(
        "faintly_read_polynomial",
        *(seeds, fields, fields.shape[1], len(seeds), ids, len(ids), readings, bits),
        *(int(hashed), *galois.tables(bits), table, totals),
    )
    return totals


def add_points(
    coefficients: WordArray, points: AnyArray, values: AnyArray, counts: AnyArray, bits: int
) -> WordArray:
    """Return each polynomial changed so that it takes given values; see galois."""
    if not 1 <= bits <= galois.MAX_BITS:
        raise IndexError(f"there is no field of {bits} bits")
    out = exactly(coefficients, np.uint32, 2, "coefficients").copy()
    rows, size = out.shape
    _inside(out, 2**bits)
    points, values = _words(points, 2**bits, "points"), _words(values, 2**bits, "values")
    counts = exactly(counts, np.int64, 1, "counts")
    if len(counts) != rows or not 0 <= counts.min(initial=0) <= counts.max(initial=0) <= size:
        raise TypeError("counts must say for each row how many points it has, at most its size")
    same_length(points=points, values=values)
    if len(points) != counts.sum():
        raise TypeError("points must be those of all rows")
    repeated = np.zeros(1, dtype=np.int64)
    call(
        "faintly_add_points",
        *(out, rows, size, counts, points, values, bits, *galois.tables(bits)),
        *(np.empty(3 * size, dtype=np.uint32), repeated),
    )
    if repeated[0]:
        raise IndexError("the points of a row must be distinct")
    return out


def _words(symbols: AnyArray, order: int, name: str) -> WordArray:
    """Return integers as words, having checked that each is an element of the field."""
    if symbols.dtype.kind not in "iu" or symbols.ndim != 1:
        raise TypeError(f"{name} must be integers of 1 dimension")
    _inside(symbols, order)
    return symbols.astype(np.uint32)


def _reports(
    seeds: IdArray, symbols: AnyArray, ids: IdArray, readings: IntArray, order: int
) -> tuple[IdArray, IdArray, IntArray]:
    """Return the columns beside the symbols, having checked that all of them fit."""
    seeds = exactly(seeds, np.uint64, 1, "seeds")
    ids = exactly(ids, np.uint64, 1, "ids")
    readings = exactly(readings, np.int64, 1, "readings")
    _inside(symbols, order)
    if len(seeds) != len(symbols) or symbols.shape[1] < 1 or len(readings) != order:
        raise TypeError("seeds and symbols must describe the same reports, readings every symbol")
    return seeds, ids, readings
