"""Measured against predicted: what chance explains, and what it does not."""

import numpy as np
import pytest
from scipy import stats

from evaluation import agreement
from evaluation.verdict import Agreement, PooledAgreement


@pytest.mark.parametrize("runs", [2, 3, 10])
def test_the_chance_is_students_where_keys_err_together(runs):
    wanted = 2 * stats.t.sf(3.0, runs - 1)
    assert agreement.chance(3.0, runs, 0.0) == pytest.approx(wanted, rel=5e-3)


def test_the_chance_of_one_run_is_normal():
    assert agreement.chance(3.0, 1, 1.0) == pytest.approx(2 * stats.norm.sf(3.0))


@pytest.mark.parametrize("runs", [3, 10])
def test_the_chance_where_keys_err_independently(runs, seed):
    """200,000 scores by the rule of `Cell.surprise`; false alarm below 1e-9 at 6.2 deviations."""
    generator = np.random.default_rng(seed)
    drawn = generator.standard_normal((200_000, runs))
    spread = np.maximum(drawn.std(axis=1, ddof=1), 1.0)
    far = np.abs(drawn.mean(axis=1)) * np.sqrt(runs) / spread > 3.0
    share = agreement.chance(3.0, runs, 1.0)
    room = 6.2 * np.sqrt(share / len(drawn))
    assert abs(far.mean() - share) < room, f"{far.mean():.5f}, not {share:.5f} ± {room:.5f}"
    assert abs(far.mean() - agreement.chance(3.0, runs, 0.0)) > room  # mutant: Student's law
    assert abs(far.mean() - 2 * stats.norm.sf(3.0)) > room  # mutant: the normal law


@pytest.mark.parametrize(("cells", "share"), [(1, 0.1), (140, 0.0019), (500, 0.0019), (500, 0.015)])
def test_as_many_are_allowed_as_chance_hardly_exceeds(cells, share):
    hits = agreement.allowed(cells, share)
    assert hits == stats.binom.isf(agreement.FALSE_ALARM, cells, share)


def test_the_limit_grows_with_the_number_of_methods():
    assert agreement.pooled_limit(1) == pytest.approx(stats.norm.isf(0.0005))
    assert agreement.pooled_limit(20) == pytest.approx(stats.norm.isf(0.0005 / 20))


def test_right_predictions_pass_and_each_cell_counts_once(made_up):
    found = made_up("user-eps", "headline")  # which share a point
    cells = agreement.judged(found)
    assert len({(cell.point.name, cell.method.name) for cell in cells}) == len(cells)
    assert Agreement().verdict(found).holds is True
    assert PooledAgreement().verdict(found).holds is True
    assert Agreement().verdict(made_up("user-k", methods=())).holds is None
    assert PooledAgreement().verdict(made_up("user-k", methods=())).holds is None


def test_variances_that_are_far_off_are_noticed(made_up):
    """Mutant: 1.5 times the predicted variance, 13 standard errors off in every cell."""
    found = made_up("user-k", "event-k", agreement=1.5)
    verdict = Agreement().verdict(found)
    assert verdict.holds is False
    assert verdict.value == len(agreement.judged(found))


def test_variances_that_are_a_little_off_everywhere_are_noticed(made_up):
    """Mutant: 7 % more than predicted, 1.9 standard errors in each cell."""
    found = made_up("user-k", "user-eps", "user-d", "error-n", "bounds", agreement=1.07)
    assert Agreement().verdict(found).holds is True
    assert PooledAgreement().verdict(found).holds is False
    mild = made_up("user-k", "user-eps", "user-d", "error-n", "bounds", agreement=1.01)
    assert PooledAgreement().verdict(mild).holds is True


def test_biased_methods_are_not_judged(made_up):
    assert agreement.judged(made_up("user-k", claimed_bias=0.17)) == []
