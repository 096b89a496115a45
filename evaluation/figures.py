"""Figures of experiments, as SVG and PNG, legible on paper and to colour-blind readers.

A method has one colour of Okabe and Ito's palette, one marker and one line style; no two methods
share colour and marker. Names are at the right end of the curves, in their order, in a darker
shade than the curves: sky blue and orange letters would be too pale on paper.
Bars are standard errors over the runs. The dotted grey line is the all-zero answer; the broad
grey steps of a plot over bytes are its Pareto front. A hollow marker is an answer that stays biased
however many clients there are, and the name of its curve says so.

Figures are drawn from the rows of a summary, so the same summary.csv gives the same bytes.
"""

import io
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.curves import Curve, Panel, panels, sizes
from evaluation.experiments import Experiment
from evaluation.label_layout import beside, fitted, spread
from evaluation.log import Record
from evaluation.methods import ZERO
from faintly.errors import MissingDependency

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AXES = {
    "sparsity": "sparsity k (items of a client)",
    "epsilon": "ε of one report",
    "universe": "size d of the universe (keys)",
    "distance": "hidden L1 distance L",
    "clients": "clients n",
    "bytes": "bytes of one report (spots that would touch stand side by side)",
}
MEASURES = {
    "linf": "L∞ error (largest error of a mean)",
    "mse": "MSE (mean squared error of a mean)",
    "recall": "share of the true top 20 found",
    "signal": "mean of the true top 20 / root of MSE",
    "ratio": "n·MSE / lower bound at the worst key",
}
LINEAR = ("recall",)
OURS = "ours"  # drawn on top, like its variants, whose names begin so
WIDE = (8.6, 4.6)  # with spots, which need more space than curves
PANEL = (5.5, 4.1)  # inches; small, so that letters stay legible where a page is narrow
LABEL_SIZE = 9.5
LABEL_GAP = 0.238  # inches between the names of two curves
APART = 9.0  # points between two markers that would cover each other: as wide as the largest
INK = 0.62  # of a curve's colour, for its name: at least 5:1 against white for each of them


def draw(experiment: Experiment, rows: Iterable[Record], folder: Path) -> list[Path]:
    """Write the figure of an experiment as NAME.svg and NAME.png; nothing if it has no curve.

    Args:
        experiment: what is shown.
        rows: a summary, as `Results.summary` or `read_summary` returns it.
        folder: where the files go.
    """
    figure = _figure(experiment, rows)
    if figure is None:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{experiment.name}.svg", folder / f"{experiment.name}.png"]
    # Without a date the same results give the same bytes.
    figure.savefig(paths[0], metadata={"Date": None})
    figure.savefig(paths[1], dpi=150)
    return paths


def svg(experiment: Experiment, rows: Iterable[Record]) -> str:
    """Return the figure of an experiment as `draw` writes it; empty if it has no curve."""
    figure = _figure(experiment, rows)
    if figure is None:
        return ""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def _figure(experiment: Experiment, rows: Iterable[Record]) -> Any | None:
    own = [row for row in rows if row["experiment"] == experiment.name]
    shown = list(panels(experiment, own))
    if not any(panel.curves for panel in shown):
        return None
    scatter = experiment.axis == "bytes"
    columns, (width, height) = (1, WIDE) if scatter else (min(2, len(shown)), PANEL)
    rows_of_panels = math.ceil(len(shown) / columns)
    figure = _blank(experiment.name, (width * columns, height * rows_of_panels + 0.4))
    grid = figure.subplots(rows_of_panels, columns, squeeze=False)
    for axes, panel in zip(grid.flat, shown, strict=False):
        _panel(axes, experiment, panel)
        if panel.title:
            axes.set_title(panel.title, loc="left", fontsize=10.5)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    title = ", ".join([experiment.title, *sizes(experiment, own)])
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    if scatter:
        figure.draw_without_rendering()  # only after this is it known which spots would touch
        for axes, panel in zip(grid.flat, shown, strict=False):
            _spots(axes, panel)
    return figure


def _blank(salt: str, size: tuple[float, float]) -> Any:
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingDependency.of("figures need matplotlib", "eval") from None
    from matplotlib.figure import Figure

    # Letters as shapes look the same everywhere; a salt makes the ids of several figures differ.
    mpl.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": salt, "font.size": 10.5})
    return Figure(figsize=size, layout="constrained")


def _panel(axes: "Axes", experiment: Experiment, panel: Panel) -> None:
    scatter, measure, curves = experiment.axis == "bytes", panel.measure, panel.curves
    for curve in curves:
        if curve.method is ZERO:
            _zero_line(axes, curve, across=scatter)
        elif not scatter:
            _draw(axes, curve, measure)
    _scales(axes, experiment, measure, curves)
    if measure == "ratio":
        axes.axhline(1.0, color="black", linewidth=1.2)
    _label(axes, sorted(curves, key=lambda curve: curve.y[-1]), spots=scatter)


def _draw(axes: "Axes", curve: Curve, measure: str, **changes: Any) -> None:
    """Draw a method's points with their bars, joined by its line."""
    look = {"linestyle": curve.look.line, "transform": axes.transData, **changes}
    top = 2.0 + curve.method.name.startswith(OURS) + (curve.method.name == OURS)
    axes.errorbar(
        curve.x,
        curve.y,
        yerr=[_lower_bars(curve, measure), curve.bars],
        linewidth=curve.look.width,
        elinewidth=0.9,
        capsize=2,
        zorder=top,
        **_spot(curve),
        **look,
    )
    hollow = [(x, y) for x, y, off in zip(curve.x, curve.y, curve.biased, strict=True) if off]
    if hollow:
        look |= {"linestyle": "none", "zorder": top + 0.1}
        axes.plot(*zip(*hollow, strict=True), **_spot(curve) | _hollow(curve), **look)


