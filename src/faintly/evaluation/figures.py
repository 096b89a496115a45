"""Figures of experiments, as SVG and PNG: for paper, screens and colour-blind readers.

A method has one colour of Okabe and Ito's palette, one marker and one line style; no two methods
share colour and marker. Names stand at the right end of the curves, in their order, in a darker
ink than the curves: sky blue and orange letters would be too pale for paper.
Bars are standard errors over the runs. The dotted grey line is the all-zero answer; the broad
grey steps of a plot over bytes are its Pareto front.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faintly.errors import MissingDependency
from faintly.evaluation.experiments import Experiment
from faintly.evaluation.methods import ZERO
from faintly.evaluation.results import Cell, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AXES = {
    "sparsity": "sparsity k (items of a client)",
    "epsilon": "ε of one report",
    "universe": "size d of the universe (keys)",
    "distance": "hidden L1 distance L",
    "clients": "clients n",
    "bytes": "bytes of one report",
}
MEASURES = {
    "linf": "L∞ error (largest error of a mean)",
    "mse": "MSE (mean squared error of a mean)",
    "recall": "share of the true top 20 found",
    "signal": "mean of the true top 20 / root of MSE",
    "ratio": "n·MSE / lower bound",
}
LINEAR = ("recall",)
HAS_ZERO = ("linf", "mse", "ratio")
PANEL = (5.5, 4.1)  # inches; small, so that letters stay legible where a page is narrow
LABEL_SIZE = 9.5
LABEL_ROOM = 0.058  # of the height of a panel, between the names of two curves
INK = 0.62  # of a curve's colour, for its name: at least 5:1 against white for each of them


@dataclass(frozen=True)
class Curve:
    """One method along the axis of a panel."""

    cells: list[Cell]
    x: list[float]
    y: list[float]
    bars: list[float]

    @property
    def look(self) -> Any:
        """Return how the method is drawn."""
        return self.cells[0].method.look

    @property
    def label(self) -> str:
        """Return the method's name for people."""
        return self.cells[0].method.label


def draw(experiment: Experiment, results: Results, folder: Path) -> list[Path]:
    """Write the figure of an experiment as NAME.svg and NAME.png; nothing if it has no curve."""
    panels = [(title, measure, curves) for title, measure, curves in _panels(experiment, results)]
    if not any(curves for _, _, curves in panels):
        return []
    plt = _pyplot(experiment.name)
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    size = (PANEL[0] * columns, PANEL[1] * rows + 0.4)
    figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for axes, (title, measure, curves) in zip(grid.flat, panels, strict=False):
        _panel(axes, experiment, measure, curves)
        if title:
            axes.set_title(title, loc="left", fontsize=10.5)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    figure.suptitle(experiment.title, x=0.01, ha="left", fontsize=12)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{experiment.name}.svg", folder / f"{experiment.name}.png"]
    # Without a date the same results give the same bytes.
    figure.savefig(paths[0], metadata={"Date": None})
    figure.savefig(paths[1], dpi=150)
    plt.close(figure)
    return paths


def _pyplot(salt: str) -> Any:
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingDependency("figures need matplotlib: pip install 'faintly[eval]'") from None
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    # Letters as shapes look the same everywhere, and a salt keeps ids of several figures apart.
    plt.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": salt, "font.size": 10.5})
    return plt


def _panels(experiment: Experiment, results: Results) -> Iterator[tuple[str, str, list[Curve]]]:
    """Yield title, measure and curves of each panel."""
    cells = results.cells(experiment)
    facets: dict[str, list[Cell]] = {}
    for cell in cells:
        facets.setdefault(_facet(experiment, cell), []).append(cell)
    for facet, members in facets.items():
        for measure in experiment.measures:
            yield facet, measure, _curves(experiment, members, measure)


def _facet(experiment: Experiment, cell: Cell) -> str:
    if experiment.facet is None:
        return ""
    unit, data = f"{cell.point.unit} level", cell.point.data.name
    return {"unit": unit, "data": data, "data and unit": f"{data}, {unit}"}[experiment.facet]


