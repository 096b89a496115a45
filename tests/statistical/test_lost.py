"""The share of long vectors that a mechanism says it loses is the share that it loses.

20,000 clients hold m random keys of 128, all of value v. The readings of all keys add up to
n·m·v·(1 - lost), with the variance n·128·Var. A limit of 6 standard errors is passed once in 10^9.
"""

import math
from functools import cache

import numpy as np
import pytest

from faintly.core import VectorBatch
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.primitives.entropy import seeded

CLIENTS, KEYS, SPARSITY = 20_000, 128, 6
PLANS = [
    ("projection-choice", "user", "table"),
    ("retrieval", "event", "table"),
    *(
        pytest.param(*plan, marks=pytest.mark.long)
        for plan in (
            ("projection-choice", "user", "direct"),
            ("projection-choice", "event", "table"),
            ("projection-choice", "l1:4", "table"),
            ("retrieval", "event", "direct"),
            # Not by table: so few keys are more evenly shared out over its blocks than by chance.
            ("orthogonal", "event", "direct"),
            ("signed-binning", "event", "table"),
            ("signed-binning", "user", "direct"),
            ("collision", "user", "direct"),
            ("k-fold", "event", "table"),
            ("harmony", "user", "direct"),
        )
    ),
]
SETS = {"collision"}
VALUES = {"orthogonal": "nonnegative"}  # it takes no others


@cache  # the same for every plan
def holding(items, value, seed):
    scores = np.random.default_rng(seed).random((CLIENTS, KEYS))
    ids = np.sort(np.argpartition(scores, items, axis=1)[:, :items], axis=1)
    offsets = np.arange(CLIENTS + 1) * items
    return VectorBatch(offsets, ids.ravel().astype(np.uint64), np.full(ids.size, value))


@pytest.mark.parametrize(("name", "protect", "decode"), PLANS)
def test_what_is_said_to_be_lost_is_lost(name, protect, decode, seed):
    plan = make_plan(
        mechanism=name,
        protect=protect,
        decode=decode,
        epsilon=2.0,
        sparsity=SPARSITY,
        clients=CLIENTS,
        universe=KEYS,
        values=VALUES.get(name, "signed"),
        salt=bytes(16),
    )
    mechanism, ids = mechanism_of(plan), np.arange(KEYS, dtype=np.uint64)
    caught = []
    for items, value in ((6, 1.0), (18, 1.0), (60, 1.0), (60, 0.25)):
        if value < 1 and name in SETS:
            continue
        vectors = holding(items, value, seed)
        sources = (seeded(seed, f"{part}/{items}/{value}") for part in ("public", "secret"))
        totals = mechanism.simulation.totals(vectors, ids, *sources)
        whole = CLIENTS * items * value
        kept = float(totals.sum()) * mechanism.scale / whole
        spread = math.sqrt(CLIENTS * KEYS * mechanism.forecast.variance(items * value**2)) / whole
        said = 1 - float(mechanism.forecast.lost(vectors).mean())
        print(f"{items} × {value}: kept {kept:.4f} ± {spread:.4f}, said {said:.4f}")  # noqa: T201
        assert abs(kept - said) < 6 * spread
        # Mutant: longer vectors lose no more than those of k items.
        caught.append(abs(kept - (1 - mechanism.forecast.relative_bias())) > 6 * spread)
    loses = said < 0.9 or float(mechanism.forecast.lost(holding(60, 1.0, seed)).mean()) > 0.1
    assert any(caught) is loses