def _spots(axes: "Axes", panel: Panel) -> None:
    """Draw methods at their bytes; those that would overlap stand side by side."""
    from matplotlib.transforms import ScaledTranslation

    _front(axes, panel.curves)
    curves = [curve for curve in panel.curves if curve.method is not ZERO]
    inch = axes.figure.dpi
    ends = axes.transData.transform([(curve.x[0], curve.y[0]) for curve in curves]) / inch
    moved = beside([(float(x), float(y)) for x, y in ends], APART / 72)
    for curve, (from_x, _), (to_x, _) in zip(curves, ends, moved, strict=True):
        shift = ScaledTranslation(to_x - from_x, 0, axes.figure.dpi_scale_trans)
        place = axes.transData + shift
        _draw(axes, curve, panel.measure, linestyle="none", transform=place)


def _front(axes: "Axes", curves: list[Curve]) -> None:
    """Draw the Pareto front: the least error for at most so many bytes."""
    spots = sorted((curve.x[0], curve.y[0]) for curve in curves if curve.x[0] > 0)
    best = [spot for spot in spots if spot[1] <= min(y for x, y in spots if x <= spot[0])]
    if len(best) > 1:
        axes.step(*zip(*best, strict=True), where="post", color="0.7", linewidth=4, zorder=0.5)


def _zero_line(axes: "Axes", curve: Curve, *, across: bool) -> None:
    """Draw the all-zero answer, as a line across the panel if it has at most one point."""
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
    if experiment.axis == "bytes":
        _scale_for_spots(axes, curves, places)
    else:
        axes.set_xticks(_spaced(places, log=experiment.axis != "epsilon"))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    if experiment.axis != "bytes":
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(AXES[experiment.axis])
    axes.set_ylabel(MEASURES[measure])
    axes.grid(True, which="major", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _plain(axes: "Axes", curves: list[Curve]) -> None:
    """Label an axis of few decades with plain numbers: powers of ten alone would be too few."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    heights = [height for curve in curves for height in curve.y if height > 0]
    if not heights or max(heights) / min(heights) > 50:
        return
    steps = (1, 2, 5) if max(heights) / min(heights) > 2 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))


def _scale_for_spots(axes: "Axes", curves: list[Curve], places: list[float]) -> None:
    """Set limits and ticks of a panel over bytes, where most methods send few of them."""
    from matplotlib.ticker import NullFormatter

    low, high = places[0] / 1.6, places[-1] * 1.6
    heights = [height for curve in curves for height in curve.y]
    axes.set_ylim(min(heights) / 1.3, max(heights) * 1.3)
    # Numbers of four digits would touch if there were three of them to a decade of many.
    wide = high / low > 1000
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10**power for power in powers for step in (1, 2, 5)]
    axes.set_xticks(
        [
            tick
            for tick in ticks
            if low <= tick <= high and (tick <= 100 or not wide or math.log10(tick).is_integer())
        ]
    )
    axes.set_xlim(low, high)
    axes.xaxis.set_minor_formatter(NullFormatter())


def _spaced(places: list[float], *, log: bool) -> list[float]:
    """Return those places whose labels fit beside each other, first and last included."""
    if not places:
        return []
    scale = [math.log(place) if log else place for place in places]
    gap = (scale[-1] - scale[0]) / 9
    kept = [0]
    for position in range(1, len(places)):
        if scale[position] - scale[kept[-1]] >= gap:
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
    gap = LABEL_GAP / (WIDE if spots else PANEL)[1]
    heights = fitted(spread([end[1] for end in ends], gap), gap)
    for curve, end, height in zip(curves, ends, heights, strict=True):
        if spots:
            _legend_marker(axes, curve, height)
        axes.annotate(
            f"{curve.label}, {curve.x[-1]:,.0f} B" if spots and curve.x[-1] > 0 else curve.label,
            xy=end,
            xytext=(1.09 if spots else 1.06, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            fontsize=LABEL_SIZE,
            color=ink(curve),
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


def _legend_marker(axes: "Axes", curve: Curve, height: float) -> None:
    """Draw a method's marker before its name; a piece of its line for the all-zero answer."""
    places = [1.03, 1.07] if curve.method is ZERO else [1.05]
    axes.plot(
        places,
        [height] * len(places),
        transform=axes.transAxes,
        clip_on=False,
        scalex=False,
        scaley=False,
        linestyle=curve.look.line,
        linewidth=curve.look.width,
        **_spot(curve) | (_hollow(curve) if any(curve.biased) else {}),
    )


def _spot(curve: Curve) -> dict[str, Any]:
    """Return the look of a marker; a star is drawn larger, as its area is small."""
    ours = curve.method.name == OURS
    return {
        "color": curve.look.colour,
        "marker": curve.look.marker or None,
        "markersize": {"*": 10, "o": 9}.get(curve.look.marker, 7),
        "markeredgecolor": "black" if ours else "white",
        "markeredgewidth": 1.2 if ours else 0.6,
    }


def _hollow(curve: Curve) -> dict[str, Any]:
    """Return what changes in the look of a marker where the answer is biased."""
    return {
        "markerfacecolor": "white",
        "markeredgecolor": curve.look.colour,
        "markeredgewidth": 1.4,
        "markersize": 6,
    }


def ink(curve: Curve) -> tuple[float, ...]:
    """Return a darker shade of the curve's colour, for letters."""
    from matplotlib.colors import to_rgb

    return tuple(INK * part for part in to_rgb(curve.look.colour))