def _curves(experiment: Experiment, cells: Sequence[Cell], measure: str) -> list[Curve]:
    by_method: dict[str, list[Cell]] = {}
    for cell in cells:
        if not math.isnan(cell.mean(measure)) and (cell.method is not ZERO or measure in HAS_ZERO):
            by_method.setdefault(cell.method.name, []).append(cell)
    curves = []
    for members in by_method.values():
        spots = [(_place(experiment, cell), cell) for cell in members]
        spots.sort(key=lambda spot: spot[0])
        ordered = [cell for _, cell in spots]
        bars = [cell.stderr(measure) for cell in ordered]
        curves.append(
            Curve(
                ordered,
                [place for place, _ in spots],
                [cell.mean(measure) for cell in ordered],
                [0.0 if math.isnan(bar) else bar for bar in bars],
            )
        )
    return curves


def _place(experiment: Experiment, cell: Cell) -> float:
    if experiment.axis == "bytes":
        return cell.bytes
    place = cell.point.at(experiment.axis)
    assert isinstance(place, float)
    return place


def _panel(axes: "Axes", experiment: Experiment, measure: str, curves: list[Curve]) -> None:
    scatter = experiment.axis == "bytes"
    for curve in curves:
        if curve.cells[0].method is ZERO:
            _zero_line(axes, curve, across=scatter)
            continue
        look = curve.look
        axes.errorbar(
            curve.x,
            curve.y,
            yerr=[_lower_bars(curve, measure), curve.bars],
            linestyle="none" if scatter else look.line,
            linewidth=look.width,
            elinewidth=0.9,
            capsize=2,
            **_spot(curve),
        )
    _scales(axes, experiment, measure, curves)
    if measure == "ratio":
        axes.axhline(1.0, color="black", linewidth=1.2)
    if scatter:
        _front(axes, curves)
    _label(axes, sorted(curves, key=lambda curve: curve.y[-1]), spots=scatter)


def _front(axes: "Axes", curves: list[Curve]) -> None:
    """Draw the steps below which no method errs in so few bytes."""
    spots = sorted((curve.x[0], curve.y[0]) for curve in curves if curve.x[0] > 0)
    best = [spot for spot in spots if spot[1] <= min(y for x, y in spots if x <= spot[0])]
    if len(best) > 1:
        axes.step(*zip(*best, strict=True), where="post", color="0.7", linewidth=4, zorder=0.5)


def _zero_line(axes: "Axes", curve: Curve, *, across: bool) -> None:
    """Draw the all-zero answer, across the panel where it has one place only or none."""
    look: dict[str, Any] = {
        "color": curve.look.colour,
        "linestyle": curve.look.line,
        "linewidth": curve.look.width,
        "zorder": 1,
    }
    if across or len(curve.x) == 1:
        axes.axhline(curve.y[0], **look)
    else:
        axes.plot(curve.x, curve.y, **look)


def _lower_bars(curve: Curve, measure: str) -> list[float]:
    """Return the bars' lower halves; a logarithmic axis cannot show one that reaches 0."""
    if measure in LINEAR:
        return curve.bars
    return [min(bar, 0.9 * height) for height, bar in zip(curve.y, curve.bars, strict=True)]


