"""Orthogonal: the sampler follows its law, and estimates err as predicted, on real data too.

Beside each check stands a mutant that must fail it. Errors are taken in predicted standard errors,
so the mean of their squares is 1 up to the spread of a chi-square law; FALSE_ALARM is 1e-4 for each
such figure. Under the default seed a figure of real data must be within three standard errors.
"""

import itertools
import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from faintly import make_plan
from faintly.core import SparseVector, VectorBatch
from faintly.data import cut, to_vectors, true_means
from faintly.kernels import compiled, reference
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.orthogonal.channel import Channel
from faintly.primitives.entropy import seeded
from tests.statistical.readers import reader_of

FALSE_ALARM = 1e-4
Z = -NormalDist().inv_cdf(FALSE_ALARM / 2)
SAMPLES = 20_000
VALUES = np.array([1.0, 0.5, 1.0, 1.0, 0.25])  # five items where the plans expect three
SETS = {"protect": "event", "values": "set", "mechanism": "orthogonal"}


def plan_of(**changes):
    wanted = {"epsilon": 1.0, "sparsity": 3, "clients": 1000, "universe": 8, "maps": 1}
    wanted |= {"protect": "event", "values": "nonnegative", "mechanism": "orthogonal"}
    return make_plan(**wanted | {"salt": bytes(range(16))} | changes)


# The sampler against the law.

FORMS = {
    "one row": plan_of(decode="direct", bits=3, rows=1),
    "two rows": plan_of(decode="direct", bits=4, rows=2),
    "two levels": plan_of(decode="direct", bits=4, rows=1, levels=2),
    "table": plan_of(decode="table", bits=5, rows=2, blocks=1),
    "two blocks": plan_of(decode="table", bits=3, rows=1, blocks=2),
}


def drawn(mechanism, seed, kernels, monkeypatch):
    """How often each report was drawn for the five items."""
    monkeypatch.setattr("faintly.kernels.solve_gf2", kernels.solve_gf2)
    vector = SparseVector(np.arange(5, dtype=np.uint64), VALUES)
    seeds = np.full(SAMPLES, 7, dtype=np.uint64)
    fields = mechanism.randomize(VectorBatch.of([vector] * SAMPLES), seeds, seeded(seed, "noise"))
    size = 2 ** (mechanism.bits * mechanism.blocks)
    return np.bincount(mechanism.law.report_number(fields, 7), minlength=size)


