"""The house style of figures, answers beside the truth, and two pictures of a ranking.

A ranking is drawn as error against bytes, and error against epsilon. With a sample there is a
third picture, of bias and noise against the sparsity.

One colour and one marker per mechanism, in Okabe and Ito's palette, which colour-blind
readers can distinguish. Filled marks decode by table, hollow ones directly.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from faintly.core import Budget, Estimates, FloatArray
from faintly.errors import InvalidInput, MissingDependency
from faintly.mechanisms import mechanism_names
from faintly.planner.sample import Trials
from faintly.planner.search import Candidate, Ranking, survey

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
MARKERS = "osD^vP*X<>hd"
FAINT = "#8FBBD9"  # a lighter shade of the first colour
EPSILONS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 6.0)
SUFFIXES = (".png", ".svg", ".pdf")
LONGEST = 40  # letters of a key beside its row
STYLE = {
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.constrained_layout.use": True,
    "figure.titlesize": 12,
    "grid.color": "0.9",
    "legend.frameon": False,
    "savefig.dpi": 150,
}


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


@contextmanager
def figure(path: Path, *shape: int, **how: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a figure in the house style and its axes; the figure is written at the end."""
    plt = pyplot(path)
    with plt.rc_context(STYLE):
        made, axes = plt.subplots(*shape, **how)
        yield made, axes
        made.savefig(path)
        plt.close(made)


def plain_log(axis: Any) -> None:
    """Label a logarithmic axis with plain numbers, as many as fit beside each other."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = sorted(axis.get_view_interval())
    marks = (1,) if high > 1000 * low else (1, 2, 5) if high > 10 * low else range(1, 10)
    axis.set_major_locator(LogLocator(subs=marks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def draw_answers(
    path: Path,
    found: Estimates,
    truth: FloatArray,
    *,
    noise: tuple[float, float, str],
    labels: tuple[str, str],
    unbiased: bool,
) -> None:
    """Write a picture of answers with their error bars beside the truth.

    Args:
        path: of the picture, in the format of its suffix.
        found: the answers, a row for each.
        truth: the true mean of each.
        noise: the least and the largest mean that noise explains, and a label for them.
        labels: of the axis of means, and of the picture.
        unbiased: also draw the unbiased means that posterior answers are made of.
    """
    places = np.arange(len(found))[::-1]
    columns = [(found.answers(), COLOURS[0], 1.5, "private answer, 95 % interval")]
    if unbiased and found.posterior is not None:
        own = found.mean, found.low, found.high
        columns.insert(0, (own, FAINT, 4.0, "unbiased estimate, 95 % interval"))
    with figure(path, figsize=(8, 0.32 * len(found) + 1.8)) as (_, axes):
        axes.axvspan(*noise[:2], color="0.93", label=noise[2])
        for (mean, low, high), colour, width, label in columns:
            look = {"fmt": "o", "color": colour, "elinewidth": width, "label": label}
            axes.errorbar(mean, places, xerr=np.stack([mean - low, high - mean]), **look)
        look = {"color": COLOURS[1], "markersize": 5, "zorder": 3, "label": "truth"}
        axes.plot(truth, places, "D", **look)
        axes.set_yticks(places, [_short(key) for key in found.keys])
        axes.set_xlabel(labels[0])
        axes.set_title(labels[1])
        axes.legend(loc="lower right")


def _short(key: object) -> str:
    # A dollar sign would begin mathematics.
    text = str(key).replace("$", r"\$")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def draw(ranking: Ranking, path: Path, trials: Trials | None = None) -> None:
    """Write the pictures side by side, in the format of the file's suffix."""
    request = ranking.request
    count = 2 if trials is None else 3
    with figure(path, 1, count, figsize=(5.5 * count, 5.4)) as (made, every):
        _error_against_bytes(every[0], ranking)
        _error_against_epsilon(every[1], ranking)
        if trials is not None:
            _bias_against_noise(every[2], trials)
        for axes in every:
            axes.set_yscale("log")
            axes.grid(True, which="major")
            axes.set_ylabel(axes.get_ylabel() or "worst-case standard error of one mean")
            plain_log(axes.xaxis)
            plain_log(axes.yaxis)
        made.suptitle(
            f"protect {request.unit}, sparsity {request.sparsity:,}, {request.clients:,} clients",
            x=0.01,
            ha="left",
        )
        made.legend(handles=_key(ranking), loc="outside lower center", ncols=4)


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
    # Ours come first, so that a new baseline changes no colour.
    place = [*mechanism_names(baselines=False), *mechanism_names()].index(name)
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}


def _error_against_bytes(axes: "Axes", ranking: Ranking) -> None:
    axes.set_xscale("log")
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
    axes.set_title(f"error against bytes, epsilon {ranking.request.budget.epsilon:g}")


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


def _error_against_epsilon(axes: "Axes", ranking: Ranking) -> None:
    axes.set_xscale("log")
    for name, points in best_by_epsilon(ranking).items():
        axes.plot(*zip(*points, strict=True), linewidth=1.6, markersize=5, **_look(name))
    request = ranking.request
    budgets = [Budget(epsilon, request.budget.delta) for epsilon in EPSILONS]
    bounds = np.array([replace(request, budget=budget).bound for budget in budgets])
    # A bound of 0 has no place on a logarithmic axis.
    floors = np.sqrt(np.where(bounds > 0, bounds, np.nan) / request.clients)
    axes.plot(EPSILONS, floors, color="black", linestyle="--", linewidth=1.2)
    axes.axvline(request.budget.epsilon, color="0.75", linewidth=1, zorder=0)
    axes.set_xlabel("epsilon of one report (the thin line is the plan's)")
    axes.set_title("error against epsilon, best of each mechanism")


def _bias_against_noise(axes: "Axes", trials: Trials) -> None:
    axes.set_xscale("log")
    tried = [one.sparsity for one in trials.tried]
    # A bias of 0 has no place on a logarithmic axis.
    biases = [one.excess.bias or math.nan for one in trials.tried]
    axes.plot(tried, biases, "v-", color=COLOURS[1], label="bias")
    axes.plot(tried, [one.noise for one in trials.tried], "o-", color=COLOURS[0], label="noise")
    axes.plot(tried, [one.error for one in trials.tried], "k--", linewidth=1.2, label="both")
    axes.set_ylim(bottom=min(one.noise for one in trials.tried) / 10)
    axes.axvline(trials.pick.sparsity, color="0.75", linewidth=1, zorder=0)
    axes.legend()
    axes.set_xlabel("sparsity (the thin line is the best)")
    axes.set_ylabel("error of the mean that loses most")
    axes.set_title("bias against noise, on the sample")


def _key(ranking: Ranking) -> list[Any]:
    from matplotlib.lines import Line2D

    names = sorted({one.mechanism for one in ranking.candidates})
    entries = [Line2D([], [], markersize=7, label=name, **_look(name)) for name in names]
    mark = {"linestyle": "none", "marker": "o", "color": "0.3", "markersize": 7}
    looks: dict[str, dict[str, Any]] = {
        "decoded by table": mark,
        "decoded directly": mark | {"markersize": 10, "markerfacecolor": "white"},
        "chosen": mark | {"markersize": 14, "markerfacecolor": "none"},
        "with a drawback": mark | {"alpha": 0.3},
        "Pareto front": {"color": "0.6"},
        "lower bound, any mechanism": {"color": "black", "linestyle": "--"},
    }
    return entries + [Line2D([], [], label=label, **look) for label, look in looks.items()]
