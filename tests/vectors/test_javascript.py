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
from faintly.core.privacy import parse_unit
from faintly.core.spending import Charge, Loss
from faintly.errors import ClientFailed, FaintlyError, InvalidInput
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from tests.javascript import CLIENT, node

SAMPLES = 1000  # each audit is wrong about a sound client with a chance of about 1e-6 per check
UNKNOWN = ("retrieval-l1", "gaussian")
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


def unknown(plan: Plan) -> str | None:
    """Return what of a plan the client does not know, None where it takes the plan."""
    form = plan.parameters.get("form")
    if plan.mechanism == "retrieval-gf" and form != "span-safe":
        return f"the form {form} of the mechanism retrieval-gf"
    return f"the mechanism {plan.mechanism}" if plan.mechanism in UNKNOWN else None


def is_known(client: ExternalClient, plan: Plan) -> bool:
    """Return whether the client takes a plan, having checked that it does or names what is new."""
    mechanism, what = mechanism_of(plan), unknown(plan)
    if what is None:
        assert len(client.encode(mechanism, NOBODY)) == mechanism.layout.record_bytes
        return True
    with pytest.raises(ClientFailed, match=f"does not know {what} of faintly-plan/1"):
        client.encode(mechanism, NOBODY)
    return False


@pytest.mark.parametrize("mechanism", UNKNOWN)
def test_a_mechanism_that_it_does_not_know_is_refused_by_name(javascript, mechanism):
    plan = make_plan(
        protect="l1:2", epsilon=1.0, sparsity=3, clients=100, universe=32, mechanism=mechanism,
        decode="direct", delta=1e-6,
    )  # fmt: skip
    assert not is_known(javascript, plan)


@pytest.mark.long
@pytest.mark.parametrize("protect", ["event", "user", "l1:1"])
def test_it_knows_what_the_planner_names_by_default(javascript, protect):
    sizes = itertools.product(VALUES, (0.5, 2.0, 8.0), (1, 4, 64), (1000, "open"))
    for values, epsilon, sparsity, universe in sizes:
        plan = make_plan(
            protect=protect, epsilon=epsilon, sparsity=sparsity, clients=100_000,
            universe=universe, values=values,
        )  # fmt: skip
        assert is_known(javascript, plan)


@pytest.mark.long
def test_it_names_what_it_refuses_of_other_plans_that_the_planner_makes(javascript):
    refused = set()
    options = ({"decode": "direct"}, {"delta": 1e-6}, {"hard_sparsity": True})
    for protect, more in itertools.product(("event", "user", "l1:1"), options):
        for values, epsilon, sparsity in itertools.product(VALUES, (0.5, 5.0), (1, 4)):
            plan = make_plan(
                protect=protect, epsilon=epsilon, sparsity=sparsity, clients=100_000,
                universe=1000, values=values, **more,
            )  # fmt: skip
            if not is_known(javascript, plan):
                refused.add((*more, plan.mechanism))
    # So says docs/how-to/javascript.md.
    assert refused == {("hard_sparsity", "retrieval-gf"), ("hard_sparsity", "retrieval-l1")}


def test_an_audit_says_how_long_a_report_of_either_client_is(javascript):
    plan = make_plan(protect="event", epsilon=1.0, sparsity=3, clients=100, universe=32)
    mechanism = mechanism_of(plan)
    for encode in (javascript.encode, run.encode_one):
        (found,) = run.check_length(mechanism, encode)
        assert f" {mechanism.layout.record_bytes} bytes, and 31 around them" in found.evidence


def test_both_ledgers_charge_the_same(tmp_path):
    units = ("event", "user", "l1:0.5", "l1:1", "l1:2.5", "l1:7")
    losses = (("1", "0"), ("0.1", "0"), ("2.000000001", "0"), ("0.5", "0.000001"), ("8", "0.01"))
    charges = itertools.product(units, losses, (None, 1, 4, 64))
    asked = [(unit, *loss, items) for unit, loss, items in charges]
    done = subprocess.run(
        [node(), str(CLIENT / "test" / "costs_process.mjs")],
        input=json.dumps([asked, units]), capture_output=True, text=True, check=True,
    )  # fmt: skip
    answers = iter(json.loads(done.stdout))
    for (unit, epsilon, delta, items), account in itertools.product(asked, units):
        charge = Charge(parse_unit(unit), Loss.of((epsilon, delta)), items)
        cost, found = charge.cost(parse_unit(account)), next(answers)
        if cost is None:
            assert found is None, (charge, account)
            continue
        # JavaScript counts in billionths of epsilon and 10^-15 of delta, rounded up.
        assert round(found[0] * 1e9) == cost.epsilon * 10**9, (charge, account)
        assert 0 <= found[1] * 1e15 - cost.delta * 10**15 <= 2 + 2e6 * cost.delta, (charge, account)


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


def findings(name: str, program: str) -> set[str]:
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
            *run.check_client(sound, client.sample, SAMPLES),
            *run.check_length(sound, client.encode),
            *run.check_sampler(run.drawable_cases(sound, own=False), client.sample, SAMPLES),
        ]
    return {each.check for each in found if not each.holds}


@pytest.mark.long
@pytest.mark.parametrize("name", AUDITED)
def test_an_audit_passes_the_client_and_catches_a_broken_one(name):
    assert findings(name, "bridge.mjs") == set()
    assert "sampler" in findings(name, "test/mutant_bridge.mjs")


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
