"""Every registered mechanism passes the suite; a new one is found by itself.

For each mechanism, every unit and decoding that it can serve gives a plan, and the plan's
small cases are enumerated. A mechanism that serves nothing, or offers no small case, fails.
So does one without its proof note, or whose guarantee names a theorem that no note states.
"""

import inspect
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import faintly
from faintly.audit import checks
from faintly.core import SparseVector, VectorBatch
from faintly.core.projection import DOMAINS
from faintly.errors import FaintlyError
from faintly.mechanisms import mechanism_class, mechanism_names, mechanism_of
from faintly.planner import make_plan
from faintly.primitives.entropy import seeded
from tests.conformance import suite

COMMON = {"clients": 4, "universe": 8, "failure": 0.5, "salt": bytes(range(16))}
PRF = {"decode": "direct", "family": "prf"}
UNITS = [("event", 0.0), ("user", 0.0), ("l1:1", 0.0), ("l1:2", 1e-4)]
SMALL = [
    {"protect": "event", "epsilon": 1.0, "sparsity": 2, "steps": 2},
    {"protect": "event", "epsilon": 2.0, "sparsity": 1, "steps": 1, "bins": 2, "maps": 2},
    {"protect": "event", "epsilon": 1.0, "sparsity": 2, "steps": 4, **PRF},
    {"protect": "l1:1", "epsilon": 1.0, "sparsity": 1, "steps": 2, "bins": 1},
    {"protect": "l1:1.5", "epsilon": 2.0, "sparsity": 1, "steps": 2, "bins": 1, **PRF},
    {"protect": "user", "epsilon": 1.0, "sparsity": 2, "steps": 1},
    {"protect": "user", "epsilon": 2.0, "sparsity": 1, "steps": 4, **PRF},
]


def build(name, case, **changes):
    return mechanism_of(make_plan(mechanism=name, **{**COMMON, **case, **changes}))


@cache
def served(name):
    """Return one mechanism for every unit and decoding that `name` can serve."""
    found = []
    for values in ("signed", "nonnegative"):
        for protect, delta in UNITS:
            for decode in ("table", "direct"):
                case = {"protect": protect, "delta": delta, "epsilon": 1.5, "sparsity": 3}
                try:
                    found.append(build(name, case, decode=decode, values=values, clients=1000))
                except FaintlyError:
                    continue
        if found:  # the others take values of one sign only
            break
    return found


@pytest.mark.parametrize("name", mechanism_names())
def test_every_mechanism_serves_something_and_passes_the_suite(name):
    mechanisms = served(name)
    assert mechanisms
    for mechanism in mechanisms:
        cases = list(mechanism.law.small_cases())
        assert cases
        for case in cases:
            for verdict in suite.conformance(case.mechanism, case.grid, case.items):
                assert verdict.holds, (mechanism.plan.unit, verdict)
            # The suite has enumerated every pair; only a pair with a name of its own is left.
            if case.pair is not None:
                assert checks.check_case(case).holds, (mechanism.plan.unit, case)


def states(notes, theorem):
    """Return whether the note that a guarantee names states that theorem, in bold."""
    note, number = re.match(r"(\w+\.proof\.md), (Theorem \d+)\b", theorem).groups()
    return note in notes and re.search(rf"^\*\*{number}\b", notes[note], re.MULTILINE) is not None


@pytest.mark.parametrize("name", mechanism_names())
def test_every_mechanism_takes_all_values_of_its_domain(name):
    """A client projects onto the domain, and then sends whatever the values are."""
    wild = np.concatenate([np.linspace(-2, 2, 33), [np.inf, -np.inf, 1e-300, -1e-300]])
    for mechanism in served(name):
        for value in DOMAINS[mechanism.domain](wild):
            vector = SparseVector([0], [value])
            mechanism.check_vector(vector)
            batch = VectorBatch.of([vector])
            seeds = np.array([5], dtype=np.uint64)
            assert len(mechanism.randomize(batch, seeds, seeded(1, "noise"))) == 1


@pytest.mark.parametrize("name", mechanism_names())
def test_every_mechanism_has_its_proof_note_beside_it(name):
    own = Path(inspect.getfile(mechanism_class(name))).parent / f"{name.replace('-', '_')}.proof.md"
    # A baseline may rest on the theorem of the mechanism that it varies.
    found = [own, *Path(faintly.__file__).parent.rglob("*.proof.md")]
    notes = {note.name: note.read_text(encoding="utf-8") for note in found}
    for mechanism in served(name):
        theorem = mechanism.guarantee().theorem
        assert states(notes, theorem), theorem
        assert not states(notes, re.sub(r"Theorem \d+", "Theorem 99", theorem))  # a mutant


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_signed_binning_passes_the_suite(case):
    verdicts = list(suite.conformance(build("signed-binning", case)))
    assert len(verdicts) >= 3
    for verdict in verdicts:
        assert verdict.holds, verdict


# Truncation is the only bias of the paper's rows: with this many clients it is below 1e-6.
@pytest.mark.parametrize(
    ("case", "values"),
    [
        ({"protect": "event", "epsilon": 1.0, "sparsity": 2, "steps": 2}, (1.0, -0.3)),
        pytest.param(
            {"protect": "event", "epsilon": 3.0, "sparsity": 1, "steps": 1, "bins": 2},
            (0.7, -1.0),
            marks=pytest.mark.long,
        ),
        ({"protect": "l1:1", "epsilon": 1.0, "sparsity": 1, "steps": 2}, (0.1, 0.9)),
        ({"protect": "user", "epsilon": 1.0, "sparsity": 3, "steps": 1}, (1.0, 0.25, -1.0)),
    ],
    ids=str,
)
def test_reports_read_by_the_server_are_unbiased(case, values):
    mechanism = build("signed-binning", {**case, **PRF}, clients=10**6)
    bias = suite.exact_bias(mechanism, values)
    assert len(bias) == len(values) + 1
    assert np.abs(bias).max() < 1e-6, bias


def test_the_bias_check_notices_a_missing_sign():
    """Mutant: a server that forgets the signs."""
    mechanism = build("signed-binning", {**SMALL[2]}, clients=10**6)
    wrong = lambda batch, ids: np.abs(type(mechanism).read(mechanism, batch, ids))  # noqa: E731
    object.__setattr__(mechanism, "read", wrong)
    assert np.abs(suite.exact_bias(mechanism, (1.0, -0.5))).max() > 0.1


def test_clipping_and_truncation_show_as_the_bias_they_are():
    """A short range pulls estimates toward zero, and the enumerated bias says by how much."""
    mechanism = build("signed-binning", {**SMALL[2]})
    short = replace(mechanism, range=mechanism.steps)
    bias = suite.exact_bias(short, (1.0, 0.0))
    law = short.law.probabilities((1.0,), ((0, 1),))
    kept = float(law @ np.arange(-short.range, short.range + 1)) / short.steps
    assert bias[0] == pytest.approx(kept - 1.0, abs=1e-12)
    assert bias[0] < -0.5
    assert np.abs(bias[1:]).max() < 1e-12
