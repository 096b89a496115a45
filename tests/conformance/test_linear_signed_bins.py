"""Signed bins in tables, exactly: all rows of the linear family, every cell and sign, every code.

One group of 256 rows, which is where dependent rows show most. The law of a cell is that of the
slots, which test_projection_choice_enumeration.py checks, over all rows. Mutants stand beside.
"""

from dataclasses import replace

import numpy as np
import pytest

from faintly.mechanisms.projection_choice import constants
from faintly.primitives.hashing import LinearBins
from tests.conformance import linear_rows
from tests.conformance.linear_rows import EXACT, ROWS, independent, places


def small(*sizes, **options):
    return linear_rows.small(*sizes, form="bins", **options)


def cell_law(mechanism, values, codes):
    """The chance of every row, bin and sign for items of these values and codes."""
    where = places(mechanism, codes)
    cells = np.empty((ROWS, mechanism.bins, 2))
    for row in range(ROWS):
        law = mechanism.law.probabilities(values, tuple(where[:, row].tolist()))
        cells[row] = law.reshape(mechanism.bins, 2) / ROWS
    return cells


def read(mechanism, cells):
    """What the server reads on average at every code, and how often a code's bin is reported."""
    size = 2**mechanism.plan.hashing.bits
    signed, counted = np.zeros(size), np.zeros(size)
    for row in range(ROWS):
        place = mechanism.linear_bins.places(np.uint32(row), np.arange(size, dtype=np.uint32))
        here = cells[row][place >> 1]
        counted += here.sum(axis=1)
        signed += (here[:, 0] - here[:, 1]) * (1 - 2.0 * (place & 1))
    return signed / mechanism.attenuation, counted


@pytest.mark.parametrize(("sparsity", "bins"), [(1, 2), (1, 8), (2, 2), (2, 4)])
def test_no_cell_tells_more_than_epsilon(sparsity, bins):
    """Vectors without items, of either sign, of halves, and of one more than planned."""
    mechanism = small(sparsity, bins)
    vectors = [
        (values, codes)
        for codes in ((), (5,), (9,), (5, 9), (5, 9, 18), (5, ROWS + 5))
        if len(codes) <= sparsity + 1
        for sign in (1.0, -1.0, 0.5)
        for values in {(sign,) * len(codes), (sign, *(-sign,) * (len(codes) - 1))[: len(codes)]}
    ]
    every = [cell_law(mechanism, *vector) for vector in vectors]
    for cells in every:
        assert cells.sum() == pytest.approx(1, abs=EXACT)
    loss = float(np.log(np.max(every, axis=0) / np.min(every, axis=0)).max())
    assert 0.9 < loss <= mechanism.guarantee().budget.epsilon + EXACT <= 1.0 + EXACT
    loud = replace(mechanism, threshold=mechanism.threshold * 21 // 20)  # mutant: a biased coin
    mutated = [cell_law(loud, *vector) for vector in vectors]
    assert float(np.log(np.max(mutated, axis=0) / np.min(mutated, axis=0)).max()) > 1.0


@pytest.mark.parametrize("values", [(), (1.0,), (-0.25,), (1.0, -1.0), (0.5, 1.0)])
def test_what_the_tables_say_is_right_on_average(values):
    """The truth at held codes, nothing at independent ones, and hits that keep their chance."""
    # Rows of eight bits keep three codes independent in two bins, and two codes in four.
    mechanism = small(max(1, len(values)), 4 if len(values) < 2 else 2)
    codes = [5, 9][: len(values)]
    found, counted = read(mechanism, cell_law(mechanism, values, codes))
    np.testing.assert_allclose(found[codes], values, atol=EXACT)
    others = [
        code
        for code in range(0, 2**mechanism.plan.hashing.bits, 3)
        if code not in codes and independent(mechanism, [*codes, code])
    ]
    assert len(others) > 100
    np.testing.assert_allclose(found[others], 0, atol=EXACT)
    np.testing.assert_allclose(counted[others], 1 / mechanism.bins, atol=EXACT)
    # A code that differs in the bin alone has the same sign, and never the same bin.
    near = [code + ROWS for code in codes]
    np.testing.assert_allclose(found[near], 0, atol=EXACT)


def test_held_keys_are_counted_more_often_and_no_more_than_predicted():
    mechanism = small(2, 4)
    _, counted = read(mechanism, cell_law(mechanism, (1.0, 1.0), [5, 9]))
    exact = counted[5] / mechanism.attenuation**2 - 1
    assert mechanism.forecast.variance(0) < exact
    assert (
        exact <= mechanism.forecast.variance(0) + mechanism.forecast.held_excess_moment - 1 + EXACT
    )


def test_shifts_without_a_modulus_are_noticed(monkeypatch):
    """Mutant: rows that lose their top bit, so that many rows give two codes the same place."""
    monkeypatch.setattr(LinearBins, "polynomial", 0x100)
    mechanism = small(2, 4)
    found, _ = read(mechanism, cell_law(mechanism, (1.0,), [5]))
    assert np.abs(np.delete(found, np.arange(2**10) % ROWS == 5)).max() > 0.05


def test_the_sign_of_a_bin_bit_is_noticed(monkeypatch):
    """Mutant: the sign is a bit of the bin, so that it says nothing new, and all means are 0."""
    plain = LinearBins.places

    def wrong(bins, rows, codes):
        where = plain(bins, rows, codes) >> np.uint32(1)
        return where * np.uint32(2) + (where & np.uint32(1))

    monkeypatch.setattr(LinearBins, "places", wrong)
    mechanism = small(2, 4)
    found, _ = read(mechanism, cell_law(mechanism, (1.0,), [5]))
    assert (np.abs(found) > 0.05).sum() > 50  # every code that meets it in a bin has its sign


@pytest.mark.parametrize(("bins", "top"), [(2, 1), (2, 2), (4, 1), (4, 2), (4, 3), (8, 1), (8, 3)])
def test_ghosts_are_no_larger_than_predicted(bins, top):
    """Everybody holds the same three: all that other codes read, and the largest of it."""
    mechanism = small(3, bins, top=top)
    codes = [5, 9, 18]
    found, _ = read(mechanism, cell_law(mechanism, (1.0,) * 3, codes))
    energy = (found**2).sum() - 3
    assert 0.1 < energy / constants.ghost_energy(mechanism.shape, top) <= 1 + EXACT
    largest = np.abs(np.delete(found, codes)).max()
    strength = constants.ghost_strength(mechanism.shape, top)
    assert largest <= strength + EXACT
    assert top > 1 or largest > 0.7 * strength  # one best slot is the case that it is made for