@pytest.mark.parametrize("plan", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("kernels", [compiled, reference], ids=["c", "numpy"])
def test_reports_follow_the_law(plan, kernels, seed, odds, monkeypatch):
    if not kernels.available():
        pytest.skip("no compiled kernels")
    mechanism = mechanism_of(plan)
    counts = drawn(mechanism, seed, kernels, monkeypatch)
    outcome = mechanism.law.outcome_of(7, np.arange(5, dtype=np.uint64))
    assert odds.misfit(counts, mechanism.law.probabilities(VALUES.tolist(), outcome)) < 1
    # Mutant: items that speak a tenth more often.
    channel = mechanism.channel
    mutant = Channel(channel.rows, (channel.speak[0] + 2**32 // 10, *channel.speak[1:]))
    other = replace(mechanism, channel=mutant).law.probabilities(VALUES.tolist(), outcome)
    assert odds.misfit(counts, other) > 1


# Made-up people: a few keys that many hold, and many that nobody does.


def made_up(clients, items, size, seed):
    """Clients of whom a third hold nothing, and the others so many of the first 40 keys."""
    source = np.random.default_rng(seed)
    lengths = np.where(np.arange(clients) % 3, items, 0)
    ids = np.argsort(source.random((clients, 40)), axis=1)[:, :items]
    ids = np.sort(ids, axis=1)[lengths > 0].ravel().astype(np.uint64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    vectors = VectorBatch(offsets, ids, np.ones(len(ids)))
    return vectors, true_means(vectors, np.arange(size, dtype=np.uint64))


def squared(found, truth, variances):
    """The mean of squared errors in predicted standard errors."""
    return float(((found.mean - truth) ** 2 / (variances / found.reports)).mean())


@pytest.mark.parametrize(
    ("decode", "epsilon"),
    [
        ("direct", 0.5),
        ("direct", 2.0),
        ("table", 0.5),
        pytest.param("table", 2.0, marks=pytest.mark.long),  # tables of half a gigabyte
    ],
)
def test_errors_are_the_predicted_ones(decode, epsilon, seed):
    vectors, truth = made_up(20_000, 6, 4_000, seed)
    wanted = {"epsilon": epsilon, "sparsity": 6, "clients": 20_000, "universe": 4_000}
    plan = make_plan(decode=decode, salt=bytes(16), **wanted, **SETS)
    mechanism, reader = mechanism_of(plan), reader_of(plan, vectors, seed)
    found, spread = reader.estimate_all(), math.sqrt(2 / len(truth))
    variances = mechanism.forecast.variances(vectors, np.arange(4_000, dtype=np.uint64))
    ghosts = found.null_stderr**2 * found.reports
    ghosts -= mechanism.variance(reader.sketch, None, np.zeros(1))[0]
    square = squared(found, truth, variances + ghosts)
    assert abs(square - 1) < Z * spread
    assert abs(square / 1.2 - 1) > Z * spread  # mutant: a prediction that is a fifth too large
    covered = ((found.low <= truth) & (truth <= found.high)).mean()
    assert abs(covered - 0.95) < Z * math.sqrt(0.05 * 0.95 / len(truth))


def test_a_zero_that_is_read_as_a_hit_lifts_every_key(seed, monkeypatch):
    """Full cells: in too few bits for its items a report is often 0, and then says nothing."""
    vectors, truth = made_up(20_000, 12, 2_000, seed)
    wanted = {"epsilon": 1.0, "sparsity": 12, "clients": 20_000, "universe": 2_000, "bits": 20}
    plan = make_plan(decode="direct", rows=2, maps=64, salt=bytes(16), **wanted, **SETS)
    reader = reader_of(plan, vectors, seed)
    nobody = truth == 0
    limit = Z * math.sqrt(mechanism_of(plan).channel.unheld / 20_000 / nobody.sum())
    assert abs(reader.estimate_all().mean[nobody].mean()) < limit

    def every_zero_hits(cells, rows, first):
        return reference.read_hits(cells, rows, first) + (~cells.any(axis=1)).sum()

    monkeypatch.setattr("faintly.kernels.read_hits", every_zero_hits)
    assert reader.estimate(range(1_900, 1_910)).mean.mean() > limit * math.sqrt(nobody.sum() / 10)


# Real data, all keys.

SIZES = {"kosarak100k": (100_000, 23_496, 32), "npm_deps": (229_453, 80_339, 16)}
MEMORY = {"memory": 2**29}
TABLES = {
    ("kosarak100k", 1.0): {"rows": 1, "levels": 2, "blocks": 9, "bits": 18},
    ("kosarak100k", 2.0): {"rows": 2, "blocks": 13, "bits": 18},
    ("kosarak100k", 4.0): {"rows": 3, "blocks": 41, "bits": 17, **MEMORY},
    ("npm_deps", 1.0): {"rows": 1, "levels": 2, "blocks": 4, "bits": 18},
    ("npm_deps", 2.0): {"rows": 3, "blocks": 15, "bits": 18, **MEMORY},
    ("npm_deps", 4.0): {"rows": 3, "blocks": 17, "bits": 18, **MEMORY},
}
# Shares of the true top 20 and 100 in the list, which one to five runs of a prototype found. A list
# of 20 has two rows more or less by chance, and one of 100 about five. Forty runs of ours, on eight
# cuts of the data, found 0.911 ± 0.006 and 0.960 ± 0.004 of the top 20 of kosarak100k at 1 and 4.
RECALL = {
    ("kosarak100k", 1.0): (0.94, 0.51),
    ("kosarak100k", 2.0): (0.93, 0.70),
    ("kosarak100k", 4.0): (0.97, 0.84),
    ("npm_deps", 1.0): (0.93, 0.66),
    ("npm_deps", 2.0): (1.00, 0.91),
    ("npm_deps", 4.0): (0.97, 0.93),
}
CHANCE = (0.1, 0.05)


def people(records, name, **wanted):
    """A plan for a data set, its clients cut to k items, and the true means of all keys."""
    clients, size, sparsity = SIZES[name]
    wanted |= {"clients": clients, "universe": size, "sparsity": sparsity, "salt": bytes(16)}
    plan = make_plan(**wanted, **SETS)
    vectors, _ = cut(to_vectors(records(name), plan), sparsity, np.random.default_rng(1))
    vectors = vectors.padded(clients)
    return plan, vectors, true_means(vectors, np.arange(size, dtype=np.uint64))


def recall(found, truth, count):
    return len(np.intersect1d(np.argsort(-found.mean)[:count], np.argsort(-truth)[:count])) / count


# In CI one data set directly, and both by table, at every epsilon; the others with --whole.
CHOSEN = [
    ("kosarak100k", 1.0, "direct"),
    ("kosarak100k", 2.0, "table"),
    ("npm_deps", 1.0, "table"),
    ("npm_deps", 4.0, "table"),
]
ALL = [
    pytest.param(*case, marks=pytest.mark.long if case in CHOSEN else pytest.mark.whole)
    for case in itertools.product(SIZES, (1.0, 2.0, 4.0), ("direct", "table"))
]


@pytest.mark.parametrize(("name", "epsilon", "decode"), ALL)
def test_real_data(records, name, epsilon, decode, seed, default_seed):
    sizes = {"maps": 16, **TABLES[name, epsilon]} if decode == "table" else {}
    plan, vectors, truth = people(records, name, epsilon=epsilon, decode=decode, **sizes)
    mechanism, reader = mechanism_of(plan), reader_of(plan, vectors, seed)
    found, ids = reader.estimate_all(), np.arange(len(truth), dtype=np.uint64)
    variances = mechanism.forecast.variances(vectors, ids)
    square, spread = squared(found, truth, variances), math.sqrt(2 / len(truth))
    held = (found.low <= truth) & (truth <= found.high)
    heavy = np.argsort(-truth)[:200]
    top = [recall(found, truth, count) for count in (20, 100)]
    error = ((found.mean - truth) ** 2).mean() * found.reports
    print(  # noqa: T201
        f"{name} {decode} {epsilon}: n·MSE {error:.4f} (formula {variances.mean():.4f}), z² "
        f"{square:.4f} ± {spread:.4f}, coverage {held.mean():.4f}, {held[heavy].mean():.3f}, "
        f"recall {top}, {mechanism.layout.record_bytes} bytes"
    )
    assert abs(square - 1) < (3 if default_seed else Z) * spread
    assert abs(square / 1.1 - 1) > Z * spread  # mutant: a prediction that is a tenth too large
    assert abs(held.mean() - 0.95) < Z * math.sqrt(0.05 * 0.95 / len(truth))
    assert held[heavy].mean() > 0.95 - Z * math.sqrt(0.05 * 0.95 / 200)
    for share, least, chance in zip(top, RECALL[name, epsilon], CHANCE, strict=True):
        assert share >= least - chance - 1e-9
