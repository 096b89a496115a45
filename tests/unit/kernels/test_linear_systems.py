"""Linear systems: both kernels solve alike, solutions answer, what does not fit is refused."""

import itertools

import numpy as np
import pytest

from faintly.kernels import compiled, reference
from faintly.primitives import fields, hashing
from tests.every import every
from tests.unit.kernels.helpers import BOTH, ORDERS, needs_c


def test_independent_keeps_the_first_independent_rows():
    rows = np.array([[0, 0, 0], [1, 2, 3], [2, 3, 1], [0, 1, 0], [1, 3, 3], [0, 0, 2], [3, 3, 3]])
    assert fields.independent(rows, 4) == [1, 3, 5]


SIZE = 70  # more than the widest vector of bytes


def systems(order, generator, size=SIZE):
    """Systems of none, few and more equations than unknowns."""
    offsets = np.array([0, 3, 3, 33, 33 + 2 * size])
    rows = generator.integers(0, order, (offsets[-1], size)).astype(np.uint8)
    rows[5] = rows[4]  # a dependent row among few
    rows[7] = 0
    answers = generator.integers(0, order, offsets[-1]).astype(np.uint8)
    free = generator.integers(0, order, (4, size)).astype(np.uint8)
    return offsets, rows, answers, free, fields.field_of(order)


@every("order", ORDERS)
def test_solutions_answer_every_independent_equation(order, generator):
    case = systems(order, generator, 40)  # more unknowns than the few equations
    offsets, rows, answers, free, field = case
    solved = reference.solve_field(*case)
    for segment, (first, last) in enumerate(itertools.pairwise(offsets)):
        basis = fields.independent(rows[first:last], order)
        for place in basis:
            read = field.inner(solved[segment], rows[first + place])
            assert read == answers[first + place]
        assert (solved[segment] != free[segment]).sum() <= len(basis)


@needs_c
@every("order", ORDERS)
def test_both_solve_alike(order, generator):
    case = systems(order, generator)
    np.testing.assert_array_equal(compiled.solve_field(*case), reference.solve_field(*case))


@BOTH
def test_systems_that_do_not_fit_are_refused(kernels, generator):
    offsets, rows, answers, free, field = systems(3, generator)
    with pytest.raises(TypeError, match="offsets"):
        kernels.solve_field(offsets[::-1].copy(), rows, answers, free, field)
    with pytest.raises(TypeError, match="pair up"):
        kernels.solve_field(offsets, rows[:, 1:], answers, free, field)
    with pytest.raises(IndexError, match="outside the field of 3"):
        kernels.solve_field(offsets, rows + np.uint8(3), answers, free, field)


def packed_systems(bits, size, generator):
    """The same of rows in words, many of them tied in their order."""
    offsets = np.array([0, 3, 3, 33, 53 + size])
    words = hashing.symbol_words(size, bits)
    rows = generator.integers(0, 2**32, (offsets[-1], words), dtype=np.uint32)
    rows[5] = rows[4]
    rows[7] = 0
    rows[-9:, :-1] = 0  # few symbols, so that pivots stand late
    order = generator.integers(0, 9, offsets[-1], dtype=np.uint32)
    answers = generator.integers(0, 2**bits, offsets[-1]).astype(np.uint8)
    free = generator.integers(0, 2**32, (4, words), dtype=np.uint32)
    return (offsets, order, rows, answers, free), {"field": fields.field_of(2**bits), "size": size}


@needs_c
@every(
    ("bits", "size"), [*itertools.product(range(1, 9), (1, 20, 68)), (1, 135), (8, 135)]
)  # in one block of words, and in more
def test_both_solve_words_alike(bits, size, generator):
    case, how = packed_systems(bits, size, generator)
    solved = compiled.solve_words(*case, **how)
    np.testing.assert_array_equal(solved, reference.solve_words(*case, **how))


def test_solving_words_over_two_elements_is_solving_bits(generator):
    case, how = packed_systems(1, 96, generator)
    solved = reference.solve_words(*case, **how)
    np.testing.assert_array_equal(solved, reference.solve_gf2(*case))


@BOTH
def test_words_that_do_not_fit_are_refused(kernels, generator):
    (offsets, order, rows, answers, free), how = packed_systems(4, 20, generator)
    solve = kernels.solve_words
    with pytest.raises(TypeError, match="pair up"):
        solve(offsets, order[1:], rows, answers, free, **how)
    with pytest.raises(TypeError, match="pair up"):
        solve(offsets, order, rows, answers, free[1:], **how)
    with pytest.raises(TypeError, match="pair up"):
        solve(offsets, order, rows, answers, free[:, 1:].copy(), **how)
    with pytest.raises(IndexError, match="outside the field of 16"):
        solve(offsets, order, rows, answers + np.uint8(16), free, **how)
    for changed in ({"size": 25}, {"size": 0}, {"field": fields.field_of(9)}):
        with pytest.raises(TypeError, match="as many as fit"):
            solve(offsets, order, rows, answers, free, **(how | changed))


def bit_systems(bits, segments, longest, seed=3):
    """Random systems, some empty and some with more rows than bits."""
    source = np.random.default_rng(seed)
    words = -(-bits // 32)
    low = np.array([2 ** min(32, bits - 32 * w) - 1 for w in range(words)], dtype=np.uint32)
    lengths = source.integers(0, longest + 1, segments)
    items = int(lengths.sum())
    rows = source.integers(0, 2**32, (items, words), dtype=np.uint32) & low
    repeated = source.random(items) < 0.2
    rows[repeated] = rows[source.integers(0, items, repeated.sum())]
    return (
        np.concatenate([[0], np.cumsum(lengths)]),
        source.integers(0, 4 if bits < 20 else 2**32, items, dtype=np.uint32),  # ties included
        rows,
        source.integers(0, 2, items, dtype=np.uint8),
        source.integers(0, 2**32, (segments, words), dtype=np.uint32) & low,
    )


BITS = [(1, 20, 5), (3, 200, 8), (18, 100, 40), (32, 100, 50), (33, 50, 50), (300, 5, 320)]


@needs_c
@pytest.mark.parametrize("case", BITS, ids=str)
def test_both_solve_bits_alike(case):
    made = bit_systems(*case)
    np.testing.assert_array_equal(compiled.solve_gf2(*made), reference.solve_gf2(*made))


def integer(words):
    return int.from_bytes(words.astype("<u4").tobytes(), "little")


@pytest.mark.parametrize("case", BITS, ids=str)
def test_solutions_over_bits_answer_every_equation_of_the_greedy_basis(case):
    bits = case[0]
    offsets, order, rows, answers, free = bit_systems(*case)
    solved = reference.solve_gf2(offsets, order, rows, answers, free)
    whole = [integer(row) for row in rows]
    for segment, words in enumerate(solved):
        solution = integer(words)
        assert solution < 2**bits
        span = []
        for item in sorted(
            range(offsets[segment], offsets[segment + 1]), key=lambda i: (order[i], i)
        ):
            rest = whole[item]
            for known in span:
                rest = min(rest, rest ^ known)
            if rest:
                span.append(rest)
                assert (whole[item] & solution).bit_count() & 1 == answers[item]
        if not span:
            np.testing.assert_array_equal(words, free[segment])
