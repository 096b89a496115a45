"""The picture of a comparison: error and what is found, a row for each mechanism."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from faintly.planner.plots import COLOURS, pyplot
from faintly.simulate.comparison import Compared, Comparison
from faintly.simulate.run import TOP

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE = 8  # largest error over smallest from which a linear axis would hide the small ones
WIDTH = 32  # letters of a label, which leaves most of the picture to the errors


def draw(comparison: Comparison, path: Path) -> None:
    """Write the picture, in the format that the file's name asks for."""
    plt = pyplot(path)
    rows = comparison.compared
    figure, (error, found) = plt.subplots(
        1,
        2,
        figsize=(11, 0.55 * len(rows) + 2.1),
        width_ratios=[3, 2],
        sharey=True,
        layout="constrained",
    )
    _draw_error(error, comparison)
    _draw_found(found, comparison)
    for axes in (error, found):
        axes.grid(True, axis="x", color="0.9", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    error.set_yticks(range(len(rows)), [_label(one) for one in rows])
    error.set_ylim(len(rows) - 0.5, -0.5)  # the best on top
    plan, result = comparison.plan, comparison.of_plan
    figure.suptitle(
        f"protect {plan.unit}, epsilon {plan.budget.epsilon:g}, sparsity {plan.sparsity:,}, "
        f"{result.reports:,} clients, {result.keys:,} keys, {len(result.runs):,} runs",
        x=0.01,
        ha="left",
        fontsize=12,
    )
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _label(one: Compared) -> str:
    return f"{textwrap.fill(one.entrant.title, WIDTH)}\n{one.result.bytes:,} bytes"


def _draw_error(axes: "Axes", comparison: Comparison) -> None:
    results = [one.result for one in comparison.compared]
    means = [one.mean("n_mse") for one in results]
    predicted = [one.mean("predicted_n_var") for one in results]
    places = range(len(results))
    axes.plot(predicted, places, "D", color=COLOURS[1], markersize=8, label="predicted n·Var")
    axes.errorbar(
        means,
        places,
        xerr=np.nan_to_num([one.stderr("n_mse") for one in results]),  # one run has no spread
        fmt="o",
        markersize=5,
        color=COLOURS[0],
        capsize=3,
        label="measured n·MSE, with its standard error",
    )
    if max(means) > WIDE * min(means) > 0:
        _plain_log(axes)
    else:
        axes.set_xlim(left=0)
    axes.set_xlabel("n·MSE, over all keys")


def _draw_found(axes: "Axes", comparison: Comparison) -> None:
    shares = [one.result.mean("top20_recall") for one in comparison.compared]
    axes.barh(range(len(shares)), shares, height=0.5, color=COLOURS[2])
    axes.set_xlim(0, 1)
    axes.set_xlabel(f"share of the true top {TOP} found")
    axes.tick_params(axis="y", length=0)


def _plain_log(axes: "Axes") -> None:
    """Make the x axis logarithmic, with plain numbers at 1, 2 and 5 of each decade."""
    from matplotlib.ticker import LogLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
