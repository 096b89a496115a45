"""The collision mechanism with signs, enumerated: both slots of every item, every report.

Privacy is that of its proof, and mutants fail the very same checks. Bias and variance are checked
in test_user_level_baselines.py.
"""

from dataclasses import replace

import numpy as np
import pytest

from faintly.audit import checks
from faintly.core import ReportBatch, SparseVector, VectorBatch
from faintly.engine import aggregate
from faintly.errors import InvalidPlan
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.primitives.entropy import seeded
from tests.conformance import suite

GRID = (-1.0, 0.0, 0.5, 1.0)


def build(**changes):
    wanted = {"epsilon": 1.0, "sparsity": 2, "clients": 1000, "universe": 8, "salt": bytes(16)}
    plan = make_plan(mechanism="collision-signed", protect="user", **{**wanted, **changes})
    return mechanism_of(plan)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize(
    ("sparsity", "slots", "items", "grid"),
    [(1, 2, 3, GRID), (1, 4, 2, GRID), (2, 3, 3, GRID), (2, 3, 4, (-1.0, 0.0))],
)
def test_any_change_stays_within_epsilon(epsilon, sparsity, slots, items, grid):
    """Vectors of up to k+2 items; of one sign where there are four, since the law is symmetric."""
    mechanism = build(epsilon=epsilon, sparsity=sparsity, slots=slots)
    verdict = checks.check_privacy(mechanism, grid, items)
    assert verdict.holds, verdict
    proven = mechanism.guarantee().budget.epsilon
    assert verdict.measured == pytest.approx(proven, abs=1e-9)
    assert 0.999 * epsilon < proven <= epsilon


def test_more_budget_and_a_missing_cut_are_noticed():
    sound = build(sparsity=1, slots=4)
    bolder = replace(build(sparsity=1, slots=4, epsilon=1.1), plan=sound.plan)
    assert not checks.check_privacy(bolder, GRID, 2).holds
    loose = replace(sound, plan=replace(sound.plan, sparsity=2))
    pairs = list(checks.neighbours(sound.plan.unit, GRID, 2))
    assert checks.worst_pair(sound, pairs)[0] <= 1.0
    assert checks.worst_pair(loose, pairs)[0] > 1.1
    parameters = {**sound.plan.parameters, "arc": 2}
    with pytest.raises(InvalidPlan, match="arc must be 1"):
        mechanism_of(replace(sound.plan, parameters=parameters))


def test_a_server_that_forgets_the_sign_is_noticed():
    mechanism = build(slots=3)
    read = type(mechanism).read
    wrong = lambda batch, ids: np.abs(read(mechanism, batch, ids))  # noqa: E731
    object.__setattr__(mechanism, "read", wrong)
    assert np.abs(suite.exact_bias(mechanism, (-1.0,))).max() > 0.1


# n·Var over k at a key nobody holds and at one that everyone holds with value 1, from
# (t-1)·Ω²/((e^ε-1)²(t-k)²) and the proof's formulas, evaluated apart from this code.
KNOWN = {(1.0, 64): (9.524, 14.388), (3.0, 64): (0.4618, 2.743), (3.0, 4): (0.4570, 2.4366)}


@pytest.mark.parametrize(("epsilon", "sparsity"), KNOWN)
def test_the_variance_is_the_known_one(epsilon, sparsity):
    mechanism = build(epsilon=epsilon, sparsity=sparsity, clients=100_000, universe=1000)
    vectors = VectorBatch.of([SparseVector([0])] * 5)
    held = float(mechanism.forecast.variances(vectors, np.zeros(1, np.uint64))[0])
    seen = mechanism.forecast.variance(0.0) / sparsity, held / sparsity
    assert seen == pytest.approx(KNOWN[epsilon, sparsity], rel=5e-4)


def test_estimates_come_with_their_error():
    mechanism = build(epsilon=2.0, clients=3000)
    vectors = VectorBatch.of([SparseVector([4, 5], [0.75, -1.0])] * 3000)
    seeds = np.random.default_rng(1).integers(0, 2**39, 3000, dtype=np.uint64)
    fields = mechanism.randomize(vectors, seeds, seeded(1, "secret"))
    batch = ReportBatch(mechanism.plan.digest, seeds, fields)
    ids = np.array([4, 5, 6], dtype=np.uint64)
    means = mechanism.read(batch, ids) * mechanism.scale / 3000
    sketch = aggregate(mechanism.plan, [batch])
    stderr = np.sqrt(mechanism.variance(sketch, ids, means) / 3000)
    assert np.all(np.abs(means - [0.75, -1.0, 0.0]) < 6 * stderr)
    exact = mechanism.forecast.variances(vectors, ids)
    assert np.sqrt(exact / 3000) == pytest.approx(stderr, rel=0.15)
    assert mechanism.variance(sketch, None, means[2:])[0] <= mechanism.forecast.worst_variance()
    assert mechanism.forecast.influence() == pytest.approx(mechanism.slots * mechanism.scale)
