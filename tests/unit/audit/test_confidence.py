"""Clopper and Pearson's bounds, against scipy and against their promise."""

import math

import pytest
from scipy import stats

from faintly.audit.confidence import at_least, at_most, loss_at_least


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (1, 10), (10, 10), (37, 1000), (999, 1000)])
@pytest.mark.parametrize("tail", [0.05, 1e-6])
def test_bounds_equal_the_beta_quantiles(hits, trials, tail):
    low = stats.beta.ppf(tail, hits, trials - hits + 1) if hits else 0.0
    high = stats.beta.ppf(1 - tail, hits + 1, trials - hits) if hits < trials else 1.0
    assert at_least(hits, trials, tail) == pytest.approx(low, rel=1e-6, abs=1e-12)
    assert at_most(hits, trials, tail) == pytest.approx(high, rel=1e-6)


def test_loss_is_below_the_plain_ratio_and_grows_with_evidence():
    few = loss_at_least(60, 20, 100, 0.0, 1e-6)
    many = loss_at_least(60_000, 20_000, 100_000, 0.0, 1e-6)
    assert 0 <= few < many < math.log(3)
    assert many > 0.95 * math.log(3)


def test_delta_is_given_away_first():
    assert loss_at_least(600, 200, 1000, 0.7, 1e-6) == 0.0
