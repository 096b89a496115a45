"""Fields of up to 256 elements, as tables; and vectors over them packed into 32-bit words.

An element of GF(p^m) is a number below q = p^m whose digits to the base p are the coefficients
of a polynomial over GF(p), the constant one lowest, modulo an irreducible polynomial. GF(2^w)
is that of galois.py, which also has larger ones.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from faintly.core import AnyArray, FloatArray, IntArray, WordArray
from faintly.primitives import galois
from faintly.primitives.hashing import digits_within

MOST = 256
ORDERS = (2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17)  # all there are up to 17
SQUARE_OF_X = {9: 2}  # modulo x² + 1; a field of p elements has no x
LANE = 16  # bits for one coordinate of a sum of products


class Field(NamedTuple):
    """Tables of a field; rows and columns are its elements."""

    order: int
    prime: int
    products: AnyArray  # a·b
    differences: AnyArray  # a-b
    inverses: AnyArray  # 1/a, and 0 at 0
    lanes: WordArray  # a·b to be summed: by xor if the prime is 2, else a lane per coordinate

    def inner(self, left: AnyArray, right: AnyArray) -> AnyArray:
        """Return <left, right> along the last axis."""
        products = self.lanes[left, right]
        if self.prime == 2:
            return np.bitwise_xor.reduce(products, axis=-1, dtype=np.uint32)
        sums, prime = products.sum(axis=-1, dtype=np.uint32), np.uint32(self.prime)
        return (sums & np.uint32(2**LANE - 1)) % prime + (sums >> np.uint32(LANE)) % prime * prime


@cache
def field_of(order: int) -> Field:
    """Return the field with `order` elements.

    >>> three = field_of(3)
    >>> three.products[2, 2], three.differences[1, 2], three.inverses[2]
    (np.uint8(1), np.uint8(2), np.uint8(2))
    """
    if not 2 <= order <= MOST:
        raise ValueError(f"a field here has 2 to {MOST} elements, not {order}")
    each = np.arange(order)
    if order & (order - 1) == 0:
        lanes = galois.multiply(each[:, None], each[None, :], order.bit_length() - 1)
        return _field(order, 2, lanes, each[:, None] ^ each[None, :], lanes)
    prime = next(p for p in range(3, order + 1) if order % p == 0)
    low, high = each % prime, each // prime
    first = np.outer(low, low) + SQUARE_OF_X.get(order, 0) * np.outer(high, high)
    second = np.outer(low, high) + np.outer(high, low)
    first, second = first % prime, second % prime
    differences = (
        np.subtract.outer(low, low) % prime + np.subtract.outer(high, high) % prime * prime
    )
    return _field(order, prime, first + prime * second, differences, first | second << LANE)


def _field(
    order: int, prime: int, products: AnyArray, differences: AnyArray, lanes: AnyArray
) -> Field:
    return Field(
        order,
        prime,
        products.astype(np.uint8),
        differences.astype(np.uint8),
        np.argmax(products == 1, axis=1).astype(np.uint8),
        lanes.astype(np.uint32),
    )


def independent(rows: AnyArray | Sequence[Sequence[int]], order: int) -> list[int]:
    """Return the positions of the rows that are not in the span of the rows before them.

    >>> independent(np.array([[1, 2], [2, 3], [0, 0], [0, 1]]), 4)
    [0, 3]
    """
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


def with_one_more(ranks: FloatArray, inside: FloatArray) -> FloatArray:
    """Return the law of the rank of random rows after one more, given the law before.

    The new row lies in a span of rank r with the chance inside[r].
    """
    stays: FloatArray = ranks * inside
    stays[1:] += (ranks - stays)[:-1]
    return stays


@lru_cache(maxsize=2**14)  # enumeration repeats a few arguments
def inner_products(row: tuple[int, ...], order: int) -> IntArray:
    """Return <i, row> for every vector i over the field, its last symbol fastest."""
    field = field_of(order)
    negative = field.differences[0]
    total = np.zeros(1, dtype=np.uint8)
    for symbol in row:
        step = negative[field.products[:, symbol]]
        total = field.differences[total[:, None], step[None, :]].ravel()
    return total.astype(np.int64)


def powers_of(point: int, count: int, order: int) -> tuple[int, ...]:
    """Return 1, x, x², …: the row that reads a polynomial at the point x."""
    powers = [1]
    while len(powers) < count:
        powers.append(int(field_of(order).products[powers[-1], point]))
    return tuple(powers)


def word_lengths(symbols: int, order: int) -> list[int]:
    """Return how many symbols each word of a report holds: all but the last are full."""
    each = digits_within(order, 2**32)
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
    """Return the symbols (rows, count) that `pack` packed."""
    out = np.empty((len(words), count), dtype=np.uint8)
    start = 0
    for column, length in enumerate(word_lengths(count, order)):
        rest = words[:, column].astype(np.uint32)
        for place in range(start + length - 1, start - 1, -1):
            rest, out[:, place] = rest // np.uint32(order), rest % np.uint32(order)
        start += length
    return out
