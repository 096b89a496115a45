"""Systems of linear equations over small fields."""

import numpy as np

from faintly.core.arrays import AnyArray, IntArray, WordArray
from faintly.kernels.arguments import arrays, ascending, elements
from faintly.kernels.language import in_c
from faintly.kernels.native import call
from faintly.primitives import hashing
from faintly.primitives.fields import Field

WORDS = (
    "offsets i64[segments+1], order u32[items], rows u32[items,words], answers u8[items], "
    "free u32[segments,words]"
)
SYMBOLS = "offsets i64[segments+1], rows u8[items,size], answers u8[items], free u8[segments,size]"
ROW_BLOCK, MULTIPLES = 16, 32  # of solve_words; linear_systems.c has the same numbers


def solve_gf2(
    offsets: IntArray, order: WordArray, rows: WordArray, answers: AnyArray, free: WordArray
) -> WordArray:
    """Return for each segment a vector over GF(2) that solves its equations.

    Segment s owns items offsets[s]:offsets[s+1]. They are taken in ascending `order`, ties by
    position; an item whose row is in the span of the rows before it is dropped. The solution
    has <solution, row> = answer for all others, and the bits of `free` wherever no row has
    its pivot: the lowest bit left after reduction by the rows before.

    Args:
        offsets: (segments + 1,) ascending.
        order: (items,) words to sort by.
        rows: (items, words) little-endian bit vectors.
        answers: (items,) of 0 and 1.
        free: (segments, words) uniform bits, for a uniform solution.
    """
    offsets, order, rows, answers, free = arrays(WORDS, offsets, order, rows, answers, free)
    ascending(offsets, len(rows))
    words = rows.shape[1]
    if answers.max(initial=0) > 1:
        raise TypeError("answers must be 0 or 1")
    out = free.copy()
    if in_c():
        longest = int(np.diff(offsets).max(initial=0))
        most = max(1, min(32 * words, longest))  # rows that can be independent
        basis = np.empty((most, max(1, words)), dtype=np.uint32)
        pivots, keys = np.empty(most, np.int64), np.empty(max(1, longest), np.uint64)
        columns = (offsets, len(out), order, rows, answers, words, out)
        call("solve_gf2", *columns, basis, pivots, np.empty(most, np.uint8), keys)
        return out
    for segment in range(len(free)):
        first, last = int(offsets[segment]), int(offsets[segment + 1])
        taken = sorted(range(first, last), key=lambda item: (int(order[item]), item))
        equations = [(_integer(rows[item]), int(answers[item])) for item in taken]
        solution = _solve(equations, _integer(free[segment]))
        out[segment] = np.frombuffer(solution.to_bytes(4 * free.shape[1], "little"), "<u4")
    return out


def _integer(words: WordArray) -> int:
    return int.from_bytes(words.astype("<u4").tobytes(), "little")


def _solve(equations: list[tuple[int, int]], free: int) -> int:
    basis: list[tuple[int, int, int]] = []  # pivot, row and answer
    for row, answer in equations:
        for pivot, known, side in basis:
            if row & pivot:
                row, answer = row ^ known, answer ^ side  # noqa: PLW2901
        if row:
            basis.append((row & -row, row, answer))
    # A row is 0 at earlier pivots: from the last row back, only its own bit is undecided.
    for pivot, row, answer in reversed(basis):
        free &= ~pivot
        if ((row & free).bit_count() ^ answer) & 1:
            free |= pivot
    return free


