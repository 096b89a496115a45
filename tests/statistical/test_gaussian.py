"""Gaussian noise follows its law, and errs as much as predicted.

FALSE_ALARM: 1e-9 per assertion under any seed; within 3 standard errors under the default one.
"""

from dataclasses import replace

import numpy as np
import pytest

from faintly.core import ReportBatch, SparseVector, VectorBatch
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.primitives import gaussian as noise

pytestmark = pytest.mark.statistical
CLIENTS, KEYS = 800, 60


def misfit(drawn, variance):
    """The worst deviation of the share of draws at or below a value, over 41 values."""
    reach = 8 * int(np.sqrt(variance)) + 20
    stated = np.cumsum(noise.law(variance, reach))
    cuts = np.unique(np.linspace(-2, 2, 41) * np.sqrt(variance)).astype(int)
    law = stated[cuts + reach]
    seen = np.searchsorted(np.sort(drawn), cuts, side="right") / len(drawn)
    return float((np.abs(seen - law) / np.sqrt(law * (1 - law) / len(drawn))).max())


@pytest.mark.parametrize("variance", [3, 25, 448, 121_031])
@pytest.mark.parametrize("drawn_for", [1.0, 0.8])
def test_draws_follow_the_law(variance, drawn_for, rng_of, odds):
    """Mutant: noise of four fifths of the variance."""
    broken = drawn_for < 1
    wanted = round(variance * drawn_for)
    drawn = noise.draw(wanted, 100_000, rng_of(f"draws {variance} {drawn_for}"))
    assert bool(misfit(drawn, variance) < odds.z(41)) is not broken


@pytest.mark.parametrize("tampered", [False, True])
def test_n_mse_is_as_predicted(tampered, generator, rng_of, default_seed, odds):
    """Mutant: a client that adds half the variance."""
    plan = make_plan(
        protect="l1:32",
        epsilon=1.0,
        delta=1e-5,
        sparsity=20,
        clients=CLIENTS,
        universe=KEYS,
        mechanism="gaussian",
        decode="direct",
        salt=bytes(16),
    )
    mechanism = mechanism_of(plan)
    vectors = VectorBatch.of(
        [
            SparseVector(generator.choice(KEYS, 20, replace=False), generator.uniform(-1, 1, 20))
            for _ in range(CLIENTS)
        ]
    )
    client = mechanism
    if tampered:
        client = replace(mechanism, variance_steps=mechanism.variance_steps // 2)
    nothing = np.zeros(CLIENTS, dtype=np.uint64)
    sent = client.randomize(vectors, nothing, rng_of(f"secret {tampered}"))
    batch = ReportBatch(plan.digest, nothing, sent)
    truth = np.bincount(vectors.indices.astype(int), vectors.values, KEYS)
    sums = mechanism.read(batch, np.arange(KEYS, dtype=np.uint64)) * mechanism.scale
    # Each report of each key is one draw of the noise, so the spread is known from all of them.
    each = (sent.astype(np.int64) - mechanism.range) * mechanism.scale
    held = np.zeros((CLIENTS, KEYS))
    held[vectors.owners, vectors.indices.astype(int)] = vectors.values
    square = float(((each - held) ** 2).mean())
    predicted = mechanism.forecast.variance(0.0)
    gap = abs(square - predicted) / (predicted * np.sqrt(2 / each.size))
    assert bool(gap < odds.z()) is not tampered, gap
    worst = float(np.abs(sums - truth).max()) / np.sqrt(
        CLIENTS * mechanism.forecast.worst_variance()
    )
    assert worst < odds.z(KEYS)
    # Mutant: a server that forgets what a field has its zero at.
    raw = sums + CLIENTS * mechanism.range * mechanism.scale
    assert np.abs(raw - truth).max() / np.sqrt(
        CLIENTS * mechanism.forecast.worst_variance()
    ) > odds.z(KEYS)
    if default_seed and not tampered:
        assert gap < 3
