"""Hits of cells and tables of characters: both languages give the same integers."""

import numpy as np
import pytest

from faintly import kernels as active
from faintly.kernels import compiled, reference
from tests.every import every
from tests.unit.kernels.helpers import BOTH, needs_c


def drawn(*shape, high=2**32, seed=1):
    return np.random.default_rng(seed).integers(0, high, shape, dtype=np.uint32)


def orthogonal(cell, row):
    return sum((int(a) & int(b)).bit_count() for a, b in zip(cell, row, strict=True)) % 2 == 0


@BOTH
@every(("count", "first"), [(1, 1), (2, 2), (3, 2), (3, 1)])
def test_hits_are_those_of_one_cell_at_a_time(kernels, count, first):
    cells, rows = drawn(700, 2, high=8), drawn(5, count, 2, high=8, seed=2)
    cells[::7] = 0  # a cell that says nothing, and would be orthogonal to everything
    expected = [
        [
            sum(cell.any() and all(orthogonal(cell, row) for row in key[:few]) for cell in cells)
            for key in rows
        ]
        for few in (first, count)
    ]
    np.testing.assert_array_equal(kernels.read_hits(cells, rows, first), expected)


@needs_c
@every("reports", [0, 1, 31, 32, 511, 512, 513, 3000])
@every("words", [1, 2, 5])
@every(("count", "first"), [(1, 1), (4, 3), (8, 8)])
def test_compiled_hits_equal_the_reference(reports, words, count, first):
    cells, rows = drawn(reports, words), drawn(9, count, words, seed=2)
    cells[:, -1] &= np.uint32(0x1FF)  # the last word of a cell may be narrower
    rows[:, :, -1] &= np.uint32(0x1FF)
    both = [one.read_hits(cells, rows, first) for one in (compiled, reference)]
    np.testing.assert_array_equal(*both)
    some, every = (
        active.read_hits(cells[part], rows, first)
        for part in np.split(np.arange(reports), [reports // 3])
    )
    np.testing.assert_array_equal(some + every, both[0])


@BOTH
def test_keys_without_rows_or_of_other_lengths_are_refused(kernels):
    cells, rows = drawn(4, 2), drawn(3, 2, 2)
    for bad in (
        (cells, rows, 0),
        (cells, rows, 3),
        (cells[:, :1], rows, 1),
        (cells, drawn(3, 9, 2), 1),
        (cells.astype(np.uint64), rows, 1),
        (cells, rows[0], 1),
    ):
        with pytest.raises(TypeError):
            kernels.read_hits(*bad)


def images_of(sums, bits):
    made = drawn(sums, bits, high=2**bits, seed=3)
    made[0] = 0
    return made


@BOTH
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_folded_tables_hold_the_sum_of_every_character(kernels, dtype):
    images, weights = images_of(4, 3), np.array([0, 2, 1, 0])
    tables = np.random.default_rng(4).integers(-9, 10, (3, 32)).astype(dtype)
    folded = kernels.fold_characters(tables, images, weights)
    assert folded.dtype == dtype
    for element in range(8):
        total = 0
        for u, weight in enumerate(weights):
            place = 0
            for bit in range(3):
                place ^= int(images[u, bit]) if element >> bit & 1 else 0
            total += weight * tables[:, (u << 3) + place]
        np.testing.assert_array_equal(folded[:, element], total)


@needs_c
@every(("sums", "bits"), [(2, 1), (2, 9), (8, 6), (64, 5), (4, 14)])
def test_compiled_folding_equals_the_reference(sums, bits):
    images, weights = images_of(sums, bits), np.random.default_rng(5).integers(0, 4, sums)
    tables = np.random.default_rng(6).integers(-99, 100, (17, sums << bits)).astype(np.int32)
    both = [one.fold_characters(tables, images, weights) for one in (compiled, reference)]
    np.testing.assert_array_equal(*both)


@BOTH
def test_tables_and_images_that_do_not_fit_are_refused(kernels):
    tables, images, weights = np.zeros((1, 32), np.int32), images_of(4, 3), np.ones(4, np.int64)
    for bad in (
        (tables[:, :16].copy(), images, weights),
        (tables, images, weights[:3]),
        (tables, images.astype(np.int64), weights),
        (tables.astype(np.int16), images, weights),
    ):
        with pytest.raises(TypeError):
            kernels.fold_characters(*bad)
    with pytest.raises(IndexError):
        kernels.fold_characters(tables, images + np.uint32(8), weights)
