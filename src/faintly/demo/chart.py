"""The demo's picture: estimates with their error bars beside the truth."""

from pathlib import Path

import numpy as np

from faintly.demo.run import DemoResult
from faintly.planner.plots import COLOURS, pyplot

ANSWER, TRUTH = COLOURS[:2]
FAINT = "#A9CBE3"  # a lighter shade of the first


def draw_chart(result: DemoResult, path: Path) -> None:
    """Write the chart as a PNG."""
    plt = pyplot(path)
    found = result.top.estimates
    places = np.arange(len(found))[::-1]
    figure, axes = plt.subplots(figsize=(8, 0.32 * len(found) + 1.8), layout="constrained")
    axes.axvspan(
        -found.noise_floor, found.noise_floor, color="0.92", label="a name that nobody uses (95 %)"
    )
    axes.errorbar(
        found.mean,
        places,
        xerr=found.mean - found.low,
        fmt="o",
        color=FAINT,
        elinewidth=4,
        label="unbiased estimate, 95 % interval",
    )
    made = found.posterior
    if made is not None:
        axes.errorbar(
            made.mean,
            places,
            xerr=np.stack([made.mean - made.low, made.high - made.mean]),
            fmt="o",
            color=ANSWER,
            capsize=3,
            label="posterior answer, 95 % interval",
        )
    axes.plot(result.truth, places, "D", color=TRUTH, markersize=5, label="truth (never collected)")
    axes.set_yticks(places, [str(key) for key in found.keys])
    axes.set_xlabel("share of packages that depend on it")
    axes.set_title(
        f"{found.reports:,} clients, epsilon {result.plan.budget.epsilon:g} per dependency, "
        f"{result.record_bytes} bytes each",
        loc="left",
        fontsize=11,
    )
    axes.legend(loc="lower right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
