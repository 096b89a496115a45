"""The report: one HTML file without scripts, fonts or external links.

All text from data, records or errors is escaped. Figures are inline SVG.
"""

import json
import math
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from evaluation import agreement
from evaluation.agreement import FAR, chance
from evaluation.experiments import Experiment, Point
from evaluation.formatting import KEYS, is_words, number, plus_minus, times
from evaluation.grids import Grid
from evaluation.methodology import methodology
from evaluation.methods import METHODS, ZERO
from evaluation.results import UNBIASED, Cell, Results
from evaluation.summary_tables import (
    NOTES,
    SHRUNK,
    Table,
    posteriors,
    same_as_paper,
    side_by_side,
    winners,
)
from evaluation.verdict import Verdict
from faintly import __version__

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
  max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.8rem; line-height: 1.2; } h2 { margin-top: 2.5rem; } h3 { margin-bottom: .2rem; }
p { max-width: 48rem; } nav a { margin-right: 1rem; }
figure { margin: 1rem 0; overflow-x: auto; } figure svg { width: 100%; height: auto; }
table { border-collapse: collapse; margin: .8rem 0; font-size: .88rem;
  font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #ddd; }
td { white-space: nowrap; } td.text { white-space: normal; min-width: 9rem; }
th { border-bottom: 2px solid #888; vertical-align: bottom; } th[colspan] { text-align: center; }
th:first-child, td:first-child, .text { text-align: left; }
tr.ours td { font-weight: 600; background: #eef5fa; } tr.zero td { color: #666; }
.yes { color: #00664b; } .no { color: #a33c00; } .open { color: #666; }
details { margin: .6rem 0; } summary { cursor: pointer; } small { color: #555; }
@media print { body { font-size: 10pt; } td.text { min-width: 0; } th, td { padding: .1rem .3rem; }
  figure, tr { break-inside: avoid; } }
"""

GLANCE = f"<h2>At a glance</h2>\n<p>{NOTES}</p>"
SHARPER = f"<h2>Unbiased and posterior</h2>\n<p>{SHRUNK}</p>"
AGAIN = """<h2>Reported, re-run, ours</h2>
<p>The paper's tables at ε = 1: MSE of its method as it reports it, re-run here with its proven
constants (its clip no larger than k, which helps it) and with its authors' settings, and of ours,
± one standard error. Where the all-zero answer errs less than all of them, the clients are too few
for ε = 1, and the table shows noise.</p>"""


@dataclass(frozen=True)
class Scene:
    """What the report is about, besides the results themselves."""

    grid: Grid
    left_out: dict[str, str]
    figures: Path
    took: str = ""  # how long the run took, in words


def paper_numbers() -> dict[str, Any]:
    """Return the figures that the paper reports, with their source."""
    text = Path(__file__).with_name("paper.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def html(results: Results, judged: list[Verdict], scene: Scene) -> str:
    """Return the whole page: results, what they say about claims, and how they were made."""
    body = "\n".join(
        [
            _opening(results, scene),
            _glance(results),
            _claims(judged),
            *(_section(experiment, results, scene) for experiment in results.experiments),
            _agreement(results),
            methodology(results, scene.left_out, scene.took),
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
        "(arXiv:2112.03449) with its proven constants, its clip at user level no larger than k, "
        "which helps it; “authors' settings” are the constants of its published code, “ours” is "
        "what this library's planner picks.</p>\n"
        f"<nav>{links}</nav>"
    )


def _glance(results: Results) -> str:
    """Return the summary: who errs less, where and by how much."""
    rows = results.summary()
    best, again = winners(rows), side_by_side(rows, paper_numbers())
    same = same_as_paper(rows)
    note = f"\n<p>{escape(same)}</p>" if same else ""
    shrunk = _titled(SHARPER, posteriors(rows))
    return (_titled(GLANCE, best) + note + "\n" + _titled(AGAIN, again) + "\n" + shrunk).strip()


def _titled(words: str, table: Table) -> str:
    return f"{words}\n{_plain_table(table)}" if table else ""


def _plain_table(table: Table) -> str:
    head, *rows = table
    style = [' class="text"' if is_words(column) else "" for column in zip(*rows, strict=True)]
    heads = "".join(f"<th{one}>{escape(text)}</th>" for one, text in zip(style, head, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{o}>{escape(t)}</td>' for o, t in zip(style, row, strict=True))}</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{heads}</tr>{body}</table></div>'


def _claims(judged: list[Verdict]) -> str:
    words = {"paper": "the paper", "ours": "this library", "order": "theory"}
    rows = []
    for one in judged:
        mark = {True: "yes", False: "no", None: "not run"}[one.holds]
        style = {True: "yes", False: "no", None: "open"}[one.holds]
        rows.append(
            f'<tr><td class="text">{escape(one.text)}{_remarks(one)}</td>'
            f'<td class="text">{words[one.kind]}</td>'
            f"<td>{escape(one.wanted)}</td><td>{escape(one.measured)}</td>"
            f'<td class="{style}">{mark}</td></tr>'
        )
    head = (
        '<tr><th>claim</th><th class="text">of</th><th>wanted</th><th>measured</th>'
        "<th>holds</th></tr>"
    )
    return (
        "<h2>What was claimed, and what holds</h2>\n<p>Ratios are the smallest over the points "
        "that a claim is about, so that one point can break it, ± one standard error. “About” "
        'allows 80 % of the number.</p>\n<div class="wide"><table>'
        f"{head}{''.join(rows)}</table></div>"
    )


def _remarks(one: Verdict) -> str:
    """Return the remarks on a claim: what it means, where it was measured, why it fails."""
    text = f" <small>({escape(one.remark)})</small>" if one.remark else ""
    if one.where:
        text += f"<br><small>{escape(one.where)}</small>"
    if one.why:
        text += f'<br><span class="no">Why not: {escape(one.why)}.</span>'
    return text


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
    lead = ["method"] + (["bytes", "L∞", "MSE"] if reported else [])
    here = ["bytes", "L∞", "MSE", *(["MSE / reported"] if reported else []), "MSE / ours"]
    here += ["posterior MSE", "bias", "recall of top 20", "n·MSE / bound"]
    top = "<th></th>" + ('<th colspan="3">the paper reports</th>' if reported else "")
    heads = "".join(f"<th>{text}</th>" for text in lead + here)
    return (
        f"<h3>{escape(_words(point))}</h3>"
        f'<div class="wide"><table><tr>{top}<th colspan="{len(here)}">measured here</th></tr>'
        f"<tr>{heads}</tr>{''.join(rows)}</table></div>"
    )


def _words(point: Point) -> str:
    return f"{point.unit} level, ε = {point.epsilon:g}, {point.data.name}, {KEYS[point.keys]}"


def _reported(experiment: Experiment, point: Point) -> dict[str, list[float]]:
    """Return bytes, L∞ and MSE of each method that the paper's table has."""
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
    paper = reported.get(name)
    if cell is None and paper is None:
        return ""
    cells = [f"<td>{escape(_label(name))}{_flags(cell)}</td>"]
    if reported:
        cells += [f"<td>{number(value, 7)}</td>" for value in (paper or (None, None, None))]
    cells += [f"<td>{text}</td>" for text in _errors(cell)]
    if reported:
        again = cell.mean("mse") / paper[2] if cell is not None and paper is not None else None
        cells.append(f"<td>{times(again)}</td>")
    cells += [f"<td>{text}</td>" for text in _judged(cell, ours)]
    style = {"ours": ' class="ours"', "zero": ' class="zero"'}.get(name, "")
    return f"<tr{style}>{''.join(cells)}</tr>"


def _label(name: str) -> str:
    return ZERO.label if name == ZERO.name else METHODS[name].label


def _flags(cell: Cell | None) -> str:
    """Return notes for a method's name: a bias, or that its sum was drawn."""
    if cell is None or cell.method is ZERO:
        return ""
    flags = ["biased"] if cell.mean("claimed_bias") > UNBIASED else []
    flags += ["sum drawn"] if cell.records[0]["aggregate"] else []
    return f" <small>({', '.join(flags)})</small>" if flags else ""


def _errors(cell: Cell | None) -> tuple[str, str, str]:
    if cell is None:
        return "", "not run", "not run"
    return number(cell.bytes, 7), _with_error(cell, "linf"), _with_error(cell, "mse")


def _judged(cell: Cell | None, ours: Cell | None) -> tuple[str, ...]:
    if cell is None:
        return "", "", "", "", ""
    against = times(cell.mean("mse") / ours.mean("mse")) if ours else ""
    shrunk = _with_error(cell, "posterior_mse") if cell.values("posterior_mse") else ""
    found = number(cell.mean("recall")), number(cell.mean("ratio"))
    return against, shrunk, _share(cell), *found


def _share(cell: Cell) -> str:
    mean, error = cell.mean("bias"), cell.stderr("bias")
    text = f"{100 * mean:+.1f}".replace("-", "−")
    return (
        f"{text} %" if math.isnan(error) or cell.method is ZERO else f"{text} ± {100 * error:.1f} %"
    )


def _agreement(results: Results) -> str:
    """Return how measured errors agree with predicted variances."""
    cells = agreement.judged(results)
    if not cells:
        return ""
    found = np.array(agreement.scores(cells))
    beyond = [cell for cell in cells if abs(cell.surprise or 0.0) > FAR]
    least, most = (len(cells) * chance(FAR, results.runs, floor) for floor in (1.0, 0.0))
    return (
        "<h2>Predicted and measured</h2>\n<p>Each method predicts its own variance at each key. "
        f"Over {len(cells)} cells of unbiased methods, at every key asked about, the distance "
        f"between prediction and measurement has a root mean square of "
        f"{np.sqrt((found**2).mean()):.2f} standard errors, where chance would give about 1. "
        f"Cells more than {FAR:g} standard errors off: {len(beyond)}. Among so many, chance alone "
        f"makes {number(least, 2)} on average if keys err independently, and {number(most, 2)} if "
        "they err together. A prediction that is a little wrong everywhere would show in the last "
        "column, where all cells of a method count as one.</p>"
        f"{_far_cells(beyond)}{_by_method(cells)}"
    )


def _far_cells(beyond: list[Cell]) -> str:
    if not beyond:
        return ""
    rows = "".join(
        f'<tr><td>{escape(cell.method.label)}</td><td class="text">{escape(_words(cell.point))}'
        f"</td><td>{number(cell.mean('predicted'))}</td><td>{_with_error(cell, 'agreement')}</td>"
        f"<td>{cell.surprise:+.1f}</td></tr>"
        for cell in beyond
    )
    head = (
        '<tr><th>method</th><th class="text">where</th><th>predicted n·Var</th>'
        "<th>measured / predicted</th><th>standard errors</th></tr>"
    )
    return f'<div class="wide"><table>{head}{rows}</table></div>'


def _by_method(cells: list[Cell]) -> str:
    table: Table = [
        ("method", "cells", "measured / predicted", "largest score", "beyond 3", "all cells as one")
    ]
    for name, members in agreement.by_method(cells).items():
        found = agreement.scores(members)
        ratio = float(np.mean([cell.mean("agreement") for cell in members]))
        off = sum(abs(score) > FAR for score in found)
        largest, together = max(found, key=abs), agreement.pooled(found)
        signed = [f"{score:+.1f}".replace("-", "−") for score in (largest, together)]
        table.append(
            (_label(name), str(len(found)), number(ratio, 4), signed[0], str(off), signed[1])
        )
    return _plain_table(table)


def _with_error(cell: Cell, measure: str) -> str:
    error = math.nan if cell.method is ZERO else cell.stderr(measure)
    return plus_minus(cell.mean(measure), error)
