"""The cost of decoding every key, against reports, keys and items per client, and its plot.

python -m benchmarks.scaling [--json FILE] [--plot FILE]      peers only after `make peers`

Slow cases run on a subset of the keys (peers: of reports and keys) and are scaled linearly; their
points are hollow. Local hashing takes one item instead of a vector: against n and d a client sends
one of its reports, against k it sends k of them.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from benchmarks import Effort, comparison, document, measure, peer_process, samples
from benchmarks.decode import PAIRS_OF_LOOP, all_totals
from benchmarks.measure import one_core
from benchmarks.peer_process import Case
from benchmarks.result import shown as number
from benchmarks.script import options, save, started
from faintly.mechanisms import mechanism_of

BASE = {"reports": 100_000, "keys": 100_000, "items": 8}
AXES: dict[str, tuple[int, ...]] = {
    "reports": (1_000, 10_000, 100_000, 1_000_000),
    "keys": (1_000, 10_000, 100_000, 1_000_000),
    "items": (2, 4, 8, 16, 32, 64),
}
LABELS = {"reports": "reports n", "keys": "keys d", "items": "items a client holds, k"}
EFFORT = Effort(rounds=7, seconds=0.5)
PEER_SUBSET = (1_000, 200)  # reports and keys
# Okabe and Ito's colours, which colour-blind readers can tell apart; each curve has its own mark.
STYLES = {
    "multi-freq-ldpy OLH": ("#CC79A7", "v"),
    "pure-ldp OLH": ("#D55E00", "^"),
    "paper's loop": ("#E69F00", "s"),
    "faintly, direct": ("#56B4E9", "D"),
    "faintly, table": ("#0072B2", "o"),
}


def table_seconds(reports: int, keys: int, items: int) -> tuple[float, bool]:
    """Return the time of a full decode by tables; nothing is scaled."""
    plan = samples.retrieval_plan(reports, keys, items, "table")
    batches, ids = list(samples.batches(plan, reports)), np.arange(keys, dtype=np.uint64)
    return measure(lambda: all_totals(plan, batches, ids), EFFORT).best, False


def direct_seconds(reports: int, keys: int, items: int) -> tuple[float, bool]:
    """Return the time of reading every key from hashed reports."""
    plan = samples.retrieval_plan(reports, keys, items, "direct")
    (batch,) = samples.batches(plan, reports, reports)
    mechanism, asked = mechanism_of(plan), _subset(reports, keys)
    timing = measure(lambda: mechanism.read(batch, asked), EFFORT)
    return timing.best * keys / len(asked), len(asked) < keys


def loop_seconds(reports: int, keys: int, items: int) -> tuple[float, bool]:
    """Return the time of the paper's loop, with the bins that the paper takes at ε = 1."""
    seeds, values = samples.paper_reports(reports, max(1, items // 4))
    asked = _subset(reports, keys)
    timing = measure(lambda: comparison.paper_loop(seeds, values, asked), EFFORT)
    return timing.best * keys / len(asked), len(asked) < keys


def _subset(reports: int, keys: int) -> "np.ndarray[Any, np.dtype[np.uint64]]":
    return np.arange(min(keys, max(1, PAIRS_OF_LOOP // reports)), dtype=np.uint64)


def peer_seconds() -> tuple[dict[str, float], dict[str, str]]:
    """Return the time that each peer takes for one report and one key, and the peers' versions."""
    names = [name for name in STYLES if name in {"multi-freq-ldpy OLH", "pure-ldp OLH"}]
    if not peer_process.available():
        print(f"left out: {peer_process.HOW_TO}", file=sys.stderr)
        return {}, {}
    reports, keys = PEER_SUBSET
    seconds, versions = peer_process.ask([Case(name, reports, keys) for name in names])
    pairs = {name: time / (reports * keys) for name, time in zip(names, seconds, strict=True)}
    return pairs, versions


def points(pair: dict[str, float]) -> Iterator[dict[str, Any]]:
    """Yield every point: axis, curve, x, seconds, and whether it is scaled from a subset."""
    ours = {
        "faintly, table": table_seconds,
        "faintly, direct": direct_seconds,
        "paper's loop": loop_seconds,
    }
    for axis, places in AXES.items():
        started(f"cost against {axis}")
        for x in places:
            size = BASE | {axis: x}
            for curve, timed in ours.items():
                seconds, scaled = timed(**size)
                yield _point(axis, curve, x, seconds, scaled)
            each = size["reports"] * size["keys"] * (x if axis == "items" else 1)
            for peer, one in pair.items():
                yield _point(axis, peer, x, one * each, scaled=True)


def _point(axis: str, curve: str, x: int, seconds: float, scaled: bool) -> dict[str, Any]:
    return {"axis": axis, "curve": curve, "x": x, "seconds": seconds, "scaled": scaled}


def show(measured: list[dict[str, Any]]) -> None:
    """Print the points, one line for each place on an axis."""
    curves = [curve for curve in STYLES if any(p["curve"] == curve for p in measured)]
    for axis, places in AXES.items():
        print(f"\nseconds to decode every key, by {LABELS[axis]} (* scaled from a subset)")
        print(
            "".join([f"{'':>10}", *(f"{curve:>21}" for curve in curves), f"{'loop / table':>16}"])
        )
        for x in places:
            row = {p["curve"]: p for p in measured if (p["axis"], p["x"]) == (axis, x)}
            cells = (
                f"{number(row[curve]['seconds'])}{'*' if row[curve]['scaled'] else ' '}"
                for curve in curves
            )
            gained = row["paper's loop"]["seconds"] / row["faintly, table"]["seconds"]
            shown = [f"{x:>10,}", *(f"{cell:>21}" for cell in cells), f"{number(gained):>15}x"]
            print("".join(shown))


def draw(made: dict[str, Any], path: Path) -> None:
    """Save the plot as SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # No date and no random names, so that the same points give the same file.
    mpl.rcParams.update({"svg.hashsalt": "faintly", "svg.fonttype": "path", "font.size": 9})
    figure = Figure(figsize=(10, 3.9), layout="constrained")
    panels = figure.subplots(1, len(AXES), sharey=True)
    for panel, axis in zip(panels, AXES, strict=True):
        for curve, (colour, mark) in STYLES.items():
            mine = [p for p in made["points"] if p["axis"] == axis and p["curve"] == curve]
            xs, ys = [p["x"] for p in mine], [p["seconds"] for p in mine]
            panel.plot(xs, ys, color=colour, linewidth=1.3)
            for point in mine:
                face = "white" if point["scaled"] else colour
                panel.plot(point["x"], point["seconds"], mark, mec=colour, mfc=face, ms=5)
        panel.set(xscale="log", yscale="log", xlabel=LABELS[axis])
        panel.grid(visible=True, which="major", color="0.9")
        fixed = [
            f"{LABELS[other].split()[-1]} = {BASE[other]:,}" for other in AXES if other != axis
        ]
        panel.set_title(", ".join(fixed), fontsize=9)
    panels[2].set_xticks(AXES["items"], [str(x) for x in AXES["items"]], minor=False)
    panels[2].minorticks_off()
    panels[0].set_ylabel("seconds to decode every key, one core")
    drawn = {point["curve"] for point in made["points"]}
    handles = [
        Line2D([], [], color=colour, marker=mark, label=curve)
        for curve, (colour, mark) in STYLES.items()
        if curve in drawn
    ]
    hollow = Line2D([], [], color="0.4", marker="o", mfc="white", ls="", label="hollow: scaled")
    figure.legend(handles=[*handles, hollow], loc="outside right center", frameon=False)
    figure.savefig(path, format="svg", metadata={"Date": None})


def main() -> int:
    """Measure the points, print them, save and plot them."""
    parser = options("Scaling")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="save the plot as SVG")
    given = parser.parse_args()
    with one_core():
        pair, versions = peer_seconds()
        measured = list(points(pair))
    show(measured)
    made = document([]) | {"points": measured}
    made["versions"] |= versions
    save("Scaling", made, given.json)
    if given.plot:
        draw(made, given.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
