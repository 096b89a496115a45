"""The variance that each mechanism predicts at a key, held or not, against enumeration.

Simulations are judged by these numbers, so they must be right where keys are held too.
"""

import numpy as np
import pytest

from faintly.core import SparseVector, VectorBatch
from faintly.mechanisms import mechanism_of, simulation
from faintly.planner import make_plan
from tests.conformance import suite

COMMON = {"clients": 4, "universe": 8, "decode": "direct", "epsilon": 1.0, "salt": bytes(16)}
# Enough clients that what leaves the range of a bin is below the tolerance.
BINNING = {"mechanism": "signed-binning", "family": "prf", "clients": 10**6}
PROJECTION = {"mechanism": "projection-choice", "protect": "user", "sparsity": 2, "groups": 2}
CASES = {
    "signed-binning": (BINNING | {"protect": "event", "sparsity": 2, "steps": 2}, (1.0, -0.3)),
    "signed-binning, two bins": (
        BINNING | {"protect": "event", "epsilon": 3.0, "sparsity": 1, "steps": 1, "bins": 2},
        (0.7,),
    ),
    "projection-choice": (PROJECTION, (1.0, -0.25)),
    "projection-choice, unsigned": (
        PROJECTION | {"form": "unsigned", "groups": 1, "bins": 3, "values": "nonnegative"},
        (0.25, 1.0),
    ),
    "k-fold": ({"mechanism": "k-fold", "protect": "event", "sparsity": 2}, (0.75, -1.0)),
    "sampling": ({"mechanism": "sampling", "protect": "user", "sparsity": 2}, (0.75, -1.0)),
    "sampling, two bins": (
        {
            "mechanism": "sampling",
            "protect": "user",
            "sparsity": 2,
            "scheme": "optimal",
            "bins": 2,
        },
        (0.75, -1.0),
    ),
    "retrieval-l1": (
        {
            "mechanism": "retrieval-l1",
            "protect": "l1:1",
            "sparsity": 2,
            "universe": 4,
            "form": "polynomial",
            "symbol_bits": 2,
            "hard_sparsity": True,
        },
        (1.0, -0.5),
    ),
    "naive laplace": (
        {
            "mechanism": "naive",
            "protect": "event",
            "sparsity": 1,
            "universe": 2,
            "noise": "laplace",
            "steps": 1,
            "clients": 10**6,
        },
        (-0.3,),
    ),
    "naive response": (
        {
            "mechanism": "naive",
            "protect": "event",
            "sparsity": 1,
            "universe": 2,
            "noise": "response",
        },
        (0.7,),
    ),
}


def case(name):
    options, values = CASES[name]
    vectors = VectorBatch.of([SparseVector(np.arange(len(values)), np.array(values))] * 3)
    return mechanism_of(make_plan(**COMMON | options)), values, vectors


@pytest.mark.parametrize("name", CASES)
def test_predicted_variances_are_those_of_enumeration(name):
    mechanism, values, vectors = case(name)
    mean, variance = suite.exact_moments(mechanism, values)
    assert mean == pytest.approx([*values, 0.0], abs=1e-6)
    ids = np.arange(len(values) + 1, dtype=np.uint64)
    assert mechanism.forecast.variances(vectors, ids) == pytest.approx(variance, rel=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_the_comparison_notices_a_key_taken_for_one_that_nobody_holds(name):
    """Mutant: one number for all keys."""
    mechanism, values, vectors = case(name)
    _, variance = suite.exact_moments(mechanism, values)
    nobody = np.full(1, 7, dtype=np.uint64)
    assert mechanism.forecast.variances(vectors, nobody)[0] != pytest.approx(variance[0], rel=1e-3)


def test_means_at_few_keys_and_at_any_are_the_same():
    source = np.random.Generator(np.random.Philox(key=3))
    lists = [SparseVector(np.sort(source.choice(50, 5, replace=False))) for _ in range(40)]
    vectors = VectorBatch.of(lists)
    near, far = np.arange(60, dtype=np.uint64), np.uint64(2**40)
    means = simulation.means_at(vectors, vectors.values, near)
    assert means.sum() == pytest.approx(5.0)
    both = simulation.means_at(vectors, vectors.values, np.append(near, far))
    assert both == pytest.approx([*means, 0.0])
