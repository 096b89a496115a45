"""What clients hold beyond k is foretold, and a sample finds the sparsity that cures it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from faintly.client import randomize_all
from faintly.core import Universe, VectorBatch
from faintly.engine import Reader, aggregate
from faintly.errors import InvalidPlan, InvalidVector
from faintly.mechanisms import mechanism_of
from faintly.planner import excess, make_plan, try_sparsities
from faintly.planner.plots import draw
from faintly.primitives.entropy import seeded

WANTED = {"epsilon": 1.0, "clients": 50_000, "universe": 500}


def answer(plan, vectors):
    """Return the estimate of item 0, which 60 % hold."""
    reports = randomize_all(plan, vectors, seeded(1, "public"), seeded(1, "secret"))
    return Reader(aggregate(plan, reports)).estimate([0])[0]


@pytest.mark.parametrize("protect", ["user", "event"])
def test_a_mean_that_is_off_is_predicted(crowd, protect):
    """Item 0 was answered 0.40 and 0.44 where it is 0.60, without a word."""
    plan = make_plan(protect=protect, sparsity=8, salt=bytes(16), **WANTED)
    found, seen = excess(mechanism_of(plan), crowd), answer(plan, crowd)
    assert (found.clients, found.over, found.most) == (50_000, 10_000, 60)
    assert found.mean == pytest.approx(0.6)
    assert seen.mean < 0.6 - 4 * seen.stderr
    assert abs(seen.mean - found.carried) < 4 * seen.stderr
    assert found.lost > 0.3
    for part in ("10,000 of 50,000 clients (20.0%)", "more than 8 items, up to 60", "is 0.600"):
        assert part in found.describe()


def test_a_sample_finds_the_sparsity_of_those_who_hold_most(crowd):
    plan = make_plan(protect="event", sample=crowd, **WANTED)
    assert plan.sparsity == 60
    stderr = math.sqrt(mechanism_of(plan).forecast.variance(18.4) / 50_000)
    assert excess(mechanism_of(plan), crowd).bias < stderr / 5


@pytest.mark.long
@pytest.mark.parametrize("protect", ["event", "user"])
def test_a_plan_from_a_sample_answers_the_truth(crowd, protect):
    plan = make_plan(protect=protect, sample=crowd, salt=bytes(16), **WANTED)
    seen = answer(plan, crowd)
    assert abs(seen.mean - 0.6) < 4 * seen.stderr
    assert excess(mechanism_of(plan), crowd).bias < seen.stderr / 5


def test_a_cut_to_k_is_exact():
    plan = make_plan(protect="user", epsilon=1.0, sparsity=2, clients=4, universe=9)
    vectors = VectorBatch.from_rows(
        np.array([0, 0, 0, 0, 1, 1]),
        np.array([1, 2, 3, 4, 1, 2], dtype=np.uint64),
        np.array([1.0, 1.0, 1.0, 1.0, 1.0, -1.0]),
        4,
    )
    found = excess(mechanism_of(plan), vectors)
    assert (found.over, found.clients, found.most) == (1, 4, 4)
    assert found.lost == pytest.approx(2 / 6)  # 2 of the 4 items of the first client
    assert (found.mean, found.carried) == (pytest.approx(0.5), pytest.approx(0.375))


def test_nothing_beyond_k_is_said_so():
    plan = make_plan(protect="user", epsilon=1.0, sparsity=2, clients=4, universe=9)
    empty = VectorBatch.of([]).padded(4)
    assert excess(mechanism_of(plan), empty).describe() == "No client holds more than 2 items."
    found = replace(excess(mechanism_of(plan), empty), sparsity=1)
    assert found.describe() == "No client holds more than 1 item."


def test_what_is_carried_all_the_same_is_no_loss(crowd):
    plan = make_plan(protect="event", sparsity=8, mechanism="signed-binning", **WANTED)
    found = excess(mechanism_of(plan), crowd)
    assert found.over == 10_000
    assert found.describe().endswith("up to 60. Their reports still carry all of them.")


def test_bias_falls_and_noise_grows_with_the_sparsity(crowd):
    tried = try_sparsities(crowd, protect="user", **WANTED).tried
    biases, noises = [one.excess.bias for one in tried], [one.noise for one in tried]
    assert biases == sorted(biases, reverse=True)
    assert noises == sorted(noises)
    assert {1, 8, 60} <= {one.sparsity for one in tried}


def test_few_clients_take_less_of_what_people_hold(crowd):
    """With 500 clients the noise of 60 items is worse than the bias of a few."""
    few = try_sparsities(crowd, protect="user", **{**WANTED, "clients": 500})
    assert few.pick.sparsity < 20
    assert few.pick.error == min(one.error for one in few.tried)


def test_the_smallest_of_equals_is_taken():
    """At event level noise does not grow with k, so the longest vectors decide, not their bytes."""
    vectors = VectorBatch.of([]).padded(10)
    assert try_sparsities(vectors, protect="event", **WANTED).pick.sparsity == 1


def test_a_sample_comes_in_any_shape(tmp_path):
    shape = [{"a": 1.0, "b": 0.5}, {"c"}, set()]
    (tmp_path / "pilot.csv").write_text("client,item\n1,a\n1,b\n2,c\n")
    for sample in (shape, tmp_path / "pilot.csv", str(tmp_path / "pilot.csv")):
        plan = make_plan(
            protect="user", epsilon=1.0, clients=10**9, universe=Universe.open(), sample=sample
        )
        assert plan.sparsity == 2


def test_what_cannot_be_chosen_is_refused(crowd):
    for both in ({}, {"sparsity": 4, "sample": crowd}):
        with pytest.raises(InvalidPlan, match="either the sparsity or a sample"):
            make_plan(protect="event", **WANTED, **both)
    with pytest.raises(InvalidVector, match=r"outside 0\.\.9"):
        make_plan(protect="event", sample=crowd, **{**WANTED, "universe": 10})
    with pytest.raises(InvalidPlan, match="epsilon must be above 0"):
        make_plan(protect="event", sample=crowd, **{**WANTED, "epsilon": 0})
    # A distance of 20 needs at least 10 items: smaller sparsities are passed over.
    far = try_sparsities(crowd, protect="l1:20", **WANTED)
    assert min(one.sparsity for one in far.tried) >= 10


@pytest.mark.long
def test_bias_and_noise_are_drawn(crowd, tmp_path):
    pytest.importorskip("matplotlib")
    trials = try_sparsities(crowd, protect="user", **WANTED)
    draw(trials.pick.ranking, tmp_path / "a.png", trials)
    draw(trials.pick.ranking, tmp_path / "b.png")
    assert (tmp_path / "a.png").stat().st_size > 1.2 * (tmp_path / "b.png").stat().st_size
