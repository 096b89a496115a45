"""Conditional means: the arithmetic of ratios, of which the noise is tested elsewhere."""

import numpy as np
import pytest

from faintly import Reader, aggregate, conditional_means, entries_from, key_value_plan, make_plan
from faintly.client import randomize_all
from faintly.core.estimate import Estimates, normal_quantile
from faintly.engine import ConditionalMeans
from faintly.errors import InvalidInput
from faintly.mechanisms import mechanism_of
from faintly.primitives.entropy import seeded

PLAN = key_value_plan(
    protect="entry", epsilon=2.0, entries=2, clients=2_000, universe=["a", "b"], salt=bytes(16)
)


def reader_of(plan):
    rows = np.arange(2_000) // 2, np.array(["a", "b"] * 1_000), np.tile([1.0, -0.5], 1_000)
    vectors = entries_from((rows[0], rows[1].tolist(), rows[2]), plan).padded(2_000)
    return Reader(aggregate(plan, randomize_all(plan, vectors, seeded(1, "a"), seeded(1, "b"))))


def column(mean, stderr):
    mean = np.asarray(mean, float)
    return Estimates(
        keys=list(range(len(mean))),
        mean=mean,
        stderr=np.full(len(mean), stderr),
        reports=1000,
        guarantee=mechanism_of(PLAN).guarantee(),
        null_stderr=stderr,
        score=mean / stderr,
    )


def made(held, value, held_error=0.01, value_error=0.01, covariance=0.0):
    count = len(held)
    return ConditionalMeans(
        list(range(count)),
        column(held, held_error),
        column(value, value_error),
        np.full(count, covariance),
    )


def test_the_mean_is_that_of_holders():
    found = conditional_means(reader_of(PLAN), ["a", "b"])
    assert found.keys == ["a", "b"]
    assert found.frequency.mean == pytest.approx([0.5, 0.5], abs=0.2)
    assert found.mean == pytest.approx(found.totals.mean / found.frequency.mean)
    assert (found.low <= found.mean).all()
    assert (found.mean <= found.high).all()
    assert (found.low_all <= found.low).all()
    assert (found.high <= found.high_all).all()
    assert list(found.columns())[:2] == ["key", "frequency"]


def test_far_from_noise_the_interval_is_the_delta_method():
    found = made([0.8], [0.4], covariance=2e-5)
    spread = 0.01**2 - 2 * 0.5 * 2e-5 + 0.25 * 0.01**2
    assert found.stderr == pytest.approx([np.sqrt(spread) / 0.8])
    half = normal_quantile(0.95) * found.stderr
    assert found.high - found.mean == pytest.approx(half, rel=0.02)
    assert found.mean - found.low == pytest.approx(half, rel=0.02)


def test_ends_solve_the_equation_that_defines_them():
    found = made([0.1], [0.02], covariance=-3e-5)
    z = normal_quantile(0.95)
    for end in (found.low[0], found.high[0]):
        spread = 0.01**2 + 2 * end * 3e-5 + (end * 0.01) ** 2
        assert abs(0.02 - end * 0.1) == pytest.approx(z * np.sqrt(spread))


def test_a_frequency_that_could_be_noise_tells_nothing():
    found = made([0.015, 0.0, -0.3], [0.01, 0.0, 0.2])
    assert np.isnan(found.mean).all()
    assert np.isnan(found.stderr).all()
    assert found.low.tolist() == [-1.0] * 3
    assert found.high.tolist() == [1.0] * 3


def test_an_unknown_covariance_is_taken_at_its_worst(monkeypatch):
    reader = reader_of(PLAN)
    known = conditional_means(reader, ["a", "b"])
    monkeypatch.setattr(reader.mechanism.forecast, "pair_covariance", lambda: None)
    worst = conditional_means(reader, ["a", "b"])
    assert (worst.stderr > known.stderr).all()
    most = worst.frequency.stderr * np.abs(worst.mean) + worst.totals.stderr
    assert worst.stderr == pytest.approx(most / worst.frequency.mean)


def test_other_plans_are_refused():
    odd = make_plan(protect="event", epsilon=1.0, sparsity=2, clients=100, universe=5)
    with pytest.raises(InvalidInput, match="key_value_plan"):
        conditional_means(Reader(mechanism_of(odd).tables.empty_sketch()), [0])
