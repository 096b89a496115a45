"""From the rows of a summary to the panels of a figure, each with its curves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evaluation.experiments import Experiment
from evaluation.log import Record
from evaluation.methods import METHODS, ZERO, Look, Method
from evaluation.results import UNBIASED

HAS_ZERO = ("linf", "mse", "ratio")  # measures that the all-zero answer has
SIZES = {"clients": "n", "sparsity": "k"}  # shown in titles, where all rows agree


@dataclass(frozen=True)
class Curve:
    """One method along the axis of a panel."""

    method: Method
    x: list[float]
    y: list[float]
    bars: list[float]
    biased: list[bool]

    @property
    def look(self) -> Look:
        """Return how the method is drawn."""
        return self.method.look

    @property
    def label(self) -> str:
        """Return the method's name for people, and whether its answers are biased."""
        return self.method.label + (" (biased)" if any(self.biased) else "")


@dataclass(frozen=True)
class Panel:
    """One pair of axes: its title, beyond the figure's own, and what it shows."""

    title: str
    measure: str
    curves: list[Curve]


def panels(experiment: Experiment, rows: list[Record]) -> Iterator[Panel]:
    """Yield the panels of an experiment, from its rows of a summary."""
    facets: dict[str, list[Record]] = {}
    for row in rows:
        facets.setdefault(_facet(experiment, row), []).append(row)
    everywhere = sizes(experiment, rows)
    for facet, members in facets.items():
        own = [size for size in sizes(experiment, members) if size not in everywhere]
        title = ", ".join([facet, *own] if facet else own)
        for measure in experiment.measures:
            yield Panel(title, measure, _curves(experiment, members, measure))


def _facet(experiment: Experiment, row: Record) -> str:
    if experiment.facet is None:
        return ""
    unit = f"{row['unit']} level"
    return {"unit": unit, "data and unit": f"{row['data']}, {unit}"}[experiment.facet]


def _curves(experiment: Experiment, rows: Sequence[Record], measure: str) -> list[Curve]:
    by_method: dict[str, list[Record]] = {}
    for row in rows:
        zero = row["method"] == ZERO.name
        if row[measure] is not None and (not zero or measure in HAS_ZERO):
            by_method.setdefault(row["method"], []).append(row)
    curves = []
    for name, members in by_method.items():
        ordered = sorted(members, key=lambda row: _place(experiment, row))
        curves.append(
            Curve(
                METHODS.get(name, ZERO),
                [_place(experiment, row) for row in ordered],
                [row[measure] for row in ordered],
                [row[f"{measure}_stderr"] or 0.0 for row in ordered],
                # That the all-zero answer is biased goes without saying.
                [name != ZERO.name and row["claimed_bias"] > UNBIASED for row in ordered],
            )
        )
    # A single point far from its name at the right end is not drawn; the tables have it.
    end = max((curve.x[-1] for curve in curves), default=0.0)
    return [
        curve
        for curve in curves
        if len(curve.x) > 1 or experiment.axis == "bytes" or curve.x[-1] == end
    ]


def _place(experiment: Experiment, row: Record) -> float:
    if experiment.axis == "distance":
        return float(row["unit"].partition(":")[2])
    return float(row[experiment.axis])


def sizes(experiment: Experiment, rows: list[Record]) -> list[str]:
    """Return how many clients and items there are, where all rows agree and no title has it."""
    parts = []
    for column, letter in SIZES.items():
        found = {row[column] for row in rows}
        if len(found) == 1 and f"{letter} = " not in experiment.title:
            parts.append(f"{letter} = {found.pop():,.0f}")
    return parts
