"""Reports from JavaScript and from Python have one law, and a broken client's have another.

On the small cases of a plan of each mechanism, both clients make SAMPLES reports of one vector
under one public seed. Rare reports are joined with their neighbours, and a chi-square test compares
the two columns of counts. Python draws from the seed of the run and JavaScript from the system, so
a sound client fails with probability FALSE_ALARM for each case.
"""

import shlex
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats

from faintly.audit import ExternalClient
from faintly.audit.blackbox import sample
from faintly.core import Plan, SparseVector
from faintly.mechanisms import Mechanism, mechanism_of
from faintly.planner import make_plan
from faintly.wire.report_v1 import pack
from tests.javascript import CLIENT, node

pytestmark = pytest.mark.long
SAMPLES = 20_000
FEWER_SAMPLES = 4_000  # of a broken client, whose law they refuse with a chance below 1e-70
FALSE_ALARM = 1e-9
COMMON = 50  # reports of both clients together in a cell, from which the limit law is honest
SEED = 7

CASES = {
    "retrieval-table": {"protect": "event", "mechanism": "retrieval"},
    "retrieval-blocks": {"protect": "event", "mechanism": "retrieval", "blocks": 2},
    "retrieval-direct": {"protect": "event", "mechanism": "retrieval", "decode": "direct"},
    "retrieval-gf": {
        "protect": "event",
        "mechanism": "retrieval-gf",
        "form": "span-safe",
        "decode": "direct",
    },
    "orthogonal-table": {"protect": "event", "mechanism": "orthogonal", "values": "set"},
    "orthogonal-direct": {
        "protect": "event",
        "mechanism": "orthogonal",
        "values": "nonnegative",
        "decode": "direct",
    },
    "projection-table": {"protect": "user", "mechanism": "projection-choice"},
    "projection-direct": {"protect": "user", "mechanism": "projection-choice", "decode": "direct"},
    "projection-systematic": {
        "protect": "user",
        "mechanism": "projection-choice",
        "rounding": "systematic",
    },
    "projection-sets": {
        "protect": "user",
        "mechanism": "projection-choice",
        "form": "unsigned",
        "values": "set",
    },
    "projection-sets-direct": {
        "protect": "user",
        "mechanism": "projection-choice",
        "form": "unsigned",
        "values": "nonnegative",
        "decode": "direct",
    },
    "projection-bins": {
        "protect": "user",
        "mechanism": "projection-choice",
        "form": "bins",
        "decode": "direct",
    },
    "projection-bins-table": {
        "protect": "user",
        "mechanism": "projection-choice",
        "form": "bins",
        "decode": "table",
    },
    "binning-event": {"protect": "event", "mechanism": "signed-binning"},
    "binning-user": {"protect": "user", "mechanism": "signed-binning"},
    "binning-l1": {"protect": "l1:2", "mechanism": "signed-binning", "decode": "direct"},
}


def plan_of(name: str) -> Plan:
    wanted = {"epsilon": 1.0, "sparsity": 4, "clients": 1000, "universe": 64, **CASES[name]}
    return make_plan(**wanted, salt=bytes(range(16)))


def client(program: str) -> ExternalClient:
    return ExternalClient(shlex.join([node(), str(CLIENT / program)]))


def inputs(plan: Plan) -> Iterator[tuple[Mechanism, SparseVector]]:
    """Yield small mechanisms with vectors of several values, and of more items than planned."""
    for case in mechanism_of(plan).law.small_cases():
        values = [case.grid[position % len(case.grid)] for position in range(case.items)]
        held = [position for position, value in enumerate(values) if value]
        vector = SparseVector(np.array(held, dtype=np.uint64), [values[each] for each in held])
        yield case.mechanism, vector


def disagreement(left: np.ndarray, right: np.ndarray) -> float:
    """Return the probability that one law makes columns of reports that differ as much."""
    names = np.concatenate([left, right])
    _, numbers = np.unique(names, return_inverse=True)
    both = np.bincount(numbers)
    cell = (np.cumsum(both) - both) // COMMON
    _, cell = np.unique(cell, return_inverse=True)
    counts = [np.bincount(cell[part], minlength=cell.max() + 1) for part in np.split(numbers, 2)]
    return stats.chi2_contingency(counts).pvalue


def worst(name: str, program: str, samples: int, rng_of) -> float:
    """Return the least probability over the small cases of a plan."""
    found = 1.0
    with client(program) as other:
        for mechanism, vector in inputs(plan_of(name)):
            theirs = other.sample(mechanism, vector, SEED, samples)
            ours = sample(mechanism, vector, SEED, samples, rng_of(f"{name}/{mechanism.plan.salt}"))
            columns = [pack(batch, mechanism.layout) for batch in (theirs, ours)]
            flat = [
                np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").ravel() for rows in columns
            ]
            found = min(found, disagreement(*flat))
    return found


@pytest.mark.parametrize("name", CASES)
def test_javascript_and_python_have_one_law(name, rng_of):
    assert worst(name, "bridge.mjs", SAMPLES, rng_of) > FALSE_ALARM


@pytest.mark.parametrize("name", CASES)
def test_a_broken_client_has_another_law(name, rng_of):
    assert worst(name, "test/mutant_bridge.mjs", FEWER_SAMPLES, rng_of) < FALSE_ALARM
