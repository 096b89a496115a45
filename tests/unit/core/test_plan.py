"""A plan is one document with one digest; whatever cannot work is refused by name."""

import json
import math
import re
import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faintly.core import (
    Budget,
    EventLevel,
    Guarantee,
    Hashing,
    Plan,
    SparseVector,
    Universe,
    UserLevel,
    WithinL1,
    parse_unit,
)
from faintly.core.privacy import decimal_text
from faintly.errors import InvalidPlan, InvalidVector, UnsupportedUnit
from faintly.mechanisms import mechanism_of
from faintly.planner import make_plan
from faintly.primitives import noise
from spec.generator import cases
from spec.generator.vectors import plan_of
from tests.every import every

SALT = bytes.fromhex(cases.SALT)


def make(**changes):
    wanted = {
        "protect": "event",
        "epsilon": 1.0,
        "sparsity": 4,
        "clients": 1000,
        "universe": 10,
        "salt": SALT,
        "mechanism": "signed-binning",
    }
    return make_plan(**{**wanted, **changes})


def text_with(**changes):
    return json.dumps(cases.BASE | changes)


def test_two_spellings_of_one_document_are_one_plan():
    plan = plan_of("event-one-bin")
    backwards = json.dumps(dict(reversed(cases.BASE.items())), indent=7)
    assert Plan.from_json(backwards).digest == plan.digest
    assert Plan.from_json(backwards.encode()).canonical == plan.canonical
    assert len(plan.digest) == 16


def test_every_field_counts_in_the_digest():
    digests = {plan_of(name).digest for name in cases.PLANS}
    assert len(digests) == len(cases.PLANS)
    assert Plan.from_json(text_with(clients=1001)).digest != plan_of("event-one-bin").digest


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "the plan is not JSON"),
        ("null", "plan must be a JSON object"),
        (b"\xff\xfe", "the plan is not JSON"),
        ('{"a": 1, "a": 1}', "a field appears twice"),
        ('{"a": 1.5}', "must be decimal strings, got 1.5"),
        ("[" * 200_000, "the plan's JSON is not valid"),
        (text_with(comment=1), "plan has an unknown field 'comment'"),
        (text_with(format="faintly-plan/2"), "format must be 'faintly-plan/1'"),
        (text_with(clients="1000"), "plan field 'clients' must be int"),
        (text_with(clients=True), "plan field 'clients' must be int"),
        (text_with(epsilon="1.0"), "plan field 'epsilon' must be written '1'"),
        (text_with(epsilon="01"), "must be a plain decimal string"),
        (text_with(epsilon=" 1"), "must be a plain decimal string"),
        (text_with(epsilon="nan"), "must be a plain decimal string"),
        (text_with(salt="0" * 31), "salt must be lower-case hexadecimal"),
        (text_with(salt="00" * 15), "salt must be 16 bytes, got 15"),
        (text_with(universe={"kind": "named", "names": ["\ud800"]}), "lone surrogate"),
        (text_with(universe={"kind": "indexed"}), "universe lacks the field 'size'"),
        (text_with(hashing={"family": "prf", "bits": 0}), "hashing lacks the field 'maps'"),
        (text_with(parameters={"bins": True}), "parameter 'bins' must be an integer"),
        (text_with(parameters={"noise": [1, True]}), "parameter 'noise' must be an integer"),
        (text_with(parameters={"noise": [[1]]}), "parameter 'noise' must be an integer"),
        (text_with(parameters={"noise": {}}), "parameter 'noise' must be an integer"),
    ],
)
def test_bad_documents_name_the_field_and_the_rule(text, rule):
    with pytest.raises(InvalidPlan) as caught:
        Plan.from_json(text)
    assert rule in str(caught.value)


