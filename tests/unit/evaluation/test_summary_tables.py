"""The summary tables say what the rows say."""

import pytest

from evaluation.report import paper_numbers
from evaluation.summary_tables import headline, posteriors, same_as_paper, side_by_side, winners


def test_winners_by_experiment_and_unit(made_up):
    head, line = winners(made_up("user-k").summary())
    told = dict(zip(head, line, strict=True))
    assert told == {
        "experiment": "user-k",
        "unit": "user",
        "paper / ours": "40×",
        "authors' settings / ours": "2×",
        "closest pure, unbiased rival": "2× (authors' settings)",
        "closest of any kind": "2× (authors' settings)",
        "ours below all-zero": "2 of 2",
    }


def test_biased_rivals_count_among_any_kind_only(made_up):
    rows = made_up("user-k").summary()
    for row in rows:
        if row["method"] == "published":
            row["claimed_bias"] = 0.17
            row["mse"] = 0.5e-3
    _, line = winners(rows)
    assert line[4:6] == ("40× (paper)", "0.495× (authors' settings)")


def test_a_rival_with_a_delta_is_not_pure(made_up):
    rows = made_up("user-k", methods=("ours", "paper", "naive")).summary()
    for row in rows:
        if row["method"] == "naive":
            row["mse"] = 2.02e-3
    _, line = winners(rows)
    assert line[4:6] == ("40× (paper)", "2× (naive, Gaussian (δ = 1e-5))")


def test_distances_are_one_group_and_units_two(made_up):
    lines = winners(made_up("neighbouring", "error-n").summary())[1:]
    assert [line[:2] for line in lines] == [
        ("neighbouring", "l1"),
        ("error-n", "event"),
        ("error-n", "user"),
    ]


def test_the_headline_has_a_row_for_each_point(made_up):
    found = made_up("headline")
    _, first, *others = headline(found.summary())
    assert len(others) == len(found.experiments[0].points) - 1
    assert first == (
        "user, ε = 1, the paper's, n = 20,000, d = 10,000, k = 16, top 100 keys",
        "7, 7",
        "0.04040 ± 0.00023",
        "(2.020 ± 0.012)·10⁻³",
        "(1.0100 ± 0.0058)·10⁻³",
        "40×",
        "2×",
        "0.01",
    )


def test_nothing_was_run():
    assert headline([]) == []
    assert winners([]) == []
    assert side_by_side([], paper_numbers()) == []


def test_what_was_not_run_is_said(made_up):
    found = side_by_side(made_up("clothing", methods=("ours",)).summary(), paper_numbers())
    assert [line[:2] for line in found[1:3]] == [("clothing", "event"), ("clothing", "user")]
    assert found[1][2:4] == ("1.9·10⁻⁴", "not run")
    assert found[2][7] == ""  # no ratio without a re-run
    assert found[-1] == ("movies", "user", "2.1·10⁻³", *["not run"] * 3, "", "", "not run")


def test_where_ours_is_the_papers_own_mechanism_is_said(made_up):
    rows = made_up("neighbouring", "event-k").summary()
    assert same_as_paper(rows) == ""
    for row in rows:
        if row["method"] == "ours" and row["unit"] in ("l1:4", "event"):
            row["mechanism"] = "signed-binning"
    assert same_as_paper(rows).endswith(": neighbouring (l1:4); event-k (event, ε = 1).")


@pytest.mark.parametrize("experiment", ["sets", "recall"])
def test_ours_is_planned_for_sets_where_people_hold_sets(made_up, experiment):
    rows = made_up("sets", methods=("ours", "ours-sets", "collision")).summary()
    for row in rows:
        row["mse"] = {"ours": 4.0, "ours-sets": 1.0, "collision": 1.5}.get(row["method"], 9.0)
        row["experiment"] = experiment
    assert winners(rows)[1][4] == "1.5× (collision (sets))"
    for row in rows:
        row["experiment"] = "bounds"  # mutant: the plan for values of either sign
    assert winners(rows)[1][4] == "0.375× (collision (sets))"


def test_posteriors_beside_estimates_and_all_zero(made_up):
    shrunk = {"posterior_mse": 4e-6, "listed_bias": 0.02, "posterior_listed_bias": -0.001}
    rows = made_up("clothing", **shrunk).summary()
    for row in rows:
        row["posterior_mse_stderr"] = 2e-7 if row["method"] == "published" else 0.0
    head, first, *_ = posteriors(rows)
    assert len(first) == len(head)
    assert first[0] == "clothing, event, 1"
    assert first[1:4] == ("0.01", "(1.0100 ± 0.0058)·10⁻³", "4·10⁻⁶")
    assert first[6:] == ("(4.00 ± 0.20)·10⁻⁶, authors' settings", "0.02, −1·10⁻³")
    assert posteriors(made_up("clothing").summary()) == []
