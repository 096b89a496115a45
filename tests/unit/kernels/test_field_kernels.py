"""Kernels over small fields: both agree, solutions answer, bad arguments are refused."""

import itertools

import numpy as np
import pytest

from faintly.kernels import compiled, reference
from faintly.primitives import fields, galois, hashing

needs_c = pytest.mark.skipif(not compiled.available(), reason="the C kernels were not built")
ORDERS = (*fields.ORDERS, 32, 64, 128, 256)
POWERS = [order for order in ORDERS if order & (order - 1) == 0]  # prf and blake2s cut words
HASHED = [
    *((order, "wide") for order in ORDERS),
    *itertools.product(POWERS, ("prf", "blake2s")),
]
SIZE = 100  # more than the widest vector of bytes


@pytest.mark.parametrize("order", fields.ORDERS)
def test_tables_are_fields(order):
    field = fields.field_of(order)
    everything = range(order)
    plus = field.differences[:, field.differences[0]]  # a + b = a - (0 - b)
    for a, b, c in itertools.product(everything, repeat=3):
        times = field.products
        assert times[a, times[b, c]] == times[times[a, b], c]
        assert times[a, plus[b, c]] == plus[times[a, b], times[a, c]]
        assert plus[a, plus[b, c]] == plus[plus[a, b], c]
    assert all(field.products[a, field.inverses[a]] == 1 for a in range(1, order))
    one = np.arange(order)[:, None, None], np.arange(order)[None, :, None]
    np.testing.assert_array_equal(field.inner(*one), field.products)


def test_independent_keeps_the_first_independent_rows():
    rows = np.array([[0, 0, 0], [1, 2, 3], [2, 3, 1], [0, 1, 0], [1, 3, 3], [0, 0, 2], [3, 3, 3]])
    assert fields.independent(rows, 4) == [1, 3, 5]


def systems(order, generator):
    """Systems of none, few and more equations than unknowns."""
    offsets = np.array([0, 3, 3, 33, 33 + 2 * SIZE])
    rows = generator.integers(0, order, (offsets[-1], SIZE)).astype(np.uint8)
    rows[5] = rows[4]  # a dependent row among few
    rows[7] = 0
    answers = generator.integers(0, order, offsets[-1]).astype(np.uint8)
    free = generator.integers(0, order, (4, SIZE)).astype(np.uint8)
    return offsets, rows, answers, free, fields.field_of(order)


@pytest.mark.parametrize("order", ORDERS)
def test_solutions_answer_every_independent_equation(order, generator):
    case = systems(order, generator)
    offsets, rows, answers, free, field = case
    solved = reference.solve_field(*case)
    for segment, (first, last) in enumerate(itertools.pairwise(offsets)):
        basis = fields.independent(rows[first:last], order)
        for place in basis:
            read = field.inner(solved[segment], rows[first + place])
            assert read == answers[first + place]
        assert (solved[segment] != free[segment]).sum() <= len(basis)


@needs_c
@pytest.mark.parametrize("order", ORDERS)
def test_both_solve_alike(order, generator):
    case = systems(order, generator)
    np.testing.assert_array_equal(compiled.solve_field(*case), reference.solve_field(*case))


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
@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("size", [1, 20, 68, 135])  # in one block of words, and in more
def test_both_solve_words_alike(bits, size, generator):
    case, how = packed_systems(bits, size, generator)
    solved = compiled.solve_words(*case, **how)
    np.testing.assert_array_equal(solved, reference.solve_words(*case, **how))


def test_solving_words_over_two_elements_is_solving_bits(generator):
    case, how = packed_systems(1, 96, generator)
    solved = reference.solve_words(*case, **how)
    np.testing.assert_array_equal(solved, reference.solve_gf2(*case))


@needs_c
def test_words_that_do_not_fit_are_refused(generator):
    (offsets, order, rows, answers, free), how = packed_systems(4, 20, generator)
    solve = compiled.solve_words
    with pytest.raises(TypeError, match="pair up"):
        solve(offsets, order[1:], rows, answers, free, **how)
    with pytest.raises(TypeError, match="one row for each segment"):
        solve(offsets, order, rows, answers, free[1:], **how)
    with pytest.raises(TypeError, match="as long as"):
        solve(offsets, order, rows, answers, free[:, 1:].copy(), **how)
    with pytest.raises(IndexError, match="outside the field of 16"):
        solve(offsets, order, rows, answers + np.uint8(16), free, **how)
    for changed in ({"size": 25}, {"size": 0}, {"field": fields.field_of(9)}):
        with pytest.raises(TypeError, match="as many as fit"):
            solve(offsets, order, rows, answers, free, **(how | changed))