def _scales(axes: "Axes", experiment: Experiment, measure: str, curves: list[Curve]) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    if experiment.axis != "epsilon":
        axes.set_xscale("log")
    if measure in LINEAR:
        axes.set_ylim(-0.03, 1.03)
    else:
        axes.set_yscale("log")
        _plain(axes, curves)
    places = sorted({place for curve in curves for place in curve.x if place > 0})
    if experiment.axis == "bytes":  # each name says its bytes
        axes.set_xticks([10.0**power for power in _powers(places)])
    else:
        axes.set_xticks(_spaced(places, log=experiment.axis != "epsilon"))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(AXES[experiment.axis])
    axes.set_ylabel(MEASURES[measure])
    axes.grid(True, which="major", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _plain(axes: "Axes", curves: list[Curve]) -> None:
    """Label an axis of few decades with plain numbers: its powers of ten alone say too little."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    heights = [height for curve in curves for height in curve.y if height > 0]
    if not heights or max(heights) / min(heights) > 50:
        return
    steps = (1, 2, 5) if max(heights) / min(heights) > 2 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))


def _powers(places: list[float]) -> range:
    """Return the powers of ten from below the first place to above the last."""
    return range(math.floor(math.log10(places[0])), math.ceil(math.log10(places[-1])) + 1)


def _spaced(places: list[float], *, log: bool) -> list[float]:
    """Return those places whose labels fit beside each other, first and last included."""
    if not places:
        return []
    scale = [math.log(place) if log else place for place in places]
    room = (scale[-1] - scale[0]) / 9
    kept = [0]
    for position in range(1, len(places)):
        if scale[position] - scale[kept[-1]] >= room:
            kept.append(position)
    return [places[position] for position in kept]


def _label(axes: "Axes", curves: list[Curve], *, spots: bool) -> None:
    """Write names right of the panel, in the order of the curves' ends, none over another.

    A thin line joins a name to its curve. Lines to spots all over a panel would cross it, so
    there the name has the spot's marker before it instead.
    """
    axes.margins(x=0.08 if spots else 0.03, y=0.08)
    axes.autoscale_view()
    ends = [_end(axes, curve) for curve in curves]
    heights = raised(spread([end[1] for end in ends], LABEL_ROOM), LABEL_ROOM)
    for curve, end, height in zip(curves, ends, heights, strict=True):
        if spots:
            _sign(axes, curve, height)
        axes.annotate(
            f"{curve.label}, {curve.x[-1]:,.0f} B" if spots and curve.x[-1] > 0 else curve.label,
            xy=end,
            xytext=(1.09 if spots else 1.06, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            fontsize=LABEL_SIZE,
            color=_ink(curve),
            va="center",
            annotation_clip=False,
            arrowprops=None if spots else _line(curve),
        )


def _end(axes: "Axes", curve: Curve) -> tuple[float, float]:
    """Return where a curve ends, in shares of the panel; a line across it ends at its edge."""
    if curve.x[-1] > 0:
        across, up = (axes.transData + axes.transAxes.inverted()).transform(
            (curve.x[-1], curve.y[-1])
        )
        return float(across), float(up)
    up = (axes.get_yaxis_transform() + axes.transAxes.inverted()).transform((1.0, curve.y[-1]))[1]
    return 1.0, float(up)


def _line(curve: Curve) -> dict[str, Any]:
    """Return the look of the line from a name, from the middle of its left edge, to its curve."""
    look = {"arrowstyle": "-", "linewidth": 0.6, "shrinkB": 4, "relpos": (0, 0.5)}
    return look | {"color": curve.look.colour}


def _sign(axes: "Axes", curve: Curve, height: float) -> None:
    """Draw a method's marker before its name; a piece of its line for the all-zero answer."""
    places = [1.03, 1.07] if curve.cells[0].method is ZERO else [1.05]
    axes.plot(
        places,
        [height] * len(places),
        transform=axes.transAxes,
        clip_on=False,
        scalex=False,
        scaley=False,
        linestyle=curve.look.line,
        linewidth=curve.look.width,
        **_spot(curve),
    )


def _spot(curve: Curve) -> dict[str, Any]:
    """Return the look of a marker."""
    return {
        "color": curve.look.colour,
        "marker": curve.look.marker or None,
        "markersize": 10 if curve.look.marker == "*" else 7,  # a star's area is small
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
    }


def _ink(curve: Curve) -> tuple[float, ...]:
    """Return a darker shade of the curve's colour, for letters."""
    from matplotlib.colors import to_rgb

    return tuple(INK * part for part in to_rgb(curve.look.colour))


def spread(wanted: list[float], room: float) -> list[float]:
    """Return ascending heights at least `room` apart, as near to the wanted ones as that allows.

    >>> spread([0.5, 0.5], 0.1)
    [0.45, 0.55]
    """
    groups: list[list[float]] = []  # runs of labels that touch, by what each of them wants
    for height in wanted:
        groups.append([height])
        while len(groups) > 1 and _bottom(groups[-1], room) < _top(groups[-2], room) + room:
            last = groups.pop()
            groups[-1] += last
    return [
        round(_bottom(group, room) + position * room, 10)
        for group in groups
        for position in range(len(group))
    ]


def raised(heights: list[float], room: float) -> list[float]:
    """Return ascending heights with none below the panel, where the labels of its axis are.

    >>> raised([-0.1, 0.02, 0.5], 0.1)
    [0.05, 0.15, 0.5]
    """
    out: list[float] = []
    for height in heights:
        out.append(round(max(height, out[-1] + room if out else room / 2), 10))
    return out


def _bottom(group: list[float], room: float) -> float:
    return sum(group) / len(group) - room * (len(group) - 1) / 2


def _top(group: list[float], room: float) -> float:
    return sum(group) / len(group) + room * (len(group) - 1) / 2
