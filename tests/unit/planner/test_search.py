"""The ranking is complete, sorted, honest about limits, and quick."""

import itertools
import math
import time
from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace

import pytest

from faintly.core import Budget, Universe, UserLevel
from faintly.errors import FaintlyError, InvalidPlan
from faintly.mechanisms import Forecast, Mechanism, mechanism_class, mechanism_names, mechanism_of
from faintly.mechanisms.signed_binning import BinForecast
from faintly.planner import make_plan, rank, request_for, survey
from faintly.planner.explain import why
from faintly.planner.search import drawbacks_of, ordered

COMMON = {"epsilon": 1.0, "sparsity": 8, "clients": 20_000, "universe": 1_000}


@pytest.mark.parametrize("protect", ["event", "user", "l1:3"])
def test_every_mechanism_is_ranked_or_refused_with_a_reason(protect):
    ranking = survey(request_for(protect=protect, **COMMON))
    seen = {(one.mechanism, one.decode) for one in ranking.candidates}
    seen |= {(one.mechanism, one.decode) for one in ranking.refused}
    names = mechanism_names(baselines=False)
    assert seen == {(name, decode) for name in names for decode in ("table", "direct")}
    assert all(one.reason for one in ranking.refused)


@pytest.mark.parametrize("measure", ["worst", "typical"])
def test_candidates_are_sorted(measure):
    ranking = survey(request_for(protect="event", measure=measure, **COMMON))
    errors = [getattr(one, measure) for one in ranking.candidates if not one.drawbacks]
    assert errors[0] <= 1.05 * min(errors)
    assert all(left <= right * 1.05 for left, right in itertools.pairwise(errors))
    flags = [bool(one.drawbacks) for one in ranking.candidates]
    assert flags == sorted(flags)


def test_a_candidate_tells_what_its_plan_will_do():
    for one in rank(protect="event", **COMMON):
        mechanism = mechanism_of(one.plan)
        assert one.bytes == mechanism.layout.record_bytes
        assert one.worst == one.error.held == mechanism.forecast.worst_variance()
        assert one.typical == mechanism.forecast.variance(2.0)
        assert one.stderr == pytest.approx((one.worst / 20_000) ** 0.5)
        assert one.plan.decode == one.decode
        if one.decode == "table":
            tables = mechanism.tables.empty_sketch().tables
            assert one.memory == 2 * tables.nbytes  # and their transform
        else:
            assert one.key_operations == 20_000


def test_ranking_again_gives_the_same_order_under_a_fresh_salt():
    first, again = (rank(protect="event", **COMMON) for _ in range(2))
    assert [one.title for one in first] == [one.title for one in again]
    assert first[0].plan.salt != again[0].plan.salt
    assert len({one.plan.salt for one in first}) == 1
    assert bytes(16) not in {first[0].plan.salt, again[0].plan.salt}


def with_error(candidate, factor):
    error = replace(candidate.error, worst=factor * candidate.worst)
    return replace(candidate, error=error)


def test_ties_go_to_tables_then_fewer_bytes_then_cheaper_decoding_and_drawbacks_last():
    one = replace(rank(protect="event", **COMMON)[0], decode="table")
    near = replace(with_error(one, 1.04), bytes=one.bytes - 1)
    cheap = replace(one, operations=one.operations - 1)
    direct = replace(with_error(one, 0.99), bytes=one.bytes - 2, decode="direct")
    biased = replace(with_error(one, 0.5), drawbacks=("means may be off",))
    every = [biased, direct, one, cheap, near]
    assert ordered(every, "worst") == [cheap, one, direct, near, biased]
    assert ordered(every[:1] + every[2:], "worst") == [near, cheap, one, biased]
    # A chain of small steps is no tie: the last is more than 5 % above the first.
    steps = [replace(with_error(one, 1.03**step), bytes=9 - step) for step in range(3)]
    assert ordered(steps, "worst") == [steps[1], steps[0], steps[2]]


