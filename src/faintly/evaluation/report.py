"""One HTML file that shows everything: no script, no font, no address outside itself.

Every text that comes from data, records or errors is escaped. Figures are inline SVG.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from faintly import __version__
from faintly.evaluation.claims import Verdict, verdicts
from faintly.evaluation.experiments import Experiment, Grid, Point
from faintly.evaluation.methods import METHODS, ZERO
from faintly.evaluation.results import Cell, Results

SURPRISING = 3.0  # standard errors between predicted and measured
STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
  max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.8rem; line-height: 1.2; } h2 { margin-top: 2.5rem; } h3 { margin-bottom: .2rem; }
p { max-width: 48rem; } nav a { margin-right: 1rem; }
figure { margin: 1rem 0; overflow-x: auto; } figure svg { width: 100%; height: auto; }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #888; vertical-align: bottom; }
th:first-child, td:first-child, .text { text-align: left; }
tr.ours td { font-weight: 600; background: #eef5fa; } tr.zero td { color: #666; }
.yes { color: #00664b; } .no { color: #a33c00; } .open { color: #666; }
details { margin: .6rem 0; } summary { cursor: pointer; } small { color: #555; }
@media print { details:not([open]) > *:not(summary) { display: none; } body { font-size: 11pt; } }
"""


@dataclass(frozen=True)
class Scene:
    """What the report is about, besides the results themselves."""

    grid: Grid
    left_out: dict[str, str]
    figures: Path


