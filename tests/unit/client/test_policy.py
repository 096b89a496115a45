"""A client takes part only where its policy says so and the plan's integers keep its promise."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faintly import Client, Plan
from faintly.client import Ledger, Policy
from faintly.errors import InvalidInput, PlanRefused, TooManyItems

MODEST = Policy.within(epsilon=1, units=["event", "l1:2"])


def test_a_plan_of_the_same_program_needs_no_policy(plan_of):
    plan = plan_of()
    client = Client(plan)
    assert client.report({3: 1.0}).plan_digest == plan.digest


@pytest.mark.parametrize("policy", [None, "event", 1.0])
def test_a_fetched_plan_without_a_policy_is_refused(plan_of, policy):
    with pytest.raises(PlanRefused, match="needs a policy"):
        Client.fetched(plan_of().to_json(), policy)


def test_a_fetched_plan_within_the_policy_is_used(plan_of):
    plan = plan_of()
    for document in (plan.to_json(), plan.canonical):
        assert Client.fetched(document, MODEST).plan.digest == plan.digest


@pytest.mark.parametrize(
    ("protect", "epsilon", "why"),
    [
        ("event", 1.001, "spends epsilon 1.001 per report; the policy allows epsilon 1"),
        ("user", 1.0, "protects user; the policy allows event, l1:2"),
        ("l1:1.5", 1.0, "protects l1:1.5; the policy allows event, l1:2"),
    ],
)
def test_a_plan_outside_the_policy_is_refused(plan_of, protect, epsilon, why):
    plan = plan_of(protect, epsilon)
    with pytest.raises(PlanRefused, match=why):
        Client.fetched(plan.to_json(), MODEST)
    with pytest.raises(PlanRefused, match=why):
        Client(plan, policy=MODEST)


def test_a_larger_distance_protects_more_and_is_allowed(plan_of):
    assert Client(plan_of("l1:3"), policy=MODEST)


def test_delta_is_limited_too(squeeze_plan, bounded):
    pure = Policy.within(epsilon=1, units=["l1:64"])
    with pytest.raises(PlanRefused, match="delta 1e-06 per report; the policy allows epsilon 1"):
        Client(squeeze_plan, policy=pure)
    assert Client(squeeze_plan, policy=bounded)


def test_a_pinned_plan_is_trusted_whatever_it_spends(plan_of):
    plan, other = plan_of("user", 8.0), plan_of("user", 8.0)
    for policy in (Policy.pinned(plan.digest), Policy.pinned(plan.digest.hex(), other.digest)):
        assert Client.fetched(plan.to_json(), policy)
    with pytest.raises(PlanRefused, match=f"plan {other.digest.hex()} is not pinned"):
        Client.fetched(other.to_json(), Policy.pinned(plan.digest))


def lying(plan: Plan) -> str:
    """Return the plan with a smaller epsilon than its integers keep."""
    document = json.loads(plan.to_json())
    document["epsilon"] = "0.5"
    return json.dumps(document)


def test_a_lying_plan_is_refused_even_if_pinned(plan_of):
    document = lying(plan_of())
    why = "breaks its promise: the plan promises epsilon 0.5, but its thresholds only keep"
    for policy in (MODEST, Policy.pinned(Plan.from_json(document).digest)):
        with pytest.raises(PlanRefused, match=why):
            Client.fetched(document, policy)
    with pytest.raises(PlanRefused, match="needs a policy"):
        Client(Plan.from_json(document))


def test_a_plan_that_was_read_needs_a_policy(plan_of):
    own = plan_of()
    read = Plan.from_json(own.to_json())
    assert read == own
    with pytest.raises(PlanRefused, match="needs a policy"):
        Client(read)
    assert Client(read, policy=Policy.pinned(own.digest)).report([1])
    assert Client(own).report([1])


@pytest.mark.parametrize("document", ["", "{", "[]", b"\xff", '{"format":"faintly-plan/2"}', "7"])
def test_what_is_no_plan_is_refused(document):
    with pytest.raises(PlanRefused, match="not a valid plan"):
        Client.fetched(document, MODEST)


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.text(max_size=8),
    st.sampled_from(["0", "1", "16", "prf", "linear", "direct", "event", "user", "l1:4", "open"]),
    st.lists(st.integers(-1, 2**33), max_size=4),
    st.just({}),
)
TREE = ["protect", "epsilon", "delta", "sparsity", "clients", "failure", "universe", "mechanism"]
TREE += ["parameters", "hashing", "decode", "salt"]
LEAVES = [(name,) for name in TREE]
LEAVES += [("parameters", name) for name in ("row", "bins", "steps", "clip", "range", "noise")]
LEAVES += [("hashing", "bits"), ("hashing", "maps"), ("universe", "size"), ("universe", "kind")]


def test_the_plan_that_is_made_hostile_is_sound():
    assert Client.fetched(HOSTILE, MODEST)


@given(st.data())
def test_a_hostile_plan_is_used_or_refused_and_nothing_else(data):
    document = json.loads(HOSTILE)
    for *path, leaf in data.draw(st.lists(st.sampled_from(LEAVES), min_size=1, max_size=2)):
        at = document
        for name in path:
            at = at[name] if isinstance(at, dict) and isinstance(at.get(name), dict) else {}
        at[leaf] = data.draw(JUNK)
    try:
        client = Client.fetched(json.dumps(document), MODEST)
    except PlanRefused:
        return
    assert MODEST.budget.covers(client.plan.budget)


HOSTILE = """{"format": "faintly-plan/1", "protect": "event", "epsilon": "1", "delta": "0",
 "sparsity": 4, "clients": 100, "failure": "0.05", "universe": {"kind": "indexed", "size": 16},
 "mechanism": "signed-binning", "parameters": {"row": "event", "bins": 1, "steps": 16,
 "clip": null, "range": 381, "noise": [2113931947, 2080396622, 2013440412, 1880437614,
 1621524833, 1155094622, 511972666, 78665075]},
 "hashing": {"family": "linear", "bits": 4, "maps": 1}, "decode": "table",
 "salt": "0f0e0d0c0b0a09080706050403020100"}"""


@pytest.mark.parametrize(
    "make",
    [
        Policy,
        Policy.pinned,
        lambda: Policy.pinned(b"short"),
        lambda: Policy.pinned("zz" * 16),
        lambda: Policy.within(epsilon=1, units=[]),
        lambda: Policy.within(epsilon=0, units=["event"]),
        lambda: Policy.within(epsilon=1, units=["item"]),
    ],
)
def test_a_policy_that_allows_nothing_is_a_mistake(make):
    with pytest.raises(InvalidInput):
        make()


def test_one_unit_is_given_as_a_list():
    with pytest.raises(TypeError, match="must be a list"):
        Policy.within(epsilon=1, units="event")


def test_a_plan_without_long_vectors_needs_a_promise(squeeze_plan, bounded):
    """Also where the program made the plan: silence would tell of too many items."""
    limits = {"epsilon": 1, "delta": 1e-6, "units": ["l1:64"]}
    digest = squeeze_plan.digest
    for policy in (None, Policy.within(**limits), Policy.pinned(digest)):
        with pytest.raises(PlanRefused, match=r"at most 32 items .* bounded_items=True"):
            Client(squeeze_plan, policy=policy)
    for policy in (bounded, Policy.pinned(digest, bounded_items=True)):
        assert Client(squeeze_plan, policy=policy).report(range(32))


def test_a_baseline_is_refused_unless_it_is_named(plan_of):
    plan = plan_of("user", mechanism="harmony")
    limits = {"epsilon": 1, "units": ["user"]}
    for policy in (None, Policy.within(**limits), Policy.within(**limits, baselines=["k-fold"])):
        with pytest.raises(PlanRefused, match=r"research baseline.*baselines=\['harmony'\]"):
            Client(plan, policy=policy)
    with pytest.raises(PlanRefused, match="research baseline"):
        Client.fetched(plan.to_json(), Policy.pinned(plan.digest))
    for policy in (
        Policy.within(**limits, baselines=["harmony"]),
        Policy.pinned(plan.digest, baselines=["harmony"]),
    ):
        assert Client.fetched(plan.to_json(), policy).report([1])


def test_baselines_are_named_as_a_list_of_their_names():
    with pytest.raises(TypeError, match="must be a list"):
        Policy.within(epsilon=1, units=["user"], baselines="harmony")
    for name in ("retrieval", "no such mechanism"):
        with pytest.raises(InvalidInput):
            Policy.within(epsilon=1, units=["user"], baselines=[name])


def test_too_many_items_cost_nothing(squeeze_plan, bounded, tmp_path):
    """A promise that is broken is a mistake of the program, and is told before it is paid for."""
    ledger = Ledger(tmp_path / "ledger", {"l1:64": (2, "1e-5")})
    client = Client(squeeze_plan, policy=bounded, ledger=ledger)
    with pytest.raises(TooManyItems, match="at most 32 items"):
        client.report(list(range(33)))
    assert ledger.spent("l1:64").epsilon == 0
    client.report(list(range(32)))
    assert ledger.spent("l1:64").epsilon == 1
