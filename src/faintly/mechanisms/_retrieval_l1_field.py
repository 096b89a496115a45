"""Fields of a few elements, as tables; and vectors over them packed into 32-bit words.

An element of GF(p^m) is a number below q = p^m whose digits to the base p are the coefficients
of a polynomial over GF(p), the constant one lowest, modulo an irreducible polynomial.
"""

import itertools
from functools import cache
from typing import NamedTuple

import numpy as np

from faintly.core import AnyArray, IdArray, IntArray, WordArray

# q: characteristic, and the coefficients of the modulus below its leading one, constant first.
MODULI: dict[int, tuple[int, tuple[int, ...]]] = {
    2: (2, (0,)),
    3: (3, (0,)),
    4: (2, (1, 1)),
    5: (5, (0,)),
    7: (7, (0,)),
    8: (2, (1, 1, 0)),
    9: (3, (1, 0)),
    11: (11, (0,)),
    13: (13, (0,)),
    16: (2, (1, 1, 0, 0)),
    17: (17, (0,)),
}


class Field(NamedTuple):
    """Tables of a field; rows and columns are its elements."""

    order: int
    prime: int
    products: AnyArray  # a·b
    differences: AnyArray  # a-b
    inverses: AnyArray  # 1/a, and 0 at 0
    lanes: IdArray  # a·b, coordinate c in bits 16c to 16c + 15


@cache
def field_of(order: int) -> Field:
    """Return the field with so many elements.

    >>> three = field_of(3)
    >>> three.products[2, 2], three.differences[1, 2], three.inverses[2]
    (np.uint8(1), np.uint8(2), np.uint8(2))
    """
    prime, modulus = MODULI[order]
    degree = len(modulus)
    coordinates = [
        tuple(element // prime**place % prime for place in range(degree))
        for element in range(order)
    ]
    products = np.zeros((order, order), dtype=np.uint8)
    differences = np.zeros((order, order), dtype=np.uint8)
    lanes = np.zeros((order, order), dtype=np.uint64)
    for left, right in itertools.product(range(order), repeat=2):
        product = _multiply(coordinates[left], coordinates[right], prime, modulus)
        products[left, right] = _number(product, prime)
        lanes[left, right] = sum(value << (16 * place) for place, value in enumerate(product))
        pairs = zip(coordinates[left], coordinates[right], strict=True)
        differences[left, right] = _number([(a - b) % prime for a, b in pairs], prime)
    inverses = np.argmax(products == 1, axis=1).astype(np.uint8)
    return Field(order, prime, products, differences, inverses, lanes)


def _number(coordinates: list[int], prime: int) -> int:
    return sum(value * prime**place for place, value in enumerate(coordinates))


def _multiply(
    left: tuple[int, ...], right: tuple[int, ...], prime: int, modulus: tuple[int, ...]
) -> list[int]:
    degree = len(modulus)
    full = [0] * (2 * degree)
    for (i, a), (j, b) in itertools.product(enumerate(left), enumerate(right)):
        full[i + j] += a * b
    if degree == 1:
        return [full[0] % prime]
    for top in range(2 * degree - 1, degree - 1, -1):
        for place, coefficient in enumerate(modulus):
            full[top - degree + place] -= full[top] * coefficient
        full[top] = 0
    return [value % prime for value in full[:degree]]


def independent(rows: list[tuple[int, ...]], order: int) -> list[int]:
    """Return the positions of rows that are not in the span of the rows before them."""
    field = field_of(order)
    basis: list[tuple[int, AnyArray]] = []  # pivot, and row with 1 there
    kept = []
    for position, row in enumerate(rows):
        rest = np.array(row, dtype=np.uint8)
        for pivot, known in basis:
            rest = field.differences[rest, field.products[rest[pivot], known]]
        if rest.any():
            pivot = int(np.argmax(rest != 0))
            basis.append((pivot, field.products[field.inverses[rest[pivot]], rest]))
            kept.append(position)
    return kept


def symbols_per_word(order: int) -> int:
    """Return how many symbols a 32-bit field of a report holds."""
    count = 1
    while order ** (count + 1) <= 2**32:
        count += 1
    return count


def word_lengths(symbols: int, order: int) -> list[int]:
    """Return how many symbols each word of a report holds: all but the last are full."""
    each = symbols_per_word(order)
    return [each] * (symbols // each) + [symbols % each] * (symbols % each > 0)


def pack(symbols: AnyArray, order: int) -> WordArray:
    """Return the symbols (rows, count) as words, the first symbol of each most significant."""
    words, start = [], 0
    for length in word_lengths(symbols.shape[1], order):
        word = np.zeros(len(symbols), dtype=np.uint64)
        for place in range(start, start + length):
            word = word * np.uint64(order) + symbols[:, place].astype(np.uint64)
        words.append(word.astype(np.uint32))
        start += length
    return np.stack(words, axis=1)


def unpack(words: WordArray, count: int, order: int) -> AnyArray:
    """Return the symbols (rows, count) that `pack` made words of."""
    out = np.empty((len(words), count), dtype=np.uint8)
    start = 0
    for column, length in enumerate(word_lengths(count, order)):
        rest = words[:, column].astype(np.uint32)
        for place in range(start + length - 1, start - 1, -1):
            rest, out[:, place] = rest // np.uint32(order), rest % np.uint32(order)
        start += length
    return out


def inner_products(row: tuple[int, ...], order: int) -> IntArray:
    """Return <i, row> for every vector i over the field, its last symbol fastest."""
    field = field_of(order)
    negative = field.differences[0]
    total = np.zeros(1, dtype=np.uint8)
    for symbol in row:
        step = negative[field.products[:, symbol]]
        total = field.differences[total[:, None], step[None, :]].ravel()
    return total.astype(np.int64)
