"""Tables, claims, figures and the report, from records that were made up."""

import csv
import itertools
import re
from html.parser import HTMLParser

import pyarrow.parquet as pq
import pytest

from evaluation import claims, figures, report, results
from evaluation.claims import CLAIMS
from evaluation.curves import panels, sizes
from evaluation.grids import QUICK
from evaluation.label_layout import beside, spread
from evaluation.methods import METHODS, ZERO
from evaluation.verdict import Agreement, Growth, PooledAgreement, Ratio
from faintly.errors import MissingDependency
from tests.every import every

EVIL = "<script>alert(1)</script>&\"'"


def test_a_cell_has_means_and_standard_errors(made_up):
    found = made_up("user-k")
    point = found.experiments[0].points[0]
    cell = found.cell(point, "ours")
    assert cell.mean("mse") == pytest.approx(1.01e-3)
    assert cell.stderr("mse") == pytest.approx(1e-5 / 3**0.5)
    assert found.cell(point, "harmony") is None


def test_the_all_zero_answer_stands_at_every_point(made_up):
    found = made_up("user-k", "clothing")
    for experiment in found.experiments:
        zeros = [cell.point for cell in found.cells(experiment) if cell.method is ZERO]
        assert zeros == list(experiment.points)
    zero = found.zero(found.experiments[0].points[0])
    assert zero.mean("mse") == 0.01
    assert zero.mean("n_mse") == 200
    assert zero.mean("ratio") == 100
    assert zero.mean("bias") == -1


def test_files_hold_every_run_and_agree(made_up, tmp_path):
    found = made_up("user-k", "headline")
    results.write(found, tmp_path)
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    table = pq.read_table(tmp_path / "results.parquet")
    assert table.column_names == list(rows[0]) == list(results.COLUMNS)
    assert table.num_rows == len(rows) == len(found.rows())
    assert [str(seed) for seed in table["seed"].to_pylist()] == [row["seed"] for row in rows]
    summary = results.read_summary(tmp_path / "summary.csv")
    assert summary == found.summary()
    assert {row["method"] for row in summary} >= {"ours", "zero"}


def test_without_pyarrow_there_is_no_parquet(made_up, tmp_path, monkeypatch):
    def absent(name: str, purpose: str):
        raise MissingDependency(f"{purpose} needs {name}")

    monkeypatch.setattr(results, "load", absent)
    written = results.write(made_up("user-k"), tmp_path)
    assert [path.name for path in written] == ["results.csv", "summary.csv"]
    assert all(path.is_file() for path in written)


def test_surprise_is_for_unbiased_methods_with_enough_keys(made_up):
    point = made_up("user-k").experiments[0].points[0]
    assert made_up("user-k").cell(point, "ours").surprise == pytest.approx(0)
    assert made_up("user-k", claimed_bias=0.17).cell(point, "ours").surprise is None
    assert made_up("user-k", compared=10).cell(point, "ours").surprise is None


def test_runs_that_agree_by_chance_do_not_make_a_bias_certain(made_up):
    point = made_up("user-k").experiments[0].points[0]
    cell = made_up("user-k", bias=-0.47, bias_spread=0.85).cell(point, "ours")
    assert cell.stderr("bias") == pytest.approx(0.85 / 3**0.5)
    assert cell.stderr("mse") == pytest.approx(1e-5 / 3**0.5)


def ratio(**changes) -> Ratio:
    fields = {"kind": "order", "text": "t", "experiments": ("user-k",), "better": "ours"}
    return Ratio(**fields | {"others": ("paper", "sampling"), "least": 30} | changes)


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({}, True),
        ({"least": 50}, False),
        ({"better": "paper", "others": ("ours",), "least": 1}, False),
        ({"others": ("harmony",)}, None),
        ({"others": (), "measure": "bytes", "reported": 28, "least": 4}, True),
        ({"others": (), "measure": "bytes", "reported": 28, "least": 4.1}, False),
        ({"experiments": ("user-d",)}, None),
        ({"where": lambda point: False}, None),
    ],
)
def test_a_ratio_claim_is_about_the_best_rival_at_the_worst_point(made_up, change, holds):
    verdict = ratio(**change).verdict(made_up("user-k"))
    assert verdict.holds is holds
    if not change:
        assert verdict.value == pytest.approx(40)