def paper_numbers() -> dict[str, Any]:
    """Return the figures that the paper reports, with their source."""
    text = files("faintly.evaluation").joinpath("paper.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def html(results: Results, scene: Scene) -> str:
    """Return the whole page."""
    judged = verdicts(results, quick=scene.grid.name == "quick")
    body = "\n".join(
        [
            _opening(results, scene),
            _claims(judged),
            *(_section(experiment, results, scene) for experiment in results.experiments),
            _agreement(results),
            _how(results, scene),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>faintly: the evaluation</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"{body}\n</body>\n</html>\n"
    )


def _opening(results: Results, scene: Scene) -> str:
    links = "".join(
        f'<a href="#{escape(e.name)}">{escape(e.name)}</a> ' for e in results.experiments
    )
    return (
        "<h1>Private means of sparse vectors: every method, measured</h1>\n"
        f"<p>faintly {escape(__version__)}, grid “{escape(scene.grid.name)}”, {results.runs} "
        "independent runs of each cell, ± one standard error. A cell compares the estimated "
        "with the true mean of the same clients. “Paper” is the method of Zhou et al. "
        "(arXiv:2112.03449) with its proven constants, “authors' settings” the constants of its "
        "published code, “ours” what this library's planner picks.</p>\n"
        f"<nav>{links}</nav>"
    )


def _claims(judged: list[Verdict]) -> str:
    words = {"paper": "the paper", "ours": "this library", "order": "theory"}
    rows = []
    for one in judged:
        mark = {True: "yes", False: "no", None: "not run"}[one.holds]
        style = {True: "yes", False: "no", None: "open"}[one.holds]
        remark = f" <small>({escape(one.remark)})</small>" if one.remark else ""
        rows.append(
            f'<tr><td>{escape(one.text)}{remark}</td><td class="text">{words[one.kind]}</td>'
            f"<td>{escape(one.wanted)}</td><td>{_times(one.value)}</td>"
            f'<td class="{style}">{mark}</td></tr>'
        )
    head = "<tr><th>claim</th><th>of</th><th>wanted</th><th>measured</th><th>holds</th></tr>"
    return (
        "<h2>What was claimed, and what holds</h2>\n<p>Ratios are the smallest over the points "
        'that a claim is about.</p>\n<div class="wide"><table>'
        f"{head}{''.join(rows)}</table></div>"
    )


def _section(experiment: Experiment, results: Results, scene: Scene) -> str:
    origin = "A panel or table of the paper." if experiment.paper else "Not in the paper."
    parts = [
        f'<h2 id="{escape(experiment.name)}">{escape(experiment.title)}</h2>',
        f"<p>{escape(experiment.question)} <small>{origin}</small></p>",
        _figure(experiment, scene.figures),
    ]
    cells = results.cells(experiment)
    if not cells:
        reasons = [text for name, text in scene.left_out.items() if _concerns(name, experiment)]
        parts.append(f"<p>Not run. {escape(' '.join(dict.fromkeys(reasons)))}</p>")
    if experiment.table:
        parts += [_point_table(experiment, point, results) for point in experiment.points]
    elif cells:
        tables = "".join(_point_table(experiment, point, results) for point in experiment.points)
        parts.append(f"<details><summary>The numbers</summary>{tables}</details>")
    return "\n".join(part for part in parts if part)


def _concerns(name: str, experiment: Experiment) -> bool:
    return any(name == f"data {point.data.name}" for point in experiment.points)


def _figure(experiment: Experiment, folder: Path) -> str:
    path = folder / f"{experiment.name}.svg"
    if not path.is_file():
        return ""
    drawing = re.sub(r"^.*?(?=<svg)", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    label = f'<svg role="img" aria-label="{escape(experiment.title, quote=True)}"'
    return f"<figure>{drawing.replace('<svg', label, 1)}</figure>"


def _point_table(experiment: Experiment, point: Point, results: Results) -> str:
    """Return the table of one point: reported, measured here, and against ours."""
    reported = _reported(experiment, point)
    names = [*point.methods, *(name for name in reported if name not in point.methods), ZERO.name]
    rows = [_row(name, point, results, reported) for name in names]
    rows = [row for row in rows if row]
    if not rows:
        return ""
    lead = ["method", "bytes"] + (["bytes", "L∞", "MSE", "MSE here / there"] if reported else [])
    here = ["L∞", "MSE", "MSE / ours", "bias", "recall of top 20", "n·MSE / bound"]
    top = '<th colspan="2"></th>' + ('<th colspan="4">the paper reports</th>' if reported else "")
    heads = "".join(f"<th>{text}</th>" for text in lead + here)
    return (
        f"<h3>{escape(_words(point))}</h3>"
        f'<div class="wide"><table><tr>{top}<th colspan="{len(here)}">measured here</th></tr>'
        f"<tr>{heads}</tr>{''.join(rows)}</table></div>"
    )


def _words(point: Point) -> str:
    asked = {"all": "all keys", "top": "top 100 keys", "some": "1,000 keys"}[point.keys]
    return f"{point.unit} level, ε = {point.epsilon:g}, {point.data.name}, {asked}"


def _reported(experiment: Experiment, point: Point) -> dict[str, list[float]]:
    """Return what the paper's table says: bytes, L∞ and MSE of each method that it fills in."""
    numbers = paper_numbers()
    if not experiment.paper or not experiment.table:
        return {}
    rows = numbers[experiment.name][point.unit]
    return {name: row for name, row in rows.items() if row is not None}


def _row(
    name: str,
    point: Point,
    results: Results,
    reported: dict[str, list[float]],
) -> str:
    cell, ours = results.cell(point, name), results.cell(point, "ours")
    said = reported.get(name)
    if cell is None and said is None:
        return ""
    label = ZERO.label if name == ZERO.name else METHODS[name].label
    cells = [f"<td>{escape(label)}</td>", f"<td>{_number(cell.bytes if cell else None, 7)}</td>"]
    if reported:
        cells += [f"<td>{_number(value, 7)}</td>" for value in (said or (None, None, None))]
        again = cell.mean("mse") / said[2] if cell is not None and said is not None else None
        cells.append(f"<td>{_times(again)}</td>")
    cells += [f"<td>{text}</td>" for text in _measured(cell, ours)]
    style = {"ours": ' class="ours"', "zero": ' class="zero"'}.get(name, "")
    return f"<tr{style}>{''.join(cells)}</tr>"


def _measured(cell: Cell | None, ours: Cell | None) -> Iterator[str]:
    if cell is None:
        yield from ("not run", "not run", "", "", "", "")
        return
    yield _with_error(cell, "linf")
    yield _with_error(cell, "mse")
    yield _times(cell.mean("mse") / ours.mean("mse")) if ours else ""
    if cell.method is ZERO:
        yield from ("−100 %", "", "")
        return
    yield _share(cell)
    yield _number(cell.mean("recall"))
    yield _number(cell.mean("ratio"))


def _share(cell: Cell) -> str:
    mean, error = cell.mean("bias"), cell.stderr("bias")
    text = f"{100 * mean:+.1f}".replace("-", "−")
    return f"{text} %" if math.isnan(error) else f"{text} ± {100 * error:.1f} %"


def _agreement(results: Results) -> str:
    """Return how measured errors agree with predicted variances."""
    seen: dict[tuple[str, str], tuple[Cell, float]] = {}
    for experiment in results.experiments:
        for cell in results.cells(experiment):
            if cell.surprise is not None:
                seen[cell.point.name, cell.method.name] = (cell, cell.surprise)
    if not seen:
        return ""
    scores = np.array([score for _, score in seen.values()])
    beyond = [(cell, score) for cell, score in seen.values() if abs(score) > SURPRISING]
    rows = "".join(
        f"<tr><td>{escape(cell.method.label)}</td>"
        f'<td class="text">{escape(_words(cell.point))}</td>'
        f"<td>{_number(cell.mean('predicted'))}</td><td>{_with_error(cell, 'agreement')}</td>"
        f"<td>{score:+.1f}</td></tr>"
        for cell, score in beyond
    )
    head = (
        "<tr><th>method</th><th>where</th><th>predicted n·Var</th>"
        "<th>measured / predicted</th>"
        "<th>standard errors</th></tr>"
    )
    table = f'<div class="wide"><table>{head}{rows}</table></div>' if beyond else ""
    return (
        "<h2>Predicted and measured</h2>\n<p>Each method predicts its own variance at each key. "
        f"Over {len(scores)} cells of unbiased methods, at every key asked about, the distance "
        f"between prediction and measurement has a root mean square of "
        f"{np.sqrt((scores**2).mean()):.2f} standard errors, where chance would give about 1. "
        f"Cells more than {SURPRISING:g} standard errors off: {len(beyond)}.</p>{table}"
    )


def _how(results: Results, scene: Scene) -> str:
    """Return how things were run, and what was not."""
    drawn = sorted({r["method"] for r in results.records.values() if r.get("aggregate")})
    labels = ", ".join(METHODS[name].label for name in drawn) or "no method"
    refused = _unique(
        f"{METHODS[r['method']].label} at {r['unit']}, ε = {r['epsilon']:g}, k = {r['sparsity']}, "
        f"d = {r['universe']:,}: {r['error']}"
        for r in results.refusals
    )
    failed = _unique(f"{r['task']}: {r['error']}" for r in results.failures)
    absent = [f"{name}: {text}" for name, text in scene.left_out.items()]
    return (
        "<h2>How it was run</h2>\n"
        "<p>Synthetic data follow the paper: distinct items by Zipf's law with exponent 1.4, "
        "values Normal(1, 0.3) cut off at ±1, a fresh crowd in every run. Stored data are cut to "
        "k items a client, uniformly at random and once, before any method sees them. Every seed "
        "is hashed from the name of its task and stands in results.csv with every parameter. "
        "Estimates are not cut to [−1, 1]; entries of 1.0 in the paper's tables suggest that "
        "its were. Compare the paper's user-level entries with both of its rows: its "
        "proven constants, and its authors' settings.</p>\n"
        "<p>Randomized response on every key errs less than ours at event level (see error against "
        "bytes): a report of two bits for each key of the universe buys that. The polynomial form "
        "of retrieval-gf has the same variance in bytes that grow with k instead, where no vector "
        "holds more than k items.</p>\n"
        "<p>Ours is the planner's choice among its variants with 64 groups at most, decoded by "
        "tables where every key of a large universe is asked about.</p>\n"
        f"<p>Drawn as an exact-in-law sum of all reports, since each report is as long as the "
        f"universe: {escape(labels)}. All other methods made and decoded every report.</p>\n"
        + _list("Not run", absent)
        + _list("Refused by the method itself", refused)
        + _list("Failed", failed)
    )


def _list(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<details open><summary>{escape(title)}</summary><ul>{items}</ul></details>\n"


def _unique(lines: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(lines))


def _with_error(cell: Cell, measure: str) -> str:
    mean, error = cell.mean(measure), cell.stderr(measure)
    if math.isnan(error) or cell.method is ZERO:
        return _number(mean)
    return f"{_number(mean)} <small>± {_number(error, 2)}</small>"


def _number(value: float | None, digits: int = 3) -> str:
    if value is None or math.isnan(value):
        return ""
    return f"{value:,.{digits}g}".replace("-", "−") if value < 1e6 else f"{value:,.0f}"


def _times(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{_number(value)}×"
