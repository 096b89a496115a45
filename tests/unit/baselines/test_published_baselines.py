"""Numbers that are known from elsewhere, sizes of reports, and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

from faintly.core import ReportBatch, SparseVector, Universe, VectorBatch
from faintly.errors import FaintlyError, InvalidPlan, InvalidVector
from faintly.mechanisms import mechanism_class, mechanism_names, mechanism_of
from faintly.planner import make_plan, rank
from faintly.primitives.entropy import seeded

MINE = (
    "alp",
    "collision",
    "harmony",
    "pckv",
    "privkv",
    "signed-binning-published",
    "wheel",
)


def build(name, protect="user", **changes):
    wanted = {
        "epsilon": 1.0,
        "sparsity": 4,
        "clients": 100_000,
        "universe": 1000,
        "decode": "direct",
        "salt": bytes(range(16)),
    }
    return mechanism_of(make_plan(mechanism=name, protect=protect, **{**wanted, **changes}))


# n·Var over k of the authors' settings, computed apart from this code, at n = 1e5.
SETTINGS = {
    (0.25, 1): 119.1,
    (0.25, 64): 119.1,
    (1.0, 1): 8.626,
    (1.0, 4): 8.626,
    (1.0, 1024): 8.626,
    (2.0, 1): 3.0,
    (2.0, 4): 3.176,
    (3.0, 1): 1.889,
    (3.0, 4): 2.368,
    (3.0, 64): 2.353,
    (6.0, 4): 1.140,
    (6.0, 256): 1.126,
}
KEPT = {1: 1.0, 3: 0.838, 4: 0.839, 6: 0.832, 11: 0.832, 64: 0.826, 1024: 0.825}


@pytest.mark.parametrize(("epsilon", "sparsity"), SETTINGS)
def test_the_authors_settings_have_the_known_variance(epsilon, sparsity):
    mechanism = build("signed-binning-published", epsilon=epsilon, sparsity=sparsity)
    seen = mechanism.forecast.variance(sparsity) / sparsity
    assert seen == pytest.approx(SETTINGS[epsilon, sparsity], rel=2e-3)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("sparsity", KEPT)
def test_the_authors_settings_have_the_known_bias(epsilon, sparsity):
    mechanism = build("signed-binning-published", epsilon=epsilon, sparsity=sparsity)
    assert 1 - mechanism.forecast.relative_bias() == pytest.approx(KEPT[sparsity], abs=6e-4)
    assert (mechanism.response is None) is (epsilon > 2)


@pytest.mark.parametrize(
    ("clients", "least", "most"),
    [(10_000, 0.196, 0.225), (100_000, 0.158, 0.175), (1_000_000, 0.104, 0.138)],
)
def test_the_bias_for_three_items_and_more_depends_on_the_planned_clients(clients, least, most):
    """At n = 1e5, 16 to 17.5 %, but for two k at which the clip lies between possible sums."""
    missing = {}
    for sparsity in range(3, 65):
        mechanism = build("signed-binning-published", sparsity=sparsity, clients=clients)
        missing[sparsity] = mechanism.forecast.relative_bias()
    if clients == 100_000:
        assert (missing.pop(5), missing.pop(8)) == pytest.approx((0.123, 0.151), abs=6e-4)
    assert least < min(missing.values()) <= max(missing.values()) < most


def test_the_authors_event_level_has_a_bin_for_four_items_and_no_bias():
    for sparsity, bins, size in ((6, 1, 9), (11, 2, 13), (100, 25, 105)):
        mechanism = build("signed-binning-published", "event", sparsity=sparsity)
        sent = 5 + 4 * mechanism.bins  # a seed and 32-bit floats: the bytes of the paper's tables
        assert (mechanism.bins, sent) == (bins, size)
        assert mechanism.forecast.relative_bias() == 0
        assert mechanism.forecast.variance(sparsity) == pytest.approx(8 + sparsity / bins, rel=0.01)
        assert mechanism.layout.record_bytes < size
    table = build("signed-binning-published", "event", sparsity=100, decode="table")
    assert table.bins == 32  # the linear family needs a power of two


def test_clipped_moments_are_those_of_the_sum_of_signs():
    from faintly_baselines.signed_binning_published import clipped_moments

    for items, reach in ((1, 0.5), (2, 1.0), (5, 2.5), (9, 100.0)):
        plus = np.arange(items + 1)
        law = np.array([math.comb(items, one) for one in plus]) / 2**items
        size = np.abs(2 * plus - items)
        wanted = law @ np.minimum(size**2, reach * size), law @ np.minimum(size**2, reach**2)
        assert clipped_moments(items, reach) == pytest.approx(wanted, rel=1e-9)
    first, second = clipped_moments(2**20, 1e9)
    assert first == pytest.approx(2**20, rel=1e-6)
    assert second == first


# The same for sets: collision, by the table of optimal slots.
SETS = {
    (0.25, 1): 64.67,
    (0.25, 64): 98.84,
    (1.0, 1): 3.692,
    (1.0, 4): 4.535,
    (1.0, 64): 4.762,
    (1.0, 1024): 4.776,
    (3.0, 16): 0.2304,
    (6.0, 4): 0.009983,
}


@pytest.mark.parametrize(("epsilon", "sparsity"), SETS)
@pytest.mark.parametrize("name", ["collision", "wheel"])
def test_sets_have_the_known_variance(name, epsilon, sparsity):
    mechanism = build(name, epsilon=epsilon, sparsity=sparsity)
    seen = mechanism.forecast.variance(sparsity) / sparsity
    # A ring of whole arcs need not fit as well; with one item it can do better than whole slots.
    assert seen == pytest.approx(SETS[epsilon, sparsity], rel=5e-4 if name == "collision" else 0.02)


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("sparsity", [1, 2, 7, 64])
def test_no_other_number_of_slots_is_better(epsilon, sparsity):
    best = build("collision", epsilon=epsilon, sparsity=sparsity)
    for slots in {
        best.slots - 1,
        best.slots + 1,
        2 * best.slots,
        max(sparsity + 1, best.slots // 2),
    }:
        if slots > sparsity and slots != best.slots:
            other = build("collision", epsilon=epsilon, sparsity=sparsity, slots=slots)
            assert other.forecast.variance(0) >= best.forecast.variance(0) * (1 - 1e-6)


def test_the_published_arc_is_as_good_as_ours_within_half_a_percent():
    for sparsity in (1, 4, 64):
        ours = build("wheel", sparsity=sparsity)
        arc = round(ours.slots / (2 * sparsity - 1 + sparsity * math.e))
        theirs = build("wheel", sparsity=sparsity, arc=arc)
        assert theirs.forecast.variance(0) <= 1.005 * ours.forecast.variance(0)


def test_errors_of_the_papers_tables_follow_from_the_formulas():
    """Clothing, user level, ε = 1: 0.13 for Harmony and 0.038 for PCKV (MSE)."""
    sizes = {"universe": 1378, "sparsity": 6, "clients": 47958}
    harmony, pckv = build("harmony", **sizes), build("pckv", **sizes)
    assert harmony.forecast.variance(0) / 47958 == pytest.approx(0.13, rel=0.05)
    assert pckv.forecast.variance(0) / 47958 == pytest.approx(0.038, rel=0.05)
    assert harmony.layout.record_bytes == pckv.layout.record_bytes == 2
    assert build("pckv", form="ue", **sizes).layout.record_bytes == 345
    assert build("privkv", **sizes).forecast.variance(0) == pytest.approx(
        3.48 * harmony.forecast.variance(0), rel=0.01
    )


def test_all_are_baselines_and_none_is_chosen_unasked():
    assert set(MINE) <= set(mechanism_names())
    assert all(mechanism_class(name).baseline for name in MINE)
    found = rank(protect="user", epsilon=1.0, sparsity=4, clients=1000, universe=1000)
    assert not {one.mechanism for one in found} & set(MINE)
    named = rank(
        protect="user", epsilon=1.0, sparsity=4, clients=1000, universe=1000, mechanism="pckv"
    )
    assert {one.options["form"] for one in named} == {"grr", "ue"}


@pytest.mark.parametrize("name", ["collision", "wheel"])
@pytest.mark.parametrize("value", [0.5, -1.0, 0.125])
def test_what_is_not_a_set_is_refused_without_showing_it(name, value):
    mechanism = build(name)
    vector = SparseVector([3, 5, 8], [1.0, value, 1.0])
    for refuse in (
        lambda: mechanism.check_vector(vector),
        lambda: mechanism.randomize(
            VectorBatch.of([vector]), np.zeros(1, np.uint64), seeded(1, "noise")
        ),
    ):
        with pytest.raises(InvalidVector, match="value at position 1 is not 1") as caught:
            refuse()
        assert str(value) not in str(caught.value)


BROKEN = [
    ("harmony", {"threshold": 2**31}),
    ("harmony", {"threshold": 2**32}),
    ("privkv", {"sign": 5}),
    ("pckv", {"padding": 0}),
    ("pckv", {"other": 7}),
    ("pckv", {"form": "olh"}),
    ("pckv", {"keep": "1"}),
    ("collision", {"slots": 4}),
    ("collision", {"arc": 3}),
    ("wheel", {"weight": 1}),
    ("wheel", {"weight": 2**31}),
    ("signed-binning-published", {"noise": [1]}),
    ("signed-binning-published", {"clip": 0}),
    ("signed-binning-published", {"steps": 3}),
    ("signed-binning-published", {"response": None}),
    ("signed-binning-published", {"response": 2**31}),
]


@pytest.mark.parametrize(("name", "change"), BROKEN, ids=str)
def test_plans_from_elsewhere_are_checked(name, change):
    plan = build(name).plan
    with pytest.raises(InvalidPlan):
        mechanism_of(replace(plan, parameters={**plan.parameters, **change}))
    for missing in plan.parameters:
        less = {key: value for key, value in plan.parameters.items() if key != missing}
        with pytest.raises(InvalidPlan):
            mechanism_of(replace(plan, parameters=less))


@pytest.mark.parametrize(
    "change", [{"columns": 2}, {"level": 0}, {"flip": 2**31}, {"rows": 1}, {"rows": 2**17}], ids=str
)
def test_plans_of_alp_from_elsewhere_are_checked(change):
    plan = build("alp", "event").plan
    with pytest.raises(InvalidPlan):
        mechanism_of(replace(plan, parameters={**plan.parameters, **change}))


@pytest.mark.parametrize("name", [name for name in MINE if name != "alp"])
def test_unknown_options_and_tiny_budgets_are_refused(name):
    with pytest.raises(InvalidPlan, match="no option"):
        build(name, taste="sweet")
    with pytest.raises(FaintlyError, match=r"too small|too fine|too coarse"):
        build(name, epsilon=1e-10)


@pytest.mark.parametrize("name", ["harmony", "privkv", "pckv"])
def test_open_universes_are_refused_where_keys_are_numbered(name):
    with pytest.raises(InvalidPlan, match="numbers its keys"):
        build(name, universe=Universe.open())


@pytest.mark.parametrize("name", ["collision", "wheel", "signed-binning-published"])
def test_open_universes_are_served_where_keys_are_hashed(name):
    assert build(name, universe=Universe.open()).layout.record_bytes <= 8


@pytest.mark.parametrize("name", MINE)
def test_no_reports_no_items_no_keys(name):
    mechanism = build(name, "event" if name == "alp" else "user")
    nobody = VectorBatch.of([])
    fields = mechanism.randomize(nobody, np.zeros(0, np.uint64), seeded(1, "noise"))
    assert fields.shape == (0, len(mechanism.layout.widths))
    batch = ReportBatch(mechanism.plan.digest, np.zeros(0, np.uint64), fields)
    assert mechanism.read(batch, np.arange(3, dtype=np.uint64)).tolist() == [0, 0, 0]
    empty = VectorBatch.of([SparseVector([], [])] * 5)
    fields = mechanism.randomize(empty, np.arange(5, dtype=np.uint64), seeded(1, "noise"))
    batch = ReportBatch(mechanism.plan.digest, np.arange(5, dtype=np.uint64), fields)
    assert mechanism.read(batch, np.zeros(0, np.uint64)).tolist() == []


@pytest.mark.parametrize(
    ("name", "protect"),
    [("pckv", "user"), ("naive", "event"), ("alp", "event"), ("sampling", "user")],
)
def test_a_key_that_is_asked_twice_gets_one_answer(name, protect):
    """Also where the totals are drawn, and no reports are made."""
    mechanism = build(name, protect, **({"form": "ue"} if name == "pckv" else {}))
    vectors = VectorBatch.of([SparseVector([7, 9])] * 300)
    ids = np.array([7, 3, 9, 7, 5, 3], dtype=np.uint64)
    sources = seeded(1, "public"), seeded(1, "secret")
    totals = mechanism.simulation.totals(vectors, ids, *sources)
    assert (totals[0], totals[1]) == (totals[3], totals[5])
    assert len(set(totals.tolist())) > 1
    assert mechanism.simulation.totals(vectors, ids[:0], *sources).tolist() == []


@pytest.mark.parametrize("decode", ["table", "direct"])
def test_the_bit_of_the_authors_settings_reads_as_one_sign(decode):
    """Whatever the decoding: +1 or -1 at every key, and the other sign for the other bit."""
    mechanism = build("signed-binning-published", decode=decode)
    assert mechanism.response is not None
    ids, seeds = np.arange(1000, dtype=np.uint64), np.full(1, 5, dtype=np.uint64)
    minus, plus = (
        mechanism.read(ReportBatch(mechanism.plan.digest, seeds, np.array([[bit]], np.uint32)), ids)
        for bit in (0, 1)
    )
    assert set(plus.tolist()) == {-1, 1}
    assert (minus == -plus).all()
