"""Linear systems and polynomials over small fields, as plainly as numpy can say it."""

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, WordArray
from faintly.primitives import galois, hashing
from faintly.primitives.fields import Field

add_points = galois.add_points


def solve_field(
    offsets: IntArray, rows: AnyArray, answers: AnyArray, free: AnyArray, field: Field
) -> AnyArray:
    """Return for each segment a vector over the field that answers its equations.

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
    products, differences = field.products, field.differences
    out = free.copy()
    for segment in range(len(free)):
        basis: list[tuple[int, AnyArray, int]] = []  # pivot, row (1 at the pivot) and answer
        for item in range(int(offsets[segment]), int(offsets[segment + 1])):
            row, answer = rows[item], answers[item]
            for pivot, known, said in basis:
                factor = row[pivot]
                row = differences[row, products[factor, known]]
                answer = differences[answer, products[factor, said]]
            if row.any():
                pivot = int(np.argmax(row != 0))
                over = field.inverses[row[pivot]]
                basis.append((pivot, products[over, row], products[over, answer]))
        # A row holds no earlier pivot, so from the last one back only its own symbol is open.
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
    """Return what `solve_field` does over GF(2^bits), of symbols that lie in words.

    A word has as many symbols as fit, lowest first; what is left of the last word of `free`
    stays as it is. Items of a segment are taken by ascending `order`, ties by position.

    Args:
        offsets: (segments + 1,) ascending.
        order: (items,) words to sort by.
        rows: (items, words).
        answers: (items,) symbols.
        free: (segments, words) uniform, for a uniform solution.
        field: of 2^bits elements.
        size: symbols of a row.
    """
    bits = field.order.bit_length() - 1
    owners = np.repeat(np.arange(len(free)), np.diff(offsets))
    taken = np.lexsort((order, owners))  # stable: ties by position
    symbols = hashing.unpack_symbols(rows[taken], size, bits).astype(np.uint8)
    blank = hashing.unpack_symbols(free, size, bits).astype(np.uint8)
    solved = solve_field(offsets, symbols, answers[taken], blank, field)
    each, out = 32 // bits, free.copy()
    for place in range(size):
        shift = np.uint32(place % each * bits)
        changed = (solved[:, place] ^ blank[:, place]).astype(np.uint32)
        out[:, place // each] ^= changed << shift
    return out


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
    totals = np.zeros((2, len(ids)), dtype=np.int64)
    for position, item in enumerate(ids):
        repeated = np.full(len(seeds), item, dtype=np.uint64)
        rows, signs = _hashed(seeds, repeated, symbols.shape[1], field.order, family)
        _count(totals[:, position], readings[field.inner(symbols, rows)], signs)
    return totals


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
    totals = np.zeros((2, len(ids)), dtype=np.int64)
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