def test_a_verdict_says_where_it_was_measured_and_why_it_fails(made_up):
    good = ratio(why="because").verdict(made_up("user-k"))
    assert (good.why, good.measured) == ("", "40.00 ± 0.32×")  # √2 · 0.57 % of it
    assert good.where.startswith("holds at 2 of 2 points; smallest at k = ")
    assert good.where.endswith("against paper")
    bad = ratio(least=50, why="because").verdict(made_up("user-k"))
    assert bad.why == "because"
    assert bad.where.endswith("; 30.9 standard errors below what is wanted, p < 0.0001")
    near = ratio(least=40.1).verdict(made_up("user-k"))
    assert near.where.endswith("; 0.3 standard errors below what is wanted, p = 0.38")


def test_a_claim_may_leave_biased_rivals_out(made_up):
    found = made_up("user-k", claimed_bias=0.2)
    assert ratio(least=1).verdict(found).holds is True
    assert ratio(least=1, unbiased=True).verdict(found).holds is None


def test_a_growth_claim_compares_largest_and_smallest(made_up):
    found = made_up("user-k")
    last = found.experiments[0].points[-1].name
    for record in found.records.values():
        if record["task"].startswith(last):
            record["mse"] *= 3
    make = lambda most: Growth(  # noqa: E731
        kind="paper", text="t", experiment="user-k", method="paper", most=most
    )
    assert make(3.1).verdict(found).holds is True
    assert make(2.9).verdict(found).holds is False


def test_claims_are_written(made_up, tmp_path):
    judged = claims.verdicts(made_up("user-k"), quick=True)
    path = claims.write(judged, tmp_path)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["text"] for row in rows] == [one.text for one in judged]
    assert {row["holds"] for row in rows} == {"True", ""}


def test_claims_name_experiments_and_methods_that_exist(made_up):
    known = {"headline", "neighbouring", *claims.FIGURES}
    for claim in CLAIMS:
        if isinstance(claim, Agreement | PooledAgreement):
            continue
        named = (claim.experiment,) if isinstance(claim, Growth) else claim.experiments
        assert set(named) <= known
        methods = (claim.method,) if isinstance(claim, Growth) else (claim.better, *claim.others)
        assert set(methods) <= set(METHODS)
    orders = claims.verdicts(made_up("user-k", "event-k"), quick=True)
    assert {one.kind for one in orders} == {"order"}


@pytest.mark.long
@pytest.mark.parametrize("name", ["user-k", "pareto", "recall", "bounds", "error-n"])
def test_a_figure_is_made_twice_the_same(made_up, tmp_path, name):
    found = made_up(name)
    svg, png = figures.draw(found.experiments[0], found.summary(), tmp_path)
    first = svg.read_bytes()
    assert first.startswith(b"<?xml")
    assert png.read_bytes()[1:4] == b"PNG"
    figures.draw(found.experiments[0], found.summary(), tmp_path)
    assert svg.read_bytes() == first


@every("method", METHODS.values())
def test_names_of_curves_are_dark_enough_to_read(method):
    """Contrast of at least 4.5 to 1 against white, by the formula of the web's guidelines."""
    curve = figures.Curve(method, [1.0], [1.0], [0.0], [False])
    lit = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
           for part in figures.ink(curve)]  # fmt: skip
    assert 1.05 / (0.2126 * lit[0] + 0.7152 * lit[1] + 0.0722 * lit[2] + 0.05) >= 4.5


