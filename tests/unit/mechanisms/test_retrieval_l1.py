"""Retrieval for l1: the numbers of the note, the rules, and what reports look like."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from faintly.audit import audit
from faintly.client import randomize_all
from faintly.core import Budget, ReportBatch, SparseVector, Universe, VectorBatch
from faintly.errors import BoundDoesNotApply, InvalidPlan, TooManyItems, UnsupportedUnit
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.retrieval_l1 import forms
from faintly.planner import make_plan
from faintly.planner.search import rank
from faintly.primitives.entropy import seeded
from faintly.wire.report_v1 import decode_batch, encode_batch
from tests.conformance import suite

SPAN_FORMS = ("binary", "ternary")
FORMS = (*SPAN_FORMS, "polynomial")


def plan_of(form=None, *, distance=1, epsilon=1.0, delta=1e-5, sparsity=64, universe=1000, **rest):
    if form is not None:
        rest["form"] = form
    return make_plan(
        protect=rest.pop("protect", f"l1:{distance}"),
        epsilon=epsilon,
        delta=delta,
        sparsity=sparsity,
        clients=1000,
        universe=universe,
        mechanism="retrieval-l1",
        decode=rest.pop("decode", "direct"),
        salt=bytes(16),
        **rest,
    )


def made(*args, **rest):
    return mechanism_of(plan_of(*args, **rest))


@pytest.mark.parametrize(
    ("distance", "expected"), [(1, 4.0), (2, 9.0), (4, 25.0), (8, 81.0), (16, 289.0)]
)
def test_binary_is_one_plus_l_over_epsilon_squared(distance, expected):
    mechanism = made("binary", distance=distance)
    assert mechanism.forecast.variance(1.0) == pytest.approx(expected, rel=1e-7)
    assert mechanism.forecast.worst_variance() == pytest.approx(expected, rel=1e-7)
    assert mechanism.symbols == 64 + 40
    assert mechanism.layout.record_bytes == 8 + 13
    short = made("binary", distance=distance, symbols=64 + 18)
    assert short.layout.record_bytes == 8 + 11


@pytest.mark.parametrize(
    ("distance", "field", "expected", "size"),
    [(1, 3, 2.6667, 23), (2, 5, 7.2, 30), (4, 9, 22.2222, 36), (8, 17, 76.2353, 44)],
)
def test_ternary_reaches_the_note(distance, field, expected, size):
    mechanism = made("ternary", distance=distance)
    ratio = 1 + 1 / distance
    formula = 2 * ratio**2 / ((ratio + 1) * (ratio - 1) ** 2)
    assert mechanism.order == field
    assert mechanism.forecast.variance(1.0) == pytest.approx(expected, abs=5e-5)
    assert mechanism.forecast.variance(1.0) == pytest.approx(formula, rel=1e-7)
    assert mechanism.symbols == 64 + math.ceil(40 / math.log2(field))
    fewest = next(t for t in range(64, 200) if forms.failure(field, 64, t) <= 1e-5)
    assert made("ternary", distance=distance, symbols=fewest).layout.record_bytes == size


@pytest.mark.parametrize("distance", [1, 2, 4, 8, 16])
def test_polynomials_are_pure_and_as_good(distance):
    mechanism = made("polynomial", distance=distance, delta=0.0)
    ratio = 1 + 1 / distance
    formula = 2 * ratio**2 / ((ratio + 1) * (ratio - 1) ** 2)
    assert formula <= mechanism.forecast.variance(1.0) < 1.002 * formula
    assert mechanism.guarantee().budget.delta == 0
    assert mechanism.layout.record_bytes == math.ceil(65 * 10 / 8)
    assert mechanism.forecast.relative_bias() == 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("epsilon", "distance"), [(0.1, 3), (0.7, 0.3), (2.0, 1), (9.0, 1.5)])
def test_the_integers_keep_the_budget(form, epsilon, distance):
    mechanism = (
        made(form, epsilon=epsilon, distance=distance)
        if (form != "ternary" or distance < 8 * epsilon)
        else made("ternary", epsilon=epsilon, distance=distance, field=3)
    )
    proven = mechanism.guarantee().budget
    assert 0.99999 * epsilon <= proven.epsilon <= epsilon
    assert proven.delta <= 1e-5
    exact = mechanism.channel.slope * Fraction(str(distance))
    assert exact <= Fraction(str(epsilon))


@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-12])
@pytest.mark.parametrize("field", [2, 3, 16])
def test_symbols_spare_forty_bits_or_what_delta_needs(delta, field):
    form = "binary" if field == 2 else "ternary"
    fewest = next(t for t in range(10, 200) if forms.failure(field, 10, t) <= delta)
    spare = math.ceil(40 / math.log2(field))
    mechanism = made(form, delta=delta, sparsity=10, field=field)
    assert mechanism.symbols == max(fewest, 10 + spare)
    assert made(form, delta=delta, sparsity=10, field=field, symbols=fewest).symbols == fewest
    with pytest.raises(BoundDoesNotApply, match=f"use at least {fewest}"):
        made(form, delta=delta, sparsity=10, field=field, symbols=fewest - 1)
    # The bound of the note, which lacks only the excess of the hash, is met up to that.
    note = 2 * field ** (10 - fewest) / (field - 1)
    assert float(forms.failure(field, 10, fewest)) < 1.05 * note


@pytest.mark.parametrize("form", ["binary", "ternary"])
def test_delta_is_never_less_than_one_seed(form):
    """However many symbols there are, one of 2^64 seeds may fail two vectors."""
    proven = made(form, sparsity=10, symbols=200).guarantee().budget
    assert 2.0**-64 <= proven.delta < 1.01 * 2.0**-64
    plan = plan_of(form, sparsity=10, symbols=200)
    with pytest.raises(InvalidPlan, match="only keep"):
        mechanism_of(replace(plan, budget=Budget(1.0, 1e-30)))


REFUSED = [
    ({"decode": "table"}, BoundDoesNotApply, r"evict ones.*use --decode direct"),
    ({"family": "linear"}, BoundDoesNotApply, "use --family blake2s"),
    ({"family": "prf"}, BoundDoesNotApply, "use --family blake2s"),
    ({"delta": 0.0}, BoundDoesNotApply, r"give --delta .*form polynomial"),
    ({"delta": 1e-30}, BoundDoesNotApply, "a probability over 64-bit seeds"),
    ({"protect": "event"}, UnsupportedUnit, "protects l1"),
    ({"protect": "user"}, UnsupportedUnit, "protects l1"),
    ({"distance": 200}, InvalidPlan, "further apart than 128"),
    ({"symbols": 70}, BoundDoesNotApply, "use at least 82"),
    ({"field": 3}, InvalidPlan, "field of 2 elements"),
    ({"colour": 1}, InvalidPlan, "no option 'colour'"),
    ({"epsilon": 1e-10}, BoundDoesNotApply, "too small for 32-bit"),
    ({"sparsity": 9000}, InvalidPlan, "use sparsity 8152 or less"),
    ({"bits": 4}, InvalidPlan, "belong to the linear family"),
]


@pytest.mark.parametrize(("change", "error", "words"), REFUSED)
def test_what_binary_cannot_honour_is_refused(change, error, words):
    with pytest.raises(error, match=words):
        plan_of("binary", **change)


def test_what_the_other_forms_cannot_honour_is_refused():
    with pytest.raises(InvalidPlan, match="use form binary"):
        plan_of("ternary", distance=16)
    with pytest.raises(InvalidPlan, match="field must be one of 3, 4, 5"):
        plan_of("ternary", field=6)
    with pytest.raises(BoundDoesNotApply, match="at most 65536 keys; give --delta"):
        plan_of("polynomial", universe=Universe.open())
    with pytest.raises(BoundDoesNotApply, match="own point"):
        plan_of(universe=100_000, delta=0.0)
    with pytest.raises(InvalidPlan, match="symbol_bits must be between 10 and 16"):
        plan_of("polynomial", symbol_bits=9)
    with pytest.raises(InvalidPlan, match="form must be one of"):
        plan_of("quaternary")
    with pytest.raises(InvalidPlan, match="hashes nothing"):
        plan_of("polynomial", family="blake2s")


def test_the_default_form_suits_the_budget():
    assert made().form == "binary"
    assert made(delta=0.0).form == "polynomial"


@pytest.mark.parametrize("form", FORMS)
def test_more_than_k_items_are_refused_without_naming_them(form):
    mechanism = made(form, sparsity=3, universe=50)
    vectors = VectorBatch.of([SparseVector([1, 2, 3, 4], [0.25] * 4)])
    with pytest.raises(TooManyItems, match="at most 3 items") as caught:
        mechanism.randomize(vectors, np.zeros(1, np.uint64), seeded(1, "noise"))
    assert "0.25" not in str(caught.value)
    assert mechanism.enforces_sparsity


LIES = [
    ("plus", lambda plan: plan["plus"] + 2**20),
    ("minus", lambda plan: plan["minus"] - 2**20),
    ("symbols", lambda plan: plan["symbols"] - 30),
    ("marked", lambda _: 3),
    ("field", lambda _: 6),
    ("form", lambda _: "unary"),
    ("plus", lambda _: True),
]


@pytest.mark.parametrize("form", SPAN_FORMS)
@pytest.mark.parametrize(("name", "change"), LIES)
def test_lying_plans_are_refused(form, name, change):
    plan = plan_of(form, distance=2)
    lie = {**plan.parameters, name: change(plan.parameters)}
    with pytest.raises((InvalidPlan, BoundDoesNotApply)):
        mechanism_of(replace(plan, parameters=lie))


def test_polynomials_of_a_larger_universe_than_points_are_refused():
    plan = plan_of("polynomial")
    with pytest.raises(InvalidPlan, match="point of the field for every key"):
        mechanism_of(replace(plan, universe=Universe.indexed(2000)))
    with pytest.raises(BoundDoesNotApply, match="use at least"):
        mechanism_of(replace(plan, parameters={**plan.parameters, "symbols": 60}))


def test_a_smaller_promise_is_a_lie():
    plan = plan_of("binary")
    for budget in (Budget(0.99, 1e-5), Budget(1.0, 1e-13)):
        with pytest.raises(InvalidPlan, match="only keep"):
            mechanism_of(replace(plan, budget=budget))


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("binary", {}),
        *(("ternary", {"field": q}) for q in forms.TERNARY_FIELDS),
        ("polynomial", {}),
    ],
)
def test_reports_fit_repeat_and_survive_the_wire(form, options):
    mechanism = made(form, sparsity=9, universe=200, distance=3, **options)
    assert suite.check_reports(mechanism).holds
    vectors = VectorBatch.of([SparseVector(range(count)) for count in range(10)])
    plan = mechanism.plan
    (batch,) = randomize_all(plan, vectors, seeded(1, "public"), seeded(1, "secret"))
    data = encode_batch(batch, mechanism.layout)
    again = decode_batch(data, plan.digest, mechanism.layout)
    ids = np.arange(12, dtype=np.uint64)
    np.testing.assert_array_equal(mechanism.read(again, ids), mechanism.read(batch, ids))


@pytest.mark.parametrize("form", FORMS)
def test_a_certain_answer_is_what_is_read(form):
    """With weights that leave no noise, every value of ±1 reads as itself."""
    sound = made(form, sparsity=20, universe=256, distance=2)
    silent = 2**32 - 2 if sound.channel.silent else 2**32 - 1
    mechanism = replace(sound, channel=replace(sound.channel, plus=silent, minus=1))
    values = np.where(np.arange(20) % 3, 1.0, -1.0)
    vectors = VectorBatch.of([SparseVector(range(20), values)] * 50)
    seeds = np.arange(50, dtype=np.uint64) + 3
    sent = mechanism.randomize(vectors, seeds, seeded(2, "secret"))
    batch = ReportBatch(mechanism.plan.digest, seeds, sent)
    read = mechanism.read(batch, np.arange(20, dtype=np.uint64))
    np.testing.assert_array_equal(read, 50 * values)


@pytest.mark.parametrize("form", FORMS)
def test_no_vectors_make_no_reports(form):
    mechanism = made(form)
    nobody = mechanism.randomize(VectorBatch.of([]), np.zeros(0, np.uint64), seeded(1, "secret"))
    assert nobody.shape == (0, len(mechanism.layout.widths))


@pytest.mark.parametrize("form", FORMS)
def test_parts_of_a_batch_are_solved_apart(form, monkeypatch):
    """Reports read the same whether they were made or read in few or in many parts."""
    mechanism = made(form, sparsity=5, universe=100)
    vectors = VectorBatch.of([SparseVector(range(count % 6)) for count in range(40)])
    seeds, ids = np.arange(40, dtype=np.uint64), np.arange(8, dtype=np.uint64)
    monkeypatch.setattr("faintly.mechanisms.retrieval_l1.SOLVE_SYMBOLS", 100)
    sent = mechanism.randomize(vectors, seeds, seeded(1, "secret"))
    batch = ReportBatch(mechanism.plan.digest, seeds, sent)
    whole = mechanism.read(batch, ids)
    monkeypatch.setattr("faintly.mechanisms.retrieval_l1.READ_SYMBOLS", 100)
    np.testing.assert_array_equal(mechanism.read(batch, ids), whole)


def test_the_planner_compares_the_forms():
    wanted = {"protect": "l1:2", "epsilon": 1.0, "sparsity": 64, "clients": 1000}
    found = rank(**wanted, delta=1e-5, universe=500, decode="direct", hard_sparsity=True)
    mine = {one.options["form"] for one in found if one.mechanism == "retrieval-l1"}
    assert mine == set(FORMS)
    pure = rank(**wanted, universe=500, decode="direct")
    assert {one.options["form"] for one in pure if one.mechanism == "retrieval-l1"} == {
        "polynomial"
    }
    assert found[0].worst <= 7.3


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("distance", [0.1, 1, 3])
def test_audits_pass(form, distance):
    found = audit(plan_of(form, sparsity=3, universe=40, distance=distance), samples=1000)
    assert found.passed, found


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_audits_catch_half_the_noise(form):
    def halved(plan):
        sound = make(plan)
        weights = sound.channel
        shift = (weights.plus - weights.minus) // 3
        steep = replace(weights, plus=weights.plus + shift, minus=weights.minus - shift)
        return replace(sound, channel=steep)

    def make(plan):
        return type(mechanism_of(plan)).from_plan(plan)

    plan = plan_of(form, sparsity=2, universe=4, distance=2)
    broken = {one.check for one in audit(plan, samples=500, make=halved).findings if not one.holds}
    assert "statement" in broken
    assert form == "polynomial" or "law" in broken