@pytest.mark.parametrize("value", [True, [1, False], 0.5, {}, [None], ["1"], [[1]]])
def test_a_parameter_is_an_integer_a_text_null_or_a_list_of_integers(value):
    """True equals 1 in Python, and 1 in a list of thresholds means another plan elsewhere."""
    parameters = cases.BASE["parameters"] | {"noise": value}
    with pytest.raises(InvalidPlan, match=r"parameter 'noise' must be|decimal strings"):
        Plan.from_json(text_with(parameters=parameters))


@pytest.mark.parametrize("name", sorted(cases.BASE))
def test_no_field_may_be_missing(name):
    document = {field: value for field, value in cases.BASE.items() if field != name}
    with pytest.raises(InvalidPlan, match=f"plan lacks the field '{name}'"):
        Plan.from_json(json.dumps(document))


@pytest.mark.parametrize("where", ["mechanism", "parameters", "nested"])
def test_a_lone_surrogate_anywhere_is_refused(where):
    parameters = cases.BASE["parameters"]
    changes = {
        "mechanism": {"mechanism": "\ud800"},
        "parameters": {"parameters": {**parameters, "\ud800": 1}},
        "nested": {"parameters": {**parameters, "row": "\ud800"}},
    }[where]
    with pytest.raises(InvalidPlan):
        mechanism_of(Plan.from_json(text_with(**changes)))


def test_a_plan_that_is_read_always_has_a_digest():
    with pytest.raises(InvalidPlan):
        _ = Plan.from_json(text_with(mechanism="\ud800")).digest


@pytest.mark.parametrize("spelling", ["l1:4.0", "l1:4e0", "l1: 4", "l1:0_4", "L1:4"])
def test_the_unit_has_one_spelling_in_a_plan(spelling):
    with pytest.raises(InvalidPlan):
        Plan.from_json(text_with(protect=spelling))


@every(
    "changes",
    [
        {"sparsity": 0},
        {"sparsity": -1},
        {"sparsity": 2**20 + 1},
        {"sparsity": 0, "protect": "user"},
        {"sparsity": -1, "protect": "user"},
        {"clients": 0},
        {"clients": 2**40 + 1},
        {"failure": 0.0},
        {"failure": 1.0},
        {"failure": float("nan")},
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": 16.5},
        {"delta": 1.0},
        {"delta": -0.1},
        {"universe": 0},
        {"universe": []},
        {"universe": ["a", "a"]},
        {"protect": "l1:0"},
        {"protect": "l1:nan"},
        {"protect": "l1:inf"},
        {"protect": "l1:9"},
        {"protect": "nobody"},
        {"decode": "guess"},
        {"mechanism": "telepathy"},
        {"family": "md5"},
        {"family": "prf", "decode": "table"},
        {"maps": 3},
        {"maps": 2, "universe": Universe.open()},
        {"bits": 3},
        {"bits": 32},
        {"bins": 3, "decode": "table"},
        {"bins": 0},
        {"bins": "many"},
        {"steps": 3},
        {"steps": 0},
        {"salt": b"short"},
        {"cap": 0, "protect": "user"},
        {"cap": -1, "protect": "user"},
        {"colour": "red"},
    ],
)
def test_impossible_parameters_are_invalid_plans(changes):
    with pytest.raises(InvalidPlan):
        make(**changes)


BEYOND = """
from faintly import make_plan
from faintly.errors import FaintlyError

sizes = {"sparsity": 4, "clients": 1000, "universe": 10, "mechanism": "signed-binning"}
for epsilon in (1e-8, 1e-12):
    try:
        make_plan(protect="event", epsilon=epsilon, **sizes)
    except FaintlyError:
        print("refused")
"""


def test_an_epsilon_beyond_the_thresholds_is_refused_and_not_searched_for_ever():
    """Calibration runs in a process of its own, so that it can be stopped."""
    said = subprocess.check_output([sys.executable, "-c", BEYOND], text=True, timeout=30)
    assert said.split() == ["refused", "refused"]


def test_a_row_for_another_unit_is_an_unsupported_unit():
    with pytest.raises(UnsupportedUnit, match="does not protect event"):
        make(row="user")


