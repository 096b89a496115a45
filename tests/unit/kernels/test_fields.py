"""Kernels over small fields: both read alike, and what does not fit is refused."""

import itertools

import numpy as np
import pytest

from faintly.kernels import compiled, reference
from faintly.kernels.fields import POINT_REPORTS
from faintly.primitives import fields, galois
from spec import independent
from tests.every import every
from tests.unit.kernels.helpers import BOTH, ORDERS, independent_word, needs_c, wide, words


@every("order", fields.ORDERS)
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


@BOTH
@every("reports", [0, 1, 18])
@every("size", [1, 3])
def test_read_parity(kernels, reports, size):
    seeds, payload, ids = wide("seeds", reports), words("payload", reports, size), wide("ids", 4)
    wanted = []
    for item in ids.tolist():
        total = 0
        for seed, own in zip(seeds.tolist(), payload.tolist(), strict=True):
            odd = independent_word(seed, item, "c", 0) & 1
            for number, word in enumerate(own):
                odd ^= independent.parity(independent_word(seed, item, "a", number) & word)
            total += 1 - 2 * odd
        wanted.append(total)
    assert kernels.read_parity(seeds, payload, ids).tolist() == wanted


@needs_c
@every(
    ("bits", "size"),
    [*itertools.product(range(1, galois.MAX_BITS + 1), (1, 5)), (7, 140), (16, 140)],
)  # 140 are across a block
def test_both_add_points_alike(bits, size, generator):
    coefficients = generator.integers(0, 2**bits, (4, size)).astype(np.uint32)
    counts = generator.integers(0, min(size, 2**bits) + 1, 4)
    counts[:2] = 0, min(size, 2**bits)
    points = np.concatenate([generator.permutation(2**bits)[:count] for count in counts])
    values = generator.integers(0, 2**bits, len(points)).astype(np.uint32)
    case = coefficients, points, values, counts, bits
    np.testing.assert_array_equal(compiled.add_points(*case), reference.add_points(*case))


@BOTH
def test_points_that_do_not_fit_are_refused(kernels):
    add, none = kernels.add_points, np.zeros(0, dtype=np.int64)
    start, two = np.zeros((1, 2), dtype=np.uint32), np.arange(2)
    with pytest.raises(TypeError, match="at most its size"):
        add(start, np.arange(3), np.arange(3), np.array([3]), 4)
    with pytest.raises(TypeError, match="sizes must pair up"):
        add(start, none, none, none, 4)
    with pytest.raises(TypeError, match="of all rows"):
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
    with pytest.raises(IndexError):
        add(start, np.zeros(2, dtype=np.int64), two, np.array([2]), 4)  # the same point twice


POWERS = [order for order in ORDERS if order & (order - 1) == 0]  # prf and blake2s cut words


HASHED = [
    *((order, "wide") for order in ORDERS),
    *itertools.product(POWERS, ("prf", "blake2s")),
]


@needs_c
@every(("order", "family"), HASHED)
@every("size", [1, 15, 16, 75])
def test_both_read_alike(order, family, size, generator):
    seeds = generator.integers(0, 2**64, 2, dtype=np.uint64)
    symbols = generator.integers(0, order, (2, size)).astype(np.uint8)
    readings = generator.integers(-3, 4, order)
    how = {"field": fields.field_of(order), "family": family}
    for count in (5, 130) if size == 16 else (5,):  # within a block, and across
        ids = generator.integers(0, 2**64, count, dtype=np.uint64)
        np.testing.assert_array_equal(
            compiled.read_inner(seeds, symbols, ids, readings, **how),
            reference.read_inner(seeds, symbols, ids, readings, **how),
        )


@needs_c
@every("bits", range(1, galois.MAX_BITS + 1))
@every(("hashed", "reports"), [(True, 30), (False, 30), (False, POINT_REPORTS)])
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


@BOTH
def test_what_would_read_out_of_bounds_is_refused(kernels):
    one = np.zeros(1, dtype=np.uint64)
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
    with pytest.raises(TypeError, match="pair up"):
        kernels.hash_wide(one, np.zeros(2, dtype=np.uint64), 1)
    point = np.array([4], dtype=np.uint64)
    with pytest.raises(IndexError, match="not a point"):
        kernels.read_polynomial(
            *(one, symbols.astype(np.uint32), point, np.zeros(4, int)), bits=2, hashed=False
        )
    with pytest.raises(IndexError, match="no field"):
        kernels.read_polynomial(
            *(one, symbols.astype(np.uint32), point, np.zeros(4, int)), bits=17, hashed=False
        )


@every("order", fields.ORDERS)
@every("count", [1, 20, 21, 75])
def test_packing_keeps_symbols(order, count, generator):
    symbols = generator.integers(0, order, (9, count)).astype(np.uint8)
    words = fields.pack(symbols, order)
    assert words.shape == (9, len(fields.word_lengths(count, order)))
    np.testing.assert_array_equal(fields.unpack(words, count, order), symbols)
