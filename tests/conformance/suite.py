"""The conformance suite: what every mechanism must pass beside the privacy that `checks` shows.

bias       mean over hash outcomes o of Σ_y P(y|v,o)·reading(y,o,x) - v[x]  =  0
reports    `randomize` is deterministic, total, and fits its layout
decoding   tables and direct reading give the same integers

A mechanism needs parameters small enough to enumerate: a few items, a coarse grid, few possible
reports. CONTRIBUTING.md says how one from another package runs the suite.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from faintly import kernels
from faintly.audit.checks import GRID, Finding, KnownLaws, check_privacy, check_statement
from faintly.core import ReportBatch, SparseVector, VectorBatch
from faintly.core.arrays import FloatArray, IdArray
from faintly.mechanisms import Mechanism
from faintly.primitives.entropy import seeded

MAX_SEEDS = 2**16  # tried until every outcome of the hash was seen
DECODED = 200  # random reports on which both decodings must agree


def exact_bias(mechanism: Mechanism, values: Sequence[float]) -> FloatArray:
    """Return expectation minus truth of the estimate at each item and at one that is not held.

    Args:
        mechanism: one whose reports `law` lists in the order of their fields, last one fastest.
        values: values of items 0, 1, 2, …
    """
    bias: FloatArray = exact_moments(mechanism, values)[0] - np.array([*values, 0.0])
    return bias


def exact_moments(mechanism: Mechanism, values: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of one report's estimate at each item and at one not held.

    The expectation is over every outcome of the hash, all equally likely, and every report.
    Each outcome is represented by a seed that gives it, and reports are read by the server's
    own `read`. So the mean is the truth only if hash, law and decoding agree.

    Args:
        mechanism: one whose reports `law` lists in the order of their fields, last one fastest.
        values: values of items 0, 1, 2, …
    """
    ids = np.arange(len(values) + 1, dtype=np.uint64)
    limits = mechanism.layout.limits
    reports = np.array(list(itertools.product(*map(range, limits))), dtype=np.uint32)
    laws, total, squares = KnownLaws(mechanism), np.zeros(len(ids)), np.zeros(len(ids))
    seeds = _seed_of_each(mechanism, ids)
    for outcome, seed in seeds.items():
        chances = laws.table([tuple(values)], outcome[: len(values)])[0]
        said = _readings(mechanism, seed, reports, ids)
        total += chances @ said
        squares += chances @ said**2
    mean: FloatArray = total / len(seeds)
    return mean, squares / len(seeds) - mean**2


def _seed_of_each(mechanism: Mechanism, ids: IdArray) -> dict[Any, int]:
    wanted = set(mechanism.law.outcomes(len(ids)))
    seeds: dict[Any, int] = {}
    for seed in range(MAX_SEEDS):
        seeds.setdefault(mechanism.law.outcome_of(seed, ids), seed)
        if len(seeds) == len(wanted):
            break
    if set(seeds) != wanted:
        raise AssertionError(
            f"{MAX_SEEDS} seeds show {len(seeds)} of {len(wanted)} outcomes of the hash"
        )
    return seeds


def _readings(mechanism: Mechanism, seed: int, reports: np.ndarray, ids: IdArray) -> FloatArray:
    """Return what each report (row) says about each id (column) under one seed."""
    seeds = np.array([seed], dtype=np.uint64)
    rows = [
        mechanism.read(ReportBatch(mechanism.plan.digest, seeds, report[None, :]), ids)
        for report in reports
    ]
    return np.stack(rows).astype(np.float64) * mechanism.scale


def check_reports(mechanism: Mechanism) -> Finding:
    """Return whether `randomize` is deterministic, total, and fits its layout.

    Vectors without an item, with one, and with k items are tried; each gives one report of
    the same shape, and the same arguments give the same report.
    """
    k, size = mechanism.plan.sparsity, mechanism.plan.universe.size or 2**20
    counts = [0, 1, min(k, size)] * 50
    vectors = VectorBatch.of([SparseVector(np.arange(count)) for count in counts])
    public = np.arange(len(vectors), dtype=np.uint64)
    first, again = (mechanism.randomize(vectors, public, seeded(1, "noise")) for _ in range(2))
    limits = np.array(mechanism.layout.limits)
    fits = first.shape == (len(vectors), len(limits)) and bool((first < limits).all())
    return Finding("reports", fits and np.array_equal(first, again), len(first), len(vectors))


def check_decoding(mechanism: Mechanism) -> Finding:
    """Return whether tables and direct reading give the same integers (linear family only)."""
    plan = mechanism.plan
    size = min(plan.universe.size or 500, 500)
    source = np.random.Generator(np.random.Philox(key=1))
    public = source.integers(0, 2**40, DECODED, dtype=np.uint64)
    limits = np.array(mechanism.layout.limits)
    fields = source.integers(0, limits, (DECODED, len(limits))).astype(np.uint32)
    batch = ReportBatch(plan.digest, public, fields)
    tables = np.zeros(mechanism.tables.shape, dtype=np.int64)
    cells = mechanism.tables.cells(batch)
    kernels.scatter_add(tables, cells.index, cells.weight, 0)
    ids = np.arange(size, dtype=np.uint64)
    differ = mechanism.tables.gather(mechanism.tables.transform(tables), ids)[0] != mechanism.read(
        batch, ids
    )
    return Finding("decoding", not differ.any(), float(differ.sum()), 0.0)


def conformance(
    mechanism: Mechanism, grid: Sequence[float] = GRID, items: int | None = None
) -> Iterator[Finding]:
    """Yield the verdict of every check that applies to a mechanism of small parameters."""
    yield check_statement(mechanism)
    yield check_reports(mechanism)
    if mechanism.plan.hashing.linear and mechanism.tables.shape[1] > 1:
        yield check_decoding(mechanism)
    yield check_privacy(mechanism, grid, items)
