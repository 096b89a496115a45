"""Two ways to decode, one estimator: tables and direct reading agree integer for integer.

Exact equality, so there is no false-alarm rate; the reports are drawn from the seed, and a
mutant shows that the comparison can fail.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from faintly.client import randomize_all
from faintly.core import ReportBatch, SparseVector, Universe, VectorBatch
from faintly.engine import Reader, aggregate
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan

CLIENTS = 1_500
PLANS = {
    "one bin": {"universe": 300, "sparsity": 4},
    "two bins": {"universe": 300, "sparsity": 8},
    "eight bins": {"universe": 300, "sparsity": 8, "bins": 8},
    "four maps": {"universe": 300, "sparsity": 8, "maps": 4},
    "open universe, four maps": {"universe": Universe.open(), "sparsity": 8, "bits": 10},
    "open universe, four maps, eight bins": {
        "universe": Universe.open(),
        "sparsity": 8,
        "bits": 12,
        "maps": 4,
        "bins": 8,
    },
    "spare bits": {"universe": 300, "sparsity": 4, "bits": 14},
    "one key": {"universe": 1, "sparsity": 1},
}


def reports_of(plan, generator, rng_of):
    size = plan.universe.size
    vectors = []
    for _ in range(CLIENTS):
        count = int(generator.integers(0, plan.sparsity + 1))
        if size is None:
            ids = plan.ids([f"site{n}" for n in generator.choice(40, count, replace=False)])
        else:
            ids = generator.choice(size, min(count, size), replace=False)
        vectors.append(SparseVector(ids, generator.uniform(-1, 1, len(ids))))
    return list(randomize_all(plan, VectorBatch.of(vectors), rng_of("public"), rng_of("secret")))


@pytest.mark.parametrize("name", PLANS)
def test_table_and_direct_give_the_same_integers(name, generator, rng_of):
    table = make_plan(
        mechanism="signed-binning",
        protect="event",
        epsilon=1.0,
        clients=CLIENTS,
        decode="table",
        **PLANS[name],
    )
    direct = replace(table, decode="direct")
    batches = reports_of(table, generator, rng_of)
    same = [ReportBatch(direct.digest, batch.hash_seeds, batch.fields) for batch in batches]
    left, right = Reader(aggregate(table, batches)), Reader(aggregate(direct, same))
    if table.universe.size is None:
        keys = [f"site{n}" for n in range(60)]
        ids = table.ids(keys)
        estimates = [reader.estimate(keys) for reader in (left, right)]
    else:
        ids = np.arange(table.universe.size, dtype=np.uint64)
        estimates = [reader.estimate_all() for reader in (left, right)]
    assert np.array_equal(left.totals(ids), right.totals(ids))
    assert left.totals(ids).any()
    assert np.array_equal(estimates[0].mean, estimates[1].mean)
    assert np.array_equal(estimates[0].stderr, estimates[1].stderr)
    # Mutant: fifty reports fewer on one side (a single one may well say nothing).
    fewer = aggregate(direct, [part.take(slice(50, None)) for part in same])
    assert not np.array_equal(Reader(fewer).totals(ids), left.totals(ids))


def test_merging_any_split_equals_counting_at_once(generator, rng_of):
    for decode in ("table", "direct"):
        plan = make_plan(
            mechanism="signed-binning",
            protect="event",
            epsilon=1.0,
            clients=CLIENTS,
            decode=decode,
            universe=50,
            sparsity=8,
        )
        (batch,) = reports_of(plan, generator, rng_of)
        shuffled = batch.take(generator.permutation(len(batch)))
        cuts = [0, *sorted(generator.integers(0, len(batch), 4)), len(batch)]
        parts = [
            aggregate(plan, [shuffled.take(slice(low, high))])
            for low, high in itertools.pairwise(cuts)
        ]
        merged = parts[-1]
        for part in parts[:-1]:
            merged = part.merge(merged)
        assert merged == aggregate(plan, [batch])
        assert merged != merged.merge(parts[-1])  # mutant: one part counted twice


@pytest.mark.parametrize("bins", [1, 4])
def test_weights_of_one_report_read_back_as_its_bins(bins, generator):
    """A single report, decoded at a key, says b times the signed content of that key's bin."""
    plan = make_plan(
        mechanism="signed-binning",
        protect="event",
        epsilon=1.0,
        clients=10,
        universe=64,
        sparsity=4,
        bins=bins,
        decode="table",
    )
    mechanism = mechanism_of(plan)
    seeds = generator.integers(0, 2**40, 1, dtype=np.uint64)
    fields = generator.integers(0, mechanism.layout.limits[0], (1, bins)).astype(np.uint32)
    reader = Reader(aggregate(plan, [ReportBatch(plan.digest, seeds, fields)]))
    ids = np.arange(64, dtype=np.uint64)
    where, signs = np.array(mechanism.law.outcome_of(int(seeds[0]), ids)).T
    said = signs * (fields[0].astype(np.int64) - mechanism.range)[where]
    assert np.array_equal(reader.totals(ids), bins * said)
    assert not np.array_equal(reader.totals(ids), bins * (said + signs))  # mutant: one step
