"""Odds: how far chance alone may take a statistic, and fixtures that use them.

No limit is tuned: each follows from a false-alarm rate and the law of its statistic.
"""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from faintly.core import ReadingLaw
from faintly.data import Records, read_records


class Odds:
    """Limits of test statistics at a false-alarm rate per assertion."""

    def __init__(self, false_alarm: float) -> None:
        self.false_alarm = false_alarm

    def z(self, comparisons: int = 1) -> float:
        """Return what |N(0,1)| exceeds in any of the comparisons with the stated odds."""
        return float(stats.norm.isf(self.false_alarm / comparisons / 2))

    def t(self, samples: int, comparisons: int = 1) -> float:
        """Return the same for a mean divided by its estimated standard error."""
        return float(stats.t.isf(self.false_alarm / comparisons / 2, samples - 1))

    def entropy_limit(self, cells: int) -> float:
        """Return what n·KL(observed, expected) exceeds with at most the stated odds.

        Agrawal 2020: P(n·KL >= t) <= e^-t·(e·t/(m-1))^(m-1) for t > m-1, for every n and
        every law on m cells. Nothing is asymptotic, so rare cells need no pooling.
        """
        freedom = max(1, cells - 1)
        low, high = float(freedom), 1e7
        for _ in range(200):
            middle = (low + high) / 2
            log_bound = -middle + freedom * (1 + math.log(middle / freedom))
            low, high = (middle, high) if log_bound > math.log(self.false_alarm) else (low, middle)
        return high

    def misfit(self, counts: np.ndarray, law: np.ndarray) -> float:
        """Return n·KL(observed, expected) over its limit: above 1, the law is not the law.

        An empty cell counts: its mass must be somewhere else, where it shows.
        """
        counts, law = np.asarray(counts, float).ravel(), np.asarray(law, float).ravel()
        assert counts.shape == law.shape
        assert abs(law.sum() - 1) < 1e-9
        if (counts[law == 0] > 0).any():
            return math.inf
        seen = counts > 0
        entropy = (counts[seen] * np.log(counts[seen] / (counts.sum() * law[seen]))).sum()
        return float(entropy) / self.entropy_limit(len(law))

    def covers(self, hits: int, trials: int, share: float) -> bool:
        """Return whether `hits` of `trials` is compatible with a share, both ways."""
        below = stats.binom.cdf(hits, trials, share)
        above = stats.binom.sf(hits - 1, trials, share)
        return min(below, above) > self.false_alarm / 2


@pytest.fixture(scope="session")
def odds() -> Odds:
    """Limits at one false alarm in 10^9 assertions: nights of sweeps stay quiet for centuries."""
    return Odds(1e-9)


@pytest.fixture(scope="session")
def odds_at() -> type[Odds]:
    """Limits at another rate."""
    return Odds


@pytest.fixture(scope="session")
def records(dataset: Callable[[str], Path]) -> Callable[[str], Records]:
    """Return a reader of datasets, each read once; one that is missing skips the test."""
    return cache(lambda name: read_records(dataset(name)))


@pytest.fixture
def half_the_variance(monkeypatch):
    """A mutant: intervals as if readings had half the variance that their law has."""
    ends = ReadingLaw.ends
    monkeypatch.setattr(
        ReadingLaw, "ends", lambda law, *case: ends(law, *case[:-1], case[-1] / math.sqrt(2))
    )


@pytest.fixture
def a_cut_to_the_first(monkeypatch):
    """A mutant: clients who cut their tokens draw nothing, and so keep the first ones."""
    monkeypatch.setattr("faintly.mechanisms.tokens.uniform_below", lambda left, _: 0 * left)
