"""Projection choice: constants against tables that other code computed, and against each other."""

import json
from pathlib import Path

import numpy as np
import pytest

from faintly.mechanisms import mechanism_of
from faintly.mechanisms.projection_choice import constants
from faintly.mechanisms.projection_choice.constants import Odds, Shape
from faintly.planner import bounds, make_plan
from tests.every import every

TABLE = json.loads(Path(__file__).with_name("projection_choice_tables.json").read_text())
SIX_DIGITS = 1e-6


def mechanism(**changes):
    wanted = {"protect": "user", "clients": 1000, "universe": 500, "decode": "direct"}
    return mechanism_of(make_plan(mechanism="projection-choice", **{**wanted, **changes}))


def case(row):
    return f"eps{row['epsilon']:g}-k{row['k']}"


@every("row", TABLE)
def test_constants_match_the_tables_to_six_digits(row):
    """The tables were computed with unrounded thresholds, by other code."""
    epsilon, k = row["epsilon"], row["k"]
    near = {"rel": SIX_DIGITS}
    # One group and one best slot are randomized response on the sign of one projection.
    shape = Shape(k, 1)
    unheld = constants.unheld_variance(shape, Odds.unrounded(shape, 1, epsilon))
    assert unheld == pytest.approx(row["d"], **near)
    assert bounds.user_average_bound(epsilon, k) == pytest.approx(row["lb1"], **near)
    for groups in (64, 256):
        shape = Shape(k, groups)
        top = constants.best_top(shape, epsilon)
        assert top == row[f"g{groups}_N"]
        unheld = constants.unheld_variance(shape, Odds.unrounded(shape, top, epsilon))
        assert unheld == pytest.approx(row[f"g{groups}"], **near)
    shape = Shape(k, row["bins_G"], row["bins_b"])
    assert constants.best_top(shape, epsilon) == row["bins_N"]
    odds = Odds.unrounded(shape, row["bins_N"], epsilon)
    assert constants.unheld_variance(shape, odds) == pytest.approx(row["bins"], **near)


@every("row", [row for row in TABLE if row["k"] == 1])
def test_one_token_has_the_tabled_slots(row):
    bins = constants.slot_bins(row["epsilon"], 4096)
    shape = Shape(1, 1, bins)
    odds = Odds.unrounded(shape, 1, row["epsilon"])
    assert bins == row["k1_b"]
    assert constants.worst_variance(shape, odds) == pytest.approx(row["k1"], rel=SIX_DIGITS)
    assert constants.unheld_variance(shape, odds) == pytest.approx(row["k1_V0"], rel=SIX_DIGITS)
    assert constants.held_variance(shape, odds) == pytest.approx(row["k1_V1"], rel=SIX_DIGITS)
    plan = mechanism(epsilon=row["epsilon"], sparsity=1).plan
    assert plan.parameters["form"] == "bins"
    assert [plan.parameters[name] for name in ("groups", "bins", "top")] == [1, bins, 1]


SEARCHED = [row for row in TABLE if row["k"] <= 100 and row["epsilon"] >= 2]


@pytest.mark.long
@pytest.mark.parametrize("row", SEARCHED, ids=case)
def test_searched_bins_are_at_least_as_good_as_the_tables(row):
    epsilon, k = row["epsilon"], row["k"]
    bins = constants.best_bins(k, row["bins_G"], epsilon, signed=True, share=0.0, most=2**19)
    shape = Shape(k, row["bins_G"], bins)
    odds = Odds.unrounded(shape, constants.best_top(shape, epsilon), epsilon)
    assert constants.unheld_variance(shape, odds) <= row["bins"] * 1.001


@every("groups", [64, 256])
@every("row", TABLE)
def test_rounding_the_threshold_changes_nothing_that_shows(row, groups):
    chosen = mechanism(epsilon=row["epsilon"], sparsity=row["k"], groups=groups, decode="direct",
                       form="dense")  # fmt: skip
    assert chosen.forecast.variance(1.0) == pytest.approx(row[f"g{groups}"], rel=SIX_DIGITS)
    loss = chosen.guarantee().budget.epsilon
    assert row["epsilon"] * (1 - SIX_DIGITS) <= loss <= row["epsilon"]


def test_ghost_energy_approaches_that_of_many_groups():
    """U §6: 0.44, 1.04, 2.05, 4.84, 17.3 for infinitely many groups at epsilon 1."""
    for k, limit in {4: 0.44, 6: 1.04, 11: 2.05, 16: 4.84, 64: 17.3}.items():
        shapes = [Shape(k, groups) for groups in (1024, 4096, 16384)]
        energy = [constants.ghost_energy(shape, constants.best_top(shape, 1.0)) for shape in shapes]
        assert energy[0] > energy[1] > energy[2] > limit - 0.005
        # The excess falls like 1/√groups, so that it halves with each step.
        assert 2 * energy[2] - energy[1] == pytest.approx(limit, rel=0.02)


def test_dense_curve_is_the_bins_curve_of_one_bin():
    """Two derivations of one number: binomial counts, and the contour sum."""
    for k, groups in [(1, 1), (4, 8), (7, 16), (40, 4)]:
        dense = constants.score_curve(Shape(k, groups))
        total = np.zeros(groups + 1)
        for level in constants.bin_survivals(Shape(k, groups, 1)):
            reach = np.cumsum(level)
            total[1 : len(reach) + 1] += reach
        np.testing.assert_allclose(total, dense, rtol=1e-10)


def test_constants_are_finite_for_every_sparsity():
    """Tails that round above 1 once made them NaN for 51 values of k below 600."""
    for tokens in range(1, 601):
        tails = constants.sign_sum_tail(tokens)
        assert tails.max() <= 1.0
        assert (np.diff(tails) <= 1e-15).all()
    for tokens in (21, 23, 41, 109, 511):
        plan = make_plan(
            protect="user", epsilon=1.0, sparsity=tokens, clients=10**5, universe=10**4
        )
        assert plan.mechanism == "projection-choice"
        assert 5.9 * tokens < mechanism_of(plan).forecast.variance(0) < 6.6 * tokens