@pytest.mark.parametrize("number", [1e-30, 1.2345678901234567e-30, 0.1, 1 / 3])
def test_what_was_made_can_be_read_back(number):
    plan = make(failure=number)
    assert Plan.from_json(plan.to_json()).digest == plan.digest


def test_the_salt_is_fresh_unless_given():
    assert make(salt=None).digest != make(salt=None).digest
    assert "salt" not in repr(make())


def test_a_promise_that_the_thresholds_do_not_keep_is_refused():
    mechanism_of(plan_of("event-one-bin"))
    with pytest.raises(InvalidPlan, match=r"promises epsilon 0\.9, but its thresholds only keep"):
        mechanism_of(Plan.from_json(text_with(epsilon="0.9")))


@pytest.mark.parametrize(
    ("hashing", "rule"),
    [
        ({"family": "md5"}, "family must be one of"),
        ({"family": "prf", "bits": 3}, "belong to the linear family"),
        ({"family": "linear", "bits": 0, "maps": 1}, "bits must be between 1 and 31, got 0"),
        ({"family": "linear", "bits": 32, "maps": 1}, "bits must be between 1 and 31, got 32"),
        ({"family": "linear", "bits": 4, "maps": 0}, "power of two up to 4096, got 0"),
        ({"family": "linear", "bits": 4, "maps": 8192}, "power of two up to 4096, got 8192"),
    ],
)
def test_hashing_is_checked(hashing, rule):
    with pytest.raises(InvalidPlan, match=rule):
        Hashing(**hashing)


def test_vectors_come_from_mappings_and_sets_and_hide_their_keys():
    plan = plan_of("event-open")
    assert plan.vector({"a": 0.5, "b": 0.0}).values.tolist() == [0.5]
    assert len(plan.vector({"a", "b"})) == 2
    assert len(plan.vector([])) == 0
    with pytest.raises(InvalidVector) as caught:
        plan.vector({"secret": 0.5, "fine": 7.0})
    assert str(caught.value) == "value at position 1 is outside [-1, 1]"
    with pytest.raises(InvalidVector) as caught:
        plan_of("event-two-bins").vector({"secret": 0.5})
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidVector, match=r"^key at position 1 is outside 0\.\.9$"):
        plan_of("event-one-bin").vector(SparseVector([3, 10]))


@pytest.mark.parametrize(
    ("text", "unit"),
    [("event", EventLevel()), ("user", UserLevel()), ("l1:2.5", WithinL1(2.5))],
)
def test_units_read_and_write_themselves(text, unit):
    assert parse_unit(text) == unit
    assert str(unit) == text


@pytest.mark.parametrize("text", ["", "l1", "l1:", "l1:x", "event ", "users", "l1:-2", "l1:0"])
def test_bad_units(text):
    with pytest.raises(InvalidPlan):
        parse_unit(text)


def test_budgets_are_a_partial_order():
    small, large = Budget(1.0, 1e-6), Budget(2.0, 1e-6)
    assert large.covers(small)
    assert not small.covers(large)
    assert not Budget(2.0).covers(small)
    assert Budget(1.0).covers(Budget(1.0))
    assert str(small) == "epsilon 1, delta 1e-06"


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=16))
def test_a_budget_is_not_below_the_exact_amount_and_not_shown_below_it(amount):
    budget = Budget.at_least(amount, amount / 17)
    below = math.nextafter(budget.epsilon, 0)
    assert Fraction(repr(below)) < amount <= Fraction(repr(budget.epsilon))
    assert amount / 17 <= Fraction(repr(budget.delta))
    epsilon, delta = re.fullmatch(r"epsilon (\S+), delta (\S+)", str(budget)).groups()
    assert Fraction(epsilon) >= amount
    assert Fraction(delta) >= amount / 17