@needs_c
@pytest.mark.parametrize("bits", range(1, galois.MAX_BITS + 1))
@pytest.mark.parametrize("size", [1, 5, 140])  # across a block
def test_both_add_points_alike(bits, size, generator):
    coefficients = generator.integers(0, 2**bits, (9, size)).astype(np.uint32)
    counts = generator.integers(0, min(size, 2**bits) + 1, 9)
    counts[:2] = 0, min(size, 2**bits)
    points = np.concatenate([generator.permutation(2**bits)[:count] for count in counts])
    values = generator.integers(0, 2**bits, len(points)).astype(np.uint32)
    case = coefficients, points, values, counts, bits
    np.testing.assert_array_equal(compiled.add_points(*case), reference.add_points(*case))


@needs_c
def test_points_that_do_not_fit_are_refused():
    add, none = compiled.add_points, np.zeros(0, dtype=np.int64)
    start, two = np.zeros((1, 2), dtype=np.uint32), np.arange(2)
    with pytest.raises(TypeError, match="at most its size"):
        add(start, np.arange(3), np.arange(3), np.array([3]), 4)
    with pytest.raises(TypeError, match="for each row"):
        add(start, none, none, none, 4)
    with pytest.raises(TypeError, match="pair up"):
        add(start, two, np.arange(1), np.array([2]), 4)
    with pytest.raises(TypeError, match="of all rows"):
        add(start, two, two, np.array([1]), 4)
    for points, values in ((two + 15, two), (-two, two), (two, two + 15), (two, -two)):
        with pytest.raises(IndexError, match="outside the field of 16"):
            add(start, points, values, np.array([2]), 4)
    for points, values in ((two / 2, two), (two[:, None], two), (two, two * np.nan)):
        with pytest.raises(TypeError, match="must be integers"):
            add(start, points, values, np.array([2]), 4)
    with pytest.raises(IndexError, match="no field"):
        add(start, two, two, np.array([2]), 17)
    for kernels in (compiled, reference):
        with pytest.raises(IndexError):
            kernels.add_points(start, np.zeros(2, dtype=np.int64), two, np.array([2]), 4)


@needs_c
@pytest.mark.parametrize(("order", "family"), HASHED)
@pytest.mark.parametrize("size", [1, 15, 16, 75])
def test_both_read_alike(order, family, size, generator):
    seeds = generator.integers(0, 2**64, 12, dtype=np.uint64)
    symbols = generator.integers(0, order, (12, size)).astype(np.uint8)
    readings = generator.integers(-3, 4, order)
    how = {"field": fields.field_of(order), "family": family}
    for count in (5, 130):  # within a block, and across
        ids = generator.integers(0, 2**64, count, dtype=np.uint64)
        np.testing.assert_array_equal(
            compiled.read_inner(seeds, symbols, ids, readings, **how),
            reference.read_inner(seeds, symbols, ids, readings, **how),
        )


@needs_c
@pytest.mark.parametrize("bits", range(1, galois.MAX_BITS + 1))
@pytest.mark.parametrize("hashed", [True, False])
@pytest.mark.parametrize("reports", [30, compiled.fields.POINT_REPORTS])
def test_both_read_polynomials_alike(bits, hashed, reports, generator):
    seeds = generator.integers(0, 2**64, reports, dtype=np.uint64)
    coefficients = generator.integers(0, 2**bits, (reports, 5)).astype(np.uint32)
    readings = generator.integers(-9, 10, 2**bits)
    wide = generator.integers(0, 2**64, 150, dtype=np.uint64)
    for count in (150, 3):  # above and below the number of symbols, and across a block
        ids = wide[:count] if hashed else np.arange(min(2**bits, count), dtype=np.uint64)
        case, how = (seeds, coefficients, ids, readings), {"bits": bits, "hashed": hashed}
        np.testing.assert_array_equal(
            compiled.read_polynomial(*case, **how),
            reference.read_polynomial(*case, **how),
        )


