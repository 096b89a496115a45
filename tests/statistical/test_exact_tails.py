"""Top lists and intervals where readings are rare hits, which no normal law describes.

Nobody holds anything in half of the runs; in the others some keys are held by few. The mutant
judges the same readings by the normal law, and marks false keys in most runs.

FALSE_ALARM: 1e-9 per assertion, against the 5 % that is promised.
"""

import numpy as np
import pytest
from scipy import stats

from faintly import Reader, aggregate, make_plan
from faintly.client import randomize_all
from faintly.core import VectorBatch
from faintly.engine.top_list import threshold_score
from faintly.primitives.entropy import seeded

RUNS, KEYS, CLIENTS = 20, 5_000, 2_000
PROMISED, FALSE_ALARM = 0.05, 1e-9

POLYNOMIAL = {
    "protect": "event",
    "sparsity": 8,
    "mechanism": "retrieval-gf",
    "form": "polynomial",
}
CHOICE = {
    "protect": "user",
    "sparsity": 2,
    "mechanism": "projection-choice",
    "decode": "direct",
}
PLANS = {
    "polynomial": POLYNOMIAL | {"epsilon": 6.0},
    "rare polynomial": POLYNOMIAL | {"epsilon": 8.0},
    "bins": CHOICE | {"form": "bins", "epsilon": 8.0},
    "sets": CHOICE | {"form": "unsigned", "epsilon": 8.0, "values": "set"},
}


def readers(name, people, seed):
    for run in range(RUNS):
        salt = np.random.default_rng([seed, run]).bytes(16)
        plan = make_plan(clients=CLIENTS, universe=KEYS, salt=salt, **PLANS[name])
        sources = (seeded(seed, f"{name} {part} {run}") for part in ("public", "secret"))
        yield Reader(aggregate(plan, randomize_all(plan, people, *sources)))


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in PLANS if name != "polynomial"])
def test_nothing_stands_out_where_nobody_holds_anything(name, seed):
    people = VectorBatch.of([]).padded(CLIENTS)
    limit = int(stats.binom.isf(FALSE_ALARM, RUNS, PROMISED)) + 1
    false = normal = covered = above = 0
    for reader in readers(name, people, seed):
        every, top = reader.estimate_all(), reader.top(20)
        false += bool(top.significant.any())
        least = threshold_score(every.score, "family", PROMISED)
        normal += bool((every.mean / every.null_stderr >= least).any())
        covered += bool(((every.low_all <= 0) & (every.high_all >= 0)).all())
        above += bool((np.abs(every.mean) > every.noise_floor_all).any())
    assert false < limit, false
    assert covered > RUNS - limit, covered
    assert above < limit, above
    assert normal >= limit, "the normal law would have done"


@pytest.mark.long
@pytest.mark.parametrize("name", PLANS)
def test_intervals_hold_at_keys_that_few_hold(name, seed, odds):
    """Keys held by one to sixteen clients: their exact intervals hold, all of them together."""
    holders = np.repeat(np.arange(200), 1 + np.arange(200) % 16)
    owners = np.arange(len(holders))
    offsets = np.concatenate(
        [np.arange(len(owners) + 1), np.full(CLIENTS - len(owners), len(owners))]
    )
    people = VectorBatch(offsets, holders.astype(np.uint64), np.ones(len(holders)))
    asked = range(1_000)  # the others are held by nobody, as these are above 200
    truth = np.bincount(holders, minlength=len(asked)) / CLIENTS
    covered = hit = 0
    for reader in readers(name, people, seed):
        every = reader.estimate(asked)
        covered += bool(((every.low_all <= truth) & (truth <= every.high_all)).all())
        hit += int(((every.low <= truth) & (truth <= every.high))[:200].sum())
    limit = int(stats.binom.isf(FALSE_ALARM, RUNS, PROMISED)) + 1
    assert covered > RUNS - limit, covered
    # Exact intervals cover at least as often as they say; correlated keys count as a tenth.
    assert hit / (200 * RUNS) > 0.95 - odds.z() * np.sqrt(0.05 * 0.95 / (20 * RUNS))
