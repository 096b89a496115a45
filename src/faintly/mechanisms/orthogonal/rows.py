"""The public rows of a key, under each map.

direct  rows of t bits, hashed with the map's key: word w of row l has the number l·⌈t/32⌉ + w
table   the code of a key gives its block and an element π of GF(2^s), s = b - M; row l is the bit
        s + l and β_l·π below it. The leading bits keep a key's rows independent, and the planes
        of two keys meet in 0 alone. All products of two sums of constants β differ (a Sidon
        space), so that the ghosts of two held keys are all at different keys.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from faintly.core import IntArray, WordArray
from faintly.primitives import galois
from faintly.primitives.hashing import LEAST_ROW_BITS, POLYNOMIALS

MOST_FIELD_BITS = LEAST_ROW_BITS + len(POLYNOMIALS) - 1
TRIES = 4096  # of constants; in a large field one of the first few works
BLOCK = 64  # of them at a time, where many have failed
STEP, START = 0x9E3779B1, 0x2545F491  # of the sequence of candidate constants: any odd numbers


def products(left: WordArray, right: WordArray, bits: int) -> WordArray:
    """Return the products of elements of GF(2^bits), elementwise (arrays broadcast)."""
    large = bits >= LEAST_ROW_BITS
    polynomial = POLYNOMIALS[bits - LEAST_ROW_BITS] if large else galois.PRIMITIVE[bits]
    return galois.products(left, right, bits, polynomial)


@lru_cache(maxsize=64)
def constants(count: int, bits: int) -> tuple[int, ...]:
    """Return 1 and further constants of GF(2^bits) such that all products of their sums differ.

    In a field too small for that, the next powers of X, which are only independent.
    """
    chosen, block = [1], 1
    sums = 2**count - 1
    # As many different products as that, none of them 0, must fit into the field.
    left = _candidates(bits) if sums * (sums + 1) // 2 < 2**bits else np.zeros(0, dtype=np.uint32)
    while len(chosen) < count and len(left):
        fitting = _fitting(left[:block], chosen, bits)
        # An element that fails with some constants also fails with more of them.
        passed = fitting[0] + 1 if len(fitting) else block
        chosen += left[fitting[:1]].tolist()
        left, block = left[passed:], 1 if len(fitting) else min(2 * block, BLOCK)
    if len(chosen) == count:
        return tuple(chosen)
    return tuple(1 << min(place, bits - 1) for place in range(count))


def _candidates(bits: int) -> WordArray:
    """Return the elements to try, each once: small fields repeat themselves."""
    found: dict[int, None] = {}
    candidate = START
    for _ in range(TRIES):
        candidate = (candidate * STEP + 1) & 0xFFFFFFFF
        found[candidate >> (32 - bits)] = None
    return np.array(list(found), dtype=np.uint32)


def _fitting(elements: WordArray, chosen: list[int], bits: int) -> IntArray:
    """Return the places of the elements that, with those chosen, make all products differ.

    With the first few chosen there are few products, and most elements fail there already.
    """
    places = np.arange(len(elements))
    for count in range(1, len(chosen) + 1):
        known = combined(chosen[:count])
        new = elements[places, None] ^ known
        sums = np.concatenate([np.broadcast_to(known, new.shape)[:, 1:], new], axis=1)
        one, other = np.triu_indices(sums.shape[1])
        found = np.sort(products(sums[:, one], sums[:, other], bits), axis=1)
        differ = (found[:, 1:] != found[:, :-1]).all(axis=1)
        places = places[differ & (found[:, 0] != 0)]
    return places


def combined(given: Sequence[int]) -> WordArray:
    """Return β_u, the sum of the constants in u, for every set u."""
    sums = [0]
    for one in given:
        sums += [known ^ one for known in sums]
    return np.array(sums, dtype=np.uint32)


def images(factors: WordArray, bits: int) -> WordArray:
    """Return (factors, bits): each factor times 1, X, X², …; products are sums of these."""
    powers = np.uint32(1) << np.arange(bits, dtype=np.uint32)
    return products(factors[:, None], powers, bits)


def table_rows(elements: WordArray, constants: Sequence[int], bits: int) -> WordArray:
    """Return rows (keys, M, 1) of keys with these elements of GF(2^bits)."""
    leading = np.uint32(1) << np.arange(bits, bits + len(constants), dtype=np.uint32)
    # Keys are the last axis, the long one, until all is multiplied.
    made = products(np.array(constants, dtype=np.uint32)[:, None], elements[None, :], bits)
    return np.ascontiguousarray((made | leading[:, None]).T)[:, :, None]
