"""The kernels of bins: both agree to the last integer, mean what they say, and refuse alike."""

import numpy as np
import pytest

from faintly.kernels import compiled, reference
from faintly.primitives.hashing import LEAST_ROW_BITS, POLYNOMIALS, LinearBins
from tests.unit.kernels.helpers import BOTH, needs_c, words

FAMILIES = [
    LinearBins(9, 2, signed=False),
    LinearBins(12, 16, signed=True),
    LinearBins(16, 256, signed=False),
    LinearBins(17, 32, signed=False),
]
FAMILY = pytest.mark.parametrize("bins", FAMILIES, ids=str)


def codes_of(bins, count):
    return words("codes", count) & np.uint32(2**bins.code_bits - 1)


def independent_place(bins, row, code):
    """The place of a code in a row, one bit at a time."""
    low, where = code % bins.rows, code // bins.rows
    for bit in range(bins.width):
        where ^= ((row & low).bit_count() & 1) << bit
        row = row << 1 if row << 1 < bins.rows else row << 1 ^ bins.polynomial
    return 2 * where + ((row & low).bit_count() & 1) if bins.signed else where


@pytest.mark.parametrize("degree", range(LEAST_ROW_BITS, LEAST_ROW_BITS + len(POLYNOMIALS)))
def test_polynomials_have_their_degree_and_no_factor(degree):
    """X^(2^s) = X, and X^(2^(s/p)) - X is prime to the polynomial for every prime p of s."""
    polynomial = POLYNOMIALS[degree - LEAST_ROW_BITS]
    assert polynomial.bit_length() == degree + 1
    powers = [2]
    for _ in range(degree):
        powers.append(remainder(square(powers[-1]), polynomial))
    assert powers[degree] == 2
    for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23):
        if degree % prime == 0:
            assert divisor(polynomial, powers[degree // prime] ^ 2) == 1


def square(a):
    return int("".join(f"0{bit}" for bit in f"{a:b}"), 2)


def remainder(a, b):
    while a.bit_length() >= b.bit_length():
        a ^= b << (a.bit_length() - b.bit_length())
    return a


def divisor(a, b):
    while b:
        a, b = b, remainder(a, b)
    return a


@FAMILY
def test_places_are_those_of_one_bit_at_a_time(bins):
    rows = words("rows", 40) & np.uint32(bins.rows - 1)
    codes = codes_of(bins, 40)
    pairs = zip(rows.tolist(), codes.tolist(), strict=True)
    wanted = [independent_place(bins, *pair) for pair in pairs]
    assert bins.places(rows, codes).tolist() == wanted


@needs_c
@FAMILY
@pytest.mark.parametrize("groups", [1, 7, 64])
def test_compiled_places_equal_the_reference(bins, groups):
    seeds = words("seeds", 5, 2).view(np.uint64).ravel()
    offsets, codes = np.array([0, 3, 3, 4, 20, 21]), codes_of(bins, 21)
    flips = (words("flips", 21) & np.uint32(1)).astype(np.uint8)
    found, wanted = (
        kernels.place_codes(seeds, offsets, codes, flips, groups=groups, bins=bins)
        for kernels in (compiled, reference)
    )
    np.testing.assert_array_equal(found, wanted)


@BOTH
@FAMILY
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_transform_after_spreading_counts_the_reports_of_every_code(kernels, bins, dtype):
    reports, maps = 300, 3
    rows, where = words("rows", reports) % np.uint32(bins.rows), words("at", reports) % bins.bins
    chosen = words("maps", reports) % maps
    signs = 1 - 2 * (words("signs", reports) & 1).astype(int) * bins.signed
    tables = np.zeros((maps, 2**bins.code_bits), dtype=dtype)
    np.add.at(tables, (chosen, rows * np.uint32(bins.bins) + where), signs)
    before = tables.copy()
    spread = kernels.spread_bins(tables, bins)
    np.testing.assert_array_equal(tables, before)
    kernels.walsh_hadamard(spread)
    for code in codes_of(bins, 20):
        place = bins.places(rows, np.full(reports, code))
        at, turn = (place >> 1, 1 - 2 * (place & 1).astype(int)) if bins.signed else (place, 1)
        for j in range(maps):
            hits = (signs * turn * (at == where))[chosen == j].sum()
            taken = 0 if bins.signed else (chosen == j).sum()
            assert spread[j, code] == bins.bins * hits - taken


@needs_c
@FAMILY
def test_compiled_spreading_equals_the_reference(bins):
    tables = (words("entries", 2, 2**bins.code_bits) % 7).astype(np.int32) - 3
    found, wanted = (kernels.spread_bins(tables, bins) for kernels in (compiled, reference))
    np.testing.assert_array_equal(found, wanted)


@BOTH
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("top", [1, 4, 11, 12])
def test_slots_are_ranked_and_picked(kernels, signed, top):
    """Against a sorted list of all slots, for every class and every member of it."""
    bins = 12
    hits = words("hits", 40, 9) % np.uint32(bins * (1 + signed))
    ranked = kernels.rank_slots(hits, bins, signed, top)
    for own, (border, above, tied) in zip(hits, ranked.T.tolist(), strict=True):
        sums = np.bincount(own >> signed, 1 - 2.0 * (own & 1) * signed, bins).astype(int)
        scores = np.stack([sums, -sums], axis=1).ravel() if signed else sums
        assert border == np.sort(scores)[-top]
        assert (above, tied) == ((scores > border).sum(), (scores == border).sum())
        for kind in (1, 0, -1):
            members = np.flatnonzero(np.sign(scores - border) == kind)
            for place, slot in enumerate(members.tolist()):
                classes, member = np.array([[border], [kind]]), np.array([place])
                found = kernels.pick_slots(own[None, :], bins, signed, classes, member)
                assert found.tolist() == [slot]
            classes, member = np.array([[border], [kind]]), np.array([len(members)])
            with pytest.raises(IndexError, match="too few slots"):
                kernels.pick_slots(own[None, :], bins, signed, classes, member)


@needs_c
@pytest.mark.parametrize("signed", [False, True])
def test_compiled_slots_equal_the_reference(signed):
    bins, top = 3000, 900  # more than are counted at a time, and threads
    hits = words("hits", 200, 1000) % np.uint32(bins * (1 + signed))
    found, wanted = (k.rank_slots(hits, bins, signed, top) for k in (compiled, reference))
    np.testing.assert_array_equal(found, wanted)
    classes = np.stack([wanted[0], np.zeros(200, dtype=np.int64)])
    member = words("member", 200) % wanted[2]
    found, wanted = (
        k.pick_slots(hits, bins, signed, classes, member) for k in (compiled, reference)
    )
    np.testing.assert_array_equal(found, wanted)


@BOTH
def test_arguments_that_do_not_fit_are_refused(kernels):
    hits, one = np.zeros((1, 3), dtype=np.uint32), np.zeros(1, dtype=np.int64)
    with pytest.raises(TypeError, match="top must be"):
        kernels.rank_slots(hits, 4, False, 5)
    with pytest.raises(IndexError, match="hits no bin"):
        kernels.rank_slots(hits + np.uint32(4), 4, False, 1)
    with pytest.raises(TypeError, match="pair up"):
        kernels.pick_slots(hits, 4, False, np.zeros((2, 2), dtype=np.int64), one)
    bins = FAMILIES[0]
    with pytest.raises(TypeError, match="each row and bin"):
        kernels.spread_bins(np.zeros((1, 2**8), dtype=np.int32), bins)
    tables = np.zeros((1, bins.rows * bins.bins), dtype=np.int32)
    for wrong in (tables.astype(np.int64), np.zeros((2, tables.shape[1]), dtype=np.int32)):
        with pytest.raises(TypeError, match="shape and type of the tables"):
            kernels.spread_bins(tables, bins, wrong)
    seeds, offsets = np.zeros(1, dtype=np.uint64), np.array([0, 1])
    code, flip = np.zeros(1, dtype=np.uint32), np.zeros(1, dtype=np.uint8)
    with pytest.raises(TypeError, match="groups must be between 1 and 256"):
        kernels.place_codes(seeds, offsets, code, flip, groups=257, bins=bins)
