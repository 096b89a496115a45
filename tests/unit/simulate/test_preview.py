"""A preview says what the data are, finds what is there, and what it would take to find more."""

import numpy as np
import pandas as pd
import pytest

import faintly
from faintly.core import Universe
from faintly.errors import FaintlyError, InvalidData
from faintly.planner import request_for, survey
from faintly.simulate.plots import draw_preview

PEOPLE = 4_000


def visits(seed: int = 5) -> pd.DataFrame:
    """Return rows of who was where: site 0 half of the people, site 1 a quarter, and so on."""
    generator = np.random.default_rng(seed)
    held = [generator.random(PEOPLE) < 0.5 ** (site + 1) for site in range(8)]
    rows = [(f"p{who}", f"site-{site}") for site in range(8) for who in np.flatnonzero(held[site])]
    return pd.DataFrame(rows, columns=["User", "Site"])


@pytest.fixture(scope="module")
def seen() -> faintly.Preview:
    return faintly.try_(visits(), epsilon=2.0, count=6)


def test_it_finds_the_large_keys_and_knows_the_truth(seen):
    rows = seen.to_pandas()
    assert rows["key"].tolist()[:3] == ["site-0", "site-1", "site-2"]
    assert rows["significant"].tolist()[:3] == [True] * 3
    # The truth is over the people in the rows; the seed is fixed, so this cannot fail by chance.
    people = visits()["User"].nunique()
    counts = visits()["Site"].value_counts()
    for key, truth, mean, stderr in zip(
        rows["key"], rows["truth"], rows["mean"], rows["stderr"], strict=True
    ):
        assert truth == pytest.approx(counts[key] / people)
        assert abs(mean - truth) < 5 * stderr
    assert seen.held.clients == people
    assert (seen.held.values, seen.held.keys) == ("set", 8)
    assert seen.found >= 3


def test_it_is_the_same_every_time_and_another_seed_is_another_run(seen):
    again = faintly.try_(visits(), epsilon=2.0, count=6)
    assert np.array_equal(again.top.estimates.mean, seen.top.estimates.mean)
    other = faintly.try_(visits(), epsilon=2.0, count=6, seed=2)
    assert not np.array_equal(other.top.estimates.mean, seen.top.estimates.mean)
    assert seen.fresh_plan().salt != seen.plan.salt  # a real collection has its own


def test_reports_are_read_once_and_tell_how_far():
    shares = []
    told = faintly.try_(visits(), epsilon=2.0, count=6, on_read=shares.append)
    assert told.plan.decode == "direct"  # where every key reads every report
    assert shares == sorted(set(shares))
    assert shares[-1] == 1


def test_as_many_people_as_it_names_find_what_it_says(seen):
    """Means as small as the target stand out with so many clients, or with that epsilon."""
    more, plan = seen.more, seen.plan
    assert more.clients > seen.held.clients
    assert more.epsilon is not None
    assert more.epsilon > 2.0
    wanted = {
        "protect": "event",
        "universe": plan.universe,
        "sparsity": plan.sparsity,
        "values": "set",
    }
    now = survey(request_for(epsilon=2.0, clients=plan.clients, **wanted)).pick.stderr
    for changed in (
        {"epsilon": 2.0, "clients": more.clients},
        {"epsilon": more.epsilon, "clients": plan.clients},
    ):
        then = survey(request_for(**changed, **wanted)).pick.stderr
        assert then / now == pytest.approx(more.target / seen.visible, rel=0.05)


def test_its_words_are_plain_and_name_the_numbers(seen):
    text = str(seen)
    for part in (f"{seen.held.clients:,} people", "8 keys", "stand out", "To find", "epsilon"):
        assert part in text
    assert "nan" not in text
    assert "Preview(" in repr(seen)
    assert len(repr(seen)) < 120


LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("rows", "values", "universe"),
    [
        pytest.param(
            {"client": [1, 2, 3], "item": [0, 1, 1]}, "set", Universe.indexed(2), marks=LONG
        ),
        pytest.param(
            {"client": [1, 2, 3], "item": [7, 10**9, 1]}, "set", Universe.open(), marks=LONG
        ),
        ({"client": [1, 2], "item": ["0", "3"]}, "set", Universe.indexed(4)),
        ({"client": [1, 2], "item": ["a", "3"], "value": [0.5, 1]}, "nonnegative", Universe.open()),
        pytest.param(
            {"client": [1, 2], "item": ["a", "b"], "value": [0.5, -1]},
            "signed",
            Universe.open(),
            marks=LONG,
        ),
    ],
)
def test_the_plan_suits_the_keys_and_values(rows, values, universe):
    plan = faintly.try_(pd.DataFrame(rows), epsilon=3.0).plan
    assert (plan.values, plan.universe, plan.clients) == (values, universe, len(rows["client"]))


def test_repeated_rows_count_once_without_values_and_are_asked_about_with_them():
    rows = pd.DataFrame({"user": [1, 1, 2], "site": ["a", "a", "b"]})
    seen = faintly.try_(rows, epsilon=3.0)
    assert seen.held.repeated == 1
    with pytest.raises(InvalidData, match="already holds"):
        faintly.try_(rows.assign(value=0.5))
    assert faintly.try_(rows.assign(value=0.5), duplicates="sum").held.values == "nonnegative"


def test_people_over_the_sparsity_are_told_with_their_bias():
    seen = faintly.try_([{str(key) for key in range(9)}] * 50 + [{"a"}] * 50, sparsity=2)
    assert (seen.excess.over, seen.excess.most) == (50, 9)
    assert "50 of 100 clients (50.0%) hold more than 2 items" in str(seen)


def test_its_picture_is_drawn(seen, tmp_path):
    draw_preview(seen, tmp_path / "top.svg")
    assert b"<svg" in (tmp_path / "top.svg").read_bytes()


@pytest.mark.parametrize(
    "wrong",
    [
        {"data": 3},
        {"data": "no such file"},
        {"data": [], "epsilon": 1},
        {"data": [set(), set()]},
        {"data": [{"a"}], "epsilon": "much"},
        {"data": [{"a"}], "epsilon": -1},
        {"data": [{"a"}], "protect": "everything"},
        {"data": [{"a"}], "duplicates": "twice"},
        {"data": [{"a"}], "sparsity": 0},
        {"data": [{"a"}], "count": 0},
        {"data": [{"a"}], "client": 5},
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(wrong):
    with pytest.raises(FaintlyError):
        faintly.try_(wrong.pop("data"), **wrong)
