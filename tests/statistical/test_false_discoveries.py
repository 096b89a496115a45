"""The share of false rows among those that a top list marks, over many collections.

FALSE_ALARM: 1e-9 per assertion. The share of one collection lies in [0, 1]; its mean over
independent collections is judged by its estimated standard error (Student's t).
"""

import math
from statistics import NormalDist

import numpy as np
import pytest

from faintly import make_plan, vectors_from
from tests.statistical.readers import reader_of

CLIENTS, SONGS, LIKED = 4_000, 400, 40
COLLECTIONS = 200
RATE = 0.1


def collections(protect, epsilon, seed, generator):
    """Yield readers of independent collections about the same listeners."""
    plan = make_plan(
        protect=protect,
        epsilon=epsilon,
        sparsity=4,
        clients=CLIENTS,
        universe=SONGS,
        decode="table",
    )
    weight = 1 / np.arange(1, LIKED + 1)
    picked = generator.choice(LIKED, (CLIENTS, 4), p=weight / weight.sum())
    vectors = vectors_from([set(row) for row in picked.tolist()], plan)
    for run in range(COLLECTIONS):
        yield reader_of(plan, vectors, seed, run)


def false_share(keys):
    return sum(key >= LIKED for key in keys) / max(1, len(keys))


def marked(best):
    return np.array(best.estimates.keys)[best.significant]


@pytest.mark.long
@pytest.mark.parametrize(("protect", "epsilon"), [("event", 2.0), ("user", 4.0)])
def test_share_of_false_rows_is_bounded(protect, epsilon, seed, odds, generator):
    """fdr keeps its rate and finds more than family; two mutants do not keep it.

    One takes twice the rate, the other the threshold of a single key for all keys.
    """
    shares, doubled, careless, found = [], [], [], []
    alone = -NormalDist().inv_cdf(RATE)  # the threshold of one key, used for all
    for reader in collections(protect, epsilon, seed, generator):
        best = reader.top(SONGS, control="fdr", false_rate=RATE)
        shares.append(false_share(marked(best)))
        double = reader.top(SONGS, control="fdr", false_rate=2 * RATE)
        doubled.append(false_share(marked(double)))
        every = best.estimates
        rows = zip(every.keys, every.score, strict=True)
        careless.append(false_share([key for key, score in rows if score >= alone]))
        family = reader.top(SONGS, control="family", false_rate=RATE)
        found.append((len(marked(best)), len(marked(family))))
    wide, narrow = np.mean(found, axis=0)
    means = [f"{np.mean(each):.4f}" for each in (shares, doubled, careless)]
    seen = f"false rows {means[0]}, mutants {means[1]} and {means[2]}, {COLLECTIONS} collections"
    assert np.mean(shares) <= RATE + odds.t(COLLECTIONS) * spread(shares), seen
    assert np.mean(doubled) > RATE + odds.t(COLLECTIONS) * spread(doubled), seen
    assert np.mean(careless) > RATE + odds.t(COLLECTIONS) * spread(careless), seen
    assert wide > narrow > 0, f"rows marked: fdr {wide}, family {narrow}"


def spread(shares):
    return np.std(shares, ddof=1) / math.sqrt(len(shares))
