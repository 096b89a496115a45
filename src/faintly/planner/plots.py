"""Two pictures of a ranking: error against bytes, and error against epsilon.

With a sample there is a third, of bias and noise against the sparsity.

One colour and one marker per mechanism, in Okabe and Ito's palette, which colour-blind
readers can tell apart. Filled marks decode by table, hollow ones directly.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faintly.core import Budget
from faintly.errors import InvalidInput, MissingDependency
from faintly.mechanisms import mechanism_names
from faintly.planner.sample import Trials
from faintly.planner.search import Candidate, Ranking, survey

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
MARKERS = "osD^vP*X<>hd"
EPSILONS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 6.0)
SUFFIXES = (".png", ".svg", ".pdf")


def draw(ranking: Ranking, path: Path, trials: Trials | None = None) -> None:
    """Write the pictures side by side, in the format that the file's name asks for."""
    plt = pyplot(path)
    request = ranking.request
    count = 2 if trials is None else 3
    figure, every = plt.subplots(1, count, figsize=(5.5 * count, 5.4), layout="constrained")
    _error_against_bytes(every[0], ranking)
    _error_against_epsilon(every[1], ranking)
    if trials is not None:
        _bias_against_noise(every[2], trials)
    for axes in every:
        axes.set_yscale("log")
        axes.grid(True, which="major", color="0.9", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylabel(axes.get_ylabel() or "worst-case standard error of one mean")
        _plain(axes.yaxis)
    figure.suptitle(
        f"protect {request.unit}, sparsity {request.sparsity:,}, {request.clients:,} clients",
        x=0.01,
        ha="left",
        fontsize=12,
    )
    figure.legend(handles=_key(ranking), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def pyplot(path: Path) -> Any:
    """Return matplotlib.pyplot without a screen, for a picture in a format that can be written."""
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"a plot is written as {', '.join(SUFFIXES)}, not {path.suffix!r}")
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingDependency.of("plots need matplotlib", "eval") from None
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def pareto(candidates: list[Candidate]) -> list[Candidate]:
    """Return the candidates that no other beats in both bytes and error, by bytes."""
    front: list[Candidate] = []
    for one in sorted(candidates, key=lambda each: (each.bytes, each.worst)):
        if not front or one.worst < front[-1].worst * (1 - 1e-9):
            front.append(one)
    return front


def best_by_epsilon(ranking: Ranking) -> dict[str, list[tuple[float, float]]]:
    """Return, for each mechanism, (ε, standard error) of its best candidate where it can serve."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for epsilon in EPSILONS:
        budget = Budget(epsilon, ranking.request.budget.delta)
        best: dict[str, float] = {}
        for one in survey(replace(ranking.request, budget=budget)).candidates:
            best.setdefault(one.mechanism, one.stderr)
        for name, error in best.items():
            curves.setdefault(name, []).append((epsilon, error))
    return curves


def _look(name: str) -> dict[str, Any]:
    # Ours come first, so that another baseline changes no colour.
    place = [*mechanism_names(baselines=False), *mechanism_names()].index(name)
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKERS[place % len(MARKERS)],
    }


def _error_against_bytes(axes: "Axes", ranking: Ranking) -> None:
    axes.set_xscale("log", base=2)
    for one in sorted(ranking.candidates, key=lambda each: each.decode):
        look = _look(one.mechanism)
        axes.plot(
            one.bytes,
            one.stderr,
            linestyle="none",
            # Where both decodings of one variant meet, the ring shows around the dot.
            markersize=7 if one.decode == "table" else 11,
            markerfacecolor=look["color"] if one.decode == "table" else "white",
            alpha=0.3 if one.drawbacks else 1.0,
            **look,
        )
    floor = math.sqrt(max(0.0, ranking.pick.bound) / ranking.request.clients)
    if floor > 0:
        axes.axhline(floor, color="black", linestyle="--", linewidth=1.2)
    pick = ranking.pick
    axes.plot(pick.bytes, pick.stderr, "o", markersize=19, markerfacecolor="none", color="black")
    axes.set_yscale("log")
    axes.margins(x=0.15, y=0.12)
    _draw_front(axes, pareto([one for one in ranking.candidates if not one.drawbacks]))
    axes.set_xlabel("bytes of one report")
    axes.set_title(
        f"error against bytes, epsilon {ranking.request.budget.epsilon:g}", loc="left", fontsize=11
    )
    axes.set_xticks(_spaced({one.bytes for one in ranking.candidates}, axes.get_xlim()))
    axes.minorticks_off()
    _plain(axes.xaxis)


def _draw_front(axes: "Axes", front: list[Candidate]) -> None:
    """Draw the front as steps, from the upper edge to the right one."""
    if not front:
        return
    right, top = axes.get_xlim()[1], axes.get_ylim()[1]
    axes.autoscale(False)
    axes.step(
        [front[0].bytes, *(one.bytes for one in front), right],
        [top, *(one.stderr for one in front), front[-1].stderr],
        where="post",
        color="0.6",
        linewidth=1.5,
        zorder=1.5,
    )


def _spaced(sizes: set[int], limits: tuple[float, float]) -> list[int]:
    """Return the report sizes whose labels fit beside each other, the smallest first."""
    room = math.log(limits[1] / limits[0]) / 14
    kept: list[int] = []
    for size in sorted(sizes):
        if not kept or math.log(size / kept[-1]) >= room:
            kept.append(size)
    return kept


def _error_against_epsilon(axes: "Axes", ranking: Ranking) -> None:
    axes.set_xscale("log")
    for name, points in best_by_epsilon(ranking).items():
        axes.plot(*zip(*points, strict=True), linewidth=1.6, markersize=5, **_look(name))
    request = ranking.request
    floors = [
        replace(request, budget=Budget(epsilon, request.budget.delta)).bound for epsilon in EPSILONS
    ]
    shown = [
        (epsilon, math.sqrt(floor / request.clients))
        for epsilon, floor in zip(EPSILONS, floors, strict=True)
        if floor > 0
    ]
    axes.plot(*zip(*shown, strict=True), color="black", linestyle="--", linewidth=1.2)
    axes.axvline(request.budget.epsilon, color="0.75", linewidth=1, zorder=0)
    axes.set_xlabel("epsilon of one report (the thin line is the plan's)")
    axes.set_title("error against epsilon, best of each mechanism", loc="left", fontsize=11)
    axes.set_xticks([0.25, 0.5, 1, 2, 4, 6])
    axes.minorticks_off()
    _plain(axes.xaxis)


def _bias_against_noise(axes: "Axes", trials: Trials) -> None:
    axes.set_xscale("log")
    tried = [one.sparsity for one in trials.tried]
    # Nothing lost has no place on a logarithmic axis.
    biases = [one.excess.bias or math.nan for one in trials.tried]
    axes.plot(tried, biases, "v-", color=COLOURS[1], label="bias")
    axes.plot(tried, [one.noise for one in trials.tried], "o-", color=COLOURS[0], label="noise")
    axes.plot(tried, [one.error for one in trials.tried], "k--", linewidth=1.2, label="both")
    axes.set_ylim(bottom=min(one.noise for one in trials.tried) / 10)
    axes.axvline(trials.pick.sparsity, color="0.75", linewidth=1, zorder=0)
    axes.legend(frameon=False)
    axes.set_xlabel("sparsity (the thin line is the best)")
    axes.set_ylabel("error of the mean that loses most")
    axes.set_title("bias against noise, on the sample", loc="left", fontsize=11)
    axes.minorticks_off()
    _plain(axes.xaxis)


def _plain(axis: Any) -> None:
    """Label an axis with plain numbers, as many as fit without touching each other."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    plain = FuncFormatter(lambda value, _: f"{value:g}")
    low, high = axis.get_view_interval()
    # Within one decade or so the major ticks alone would leave the axis bare.
    narrow = axis.axis_name == "y" and high / max(low, 1e-300) < 40
    few = FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "235" else "")
    axis.set_major_formatter(plain)
    axis.set_minor_formatter((few if high / low > 3 else plain) if narrow else NullFormatter())


def _key(ranking: Ranking) -> list[Any]:
    from matplotlib.lines import Line2D

    names = sorted({one.mechanism for one in ranking.candidates})
    entries = [Line2D([], [], markersize=7, label=name, **_look(name)) for name in names]
    mark: dict[str, Any] = {"linestyle": "none", "marker": "o", "color": "0.3", "markersize": 7}
    return [
        *entries,
        Line2D([], [], label="decoded by table", **mark),
        Line2D(
            [], [], label="decoded directly", markerfacecolor="white", **{**mark, "markersize": 10}
        ),
        Line2D([], [], label="chosen", **{**mark, "markersize": 14}, markerfacecolor="none"),
        Line2D([], [], label="with a drawback", alpha=0.3, **mark),
        Line2D([], [], color="0.6", label="Pareto front"),
        Line2D([], [], color="black", linestyle="--", label="lower bound, any mechanism"),
    ]
