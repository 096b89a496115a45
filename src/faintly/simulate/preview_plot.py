"""The picture of a preview: answers with their intervals beside the truth."""

from pathlib import Path

import numpy as np

from faintly.planner.plots import COLOURS, pyplot
from faintly.simulate.preview import Preview

LONGEST = 40  # letters of a key beside its row


def draw_preview(seen: Preview, path: Path) -> None:
    """Write the picture, in the format that the file's name asks for."""
    plt = pyplot(path)
    found = seen.top.estimates
    mean, low, high = found.answers()
    places = np.arange(len(found))[::-1]
    figure, axes = plt.subplots(figsize=(8, 0.32 * len(found) + 1.8), layout="constrained")
    if seen.visible < 1:
        axes.axvspan(0, seen.visible, color="0.93", label="too small to stand out")
    axes.errorbar(
        mean,
        places,
        xerr=np.stack([mean - low, high - mean]),
        fmt="o",
        color=COLOURS[0],
        capsize=3,
        label="private answer, 95 % interval",
    )
    axes.plot(seen.truth, places, "D", color=COLOURS[1], markersize=5, label="truth")
    axes.set_yticks(places, [_short(key) for key in found.keys])
    axes.set_xlabel("share of people" if seen.held.values == "set" else "mean over all people")
    budget = f"epsilon {seen.plan.budget.epsilon:g}, {seen.plan.unit} level"
    title = f"{seen.held.clients:,} people, {budget}, {seen.bytes:,} bytes each"
    axes.set_title(title, loc="left", fontsize=11)
    axes.legend(loc="lower right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _short(key: object) -> str:
    # A dollar sign would begin mathematics.
    text = str(key).replace("$", r"\$")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
