"""Naive perturbation: reports that are made and sums that are drawn have one law.

FALSE_ALARM: 1e-9 per assertion. The exact law of a sum of a few clients is their laws convolved.
"""

import math
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest

from faintly.core import SparseVector, VectorBatch
from faintly.mechanisms import Simulation, mechanism_of
from faintly.planner import make_plan
from faintly.primitives.entropy import seeded

CELLS = 20
RUNS = 40
CASES = [
    ("event", "gaussian", 1e-3),
    ("user", "gaussian", 1e-5),
    ("event", "laplace", 0.0),
    ("user", "laplace", 0.0),
    ("l1:1", "laplace", 0.0),
    ("event", "response", 0.0),
    ("user", "response", 0.0),
]
EVERY = pytest.mark.parametrize(("protect", "kind", "delta"), CASES)


def build(protect, kind, delta, **changes):
    wanted = {"epsilon": 1.0, "sparsity": 4, "clients": 1000, "universe": 2000, **changes}
    plan = make_plan(
        mechanism="naive", protect=protect, delta=delta, noise=kind, salt=bytes(16), **wanted
    )
    return mechanism_of(plan)


def quieter(mechanism):
    """Mutant: the noise of three times the epsilon."""
    budget = mechanism.plan.budget
    other = build(
        str(mechanism.plan.unit),
        mechanism.noise.kind,
        budget.delta,
        epsilon=3 * budget.epsilon,
        sparsity=mechanism.plan.sparsity,
    )
    if mechanism.noise.kind == "gaussian":
        spread = other.noise.spread[0] * mechanism.noise.steps**2 / other.noise.steps**2
        return replace(mechanism, noise=replace(mechanism.noise, spread=(math.ceil(spread),)))
    return replace(mechanism, noise=replace(mechanism.noise, spread=other.noise.spread))


def sums_misfit(odds, mechanism, totals, values):
    """Totals of the same few values over many keys, against the values' laws convolved."""
    law = reduce(np.convolve, [mechanism.law.coordinate_law(value) for value in values])
    lowest = -len(values) * mechanism.noise.range
    cell = np.minimum((np.cumsum(law) - law / 2) * CELLS, CELLS - 1).astype(int)
    counts = np.bincount(cell[totals - lowest], minlength=CELLS)
    return odds.misfit(counts, np.bincount(cell, law, minlength=CELLS))


@EVERY
@pytest.mark.parametrize("values", [(0.0,), (1.0, -1.0, 0.25, 0.0, 0.0)], ids=str)
def test_sums_and_reports_follow_the_law(protect, kind, delta, values, odds, rng_of):
    """Every key is held alike by clients that hold one key each."""
    mechanism = build(protect, kind, delta, sparsity=1)
    ids = np.arange(2000, dtype=np.uint64)
    found = {"made": [], "drawn": [], "quiet": []}
    broken = quieter(mechanism)
    public = rng_of("public")
    # A client holds one key, so the noise of the others is that of the value 0.
    for key in range(0, 2000, 500):
        clients = VectorBatch.of([SparseVector([key], [value]) for value in values])
        for name, one in (
            ("made", Simulation(mechanism)),
            ("drawn", mechanism.simulation),
            ("quiet", broken.simulation),
        ):
            found[name].append(one.totals(clients, ids, public, rng_of(f"{name} {key}")))
    others = np.ones(2000, dtype=bool)
    others[::500] = False
    nobody = (0.0,) * len(values)
    seen = {
        name: sums_misfit(odds, mechanism, np.concatenate([t[others] for t in totals]), nobody)
        for name, totals in found.items()
    }
    assert seen["made"] <= 1, seen
    assert seen["drawn"] <= 1, seen
    assert seen["quiet"] > 1, seen


@pytest.mark.long
@EVERY
def test_what_is_held_follows_the_law_too(protect, kind, delta, odds, rng_of):
    """Many runs of one key that five clients hold; mutant: the held values are lost."""
    mechanism = build(protect, kind, delta, universe=1, sparsity=1, epsilon=4.0)
    values = (1.0, 1.0, -1.0, 0.25, 0.7)
    clients = VectorBatch.of([SparseVector([0], [value]) for value in values])
    nobody = VectorBatch.of([SparseVector([]) for _ in values])
    ids = np.zeros(1, dtype=np.uint64)
    public = rng_of("public")

    def run(one, simulation, count=3000):
        secret = rng_of(f"{one is clients} {type(simulation).__name__}")
        return np.array([simulation.totals(one, ids, public, secret)[0] for _ in range(count)])

    drawn = run(clients, mechanism.simulation)
    assert sums_misfit(odds, mechanism, drawn, values) <= 1
    lost = run(nobody, mechanism.simulation)
    assert sums_misfit(odds, mechanism, lost, values) > 1
    made = run(clients, Simulation(mechanism), 1000)
    assert sums_misfit(odds, mechanism, made, values) <= 1


@EVERY
def test_n_mse_is_as_predicted(protect, kind, delta, generator, seed, odds, default_seed):
    """40 runs of 2000 keys that hardly anyone holds; mutant: noise of three times the epsilon."""
    mechanism = build(protect, kind, delta)
    vectors = VectorBatch.of(
        [
            SparseVector(generator.integers(0, 2000, 1), generator.uniform(-1, 1, 1))
            for _ in range(500)
        ]
    )
    ids = np.arange(2000, dtype=np.uint64)
    truth = np.bincount(vectors.indices.astype(int), vectors.values, 2000) / 500

    def n_mse(client):
        found = []
        for run in range(RUNS):
            totals = client.simulation.totals(
                vectors, ids, seeded(seed, f"public {run}"), seeded(seed, f"secret {run}")
            )
            found.append(500 * ((totals * mechanism.scale / 500 - truth) ** 2).mean())
        return np.array(found)

    found, predicted = n_mse(mechanism), mechanism.forecast.variance(0.0)
    gap, limit = abs(found.mean() / predicted - 1), odds.z() * math.sqrt(2 / (2000 * RUNS))
    assert gap <= limit, f"n·MSE {found.mean():.2f}, predicted {predicted:.2f}"
    if default_seed:
        assert gap <= 3 * found.std(ddof=1) / math.sqrt(RUNS) / predicted
    assert abs(n_mse(quieter(mechanism)).mean() / predicted - 1) > limit