@pytest.mark.parametrize("mechanism", ["harmony", "signed-binning", "sampling", "collision"])
def test_the_loss_that_is_stated_is_not_below_the_logarithm_that_is_proven(mechanism, monkeypatch):
    exact = []
    monkeypatch.setattr(
        noise,
        "log_at_least",
        lambda ratio, real=noise.log_at_least: exact.append(real(ratio)) or exact[-1],
    )
    for step in range(20):
        plan = make_plan(
            protect="user",
            epsilon=1 + step / 10,
            sparsity=2,
            clients=9,
            universe=8,
            mechanism=mechanism,
        )
        exact.clear()
        proven = mechanism_of(plan).guarantee().budget.epsilon
        times = 2 * plan.parameters["clip"] if mechanism == "signed-binning" else 1
        assert Fraction(repr(proven)) >= exact[-1] * times


def test_a_guarantee_in_words():
    said = Guarantee(WithinL1(3), Budget(1.0, 1e-6), "a theorem", ("the seed is fresh",)).describe()
    for part in ("at most 3", "2.72 times", "1e-06", "provided that the seed is fresh"):
        assert part in said
    assert "right in at most 73.2 % of all cases" in said


@pytest.mark.parametrize(
    ("epsilon", "sure", "verdict"),
    [
        (1.0, "73.2 %", "A report hides"),
        (2.99, "95.3 %", "A report hides"),
        (3.0, "95.3 %", "Weak protection, as always from epsilon 3 on."),
        (7.0, "99.909 %", "No protection to speak of, as always from epsilon 7 on."),
        (16.0, "99.999989 %", "No protection to speak of, as always from epsilon 7 on."),
    ],
)
def test_the_words_of_a_guarantee_follow_its_number(epsilon, sure, verdict):
    made = Guarantee(EventLevel(), Budget(epsilon), "a theorem")
    for said in (made.describe(), made.short()):
        assert said.startswith(verdict)
        assert f"at most {sure} sure" in said
        assert ("hardly hides" if epsilon >= 7 else "report hides") in said


@pytest.mark.parametrize("delta", [0.0, 0.25, 0.999999])
def test_belief_is_never_said_too_small(delta):
    """With a delta: half of what the two laws have in common is always guessed wrong."""
    for epsilon in (0.01, 0.7, 3.3, 9.0, 16.0):
        made = Guarantee(UserLevel(), Budget(epsilon, delta), "a theorem")
        exact = (Fraction(math.exp(epsilon)) + Fraction(delta)) / (1 + Fraction(math.exp(epsilon)))
        assert made.belief == pytest.approx(float(exact), abs=1e-15)
        (said,) = re.findall(r"at most ([0-9.]+) %", made.describe())
        assert float(exact) <= float(said) / 100 + 1e-12
        assert float(said) / 100 < 1


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.0, "1"), (100.0, "100"), (0.1, "0.1"), (1e-7, "0.0000001"), (0.0, "0"), (2.50, "2.5")],
)
def test_decimals_have_one_spelling(number, text):
    assert decimal_text(number) == text


def test_plans_of_signed_values_are_those_that_have_no_word_for_it():
    assert make(values="signed").canonical == make().canonical
    assert b"values" not in make().canonical


@pytest.mark.parametrize("values", ["nonnegative", "set"])
def test_values_are_part_of_the_plan_and_of_its_digest(values):
    plan = make(values=values)
    assert plan.digest != make().digest
    assert Plan.from_json(plan.to_json()).values == values
    assert mechanism_of(plan).domain == values  # what a client projects onto


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"values": "words"}, "values must be one of signed, nonnegative, set, got 'words'"),
        ({"share": 0.0}, "share must be above 0 and at most 1, got 0"),
        ({"share": 1.5}, "share must be above 0 and at most 1, got 1.5"),
        ({"share": math.nan}, "share must be above 0 and at most 1, got nan"),
    ],
)
def test_facts_about_people_are_checked(wrong, rule):
    with pytest.raises(InvalidPlan, match=re.escape(rule)):
        make(**wrong)
