"""The testers are tested: they stay quiet under the law, and empty cells cost something."""

import numpy as np
import pytest
from scipy import stats

LAW = np.array([0.4, 0.3, 0.2, 0.05, 0.05])


def test_goodness_of_fit_keeps_its_false_alarm_rate(odds_at, generator):
    """At a rate of 5 %, at most 5 % of honest samples are refused (FALSE_ALARM 1e-9)."""
    five = odds_at(0.05)
    seen = np.array([five.misfit(generator.multinomial(1000, LAW), LAW) for _ in range(2000)])
    most = stats.binom.isf(1e-9, 2000, 0.05)
    assert (seen > 1).sum() <= most
    assert (seen > 0.25).sum() > most  # mutant: a quarter of the limit


@pytest.mark.parametrize(
    "wrong",
    [
        np.array([0.45, 0.35, 0.2, 0.0, 0.0]),  # two cells never happen
        np.array([0.4, 0.3, 0.2, 0.1, 0.0]),  # one cell never happens
        np.array([0.43, 0.27, 0.2, 0.05, 0.05]),  # a biased coin
    ],
)
def test_goodness_of_fit_notices_empty_and_shifted_cells(odds, generator, wrong):
    assert odds.misfit(generator.multinomial(20_000, LAW), LAW) < 1
    assert odds.misfit(generator.multinomial(20_000, wrong), LAW) > 1


def test_goodness_of_fit_refuses_what_cannot_happen(odds):
    assert odds.misfit(np.array([10, 1]), np.array([1.0, 0.0])) == np.inf


def test_coverage_is_judged_both_ways(odds):
    assert odds.covers(950, 1000, 0.95)
    assert not odds.covers(850, 1000, 0.95)
    assert not odds.covers(1000, 1000, 0.95)
    assert odds.covers(10, 10, 0.95)


def test_limits_are_ordered(odds, odds_at):
    assert odds.z() == pytest.approx(6.109, abs=1e-3)
    assert odds_at(0.05).z() == pytest.approx(1.96, abs=1e-2)
    assert odds.z(comparisons=100) > odds.z()
    assert odds.t(20) > odds.t(2000) > odds.z()