def _drawbacks(bias, operations, memory, *, stderr=math.inf, share=1.0, refuses=False):
    forecast = SimpleNamespace(relative_bias=lambda: bias, largest_ghost=lambda: 0.0)
    mechanism = SimpleNamespace(forecast=forecast, enforces_sparsity=refuses)
    error, request = (
        SimpleNamespace(stderr=stderr, share=share),
        SimpleNamespace(hard_sparsity=False),
    )
    return tuple(drawbacks_of(mechanism, request, error, operations, memory))


def test_bias_time_and_memory_are_drawbacks():
    assert _drawbacks(0.0, 10**9, 2**30) == ()
    assert len(_drawbacks(0.02, 10**12, 2**40, refuses=True)) == 4
    assert _drawbacks(0.001, 1, 1, stderr=1e-3, share=0.05) == ()
    assert _drawbacks(0.001, 1, 1, stderr=1e-3) != ()
    assert _drawbacks(0.02, 1, 1, stderr=1.0, share=0.001) != ()
    direct = [
        one
        for one in rank(protect="event", epsilon=1.0, sparsity=8, clients=10**7, universe=10**6)
        if one.decode == "direct"
    ]
    assert all("operations" in " ".join(one.drawbacks) for one in direct)


def test_refusing_long_vectors_is_a_drawback_unless_there_are_none():
    soft, hard = (rank(protect="event", hard_sparsity=hard, **COMMON) for hard in (False, True))
    assert {one.title for one in soft} == {one.title for one in hard}
    for one in soft:
        refuses = mechanism_of(one.plan).enforces_sparsity
        assert refuses == ("refused on the device" in " ".join(one.drawbacks))
    assert not any("refused on the device" in " ".join(one.drawbacks) for one in hard)
    assert not mechanism_of(make_plan(protect="event", **COMMON)).enforces_sparsity
    # A delta makes no difference: a client's policy would refuse them all the same.
    assert not mechanism_of(make_plan(protect="event", delta=1e-6, **COMMON)).enforces_sparsity


def test_a_byte_limit_refuses_with_the_size_that_is_needed():
    ranking = survey(request_for(protect="event", max_bytes=1, **COMMON))
    assert ranking.candidates == []
    with pytest.raises(InvalidPlan, match="more than the limit of 1"):
        assert ranking.pick
    sizes = sorted(one.bytes for one in rank(protect="event", **COMMON))
    assert rank(protect="event", max_bytes=sizes[0], **COMMON)[0].bytes == sizes[0]


def test_a_mechanism_may_shrink_to_the_limit():
    wanted = {"protect": "event", "mechanism": "signed-binning", "options": {"bins": "best"}}
    free = min(one.bytes for one in rank(**wanted, **COMMON))
    assert rank(max_bytes=free - 1, **wanted, **COMMON)[0].bytes <= free - 1


def test_restrictions_are_kept():
    assert {one.decode for one in rank(protect="event", decode="table", **COMMON)} == {"table"}
    named = rank(protect="user", mechanism="signed-binning", **COMMON)
    assert {one.mechanism for one in named} == {"signed-binning"}
    own = rank(protect="event", mechanism="signed-binning", options={"bins": 4}, **COMMON)
    assert {one.plan.parameters["bins"] for one in own} == {4}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 0.0}, "above 0"),
        ({"epsilon": -1.0}, "above 0"),
        ({"epsilon": float("nan")}, "above 0"),
        ({"epsilon": 100.0}, "at most 16"),
        ({"delta": 1.0}, "below 1"),
        ({"protect": "l1:17"}, "protect user, or l1:16"),
        ({"sparsity": 0}, "nearest is 1"),
        ({"clients": 0}, "nearest is 1"),
        ({"clients": 2**41}, "between 1 and"),
        ({"max_bytes": 0}, "nearest is 1"),
        ({"decode": "both"}, "table or direct"),
        ({"measure": "best"}, "worst or typical"),
        ({"mean_square": 9.0}, "between 0 and the sparsity"),
        ({"options": {"bins": 2}}, "name it"),
        ({"mechanism": "magic"}, "must be one of"),
        ({"protect": "family"}, "event, user or l1"),
    ],
)
def test_an_impossible_request_is_refused_with_the_rule(change, words):
    with pytest.raises(FaintlyError, match=words):
        assert survey(request_for(**{"protect": "event", **COMMON, **change})).pick