def test_a_biased_method_is_marked_where_it_is_biased(made_up):
    found = made_up("user-k", "pareto")
    rows = found.summary()
    for row in rows:
        # Of the two points of a curve one only; of the all-zero answer nothing is said.
        biased = row["method"] == "published" and row["sparsity"] != 4
        row["claimed_bias"] = 1.0 if row["method"] == "zero" else 0.17 if biased else 0.0
    for experiment in found.experiments:
        own = [row for row in rows if row["experiment"] == experiment.name]
        shown = [curve for panel in panels(experiment, own) for curve in panel.curves]
        marked = {curve.label for curve in shown if any(curve.biased)}
        assert marked == {"authors' settings (biased)"}
        assert sum("(biased)" in curve.label for curve in shown) == 2
    own = [row for row in rows if row["experiment"] == "user-k"]
    first = next(panels(found.experiments[0], own))
    curve = next(curve for curve in first.curves if curve.method.name == "published")
    assert curve.biased == [False, True]


def test_one_point_far_from_its_name_is_no_curve(made_up):
    found = made_up("user-k")
    rows = found.summary()
    ends = {row["sparsity"] for row in rows}

    def drawn(place):
        own = [row for row in rows if row["method"] != "paper" or row["sparsity"] == place]
        return {curve.method.name for curve in next(panels(found.experiments[0], own)).curves}

    assert "paper" not in drawn(min(ends))
    assert "paper" in drawn(max(ends))


def test_titles_name_clients_and_sparsity_once(made_up):
    found = made_up("recall", "user-k", "pareto", "error-n")
    said = {}
    for experiment in found.experiments:
        own = [row for row in found.summary() if row["experiment"] == experiment.name]
        said[experiment.name] = sizes(experiment, own)
        for panel in panels(experiment, own):
            assert not [part for part in said[experiment.name] if part in panel.title]
    assert said["user-k"] == said["pareto"] == ["n = 20,000"]
    assert said["recall"] == ["n = 100,000", "k = 32"]
    assert said["error-n"] == []  # n is the axis, and the title has k


def test_panels_name_the_sizes_in_which_they_differ(made_up):
    found = made_up("recall")
    rows = found.summary()
    for row in [*rows]:
        rows.append(row | {"data": "others", "clients": 7_000, "sparsity": 5})
    titles = {panel.title for panel in panels(found.experiments[0], rows)}
    assert "kosarak100k, user level, n = 100,000, k = 32" in titles
    assert "others, event level, n = 7,000, k = 5" in titles


@pytest.mark.long
def test_a_saved_summary_draws_the_same_figure(made_up, tmp_path):
    found = made_up("pareto")
    results.write(found, tmp_path)
    saved = results.read_summary(tmp_path / "summary.csv")
    experiment = found.experiments[0]
    drawn, _ = figures.draw(experiment, found.summary(), tmp_path)
    assert figures.svg(experiment, saved) == drawn.read_text("utf-8")
    saved[0]["mse"] *= 1.1
    assert figures.svg(experiment, saved) != drawn.read_text("utf-8")


def test_no_figure_of_nothing(made_up, tmp_path):
    found = made_up("user-k", methods=())
    assert figures.draw(found.experiments[0], found.summary(), tmp_path) == []


def test_labels_keep_their_order_and_their_distance():
    heights = spread([0.1, 0.1, 0.12, 0.5, 0.52, 0.9], 0.05)
    gaps = [high - low for low, high in itertools.pairwise(heights)]
    assert min(gaps) >= 0.05 - 1e-9
    assert heights[-1] == 0.9
    assert spread([], 0.1) == []


def test_spots_that_would_touch_stand_side_by_side():
    spots = [(1.0, 5.0), (1.1, 5.2), (1.0, 9.0), (1.9, 5.0), (8.0, 5.0)]
    moved = beside(spots, 1.0)
    assert [up for _, up in moved] == [up for _, up in spots]  # only sideways
    assert [moved[i] for i in (2, 4)] == [spots[i] for i in (2, 4)]
    row = [moved[i][0] for i in (0, 1, 3)]  # the third touches only once the others have moved
    assert row == sorted(row)
    assert min(high - low for low, high in itertools.pairwise(row)) >= 1.0 - 1e-9


