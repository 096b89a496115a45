"""The public rows of a key, under each map.

direct  rows of t bits, hashed with the map's key: word w of row l has the number l·⌈t/32⌉ + w
table   the code of a key says its block and an element π of GF(2^s), s = b - M; row l is the bit
        s + l and β_l·π below it. The leading bits keep a key's rows independent, and the planes
        of two keys meet in 0 alone. All products of two sums of constants β differ (a Sidon
        space), so that the ghosts of two held keys are all at different keys.
"""

from functools import lru_cache

import numpy as np

from faintly.core import IdArray, IntArray, WordArray
from faintly.primitives.galois import PRIMITIVE
from faintly.primitives.hashing import LEAST_ROW_BITS, POLYNOMIALS

MOST_FIELD_BITS = LEAST_ROW_BITS + len(POLYNOMIALS) - 1
TRIES = 4096  # of constants; in a large field one of the first few works
BLOCK = 64  # of them at a time, where many have failed
STEP, START = 0x9E3779B1, 0x2545F491  # of the sequence of candidate constants: any odd numbers


def polynomial(bits: int) -> int:
    """Return the polynomial modulo which elements of `bits` bits are multiplied."""
    return POLYNOMIALS[bits - LEAST_ROW_BITS] if bits >= LEAST_ROW_BITS else PRIMITIVE[bits]


def products(left: IdArray, right: IdArray, bits: int) -> IdArray:
    """Return the products of elements of GF(2^bits), elementwise (arrays broadcast)."""
    modulus = np.uint64(polynomial(bits))
    total = np.zeros(np.broadcast_shapes(left.shape, right.shape), dtype=np.uint64)
    for bit in range(bits):
        total ^= left * (right >> np.uint64(bit) & np.uint64(1))
        left = left << np.uint64(1)
        left ^= modulus * (left >> np.uint64(bits))
    return total


@lru_cache(maxsize=64)
def constants(count: int, bits: int) -> tuple[int, ...]:
    """Return 1 and further constants of GF(2^bits) such that all products of their sums differ.

    In a field too small for that, the next powers of X, which are only independent.
    """
    chosen, block = [1], 1
    sums = 2**count - 1
    # As many different products as that, none of them 0, must fit into the field.
    left = _candidates(bits) if sums * (sums + 1) // 2 < 2**bits else np.zeros(0, dtype=np.uint64)
    while len(chosen) < count and len(left):
        fitting = _fitting(left[:block], chosen, bits)
        # What failed beside some constants fails beside more.
        passed = fitting[0] + 1 if len(fitting) else block
        chosen += left[fitting[:1]].tolist()
        left, block = left[passed:], 1 if len(fitting) else min(2 * block, BLOCK)
    if len(chosen) == count:
        return tuple(chosen)
    return tuple(1 << min(place, bits - 1) for place in range(count))


def _candidates(bits: int) -> IdArray:
    """Return the elements to try, each once: small fields repeat themselves."""
    found: dict[int, None] = {}
    candidate = START
    for _ in range(TRIES):
        candidate = (candidate * STEP + 1) & 0xFFFFFFFF
        found[candidate >> (32 - bits)] = None
    return np.array(list(found), dtype=np.uint64)


def _fitting(elements: IdArray, chosen: list[int], bits: int) -> IntArray:
    """Return the places of the elements that all products differ with, beside those chosen.

    Beside the first few chosen there are few products, and most elements fail there already.
    """
    places = np.arange(len(elements))
    for count in range(1, len(chosen) + 1):
        known = np.array(combined(chosen[:count]), dtype=np.uint64)
        new = elements[places, None] ^ known
        sums = np.concatenate([np.broadcast_to(known, new.shape)[:, 1:], new], axis=1)
        one, other = np.triu_indices(sums.shape[1])
        found = np.sort(products(sums[:, one], sums[:, other], bits), axis=1)
        differ = (found[:, 1:] != found[:, :-1]).all(axis=1)
        places = places[differ & (found[:, 0] != 0)]
    return places


def combined(given: list[int]) -> list[int]:
    """Return β_u, the sum of the constants in u, for every set u."""
    sums = [0]
    for one in given:
        sums += [known ^ one for known in sums]
    return sums


def images(factors: list[int], bits: int) -> WordArray:
    """Return (factors, bits): each factor times 1, X, X², …; products are sums of these."""
    powers = np.uint64(1) << np.arange(bits, dtype=np.uint64)
    return products(np.array(factors, dtype=np.uint64)[:, None], powers, bits).astype(np.uint32)


def multiplied(image: WordArray, elements: WordArray) -> WordArray:
    """Return the products of the factor that an image belongs to with each element."""
    total = np.zeros_like(elements)
    for bit, power in enumerate(image):
        total ^= power * (elements >> np.uint32(bit) & np.uint32(1))
    return total


def table_rows(elements: WordArray, image: WordArray) -> WordArray:
    """Return rows (keys, M, 1) of keys with these elements; `image` is that of the constants."""
    count, bits = image.shape
    leading = np.uint32(1) << np.arange(bits, bits + count, dtype=np.uint32)
    rows = [multiplied(one, elements) | bit for one, bit in zip(image, leading, strict=True)]
    return np.stack(rows, axis=1).reshape(len(elements), count, 1)
