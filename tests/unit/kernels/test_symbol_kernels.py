"""Kernels over small fields: the two implementations agree, and solutions answer."""

import itertools

import numpy as np
import pytest

from faintly.kernels import _symbols_compiled as compiled
from faintly.kernels import _symbols_reference as reference
from faintly.kernels import compiled as loaded
from faintly.mechanisms import _retrieval_l1_field as fields
from faintly.primitives import hashing

needs_c = pytest.mark.skipif(not loaded.available(), reason="the C kernels were not built")
SIZE = 40


@pytest.mark.parametrize("order", fields.MODULI)
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
    np.testing.assert_array_equal(
        reference.fold_lanes(field.lanes, field.prime, order), field.products
    )


def systems(order, generator):
    """Systems of none, few and more equations than unknowns."""
    offsets = np.array([0, 3, 3, 33, 33 + 2 * SIZE])
    rows = generator.integers(0, order, (offsets[-1], SIZE)).astype(np.uint8)
    rows[5] = rows[4]  # a dependent row among few
    answers = generator.integers(0, order, offsets[-1]).astype(np.uint8)
    free = generator.integers(0, order, (4, SIZE)).astype(np.uint8)
    field = fields.field_of(order)
    return offsets, rows, answers, free, (field.products, field.differences, field.inverses)


@pytest.mark.parametrize("order", fields.MODULI)
def test_solutions_answer_every_independent_equation(order, generator):
    case = systems(order, generator)
    offsets, rows, answers, free = case[:4]
    solved = reference.solve_symbols(*case)
    field = fields.field_of(order)
    for segment, (first, last) in enumerate(itertools.pairwise(offsets)):
        own = [tuple(row) for row in rows[first:last].tolist()]
        for place in fields.independent(own, order):
            sums = field.lanes[solved[segment], rows[first + place]].sum(dtype=np.uint64)
            read = reference.fold_lanes(sums, field.prime, order)
            assert read == answers[first + place]
    np.testing.assert_array_equal(solved[1], free[1])


@needs_c
@pytest.mark.parametrize("order", fields.MODULI)
def test_both_solve_alike(order, generator):
    case = systems(order, generator)
    np.testing.assert_array_equal(compiled.solve_symbols(*case), reference.solve_symbols(*case))


@needs_c
@pytest.mark.parametrize("order", fields.MODULI)
@pytest.mark.parametrize("size", [1, 15, 16, 75])
def test_both_read_alike(order, size, generator):
    seeds = generator.integers(0, 2**64, 30, dtype=np.uint64)
    ids = generator.integers(0, 2**64, 5, dtype=np.uint64)
    symbols = generator.integers(0, order, (30, size)).astype(np.uint8)
    readings, field = generator.integers(-3, 4, order), fields.field_of(order)
    case, own = (seeds, symbols, ids, readings), {"lanes": field.lanes, "prime": field.prime}
    np.testing.assert_array_equal(
        compiled.read_symbols(*case, **own), reference.read_symbols(*case, **own)
    )


@needs_c
@pytest.mark.parametrize("count", [0, 1, 8, 9, 40])
def test_both_hash_alike(count, generator):
    seeds, ids = generator.integers(0, 2**64, (2, 20), dtype=np.uint64)
    seeds[5:9] = seeds[5]
    case = seeds, ids, count
    np.testing.assert_array_equal(compiled.hash_wide(*case), reference.hash_wide(*case))


@needs_c
def test_what_would_read_out_of_bounds_is_refused():
    field, one = fields.field_of(3), np.zeros(1, dtype=np.uint64)
    symbols, readings = np.zeros((1, 4), dtype=np.uint8), np.zeros(3, dtype=np.int64)
    with pytest.raises(IndexError, match="not below 3"):
        compiled.read_symbols(one, symbols + 3, one, readings, lanes=field.lanes, prime=3)
    with pytest.raises(TypeError, match="characteristic"):
        compiled.read_symbols(one, symbols, one, readings, lanes=field.lanes, prime=2)
    wide = np.zeros((1, 2**15), dtype=np.uint8)
    with pytest.raises(TypeError, match="too long"):
        compiled.read_symbols(one, wide, one, readings, lanes=field.lanes, prime=3)
    tables = field.products, field.differences, field.inverses
    with pytest.raises(TypeError, match="offsets"):
        compiled.solve_symbols(np.array([0, 2]), symbols, np.zeros(1), symbols, tables)
    with pytest.raises(IndexError, match="not below 3"):
        compiled.solve_symbols(np.array([0, 1]), symbols + 5, np.zeros(1), symbols, tables)
    with pytest.raises(TypeError, match="pair up"):
        compiled.hash_wide(one, np.zeros(2, dtype=np.uint64), 1)


@pytest.mark.parametrize("order", fields.MODULI)
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
