"""Bins in tables, exactly: all rows of the linear family, every cell, every code.

One group of 256 rows, or two groups, whose rows may coincide. The law of a cell is that of the
slots, which test_projection_choice_enumeration.py checks, over all rows. Mutants stand beside.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from faintly.mechanisms.projection_choice import constants
from faintly.mechanisms.projection_choice import law as laws
from faintly.primitives.hashing import LinearBins
from tests.conformance import linear_rows
from tests.conformance.linear_rows import EXACT, ROWS, independent, places


@pytest.fixture(autouse=True)
def _fresh_laws():
    """Laws are remembered by what they depend on; a mutant changes what that is."""
    for cache in (laws.mixed_law, laws.padded_law):
        cache.cache_clear()


def small(*sizes, **options):
    return linear_rows.small(*sizes, values="nonnegative", form="unsigned", **options)


def cell_law(mechanism, values, codes):
    """The chance of every cell (row, bin) for items of these values and codes, over all rows."""
    bins, groups = mechanism.bins, mechanism.groups
    place = places(mechanism, codes)
    cells = np.zeros((ROWS, bins))
    chosen = np.stack(np.meshgrid(*[np.arange(ROWS)] * groups), axis=-1).reshape(-1, groups)
    patterns, base = sum(place[:, chosen[:, g]] * bins**g for g in range(groups)), bins**groups
    digits = base ** np.arange(len(codes))
    for number in np.unique(joined := digits @ patterns).tolist():
        mine = chosen[joined == number]
        outcome = tuple((number // digits % base).tolist())
        law = mechanism.law.probabilities(values, outcome)
        for slot, chance in enumerate(law.tolist()):
            group, where = divmod(slot, bins)
            cells[:, where] += np.bincount(mine[:, group], minlength=ROWS) * chance / len(chosen)
    return cells


def means(mechanism, cells):
    """What the server reads on average at every code."""
    hits = np.zeros(2**mechanism.plan.hashing.bits)
    for row in range(ROWS):
        hits += cells[row, mechanism.linear_bins.places(np.uint32(row), CODES[: len(hits)])]
    return (hits - 1 / mechanism.bins) / mechanism.attenuation


CODES = np.arange(2**12, dtype=np.uint32)


def some_codes(mechanism, count):
    """The first codes whose bins are independent of each other."""
    below = range(1, 2**mechanism.plan.hashing.bits, 7)
    return next(
        list(codes)
        for codes in itertools.combinations(below, count)
        if independent(mechanism, codes)
    )


@pytest.mark.parametrize(
    ("sparsity", "bins", "groups"), [(1, 2, 1), (2, 4, 1), (1, 4, 2), (2, 2, 2)]
)
def test_no_cell_tells_more_than_epsilon(sparsity, bins, groups):
    """Vectors without items, up to one more than planned, and of halves; some rows coincide."""
    mechanism = small(sparsity, bins, groups)
    below = 2**mechanism.plan.hashing.bits
    vectors = [
        (values, codes)
        for codes in ((), (5,), (9,), (5, 9), (5, 9, 18), (5, below - 256 + 5))
        if len(codes) <= sparsity + 1
        for values in {(1.0,) * len(codes), (0.5,) * len(codes)}
    ]
    every = [cell_law(mechanism, *vector) for vector in vectors]
    for cells in every:
        assert cells.sum() == pytest.approx(1, abs=EXACT)
    most, least = (np.log(bound(every, axis=0)) for bound in (np.max, np.min))
    loss = float((most - least).max())
    assert loss <= mechanism.guarantee().budget.epsilon + EXACT <= 1.0 + EXACT
    assert loss > 0.5
    loud = replace(mechanism, threshold=mechanism.threshold * 21 // 20)  # mutant: a biased coin
    mutated = [cell_law(loud, *vector) for vector in vectors]
    assert float(np.log(np.max(mutated, axis=0) / np.min(mutated, axis=0)).max()) > loss


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("value", [1.0, 0.25])
def test_what_the_tables_say_is_right_on_average(count, value):
    """One group: the truth at held codes, and nothing at those whose bins are independent."""
    mechanism = small(max(1, count), 4)
    codes = some_codes(mechanism, count)
    found = means(mechanism, cell_law(mechanism, (value,) * count, codes))
    np.testing.assert_allclose(found[codes], value, atol=EXACT)
    others = [
        code
        for code in range(2**10)
        if code not in codes and independent(mechanism, [*codes, code])
    ]
    assert len(others) > 500
    np.testing.assert_allclose(found[others], 0, atol=EXACT)
    # A code that differs in the bin alone never meets its neighbour.
    near = [code + ROWS & 2**10 - 1 for code in codes]
    np.testing.assert_allclose(found[near], -value / 3, atol=EXACT)


@pytest.mark.parametrize("top", [1, 2, 3])
def test_rows_that_coincide_do_no_harm(top):
    """Two groups draw their rows alone, so one pair of rows in 256 is the same."""
    mechanism = small(2, 2, groups=2, top=top)
    found = means(mechanism, cell_law(mechanism, (1.0, 1.0), [5, 9]))
    np.testing.assert_allclose(found[[5, 9]], 1.0, atol=EXACT)
    others = [code for code in range(2**9) if code % ROWS not in (5, 9)]
    np.testing.assert_allclose(found[others], 0.0, atol=EXACT)


def test_means_of_dependent_codes_are_off_and_on_average_hardly():
    """Three codes of which the third is made of the others; then all that follow two."""
    mechanism = small(3, 4, top=1)
    three = [found_at(mechanism, [5, 9, code]) for code in range(16, ROWS, 5)]
    assert max(map(abs, three)) > 0.01
    assert abs(np.mean(three)) < 5 * mechanism.forecast.relative_bias()


def found_at(mechanism, codes):
    """How far the mean of the held codes is off."""
    found = means(mechanism, cell_law(mechanism, (1.0,) * len(codes), codes))
    return float(found[codes].mean() - 1)


def test_a_cut_is_a_bias_and_not_a_leak():
    mechanism = small(2, 4)
    found = means(mechanism, cell_law(mechanism, (1.0,) * 3, [5, 9, 18]))
    np.testing.assert_allclose(found[[5, 9, 18]], 2 / 3, atol=EXACT)


def test_shifts_without_a_modulus_are_noticed(monkeypatch):
    """Mutant: rows that lose their top bit, so that many rows put two codes into one bin."""
    monkeypatch.setattr(LinearBins, "polynomial", 0x100)
    mechanism = small(2, 4)
    found = means(mechanism, cell_law(mechanism, (1.0,), [5]))
    assert np.abs(np.delete(found, CODES[: 2**10] % ROWS == 5)).max() > 0.05


def test_a_client_that_does_not_pad_is_noticed(monkeypatch):
    """Mutant: no dummies. Still private, but one constant no longer fits all vectors."""
    plain, mechanism = laws.padded_law, small(2, 4, top=1)
    monkeypatch.setattr(laws, "padded_law", lambda choice, scores, _: plain(choice, scores, 0))
    found = means(mechanism, cell_law(mechanism, (1.0,), [5]))
    assert abs(found[5] - 1) > 0.05


@pytest.mark.parametrize(("bins", "top"), [(2, 1), (4, 1), (4, 2), (4, 3)])
def test_ghosts_are_no_larger_than_predicted(bins, top):
    """Everybody holds the same three: all that other codes read, and the largest of it."""
    mechanism = small(3, bins, top=top)
    codes = some_codes(mechanism, 3)
    found = means(mechanism, cell_law(mechanism, (1.0,) * 3, codes))
    energy = (found**2).sum() - 3
    assert 0.4 < energy / constants.ghost_energy(mechanism.shape, top) <= 1 + EXACT
    largest = np.abs(np.delete(found, codes)).max()
    assert 0.4 < largest / constants.ghost_strength(mechanism.shape, top) <= 1 + EXACT
