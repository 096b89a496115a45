"""GF(2^w) arithmetic: the field's laws, interpolation, and greedy bases."""

import numpy as np
import pytest

from faintly.primitives import galois

BITS = range(1, galois.MAX_BITS + 1)


def draw(bits, *shape):
    return np.random.default_rng(bits).integers(0, 2**bits, shape).astype(np.uint32)


@pytest.mark.parametrize("bits", BITS)
def test_every_polynomial_is_primitive(bits):
    powers, _ = galois.tables(bits)
    assert np.array_equal(np.sort(powers[: 2**bits - 1]), np.arange(1, 2**bits))


@pytest.mark.parametrize("bits", BITS)
def test_products_are_those_of_polynomials(bits):
    left, right = draw(bits, 2, 200)
    products = galois.multiply(left, right, bits)
    for a, b, product in zip(left.tolist(), right.tolist(), products, strict=True):
        total = 0
        for shift in range(bits):
            total ^= (a << shift) * (b >> shift & 1)
        for shift in range(bits - 1, -1, -1):
            if total >> (bits + shift):
                total ^= galois.PRIMITIVE[bits] << shift
        assert total == product


@pytest.mark.parametrize("bits", BITS)
def test_division_undoes_multiplication_and_zero_stays_zero(bits):
    left, right = draw(bits, 2, 500)
    right[right == 0] = 1
    assert np.array_equal(galois.divide(galois.multiply(left, right, bits), right, bits), left)
    assert not galois.multiply(np.zeros(4, int), draw(bits, 4), bits).any()


@pytest.mark.parametrize("bits", [2, 3, 8, 11, 16])
@pytest.mark.parametrize("size", [1, 3, 4])
def test_interpolated_polynomials_take_their_values(bits, size):
    generator = np.random.default_rng(size)
    counts = generator.integers(0, size + 1, 40)
    counts[0] = size
    points = np.concatenate([generator.permutation(2 ** min(bits, 10))[:count] for count in counts])
    values = generator.integers(0, 2**bits, counts.sum()).astype(np.uint32)
    start = draw(bits, 40, size)
    made = galois.add_points(start, points, values, counts, bits)
    rows = np.repeat(np.arange(40), counts)
    assert np.array_equal(galois.evaluate(made[rows], points, bits), values)
    # Only terms below the number of points change, so what was uniform stays so.
    changed = made != start
    assert not changed[np.arange(size)[None, :] >= counts[:, None]].any()


def test_uniform_coefficients_become_uniform_solutions():
    """All 64 cubics over GF(4): each solution of two equations comes up equally often."""
    start = np.array(np.unravel_index(np.arange(64), (4, 4, 4)), dtype=np.uint32).T.copy()
    points, values = np.tile([1, 3], 64), np.tile(np.array([2, 0], np.uint32), 64)
    made = galois.add_points(start, points, values, np.full(64, 2), 2)
    solutions, often = np.unique(made, axis=0, return_counts=True)
    assert len(solutions) == 4
    assert (often == 16).all()