@needs_c
@pytest.mark.parametrize("count", [0, 1, 8, 9, 40])
def test_both_hash_alike(count, generator):
    seeds, ids = generator.integers(0, 2**64, (2, 20), dtype=np.uint64)
    seeds[5:9] = seeds[5]
    case = seeds, ids, count
    np.testing.assert_array_equal(compiled.hash_wide(*case), reference.hash_wide(*case))
    np.testing.assert_array_equal(compiled.hash_each(*case), reference.hash_each(*case))


@needs_c
def test_what_would_read_out_of_bounds_is_refused(generator):
    kernels, one = compiled, np.zeros(1, dtype=np.uint64)
    symbols, readings = np.zeros((1, 4), dtype=np.uint8), np.zeros(3, dtype=np.int64)
    how = {"field": fields.field_of(3), "family": "wide"}
    with pytest.raises(IndexError, match="outside the field of 3"):
        kernels.read_inner(one, symbols + np.uint8(3), one, readings, **how)
    with pytest.raises(IndexError, match="outside the field of 3"):  # it would wrap to 0
        kernels.read_inner(one, symbols.astype(np.uint32) + np.uint32(256), one, readings, **how)
    with pytest.raises(TypeError, match="every symbol"):
        kernels.read_inner(one, symbols, one, readings[:2], **how)
    with pytest.raises(TypeError, match="too long"):
        kernels.read_inner(one, np.zeros((1, 2**15), dtype=np.uint8), one, readings, **how)
    for order, family in ((3, "prf"), (4, "linear")):
        how, counted = {"field": fields.field_of(order), "family": family}, np.zeros(order, int)
        with pytest.raises(TypeError, match="hashed by"):
            kernels.read_inner(one, symbols, one, counted, **how)
    how = {"field": fields.field_of(256), "family": "prf"}
    with pytest.raises(TypeError, match="too long"):
        kernels.read_inner(one, np.zeros((1, 1025), np.uint8), one, np.zeros(256, int), **how)
    offsets, rows, answers, free, field = systems(3, generator)
    with pytest.raises(TypeError, match="offsets"):
        kernels.solve_field(offsets[::-1].copy(), rows, answers, free, field)
    with pytest.raises(TypeError, match="same items"):
        kernels.solve_field(offsets, rows[:, 1:], answers, free, field)
    with pytest.raises(IndexError, match="outside the field of 3"):
        kernels.solve_field(offsets, rows + np.uint8(3), answers, free, field)
    with pytest.raises(TypeError, match="pair up"):
        compiled.hash_wide(one, np.zeros(2, dtype=np.uint64), 1)
    point = np.array([4], dtype=np.uint64)
    with pytest.raises(IndexError, match="not a point"):
        kernels.read_polynomial(
            *(one, symbols.astype(np.uint32), point, np.zeros(4, int)), bits=2, hashed=False
        )
    with pytest.raises(IndexError, match="no field"):
        kernels.read_polynomial(
            *(one, symbols.astype(np.uint32), point, np.zeros(4, int)), bits=17, hashed=False
        )


@pytest.mark.parametrize("order", fields.ORDERS)
@pytest.mark.parametrize("count", [1, 20, 21, 75])
def test_packing_keeps_symbols(order, count, generator):
    symbols = generator.integers(0, order, (9, count)).astype(np.uint8)
    words = fields.pack(symbols, order)
    assert words.shape == (9, len(fields.word_lengths(count, order)))
    np.testing.assert_array_equal(fields.unpack(words, count, order), symbols)


@pytest.mark.parametrize("order", [2, 3, 5, 16, 17])
def test_digits_are_those_of_the_scaled_word(order, generator):
    words = generator.integers(0, 2**32, (6, 2), dtype=np.uint32)
    each = hashing.word_digits(order)
    digits = hashing.base_digits(words, order, 2 * each)
    for row, column in itertools.product(range(6), range(2)):
        number = int(words[row, column]) * order**each >> 32
        expected = [number // order**place % order for place in reversed(range(each))]
        assert digits[row, column * each : (column + 1) * each].tolist() == expected


def test_hashing_is_pinned():
    """Eight words of one 32-byte digest: the server of tomorrow must read reports of today."""
    import hashlib

    digest = hashlib.blake2s((7).to_bytes(8, "little") + b"w\x00", key=(9).to_bytes(8, "little"))
    words = hashing.wide_words(np.array([9], np.uint64), np.array([7], np.uint64), 9)
    assert words[0, :8].astype("<u4").tobytes() == digest.digest()
