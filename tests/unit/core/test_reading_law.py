"""The exact law of a reading, beside sums over every outcome and laws that scipy knows."""

import math

import numpy as np
import pytest
from scipy import stats

from faintly.core import ReadingLaw

COIN = ReadingLaw.coin()
SETS = ReadingLaw((-1, 15), (15 / 16, 1 / 16))
RARE = ReadingLaw.rare(1 / 400)
UNEVEN = ReadingLaw((-3, -1, 0, 1, 3), (0.02, 0.2, 0.56, 0.2, 0.02))


def tails(law, reports):
    """Return every total that n reports can read, and P(total or more), by convolution."""
    least, most = min(law.values), max(law.values)
    one = np.zeros(most - least + 1)
    one[np.array(law.values) - least] = law.chances
    sums = np.ones(1)
    for _ in range(reports):
        sums = np.convolve(sums, one)
    totals = np.arange(len(sums)) + reports * least
    kept = sums > 0
    return totals[kept], np.cumsum(sums[::-1])[::-1][kept]


@pytest.mark.parametrize("law", [COIN, SETS, RARE, UNEVEN], ids=["coin", "sets", "rare", "uneven"])
@pytest.mark.parametrize("reports", [20, 100, 400])
def test_tails_are_within_two_percent(law, reports):
    """But for the first reading where even one is rare, and the last total that there is: 12 %."""
    totals, exact = tails(law, reports)
    asked = (exact < 0.2) & (exact > 1e-12)
    away = stats.norm.sf(law.scores(totals, reports))[asked] / exact[asked] - 1
    assert np.abs(away).max() < 0.12
    inner = np.abs(away[1:-1] if law is not RARE else away[2:])
    assert inner.max() < 0.02
    normal = stats.norm.sf(totals / (law.deviation * math.sqrt(reports)))[asked]
    assert np.abs(normal / exact[asked] - 1).max() > 0.12, "the normal law would have done"


@pytest.mark.parametrize("reports", [10**6, 10**9, 10**12])
def test_tails_of_many_reports_are_those_of_the_binomial_law(reports):
    for law, chance in ((COIN, 0.5), (SETS, 1 / 16)):
        low, high = law.values
        hits = reports * chance + np.array([1, 2, 4, 6]) * math.sqrt(
            reports * chance * (1 - chance)
        )
        hits = hits.astype(np.int64)
        totals = low * reports + (high - low) * hits
        exact = stats.binom.sf(hits - 1, reports, chance)
        assert stats.norm.sf(law.scores(totals, reports)) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("chance", [0.5, 1 / 16, 1 / 4000])
@pytest.mark.parametrize("level", [0.95, 1 - 1e-6])
def test_ends_are_clopper_and_pearson_s(chance, level):
    reports, law = 3000, ReadingLaw((0, 1), (1 - chance, chance))
    hits = np.array([0, 1, 2, 5, 40, 1500, 2999, 3000])
    low, high = law.ends(hits, reports, stats.norm.isf((1 - level) / 2))
    for place, count in enumerate(hits.tolist()):
        exact = stats.binomtest(count, reports).proportion_ci(level, method="exact")
        assert low[place] == pytest.approx(exact.low * reports, rel=0.02, abs=0.002)
        assert high[place] == pytest.approx(exact.high * reports, rel=0.02)


def test_a_total_at_a_score_has_that_score():
    for law in (COIN, SETS, RARE, UNEVEN):
        for reports in (500, 10**7):
            for score in (1.0, 1.96, 5.0):
                total = law.total_at(score, reports)
                around = np.array([math.floor(total), math.ceil(total) + law.step])
                below, above = law.scores(around, reports)
                assert below <= score <= above


def test_deviations_are_those_of_the_mean():
    reports = 1000
    hits = np.array([0, 10, 250, 500, 1000])
    found = ReadingLaw((0, 1), (0.5, 0.5)).deviations(hits, reports)
    share = hits.clip(0.5, 999.5) / reports
    assert found == pytest.approx(np.sqrt(reports * share * (1 - share)))


def test_scores_rise_with_totals_and_end_with_the_law():
    for law in (COIN, SETS, RARE, UNEVEN):
        totals = np.arange(-60, 61) * law.step + 40 * min(law.values)
        totals = totals[(totals >= 40 * min(law.values)) & (totals <= 40 * max(law.values))]
        scores = law.scores(totals, 40)
        assert (np.diff(scores) > 0).all()
        assert scores[0] == -math.inf  # no total is smaller, so its tail is one
    assert len(COIN.scores(np.zeros(0, dtype=np.int64), 5)) == 0


@pytest.mark.parametrize("reports", [30, 2_000])
@pytest.mark.parametrize(("law", "chance"), [(COIN, 0.5), (SETS, 1 / 16)], ids=["coin", "sets"])
def test_roots_are_the_likelihood_of_a_binomial(law, chance, reports):
    """Of two values: e^(-r²/2) is P(total | mean) over the same of the likeliest mean."""
    low, high = law.values
    hits = np.array([0, 1, reports // 8, reports // 2, reports])
    meant = np.array([0.02, chance, 0.4, 0.9])
    totals = reports * low + hits * (high - low)
    roots = law.roots(totals.astype(float), reports * (low + meant * (high - low)), reports)
    exact = stats.binom.logpmf(hits[:, None], reports, meant)
    best = stats.binom.logpmf(hits, reports, hits / reports)[:, None]
    np.testing.assert_allclose(-(roots**2) / 2, exact - best, rtol=1e-6, atol=1e-6)
    assert (np.sign(roots) == np.sign(meant - (hits / reports)[:, None])).all()


def test_totals_that_no_reports_have_do_no_harm():
    """Two reports that read -1 or 3 add up to -2, 2 or 6; what lies between is listed with them."""
    law = ReadingLaw((-1, 3), (0.75, 0.25))
    low, high = law.ends(np.array([-2, 2, 2, 6, -2, 2, 6]), 2, 1.96)
    alone = [law.ends(np.array([total]), 2, 1.96) for total in (-2, 2, 6)]
    assert low[[0, 1, 3]].tolist() == pytest.approx([float(one[0][0]) for one in alone])
    assert high[[0, 1, 3]].tolist() == pytest.approx([float(one[1][0]) for one in alone])
