"""The words say what the numbers say."""

import math

import pytest

from faintly.planner import explain, request_for, survey
from faintly.planner.error_model import smallest_visible
from faintly.planner.explain import warnings, why

COMMON = {"epsilon": 1.0, "sparsity": 8, "clients": 20_000, "universe": 1_000}


@pytest.mark.parametrize(
    ("protect", "words"),
    [("event", "m times the stated epsilon"), ("user", "everything a person"), ("l1:3", "up to 3")],
)
def test_the_paragraphs_answer_every_question(protect, words):
    ranking = survey(request_for(protect=protect, **COMMON))
    text = " ".join(explain(ranking))
    for question in (
        "What is collected.",
        "What is hidden, and from whom.",
        "What is not hidden.",
        "How accurate.",
        "Why this way.",
    ):
        assert question in text
    assert words in text
    assert f"report of {ranking.pick.bytes} bytes" in text
    assert "at most 73.2 % sure" in text  # e/(1+e), rounded up
    assert f"{ranking.pick.stderr:.3g}" in text


def test_the_choice_is_given_in_numbers_beside_the_runner_up():
    ranking = survey(request_for(protect="event", **COMMON))
    other = ranking.runner_up
    text = why(ranking)
    assert f"{ranking.pick.worst:.4g}" in text
    assert f"{other.worst:.4g}" in text
    assert f"{ranking.pick.ratio:.3g} times the lower bound" in text
    alone = survey(
        request_for(
            protect="event", mechanism="signed-binning", options={}, decode="table", **COMMON
        )
    )
    assert "No other mechanism" in why(alone)


def test_a_signal_below_the_noise_is_warned_of_with_the_clients_it_would_take():
    ranking = survey(request_for(protect="event", **COMMON))
    visible = smallest_visible(ranking.pick.stderr, 1_000)
    assert not warnings(ranking, 1.01 * visible)
    assert "would stand out" in explain(ranking, 1.01 * visible)[3]
    (text,) = warnings(ranking, visible / 2)
    assert "drowns" in text
    assert f"{math.ceil(20_000 * 4):,}" in text
    assert f"stands out over 1,000 keys is {visible:.4g}" in text  # and explain says the same
    assert f"stands out over 1,000 keys is {visible:.4g}" in explain(ranking)[3]


def test_smallest_visible_is_the_limit_of_top_lists():
    assert smallest_visible(1.0, 1) == pytest.approx(1.6449, abs=1e-4)
    assert smallest_visible(0.1, 10**6) == pytest.approx(0.5326, abs=1e-3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 3.0}, "by a factor of 21, which hides little"),
        ({"epsilon": 8.0}, "hides nothing"),
        ({"clients": 20}, "no mean at all"),
        ({"delta": 0.01}, "may fail for one of"),
        ({"delta": 1e-9}, "makes no use of delta"),
        ({"universe": 4}, "no vector can hold 8 of 4"),
    ],
)
def test_risks_are_warned_of(change, words):
    ranking = survey(request_for(**{"protect": "event", **COMMON, **change}))
    assert words in " ".join(warnings(ranking))