def test_a_theorem_that_needs_delta_says_so():
    wanted = {"protect": "l1:12", "mechanism": "signed-binning", **COMMON}
    with pytest.raises(InvalidPlan, match="needs delta above 0"):
        assert survey(request_for(options={"row": "squeeze"}, decode="direct", **wanted)).pick


def test_a_new_mechanism_is_ranked_without_being_named(monkeypatch):
    class Better(BinForecast):
        def worst_variance(self):
            return 0.5 * super().worst_variance()

    class Copy(mechanism_class("signed-binning")):
        name = "copy"
        forecast = cached_property(Better)

    registry = {**{name: mechanism_class(name) for name in mechanism_names()}, "copy": Copy}
    monkeypatch.setattr("faintly.mechanisms.registry._REGISTRY", registry)
    assert "copy" in {one.mechanism for one in rank(protect="event", **COMMON)}


@pytest.mark.parametrize("missing", ["part", "verb"])
def test_an_incomplete_mechanism_is_refused_while_others_are_ranked(missing, monkeypatch):
    class Lacking(Forecast):  # it has no influence
        def variance(self, mean_square):
            return 1.0

    class Copy(mechanism_class("signed-binning")):
        name = f"without-a-{missing}"
        forecast = Mechanism.forecast if missing == "part" else cached_property(Lacking)

    registry = {**{name: mechanism_class(name) for name in mechanism_names()}, Copy.name: Copy}
    monkeypatch.setattr("faintly.mechanisms.registry._REGISTRY", registry)
    ranking = survey(request_for(protect="event", **COMMON))
    assert Copy.name in {one.mechanism for one in ranking.refused}
    assert "signed-binning" in {one.mechanism for one in ranking.candidates}


def test_a_baseline_is_ranked_only_where_it_is_named(monkeypatch):
    class Copy(mechanism_class("signed-binning")):
        name, baseline = "research", True

    registry = {**{name: mechanism_class(name) for name in mechanism_names()}, "research": Copy}
    monkeypatch.setattr("faintly.mechanisms.registry._REGISTRY", registry)
    unnamed = {one.mechanism for one in rank(protect="event", **COMMON)}
    named = {one.mechanism for one in rank(protect="event", mechanism="research", **COMMON)}
    assert "research" not in unnamed
    assert "signed-binning" in unnamed
    assert named == {"research"}


@pytest.mark.long
@pytest.mark.parametrize("protect", ["event", "user", "l1:4"])
@pytest.mark.parametrize("universe", [100_000, Universe.open()])
def test_the_whole_ranking_takes_under_two_seconds(protect, universe):
    start = time.process_time()
    rank(protect=protect, epsilon=1.3, sparsity=100, clients=10**6, universe=universe)
    assert time.process_time() - start < 2


def test_make_plan_takes_the_pick():
    wanted = request_for(protect="event", **COMMON)
    plan = make_plan(protect="event", **COMMON)
    pick = survey(wanted).pick.plan
    assert (plan.mechanism, plan.parameters, plan.decode) == (
        pick.mechanism,
        pick.parameters,
        pick.decode,
    )
    assert make_plan(protect="event", salt=bytes(16), **COMMON).salt == bytes(16)


def test_make_plan_with_a_name_is_the_mechanisms_own_choice():
    plan = make_plan(protect="event", mechanism="signed-binning", bins=4, **COMMON)
    assert (plan.mechanism, plan.decode, plan.parameters["bins"]) == ("signed-binning", "table", 4)
    squeeze = make_plan(
        protect="l1:900",
        epsilon=1.0,
        delta=1e-6,
        sparsity=450,
        clients=1000,
        universe=1000,
        mechanism="signed-binning",
        row="squeeze",
    )
    assert squeeze.decode == "direct"  # table decoding refuses this row


def test_make_plan_wants_a_name_beside_options():
    with pytest.raises(InvalidPlan, match="belongs to one mechanism"):
        make_plan(protect="event", bins=4, **COMMON)


