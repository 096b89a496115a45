"""Retrieval over GF(q): channels to the printed digits, plans, bytes, refusals."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from faintly.audit import checks
from faintly.client import randomize_all
from faintly.core import Budget, Plan, SparseVector, VectorBatch
from faintly.engine import Reader, aggregate
from faintly.errors import BoundDoesNotApply, InvalidPlan, TooManyItems, UnsupportedUnit
from faintly.mechanisms import mechanism_of
from faintly.mechanisms.request import Request
from faintly.mechanisms.retrieval_gf import RetrievalGf
from faintly.mechanisms.retrieval_gf import channel as channels
from faintly.planner import make_plan
from faintly.planner.bounds import event_bound
from faintly.primitives import noise
from faintly.primitives.entropy import seeded
from tests.conformance import suite

EPSILONS = [0.5, 1.0, 2.0, 3.0]


def plan_of(epsilon=1.0, *, sparsity=6, universe=1378, **options):
    wanted = {"protect": "event", "decode": "direct", "mechanism": "retrieval-gf", "clients": 1000}
    return make_plan(epsilon=epsilon, sparsity=sparsity, universe=universe, **{**wanted, **options})


FULL = {  # n·Var at a key nobody holds, for q = 2, 4, 8, 16, 64
    0.5: ("16.67", "16.05", "15.92", "15.68", "15.68"),
    1.0: ("4.683", "3.516", "3.449", "3.323", "3.230"),
    2.0: ("1.724", "0.992", "0.534", "0.519", "0.470"),
    3.0: ("1.221", "0.642", "0.329", "0.167", "0.125"),
}
SPAN_SAFE = {  # q = 4, 8, 16
    0.5: ("16.67", "16.67", "16.67"),
    1.0: ("4.683", "4.683", "4.683"),
    2.0: ("1.322", "1.268", "1.262"),
    3.0: ("0.732", "0.504", "0.422"),
}
BOUND = {0.5: "15.67", 1.0: "3.196", 2.0: "0.460", 3.0: "0.1213"}


def shown(value, like):
    return f"{value:.{len(like.split('.')[1])}f}"


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_channels_match_the_table_to_the_digits_printed(epsilon):
    for bits, digits in zip((1, 2, 3, 4, 6), FULL[epsilon], strict=True):
        found = channels.full_channel(bits, epsilon).absent_moment
        assert shown(found, digits) == digits
    for bits, digits in zip((2, 3, 4), SPAN_SAFE[epsilon], strict=True):
        found = channels.span_safe_channel(bits, epsilon).absent_moment
        assert shown(found, digits) == digits
    assert shown(event_bound(epsilon), BOUND[epsilon]) == BOUND[epsilon]


@pytest.mark.parametrize(
    ("symbols", "digits"), [(3, "4.055"), (5, "3.351"), (9, "3.283"), (19, "3.216")]
)
def test_the_search_serves_fields_of_odd_order_as_well(symbols, digits):
    found = channels.pairs_variance(channels.best_pairs(symbols, 1.0), symbols)
    assert shown(found, digits) == digits


def test_weights_of_gf4_at_epsilon_one():
    channel = channels.full_channel(2, 1.0)
    assert channel.weights.tolist() == [2562325380, 942626830, 395007543, 395007543]
    assert channel.counted.tolist() == [1, -1, 0, 0]


@pytest.mark.parametrize("epsilon", [0.01, 0.1, *EPSILONS, 0.7, 1.5, 6.0, 16.0])
def test_constraints_hold_exactly_and_no_channel_beats_the_bound(epsilon):
    growth = 1 / noise.exp_at_least(-noise.exact(epsilon))
    for bits in range(1, 17):
        channel = channels.full_channel(bits, epsilon)
        one = Fraction(2**32, channel.order)
        assert channel.weights.sum() == 2**32
        assert max(channel.plus) <= one * growth
        assert min(channel.minus) * growth >= one
        pairs = zip(channel.plus, channel.minus, strict=True)
        assert all(Fraction(a, b) <= growth for a, b in pairs)
        assert channel.one_factor_loss() <= epsilon
        assert channel.absent_moment >= event_bound(epsilon) * (1 - 1e-12)
    for bits in range(1, 5):
        channel = channels.span_safe_channel(bits, epsilon)
        assert channel.weights.sum() == 2**32
        assert Fraction(max(channel.plus), min(channel.minus)) <= growth
        assert channel.any_span_loss() <= epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_largest_field_meets_the_bound(epsilon):
    assert channels.full_channel(16, epsilon).absent_moment < 1.0001 * event_bound(epsilon)


def test_mirror_pairs_symbols_and_readings_change_sign():
    channel = channels.full_channel(4, 1.0)
    assert np.array_equal(channel.mirror[channel.mirror], np.arange(16))
    assert np.array_equal(channel.counted[channel.mirror], -channel.counted)
    mean = (channel.factors(1) * channel.counted).sum() / 16 * channel.scale
    assert mean == pytest.approx(1, abs=1e-12)
    second = (channel.factors(1) * channel.counted**2).sum() / 16 * channel.scale**2
    assert second == pytest.approx(channel.present_moment, rel=1e-12)


# options and the bytes of a report
BYTES = [
    ({"form": "polynomial", "max_bytes": 8}, 8),  # GF(256) and two bytes of seed
    ({"form": "polynomial", "max_bytes": 9}, 9),
    ({"form": "polynomial"}, 10),  # GF(2^11), one spare symbol, no seed
    ({"form": "polynomial", "symbols": 6, "seed_bytes": 0}, 9),
    ({"form": "polynomial", "sparsity": 11, "universe": 5850, "max_bytes": 13}, 13),
    ({"form": "span-safe", "sparsity": 100, "symbol_bits": 4}, 57),
    ({"form": "span-safe", "sparsity": 6, "symbol_bits": 4}, 10),
    ({"form": "full", "sparsity": 100, "symbol_bits": 4, "delta": 2.0**-40}, 8 + 55),
]


@pytest.mark.parametrize(("options", "size"), BYTES)
def test_bytes_of_a_report(options, size):
    assert mechanism_of(plan_of(**options)).layout.record_bytes == size


def test_defaults_say_what_they_are():
    tight = plan_of(form="polynomial", max_bytes=8).parameters
    assert (tight["symbol_bits"], tight["symbols"], tight["seed_bytes"]) == (8, 6, 2)
    own = plan_of(form="polynomial").parameters
    assert (own["symbol_bits"], own["symbols"], own["seed_bytes"]) == (11, 7, 0)
    huge = plan_of(form="polynomial", universe=2**20).parameters
    assert (huge["symbol_bits"], huge["seed_bytes"]) == (16, 5)
    assert plan_of().parameters["form"] == "span-safe"
    assert [plan_of(e).parameters["symbol_bits"] for e in (0.5, 1.0, 2.0, 3.0)] == [2, 2, 3, 4]


ROUND_TRIP = [
    {"form": "span-safe", "epsilon": 3.0},
    {"form": "polynomial"},
    {"form": "polynomial", "symbol_bits": 8, "seed_bytes": 2},
    {"form": "full", "delta": 1e-6},
]


@pytest.mark.parametrize("options", ROUND_TRIP)
def test_plans_keep_their_promise_through_json(options):
    plan = Plan.from_json(plan_of(**options).to_json())
    mechanism = mechanism_of(plan)
    proven = mechanism.guarantee()
    assert plan.budget.covers(proven.budget)
    assert proven.budget.epsilon > 0.99999 * plan.budget.epsilon
    assert (proven.budget.delta > 0) == (options["form"] == "full")
    assert checks.check_statement(mechanism).holds
    assert suite.check_reports(mechanism).holds
    assert mechanism.enforces_sparsity == (options["form"] != "span-safe")


def test_the_full_form_names_its_cap():
    words = mechanism_of(plan_of(form="full", delta=1e-6)).guarantee().describe()
    assert "twice epsilon (2)" in words


REFUSED = [
    ({"protect": "user"}, UnsupportedUnit, "protects event"),
    ({"protect": "l1:2"}, UnsupportedUnit, "protects event"),
    ({"decode": "table"}, InvalidPlan, "--decode direct"),
    ({"family": "linear"}, InvalidPlan, "prf family"),
    ({"form": "dense"}, InvalidPlan, "span-safe, polynomial, full"),
    ({"form": "span-safe", "symbol_bits": 5}, InvalidPlan, "the nearest is 4"),
    ({"form": "span-safe", "colour": 1}, InvalidPlan, "no option 'colour'"),
    ({"form": "span-safe", "sparsity": 5000}, InvalidPlan, "form polynomial"),
    ({"form": "full"}, BoundDoesNotApply, "needs delta above 0"),
    ({"form": "full", "delta": 1e-30}, BoundDoesNotApply, "a probability over 64-bit seeds"),
    ({"form": "full", "delta": 1e-6, "family": "prf"}, BoundDoesNotApply, "keyed BLAKE2s"),
    ({"form": "full", "delta": 1e-6, "family": "linear"}, BoundDoesNotApply, "2ε"),
    ({"form": "full", "delta": 1e-6, "symbols": 7}, BoundDoesNotApply, "use 11"),
    ({"form": "polynomial", "max_bytes": 7}, InvalidPlan, "needs 8 bytes"),
    ({"form": "polynomial", "symbols": 5}, BoundDoesNotApply, "use 6 symbols"),
    ({"form": "polynomial", "symbol_bits": 8, "seed_bytes": 0}, InvalidPlan, "11 bits"),
    ({"form": "polynomial", "seed_bytes": 6}, InvalidPlan, "the nearest is 5"),
    ({"form": "polynomial", "symbol_bits": 17}, InvalidPlan, "the nearest is 16"),
]


@pytest.mark.parametrize(("options", "error", "rule"), REFUSED)
def test_what_cannot_work_is_refused_with_the_rule(options, error, rule):
    with pytest.raises(error, match=rule):
        plan_of(**options)


LIES = [
    ({"plus": [2562325381, 395007543], "minus": [942626829, 395007543]}, "only keep"),
    ({"minus": [942626831, 395007543]}, "2\\^32"),
    ({"pairs": [1, 2]}, "half of the symbols"),
    ({"readings": [0, 0]}, "reading above 0"),
    ({"plus": [942626830, 395007543], "minus": [2562325380, 395007543]}, "below minus"),
    ({"plus": [2562325380]}, "same classes"),
    ({"plus": [2562325380.0, 1]}, "integer"),
    ({"form": "span-safe", "seed_bytes": 5}, "only keep"),
    ({"symbols": 1}, "the nearest is 2"),
    ({"form": "full"}, "blake2s"),
    ({"extra": 1}, "has the parameters"),
]


@pytest.mark.parametrize(("change", "rule"), LIES)
def test_plans_that_lie_are_refused(change, rule):
    plan = plan_of(form="polynomial", symbol_bits=2, seed_bytes=5, sparsity=2)
    mechanism_of(plan)
    with pytest.raises(InvalidPlan, match=rule):
        mechanism_of(replace(plan, parameters={**plan.parameters, **change}))


def test_a_full_plan_with_too_few_symbols_is_refused():
    plan = plan_of(form="full", delta=1e-6)
    few = {**plan.parameters, "symbols": plan.parameters["symbols"] - 1}
    with pytest.raises(InvalidPlan, match="only keep"):
        mechanism_of(replace(plan, parameters=few))


def test_the_delta_of_the_full_form_is_never_less_than_one_seed():
    plan = plan_of(form="full", delta=1e-6, symbols=60)
    assert 2.0**-64 <= mechanism_of(plan).guarantee().budget.delta < 1.01 * 2.0**-64
    with pytest.raises(InvalidPlan, match="only keep"):
        mechanism_of(replace(plan, budget=Budget(1.0, 1e-30)))


@pytest.mark.parametrize("options", ROUND_TRIP[1:])
def test_more_than_k_items_are_refused_without_showing_them(options):
    mechanism = mechanism_of(plan_of(**options))
    vectors = VectorBatch.of([SparseVector(np.arange(7)), SparseVector([])])
    with pytest.raises(TooManyItems, match="at most 6 items") as caught:
        mechanism.randomize(vectors, np.zeros(2, np.uint64), seeded(1, "noise"))
    assert "[" not in str(caught.value)


def test_span_safe_takes_any_number_of_items_and_parts_do_not_matter(monkeypatch):
    mechanism = mechanism_of(plan_of(3.0, sparsity=2, form="span-safe"))
    lengths = [0, 1, 40, 2, 0, 7, 3]
    vectors = VectorBatch.of([SparseVector(np.arange(length)) for length in lengths])
    seeds = np.arange(7, dtype=np.uint64)
    whole = mechanism.randomize(vectors, seeds, seeded(1, "noise"))
    monkeypatch.setattr("faintly.mechanisms.retrieval_gf.SOLVE_WORDS", 3)
    assert np.array_equal(whole, mechanism.randomize(vectors, seeds, seeded(1, "noise")))


def test_no_clients_give_no_reports():
    for options in ROUND_TRIP:
        mechanism = mechanism_of(plan_of(**options))
        made = mechanism.randomize(VectorBatch.of([]), np.zeros(0, np.uint64), seeded(1, "noise"))
        assert made.shape == (0, mechanism.symbols)


@pytest.mark.parametrize("options", ROUND_TRIP)
def test_variance_is_never_below_that_of_an_absent_key(options):
    plan = plan_of(**options)
    mechanism = mechanism_of(plan)
    vectors = VectorBatch.of([SparseVector([1, 2], [1.0, -1.0])] * 40)
    reports = randomize_all(plan, vectors, seeded(1, "public"), seeded(1, "secret"))
    sketch = aggregate(plan, reports)
    estimates = Reader(sketch).estimate([0, 1, 2])
    floor = mechanism.channel.absent_moment
    assert (estimates.stderr**2 * 40 >= floor * (1 - 1e-12)).all()
    assert mechanism.variance(sketch, None, np.zeros(1))[0] >= floor
    assert mechanism.forecast.influence() == pytest.approx(
        max(mechanism.channel.readings) * mechanism.scale
    )


def test_variants_are_pure_and_never_full():
    plan = plan_of()
    request = Request(
        unit=plan.unit,
        budget=plan.budget,
        sparsity=6,
        clients=1000,
        universe=plan.universe,
        decode="direct",
    )
    variants = list(RetrievalGf.variants(request))
    assert {variant["form"] for variant in variants} == {"span-safe", "polynomial"}
    assert [v["symbol_bits"] for v in variants if v["form"] == "span-safe"] == [2, 3, 4]
    for variant in variants:
        assert mechanism_of(plan_of(**variant)).guarantee().budget.delta == 0


def test_there_are_no_tables():
    with pytest.raises(TypeError, match="directly"):
        mechanism_of(plan_of()).tables.cells(None)
