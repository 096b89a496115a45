"""Pictures: mechanisms compared on the same data, and the answers of a preview beside the truth."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from faintly.planner.plots import COLOURS, FAINT, draw_answers, figure, plain_log
from faintly.simulate.comparison import Comparison
from faintly.simulate.preview import Preview
from faintly.simulate.run import TOP
from faintly.simulate.scores import Simulation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE = 8  # largest error over smallest from which a linear axis would hide the small ones
LABELS = {"truth": "unbiased", "posterior": "posterior"}
WIDTH = 32  # letters of a label, which leaves most of the picture to the errors


def draw(comparison: Comparison, path: Path) -> None:
    """Write the picture, in the format of the file's suffix."""
    rows = comparison.compared
    size = {"figsize": (11, 0.55 * len(rows) + 2.1), "width_ratios": [3, 2]}
    with figure(path, 1, 2, sharey=True, **size) as (made, (error, found)):
        _draw_error(error, comparison)
        shares = [one.result.mean("top20_recall") for one in rows]
        found.barh(range(len(rows)), shares, height=0.5, color=COLOURS[2])
        found.set_xlim(0, 1)
        found.set_xlabel(f"share of the true top {TOP} found")
        found.tick_params(axis="y", length=0)
        for axes in (error, found):
            axes.grid(True, axis="x")
        titles = [textwrap.fill(one.title, WIDTH) for one in rows]
        sizes = [f"{one.result.bytes:,} bytes" for one in rows]
        error.set_yticks(range(len(rows)), map("\n".join, zip(titles, sizes, strict=True)))
        error.set_ylim(len(rows) - 0.5, -0.5)  # the best on top
        plan, result = comparison.plan, comparison.of_plan
        made.suptitle(
            f"protect {plan.unit}, epsilon {plan.budget.epsilon:g}, sparsity {plan.sparsity:,}, "
            f"{result.reports:,} clients, {result.keys:,} keys, {len(result.runs):,} runs",
            x=0.01,
            ha="left",
        )
        made.legend(loc="outside lower center", ncols=2)


def _draw_error(axes: "Axes", comparison: Comparison) -> None:
    results = [one.result for one in comparison.compared]
    places = np.arange(len(results))
    predicted = [one.mean("predicted_n_var") for one in results]
    axes.plot(predicted, places, "D", color=COLOURS[1], markersize=8, label="predicted n·Var")
    drawn = _draw_measured(axes, results, "truth", {"color": FAINT, "markersize": 5})
    if comparison.of_plan.has_posterior:
        drawn += _draw_measured(axes, results, "posterior", {"color": COLOURS[0], "markersize": 7})
    zero = comparison.of_plan.zero_mse * comparison.of_plan.reports
    if zero > 0:
        axes.axvline(zero, color="0.5", linestyle=":", label="all-zero answer")
        drawn.append(zero)
    if max(drawn) > WIDE * min(drawn) > 0:
        axes.set_xscale("log")
        plain_log(axes.xaxis)
    else:
        axes.set_xlim(left=0)
    axes.set_xlabel("n·MSE, over all keys")


def _draw_measured(
    axes: "Axes", results: list[Simulation], against: str, look: dict[str, Any]
) -> list[float]:
    """Draw the errors of all mechanisms, and return them."""
    means = [one.mean("n_mse", against) for one in results]
    axes.errorbar(
        means,
        np.arange(len(results)),
        xerr=np.nan_to_num([one.stderr("n_mse", against) for one in results]),  # NaN for one run
        fmt="o",
        capsize=3,
        label=f"{LABELS[against]} n·MSE, with its standard error",
        **look,
    )
    return means


def draw_preview(seen: Preview, path: Path) -> None:
    """Write the answers beside the truth, in the format of the file's suffix."""
    axis = "share of people" if seen.held.values == "set" else "mean over all people"
    budget = f"epsilon {seen.plan.budget.epsilon:g}, {seen.plan.unit} level"
    title = f"{seen.held.clients:,} people, {budget}, {seen.bytes:,} bytes each"
    draw_answers(
        path,
        seen.top.estimates,
        seen.truth,
        noise=(0, seen.visible if seen.visible < 1 else 0, "too small to stand out"),
        labels=(axis, title),
        unbiased=False,
    )