def test_units_and_universes_may_be_values():
    wanted = request_for(
        protect=UserLevel(), epsilon=1.0, sparsity=2, clients=100, universe=["a", "b", "c"]
    )
    assert (wanted.budget, wanted.keys) == (Budget(1.0), 3)
    assert replace(wanted, universe=Universe.open()).keys == 10**6


SETS = {"protect": "user", "epsilon": 2.0, "sparsity": 16, "clients": 100_000, "universe": 23_496}


def test_sets_are_read_from_tables_with_the_error_of_keys_that_few_hold():
    ranking = survey(request_for(values="set", **SETS))
    pick = ranking.pick
    assert (pick.options, pick.decode, pick.bytes) == ({"form": "unsigned"}, "table", 3)
    assert pick.plan.values == "set"
    assert pick.error.unheld / 16 == pytest.approx(0.773, rel=0.02)  # and what ghosts add
    assert pick.error.unheld < pick.worst < pick.error.held
    assert pick.worst == pytest.approx(0.95 * pick.error.unheld + 0.05 * pick.error.held)
    # Signed values keep the worst case, and the plan that serves it.
    signed = survey(request_for(**SETS)).pick
    assert signed.worst == signed.error.held
    assert signed.plan.values == "signed"
    assert pick.worst < 0.6 * signed.worst


def test_the_pick_says_up_to_which_share_it_errs_less():
    ranking = survey(request_for(values="set", **SETS))
    other, share = ranking.better_when_shared
    assert share == pytest.approx(0.34, abs=0.01)
    assert f"up to {share:.0%} of the clients hold" in why(ranking)
    near = {
        one.title: one for one in survey(request_for(values="set", share=0.3, **SETS)).candidates
    }
    assert near[ranking.pick.title].worst < near[other.title].worst
    worst = survey(request_for(values="set", share=1.0, **SETS))
    assert worst.pick.options.get("form") != "unsigned"
    assert worst.better_when_shared is None
    assert "of the clients hold, and more" not in why(worst)


@pytest.mark.parametrize("share", [0.001, 0.05, 0.2, 1.0])
def test_more_shared_keys_are_planned_with_fewer_bins(share):
    wanted = {"mechanism": "projection-choice", "options": {"form": "unsigned"}, "values": "set"}
    pick = survey(request_for(share=share, **wanted, **{**SETS, "epsilon": 4.0})).pick
    bins = {0.001: 1024, 0.05: 1024, 0.2: 512, 1.0: 4}[share]
    assert pick.plan.parameters["bins"] == bins


@pytest.mark.parametrize(("epsilon", "gain"), [(2.0, 0.97), (3.0, 0.75), (4.0, 0.6)])
def test_signed_values_of_rare_keys_are_read_from_tables_of_bins(epsilon, gain):
    wanted = {**SETS, "epsilon": epsilon}
    ranking = survey(request_for(share=0.05, **wanted))
    pick, dense = ranking.pick, survey(request_for(share=0.05, options={}, **NAMED, **wanted)).pick
    assert (pick.options, pick.decode) == ({"form": "bins"}, "table")
    assert pick.bytes <= 4
    assert pick.worst < gain * dense.worst
    assert 0.1 < ranking.better_when_shared[1] < 0.3
    # In the worst case, which signed values have by default, one bin stays the best.
    assert survey(request_for(**wanted)).pick.plan.parameters["form"] == "dense"


NAMED = {"mechanism": "projection-choice", "decode": "table"}


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 3.0, 4.0])
def test_sets_err_no_more_than_collision_at_the_share_or_at_rare_keys(epsilon):
    """At epsilon 4 rare keys decide; at 3 bins that are a power of two cost 2 % there."""
    wanted = {**SETS, "epsilon": epsilon, "values": "set"}
    pick = survey(request_for(**wanted)).pick
    rival = survey(request_for(mechanism="collision", **wanted)).pick
    assert pick.worst < (1.04 if epsilon == 4 else 1) * rival.worst
    assert pick.error.unheld < (1.03 if epsilon == 3 else 1) * rival.error.unheld


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, float("nan")])
def test_a_share_is_above_0_and_at_most_1(share):
    with pytest.raises(InvalidPlan, match="share"):
        request_for(values="set", share=share, **SETS)
