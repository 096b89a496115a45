"""The JavaScript client: its own tests, and what it makes of plans that Python judges as well."""

import itertools
import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from faintly.audit import ExternalClient, run
from faintly.audit.run import make_mechanism
from faintly.core import Plan, SparseVector
from faintly.core.plan import VALUES
from faintly.errors import ClientFailed, FaintlyError, InvalidInput
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from tests.javascript import CLIENT, node

SAMPLES = 1000  # each audit is wrong about a sound client with a chance of about 1e-6 per check
NOBODY = SparseVector(np.zeros(0, dtype=np.uint64))


SLOW = ("page", "speed")
OWN = [
    pytest.param(each, id=name, marks=[pytest.mark.long] * (name in SLOW))
    for each in sorted((CLIENT / "test").glob("*.test.mjs"))
    for name in [each.name.removesuffix(".test.mjs")]
]


@pytest.mark.parametrize("tests", OWN)
def test_its_own_tests_pass(tests):
    # One of them calls npm, which is beside Node and maybe nowhere else.
    path = os.pathsep.join([str(Path(node()).parent), os.environ["PATH"]])
    done = subprocess.run(
        [node(), "--test", tests],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def javascript():
    with ExternalClient(shlex.join([node(), str(CLIENT / "bridge.mjs")])) as client:
        yield client


def tight_plans():
    """Yield plans with their smallest sound thresholds, and the same with thresholds beyond."""
    base = {"sparsity": 6, "clients": 5000, "universe": 256, "salt": bytes(16)}
    generator = np.random.Generator(np.random.Philox(1))
    for _ in range(12):
        epsilon = round(float(generator.uniform(0.05, 6)), 3)
        for unit, name, options in (
            ("event", "retrieval", {}),
            ("user", "projection-choice", {}),
            ("user", "projection-choice", {"form": "unsigned", "values": "set"}),
            ("user", "projection-choice", {"form": "bins", "decode": "direct"}),
            ("event", "orthogonal", {"values": "set"}),
            ("event", "orthogonal", {"values": "set", "decode": "direct", "levels": 2}),
            ("event", "retrieval-gf", {"symbol_bits": 2, "decode": "direct"}),
            ("event", "signed-binning", {}),
            ("user", "signed-binning", {}),
            ("l1:2.5", "signed-binning", {}),
        ):
            plan = make_plan(protect=unit, epsilon=epsilon, mechanism=name, **base, **options)
            yield plan
            for step in (-1, 1):
                yield moved(plan, step)


def moved(plan: Plan, step: int) -> Plan:
    """Return a plan whose first threshold is another one."""
    parameters = dict(plan.parameters)
    if plan.mechanism == "retrieval-gf":
        return with_weights(plan, step)
    for name in ("keep", "threshold", "noise", "speak"):
        if name in ("noise", "speak") and name in parameters:
            first, *rest = parameters[name]
            parameters[name] = [first + step, *rest]
        elif name in parameters:
            parameters[name] += step
    return replace(plan, parameters=parameters)


def with_weights(plan: Plan, step: int) -> Plan:
    """Return a plan of retrieval-gf whose heavy symbols have more or less weight."""
    given = dict(plan.parameters)
    # What the heavy symbols gain, the light ones lose: a step each. Of four, one or two are heavy.
    gained = step * (4 // given["pairs"][0] - 1)
    given["plus"] = [given["plus"][0] + gained, *(each - step for each in given["plus"][1:])]
    given["minus"] = [each - step for each in given["minus"]]
    return replace(plan, parameters=given)


def python_takes(plan: Plan) -> bool:
    try:
        mechanism_of(plan)
    except FaintlyError:
        return False
    return True


def javascript_takes(client: ExternalClient, plan: Plan) -> bool:
    try:
        client.sample(make_mechanism(plan), NOBODY, None, 0)
    except ClientFailed as error:
        if "prove" not in str(error):  # it is not the promise but another rule
            raise
        return False
    return True


def test_both_refuse_exactly_the_plans_that_state_too_little(javascript):
    verdicts = set()
    for plan in tight_plans():
        expected = python_takes(plan)
        verdicts.add(expected)
        assert javascript_takes(javascript, plan) is expected, plan.parameters
    assert verdicts == {True, False}


def check_refused(client: ExternalClient, plan: Plan) -> None:
    words = f"does not know the mechanism {plan.mechanism} of faintly-plan/1"
    with pytest.raises(ClientFailed, match=words):
        client.encode(mechanism_of(plan), NOBODY)


@pytest.mark.parametrize("mechanism", ["retrieval-l1", "gaussian"])
def test_a_mechanism_that_it_does_not_know_is_refused_by_name(javascript, mechanism):
    plan = make_plan(
        protect="l1:2", epsilon=1.0, sparsity=3, clients=100, universe=32, mechanism=mechanism,
        decode="direct", delta=1e-6,
    )  # fmt: skip
    check_refused(javascript, plan)


@pytest.mark.long
@pytest.mark.parametrize("protect", ["event", "user", "l1:1"])
def test_it_knows_what_the_planner_names_by_default(javascript, protect):
    sizes = itertools.product(VALUES, (0.5, 2.0, 8.0), (1, 4, 64), (1000, "open"))
    for values, epsilon, sparsity, universe in sizes:
        plan = make_plan(
            protect=protect, epsilon=epsilon, sparsity=sparsity, clients=100_000,
            universe=universe, values=values,
        )  # fmt: skip
        made = javascript.encode(mechanism_of(plan), NOBODY)
        assert len(made) == mechanism_of(plan).layout.record_bytes


def test_what_is_no_client_is_an_error_in_our_words():
    plan = make_plan(protect="event", epsilon=1.0, sparsity=3, clients=100, universe=32)
    with pytest.raises(InvalidInput, match="does not start"):
        ExternalClient("no-such-program-anywhere")
    with (
        ExternalClient("cat") as echo,
        pytest.raises(ClientFailed, match="no records"),
    ):
        echo.encode(mechanism_of(plan), NOBODY)
    with (
        ExternalClient("true") as silent,
        pytest.raises(ClientFailed, match="ended"),
    ):
        silent.encode(mechanism_of(plan), NOBODY)


AUDITED = {
    "retrieval": {"protect": "event", "mechanism": "retrieval"},
    "retrieval-gf": {"protect": "event", "mechanism": "retrieval-gf", "form": "span-safe"},
    "orthogonal": {"protect": "event", "mechanism": "orthogonal", "values": "set"},
    "projection": {"protect": "user", "mechanism": "projection-choice"},
    "projection-sets": {
        "protect": "user",
        "mechanism": "projection-choice",
        "form": "unsigned",
        "values": "set",
    },
    "projection-bins": {"protect": "user", "mechanism": "projection-choice", "form": "bins"},
    "binning": {"protect": "event", "mechanism": "signed-binning"},
}


def findings(name: str, program: str, samples: int = SAMPLES) -> set[str]:
    """Return the checks of an audit that a client breaks; the plan itself is not asked about."""
    plan = make_plan(
        **AUDITED[name],
        epsilon=2.0,
        sparsity=3,
        clients=1000,
        universe=64,
        decode="direct",  # tables are read one report at a time in seconds
        salt=bytes(16),
    )
    sound = mechanism_of(plan)
    with ExternalClient(shlex.join([node(), str(CLIENT / program)])) as client:
        found = [
            *run._client(sound, client.sample, samples),
            *run._length(sound, client.encode),
            *run._sampler(run._drawn(sound, own=False), client.sample, samples),
        ]
    return {each.check for each in found if not each.holds}


@pytest.mark.long
@pytest.mark.parametrize("name", AUDITED)
def test_an_audit_passes_the_client_and_catches_a_broken_one(name):
    assert findings(name, "bridge.mjs") == set()
    assert "sampler" in findings(name, "test/mutant_bridge.mjs", 300)


@pytest.mark.long
def test_the_command_audits_another_client(tmp_path):
    plan = make_plan(
        protect="event", epsilon=2.0, sparsity=3, clients=1000, universe=64, bins=1,
        mechanism="signed-binning", salt=bytes(16), decode="direct",
    )  # fmt: skip
    (tmp_path / "plan.json").write_text(plan.to_json())
    command = [sys.executable, "-m", "faintly", "audit", "--plan", str(tmp_path / "plan.json")]
    command += ["--json", "--samples", "1000", "--client"]
    said = {
        program: subprocess.run(
            [*command, shlex.join([node(), str(CLIENT / program)])],
            capture_output=True,
            text=True,
            check=False,
        )
        for program in ("bridge.mjs", "test/mutant_bridge.mjs")
    }
    passed = {program: json.loads(each.stdout)["passed"] for program, each in said.items()}
    assert passed == {"bridge.mjs": True, "test/mutant_bridge.mjs": False}
    assert [each.returncode for each in said.values()] == [0, 1]
