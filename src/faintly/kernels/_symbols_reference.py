"""Linear systems over any small field, as plainly as numpy can say it.

A field of q elements comes as tables: products and differences (q, q), inverses (q,). An
element is a number below q whose digits to the base p, the field's characteristic, are its
coordinates; adding two elements adds them coordinate by coordinate modulo p.
"""

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, WordArray
from faintly.primitives import hashing

LANE = 16  # bits for one coordinate of a sum of products


def hash_wide(seeds: IdArray, ids: IdArray, count: int) -> WordArray:
    """Return words (items, count) of BLAKE2s, eight from each call."""
    return hashing.wide_words(seeds, ids, count)


def solve_symbols(
    offsets: IntArray,
    rows: AnyArray,
    answers: AnyArray,
    free: AnyArray,
    tables: tuple[AnyArray, AnyArray, AnyArray],
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
        tables: products a·b at [a, b], differences a-b at [a, b], inverses 1/a at [a].
    """
    products, differences, inverses = tables
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
                over = inverses[row[pivot]]
                basis.append((pivot, products[over, row], products[over, answer]))
        # A row holds no earlier pivot, so from the last one back only its own symbol is open.
        for pivot, row, answer in reversed(basis):
            out[segment, pivot] = 0
            left = answer
            for product in products[row, out[segment]]:
                left = differences[left, product]
            out[segment, pivot] = left
    return out


def read_symbols(
    seeds: IdArray,
    symbols: AnyArray,
    ids: IdArray,
    readings: IntArray,
    *,
    lanes: IdArray,
    prime: int,
) -> IntArray:
    """Return (2, ids): Σ_i s_i(x)·r and Σ_i r² with r = readings[<symbols_i, a_i(x)>].

    Rows a_i(x) and, by the lowest bit of the word after them, signs s_i(x) are hashed by
    `hash_wide`.

    Args:
        seeds: (reports,).
        symbols: (reports, size) of the field.
        ids: (count,).
        readings: what each of the q symbols counts.
        lanes: (q, q) products, coordinate c in bits 16c to 16c + 15.
        prime: characteristic of the field.
    """
    order, size = len(readings), symbols.shape[1]
    words = -(-size // hashing.word_digits(order))
    totals = np.zeros((2, len(ids)), dtype=np.int64)
    for position, item in enumerate(ids):
        hashed = hash_wide(seeds, np.full(len(seeds), item, dtype=np.uint64), words + 1)
        rows = hashing.base_digits(hashed[:, :words], order, size)
        sums = lanes[symbols, rows].sum(axis=1, dtype=np.uint64)
        read = readings[fold_lanes(sums, prime, order)]
        totals[0, position] = (hashing.to_signs(hashed[:, words]) * read).sum()
        totals[1, position] = (read * read).sum()
    return totals


def fold_lanes(sums: IdArray, prime: int, order: int) -> IntArray:
    """Return the elements that sums of coordinates stand for."""
    out, place, lane = np.zeros(sums.shape, dtype=np.int64), 1, 0
    while place < order:
        coordinate = (sums >> np.uint64(LANE * lane)) & np.uint64(2**LANE - 1)
        out += (coordinate % np.uint64(prime)).astype(np.int64) * place
        place, lane = place * prime, lane + 1
    return out