class Page(HTMLParser):
    """Collects what a browser would fetch or run, and whether tags are balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []
        self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and not value.startswith("#"):
                self.outside.append(value)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()


def page_of(found, tmp_path, left_out=None) -> str:
    for experiment in found.experiments:
        if not experiment.table:
            figures.draw(experiment, found.summary(), tmp_path)
    judged = claims.verdicts(found, quick=True)
    return report.html(found, judged, report.Scene(QUICK, left_out or {}, tmp_path))


def test_the_report_needs_nothing_else(made_up, tmp_path):
    text = page_of(made_up("user-k", "clothing", "bias"), tmp_path)
    page = Page(text)
    assert page.open == []
    assert page.outside == []
    assert page.scripts == 0
    assert text.count("<svg") == 1
    assert "url(http" not in text
    assert "@import" not in text
    # Columns of words begin at the left.
    assert '<td class="text">user</td><td>40×</td>' in text


def test_the_report_shows_reported_measured_and_ours_side_by_side(made_up, tmp_path):
    text = page_of(made_up("clothing"), tmp_path)
    assert "the paper reports" in text
    row = text.split("<td>paper</td>")[2].split("</tr>")[0]  # of the table at user level
    assert "0.098" in row
    assert "9.5·10⁻⁴" in row
    assert "40×" in row  # over ours, as measured here
    again = text.split("""<td class="text">clothing</td><td class="text">user</td>""")[2].split(
        "</tr>"
    )[0]
    assert re.findall("<td>(.*?)</td>", again) == [
        "9.5·10⁻⁴",
        "0.04040 ± 0.00023",
        "(2.020 ± 0.012)·10⁻³",
        "(1.0100 ± 0.0058)·10⁻³",
        "0.941×",
        "40×",
        "0.01",
    ]
    assert text.count("<td>all-zero answer</td>") == 2
    assert "not run" in text.split("<td>Harmony</td>")[1].split("</tr>")[0]


def test_the_report_escapes_what_it_did_not_write(made_up, tmp_path):
    found = made_up("user-k")
    for record in list(found.records.values())[:4]:
        record.update(status="failed", error=EVIL)
    for record in list(found.records.values())[4:20]:
        record.update(status="refused", error=EVIL)
    text = page_of(found, tmp_path, {"data <b>": EVIL})
    assert "<script" not in text
    assert "<b>" not in text
    assert text.count("&lt;script&gt;") >= 3
    assert Page(text).open == []


def test_the_report_says_what_was_not_run(made_up, tmp_path):
    reason = "no MovieLens data"
    text = page_of(made_up("movies", methods=()), tmp_path, {"data movies": reason})
    assert f"Not run. {reason}" in text
    assert "2.1·10⁻³" in text  # the paper's own number is still shown


@pytest.mark.long
def test_the_report_names_randomized_response_only_where_it_was_run_and_errs_less(
    made_up, tmp_path
):
    names = ("ours", "naive-response", "retrieval-polynomial")
    assert "randomized response on every key" not in page_of(made_up("bias"), tmp_path)
    worse = made_up("pareto", "headline", "error-n", methods=names)  # which share points
    assert "randomized response on every key" not in page_of(worse, tmp_path)
    for record in worse.records.values():
        if record["method"] != "ours" and record["unit"] == "event":
            record.update(mse=record["mse"] / 2000, bytes=1024)
    text = page_of(worse, tmp_path)
    assert "In pareto, event level, randomized response on every key has 0.5× the MSE of" in text
    assert text.count("in reports of 1,024 bytes") == 1
    assert "The polynomial form of retrieval-gf has 0.5× in 1,024 bytes" in text


@pytest.mark.long
def test_the_report_says_how_exactly_sums_were_drawn(made_up, tmp_path):
    assert "Every report was made and decoded." in page_of(made_up("bias"), tmp_path)
    drawn = ("naive", "naive-laplace", "naive-response", "alp", "pckv-ue")
    text = page_of(made_up("pareto", methods=drawn, aggregate=True), tmp_path)
    exact, rounded, keys = (
        next(part for part in text.split(". ") if words in part)
        for words in ("by its exact law:", "a rounded normal", "slow to read")
    )
    assert exact.endswith("naive, Laplace, naive, randomized response, PCKV-UE")
    assert rounded.endswith("naive, Gaussian (δ = 1e-5)")
    assert "Reports of ALP are short" in keys
    assert "its L∞ is not exact in law" in keys