def solve_field(
    offsets: IntArray, rows: AnyArray, answers: AnyArray, free: AnyArray, field: Field
) -> AnyArray:
    """Return for each segment a vector over the field that solves its equations.

    Segment s owns items offsets[s]:offsets[s+1], taken in this order; an item whose row is in
    the span of the rows before it is dropped. The solution has <solution, row> = answer for
    all others, and the symbols of `free` wherever no row has its pivot: the first symbol left
    after reduction by the rows before.

    Args:
        offsets: (segments + 1,) ascending.
        rows: (items, size) symbols.
        answers: (items,) symbols.
        free: (segments, size) uniform symbols, for a uniform solution.
        field: that the symbols belong to.
    """
    offsets, rows, answers, free = arrays(SYMBOLS, offsets, rows, answers, free)
    ascending(offsets, len(answers))
    for symbols in (rows, answers, free):
        elements(symbols, field.order)
    out = free.copy()
    if in_c():
        size = max(1, out.shape[1])
        call(
            "solve_field",
            *(offsets, len(out), rows.copy(), answers.copy(), out.shape[1], out),
            *(field.products, field.differences, field.inverses, field.order, field.prime),
            *(np.empty(size, np.int64), np.empty(size, np.int64)),
        )
        return out
    products, differences = field.products, field.differences
    for segment in range(len(free)):
        basis: list[tuple[int, AnyArray, int]] = []  # pivot, row (1 at the pivot) and answer
        for item in range(int(offsets[segment]), int(offsets[segment + 1])):
            row, answer = rows[item], answers[item]
            for pivot, known, side in basis:
                factor = row[pivot]
                row = differences[row, products[factor, known]]
                answer = differences[answer, products[factor, side]]
            if row.any():
                pivot = int(np.argmax(row != 0))
                over = field.inverses[row[pivot]]
                basis.append((pivot, products[over, row], products[over, answer]))
        # A row is 0 at earlier pivots: from the last row back, only its own symbol is undecided.
        for pivot, row, answer in reversed(basis):
            out[segment, pivot] = 0
            out[segment, pivot] = differences[answer, field.inner(row, out[segment])]
    return out


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
    """Return the same as `solve_field` over GF(2^bits), with symbols packed into words.

    A word has as many symbols as fit, lowest first; spare bits in the last word of `free`
    are kept. Items of a segment are taken in ascending `order`, ties by position.

    Args:
        offsets: (segments + 1,) ascending.
        order: (items,) words to sort by.
        rows: (items, words).
        answers: (items,) symbols.
        free: (segments, words) uniform, for a uniform solution.
        field: of 2^bits elements.
        size: symbols of a row.
    """
    offsets, order, rows, answers, free = arrays(WORDS, offsets, order, rows, answers, free)
    ascending(offsets, len(rows))
    words = rows.shape[1]
    bits = field.order.bit_length() - 1
    if field.prime != 2 or bits > 8 or size < 1 or words != hashing.symbol_words(size, bits):
        raise TypeError("rows are words with symbols of a power of two, as many as fit")
    elements(answers, field.order)
    out = free.copy()
    if in_c():
        longest = int(np.diff(offsets).max(initial=0))
        stride = -(-(words + 1) // ROW_BLOCK) * ROW_BLOCK  # words, with the answer
        scratch = np.empty((MULTIPLES + longest) * stride + ROW_BLOCK, dtype=np.uint32)
        call(
            "solve_words",
            *(offsets, len(out), order, rows, answers, size, out),
            *(field.products, field.inverses, bits, stride, scratch),
            *(np.empty(size, np.int64), np.empty(size, np.int64)),
            np.empty(max(1, longest), dtype=np.uint64),
        )
        return out
    owners = np.repeat(np.arange(len(free)), np.diff(offsets))
    taken = np.lexsort((order, owners))  # stable: ties by position
    symbols = hashing.unpack_symbols(rows[taken], size, bits).astype(np.uint8)
    blank = hashing.unpack_symbols(free, size, bits).astype(np.uint8)
    solved = solve_field(offsets, symbols, answers[taken], blank, field)
    each = 32 // bits
    for place in range(size):
        shift = np.uint32(place % each * bits)
        changed = (solved[:, place] ^ blank[:, place]).astype(np.uint32)
        out[:, place // each] ^= changed << shift
    return out
