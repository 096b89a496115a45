"""Plans of key-value data: the budget is that of an entry, whichever way leads there."""

import pytest

from faintly.core import EventLevel, Universe, UserLevel, WithinL1
from faintly.errors import BoundDoesNotApply, InvalidPlan
from faintly.planner import entry_guarantee, key_value_plan, make_plan

REQUEST = {"entries": 4, "clients": 10_000, "universe": 100}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0])
@pytest.mark.parametrize("protect", ["entry", "user"])
def test_no_plan_spends_more_than_was_asked_for(protect, epsilon, delta):
    plan = key_value_plan(protect=protect, epsilon=epsilon, delta=delta, **REQUEST)
    spent = entry_guarantee(plan).budget
    assert spent.epsilon <= epsilon
    assert spent.delta <= delta
    assert plan.sparsity == 8
    assert plan.universe == Universe.indexed(200)


@pytest.mark.parametrize("mechanism", ["retrieval", "retrieval-gf", "signed-binning"])
def test_the_better_way_is_taken_for_a_named_mechanism(mechanism):
    plan = key_value_plan(protect="entry", epsilon=2.0, mechanism=mechanism, **REQUEST)
    assert plan.mechanism == mechanism
    if plan.unit == EventLevel():
        assert plan.budget.epsilon == 1.0
    else:
        assert plan.unit == WithinL1(2.0)


def test_what_any_plan_means_for_an_entry():
    def loss(protect, **rest):
        plan = make_plan(
            protect=protect, epsilon=1.0, sparsity=8, clients=1000, universe=20, **rest
        )
        found = entry_guarantee(plan)
        return found.steps, found.budget.epsilon

    assert loss("event", mechanism="retrieval") == (2, pytest.approx(2.0, rel=1e-6))
    assert loss("l1:2", mechanism="signed-binning") == (1, pytest.approx(1.0, rel=1e-6))
    assert loss("l1:4", mechanism="signed-binning") == (1, pytest.approx(1.0, rel=1e-6))
    assert loss("l1:0.75", mechanism="signed-binning") == (3, pytest.approx(3.0, rel=1e-6))
    assert loss("user") == (1, pytest.approx(1.0, rel=1e-6))


def test_a_chain_of_steps_adds_up_its_delta():
    plan = make_plan(
        protect="l1:1",
        epsilon=1.0,
        delta=1e-6,
        sparsity=8,
        clients=1000,
        universe=20,
        mechanism="gaussian",
    )
    one = entry_guarantee(plan).proven.budget
    both = entry_guarantee(plan).budget
    assert both.epsilon == 2 * one.epsilon
    assert both.delta == pytest.approx(one.delta * (1 + 2.718281828**one.epsilon))


def test_a_delta_that_adds_up_to_one_proves_nothing():
    plan = make_plan(
        protect="l1:0.25",
        epsilon=1.0,
        delta=1e-3,
        sparsity=8,
        clients=1000,
        universe=20,
        mechanism="gaussian",
    )
    with pytest.raises(BoundDoesNotApply, match="delta adds up to 1"):
        entry_guarantee(plan)


def test_words_say_what_is_hidden():
    half = key_value_plan(protect="entry", epsilon=1.0, mechanism="retrieval", **REQUEST)
    assert "any one entry" in entry_guarantee(half).describe()
    assert (
        "2 steps of the plan's own unit, event, of epsilon 0.5" in entry_guarantee(half).describe()
    )
    whole = key_value_plan(protect="user", epsilon=1.0, **REQUEST)
    assert whole.unit == UserLevel()
    assert "all entries of a person" in entry_guarantee(whole).describe()


def test_refusals():
    with pytest.raises(InvalidPlan, match="entry or user"):
        key_value_plan(protect="event", epsilon=1.0, **REQUEST)
    with pytest.raises(InvalidPlan, match="no mechanism can serve"):
        key_value_plan(protect="entry", epsilon=1.0, mechanism="gaussian", **REQUEST)


def test_a_salt_makes_plans_repeat():
    plans = [
        key_value_plan(protect="entry", epsilon=1.0, salt=bytes(16), **REQUEST) for _ in range(2)
    ]
    assert plans[0].digest == plans[1].digest
