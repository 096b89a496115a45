"""Arithmetic in GF(2^w), w up to 16, by tables of logarithms.

Elements are integers below 2^w: the coefficients of a polynomial over GF(2), lowest bit first,
modulo a primitive polynomial. Adding and subtracting are exclusive or. Multiplying adds
logarithms to the base x; the logarithm of 0 is so large that its sum with any other falls
into a part of the table of powers that holds zeros, so no case is special.
"""

from functools import cache

import numpy as np

from faintly.core import AnyArray, WordArray

MAX_BITS = 16  # tables of 2^18 words: a megabyte, and the largest that a client should make
# Bit i is the coefficient of x^i. Each is primitive: the powers of x are all elements but 0.
PRIMITIVE = (
    *(1, 0x3, 0x7, 0xB, 0x13, 0x25, 0x43, 0x83, 0x11D),  # of degree 0, 1, …
    *(0x211, 0x409, 0x805, 0x1053, 0x201B, 0x4443, 0x8003, 0x1100B),
)


@cache
def tables(bits: int) -> tuple[WordArray, WordArray]:
    """Return (powers, logs): powers[logs[a] + logs[b]] is a·b for all a, b below 2^bits."""
    size = 2**bits
    powers = np.zeros(4 * size + 1, dtype=np.uint32)
    logs = np.full(size, 2 * size, dtype=np.uint32)  # of 0; two of them sum to the last index
    element = 1
    for exponent in range(size - 1):
        powers[exponent] = element
        logs[element] = exponent
        element <<= 1
        if element >= size:
            element ^= PRIMITIVE[bits]
    powers[size - 1 : 2 * size - 2] = powers[: size - 1]
    powers.flags.writeable = logs.flags.writeable = False
    return powers, logs


def multiply(left: AnyArray, right: AnyArray, bits: int) -> WordArray:
    """Return the products of elements, elementwise (arrays broadcast).

    >>> multiply(np.array([2, 3, 0]), np.array([2, 3, 3]), 2).tolist()
    [3, 2, 0]
    """
    powers, logs = tables(bits)
    return powers[logs[left] + logs[right]]


def products(left: WordArray, right: WordArray, bits: int, polynomial: int) -> WordArray:
    """Return the products of elements of `bits` bits modulo any polynomial, without tables."""
    total = np.zeros(np.broadcast_shapes(left.shape, right.shape), dtype=np.uint32)
    for bit in range(bits):
        total ^= left * (right >> np.uint32(bit) & np.uint32(1))
        left = left << np.uint32(1)
        left = left ^ np.uint32(polynomial) * (left >> np.uint32(bits))
    return total


def divide(left: AnyArray, right: AnyArray, bits: int) -> WordArray:
    """Return left/right elementwise; the divisors must not be 0."""
    powers, logs = tables(bits)
    return powers[logs[left] + (np.uint32(2**bits - 1) - logs[right])]


def evaluate(coefficients: AnyArray, points: AnyArray, bits: int) -> WordArray:
    """Return Σ_j coefficients[i, j]·points[i]^j for each row i."""
    powers, logs = tables(bits)
    at = logs[points]
    value = coefficients[:, -1]
    for place in range(coefficients.shape[1] - 2, -1, -1):
        value = powers[logs[value] + at] ^ coefficients[:, place]
    return value


ROWS = 1024  # polynomials changed together, so that they stay in a cache


def add_points(
    coefficients: WordArray, points: AnyArray, values: AnyArray, counts: AnyArray, bits: int
) -> WordArray:
    """Return each polynomial changed so that it takes given values, by Newton's interpolation.

    What is added to row i is the polynomial of least degree that does it. So where the
    coefficients were uniform, the result is uniform among all polynomials with these values.

    Args:
        coefficients: (rows, size), constant term first.
        points: points of all rows, one row after another; distinct within a row.
        values: the value to take at each point.
        counts: points of each row, at most `size`.
        bits: of the field.
    """
    out = coefficients.copy()
    first = np.cumsum(counts) - counts
    for start in range(0, len(out), ROWS):
        part = slice(start, start + ROWS)
        _add_points(out[part], points, values, (first[part], counts[part]), bits)
    return out


def _add_points(
    out: WordArray,
    points: AnyArray,
    values: AnyArray,
    which: tuple[AnyArray, AnyArray],
    bits: int,
) -> None:
    first, counts = which  # of a row's points
    # The product of (X - point) over the points so far, one degree at a time.
    master = np.zeros((len(out), out.shape[1] + 1), dtype=out.dtype)
    master[:, 0] = 1
    for step in range(int(counts.max(initial=0))):
        rows = np.nonzero(counts > step)[0]
        here = points[first[rows] + step]
        known = master[rows, : step + 1]
        missing = values[first[rows] + step] ^ evaluate(out[rows], here, bits)
        factor = divide(missing, evaluate(known, here, bits), bits)
        out[rows, : step + 1] ^= multiply(factor[:, None], known, bits)
        master[rows, : step + 1] = multiply(here[:, None], known, bits)
        master[rows, 1 : step + 2] ^= known
