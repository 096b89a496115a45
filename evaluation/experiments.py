"""Experiments as data: the paper's panels and tables, and ours.

An experiment is a list of points, a point is data with a unit and an epsilon, and at every
point some methods run. The same point under the same method is the same task, whichever
experiment asks for it, so that nothing is run twice. Sizes come from a grid.

Panels follow Zhou et al. (arXiv:2112.03449), section Evaluation; `paper.json` has the numbers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self

from evaluation.datasets import Data, Stored, Synthetic
from evaluation.grids import DEFAULT, FULL, QUICK, Grid
from evaluation.methods import BUILT_IN, METHODS

TOP = 100  # coordinates scored in the paper's panels over epsilon and d
FEW_READS = 10**8  # reports times keys, up to which direct decoding takes about a second


@dataclass(frozen=True, slots=True)
class Point:
    """One setting: data, what is protected, how well, and which keys are asked about.

    `keys`: `all` of the universe, by tables where direct reading would be slow; `each` of them,
    read directly however slow; the `top` 100 by true mean, with a thousand of the smallest to check
    the predicted variance; or `some`, a thousand spread evenly over the universe.
    """

    data: Data
    unit: str
    epsilon: float
    keys: str = "all"
    methods: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the unique name of this point; methods are not part of it."""
        return f"{self.data.name} | {self.unit} | eps={self.epsilon:g} | {self.keys}"

    @property
    def decode(self) -> str | None:
        """Return the decoding that methods must use: tables where direct reading would be slow."""
        many = self.keys == "all" and self.data.clients * self.data.universe > FEW_READS
        return "table" if many else None

    def at(self, axis: str) -> float | str:
        """Return the position of the point on an axis."""
        if axis == "distance":
            return float(self.unit.partition(":")[2])
        if axis == "data":
            return self.data.name
        if axis in ("epsilon", "unit"):
            return getattr(self, axis)
        return float(getattr(self.data, axis))


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A figure or a table: what is varied, what is measured, and by which methods."""

    name: str
    title: str
    question: str
    axis: str  # sparsity, epsilon, universe, distance or clients of a point; bytes of a report
    measures: tuple[str, ...]
    points: tuple[Point, ...]
    facet: str | None = None  # what splits the points into panels: unit, or data and unit
    table: bool = False  # numbers in rows instead of curves
    paper: bool = False  # whether the paper has this panel or table

    @property
    def methods(self) -> tuple[str, ...]:
        """Return every method of any point, in the order of the registry."""
        used = {name for point in self.points for name in point.methods}
        return tuple(name for name in METHODS if name in used)

    def beside(self, names: Iterable[str]) -> Self:
        """Return the experiment with further methods at every point."""
        points = (replace(one, methods=(*one.methods, *names)) for one in self.points)
        return replace(self, points=tuple(points))


CLOTHING = Stored("clothing", 47_958, 1_378, 6)
RENTING = Stored("renting", 105_571, 5_850, 11)
MOVIES = Stored("movies", 138_493, 26_744, 100)
KOSARAK = Stored("kosarak100k", 100_000, 23_496, 32)
NPM = Stored("npm_deps", 229_453, 80_339, 16)

USER = (
    *("ours", "paper", "published", "sampling", "naive"),
    *("harmony", "pckv", "pckv-ue", "privkv", "collision-signed"),
)
EVENT = ("ours", "paper", "published", "k-fold", "naive", "alp")
L1 = (
    *("ours", "ours-limited", "paper", "paper-squeeze", "sampling", "naive"),
    *("harmony", "pckv", "pckv-ue", "collision-signed"),
)
SETS = ("ours", "paper", "published", "sampling", "k-fold", "naive", "pckv")
LIMITED = (4, 16)  # distances where refusing more than k items helps; it is slow
FAR = 16  # distance from about which the condition of the squeezed bound holds


def _for(unit: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the methods that protect the unit."""
    return tuple(name for name in names if METHODS[name].protects(unit))


def _panels(unit: str, methods: tuple[str, ...], grid: Grid) -> list[Experiment]:
    """Return the paper's three panels of a unit: error over k, epsilon and d."""
    level, k = f"{unit} level", grid.sparsity

    def crowd(universe: int, sparsity: int) -> Synthetic:
        return Synthetic(grid.clients, universe, sparsity)

    by_sparsity = [Point(crowd(4096, held), unit, 1.0, "all", methods) for held in grid.sparsities]
    # One bit per slot is best at ε = 1, where the paper compares; a larger ε needs more.
    schemes = (*methods, *_for(unit, ("k-fold-optimal", "sampling-optimal")))
    by_epsilon = [Point(crowd(grid.wide, k), unit, e, "top", schemes) for e in grid.epsilons]
    by_universe = [Point(crowd(d, k), unit, 1.0, "top", methods) for d in grid.universes]
    both = ("linf", "mse")
    return [
        Experiment(
            name=f"{unit}-k",
            title=f"Error against sparsity, {level}, d = 4096, ε = 1",
            question="How does the error grow with the number of items a client holds?",
            axis="sparsity",
            measures=both,
            points=tuple(by_sparsity),
            paper=True,
        ),
        Experiment(
            name=f"{unit}-eps",
            title=f"Error against ε, {level}, d = {grid.wide:,}, k = {k}, top 100 coordinates",
            question="How does the error fall as the budget grows?",
            axis="epsilon",
            measures=both,
            points=tuple(by_epsilon),
            paper=True,
        ),
        Experiment(
            name=f"{unit}-d",
            title=f"Error against the size of the universe, {level}, k = {k}, ε = 1, top 100",
            question="Does the error depend on the size of the universe?",
            axis="universe",
            measures=both,
            points=tuple(by_universe),
            paper=True,
        ),
    ]


def _within(distance: int, grid: Grid) -> Iterator[str]:
    """Yield the methods at a distance; slow ones only at a few, except in a full run."""
    ends = grid is FULL or distance in (FAR, max(grid.distances))
    slow = {
        "ours-limited": distance in LIMITED and (ends or grid is QUICK),
        "paper-squeeze": distance >= FAR and ends,
        "collision-signed": ends,  # the same at any distance
    }
    yield from (name for name in L1 if slow.get(name, True))


def _neighbouring(grid: Grid) -> Experiment:
    data = Synthetic(grid.clients, 4096, grid.sparsity)
    points = [
        Point(data, f"l1:{distance}", 1.0, "some", tuple(_within(distance, grid)))
        for distance in grid.distances
    ]
    return Experiment(
        name="neighbouring",
        title=f"Error against hidden distance L, k = {grid.sparsity}, ε = 1, 1,000 of 4,096 keys",
        question="What does hiding a smaller change buy? A method that is better at user level "
        "runs in that form, which hides any distance: “paper” is the better of its rows l1 and "
        "user, and its row with a δ stands beside it where its theorem's conditions hold.",
        axis="distance",
        measures=("linf", "mse"),
        points=tuple(points),
        paper=True,
    )


def _table(data: Stored) -> Experiment:
    points = (
        Point(data, "event", 1.0, "all", EVENT),
        Point(data, "user", 1.0, "all", USER),
    )
    return Experiment(
        name=data.name,
        title=f"{data.name.capitalize()}: n = {data.clients:,}, d = {data.universe:,}, "
        f"k = {data.sparsity}, ε = 1",
        question="How far off are the means of real ratings?",
        axis="data",
        measures=("bytes", "linf", "mse"),
        points=points,
        facet="unit",
        table=True,
        paper=True,
    )


def _headline(grid: Grid) -> Experiment:
    wide = Synthetic(grid.clients, grid.wide, grid.sparsity)
    normal, signs = (Synthetic(grid.clients, 4096, grid.held, kind) for kind in ("normal", "signs"))
    event = ("ours", "paper")
    points = (
        Point(wide, "user", 1.0, "top", USER),
        Point(wide, "user", 3.0, "top", ("ours", "paper", "published", "collision-signed")),
        Point(wide, "event", 1.0, "top", EVENT),
        # With 1,000 keys the ratio has an error of 2 %, and at ε = 3 it is within 2 % of its goal.
        *(Point(signs, "event", epsilon, "each", event) for epsilon in (1.0, 3.0)),
        *(Point(normal, "event", epsilon, "some", event) for epsilon in (1.0, 3.0)),
    )
    return Experiment(
        name="headline",
        title="Ours against the paper's method at its own parameters",
        question="By how much is the error smaller at equal ε, and in how many bytes?",
        axis="data",
        measures=("bytes", "linf", "mse"),
        points=points,
        table=True,
    )


def _pareto(grid: Grid) -> Experiment:
    data = Synthetic(grid.clients, 4096, grid.sparsity)
    points = [
        Point(data, unit, 1.0, "some", tuple(n for n in _for(unit, BUILT_IN) if n not in _SETS))
        for unit in ("event", "user")
    ]
    return Experiment(
        name="pareto",
        title=f"Error against bytes, k = {grid.sparsity}, d = 4096, ε = 1",
        question="What does a smaller error cost in bytes?",
        axis="bytes",
        measures=("mse",),
        points=tuple(points),
        facet="unit",
    )


_SETS = ("ours-sets", "collision", "wheel")  # for values 0 and 1 only


def _error_n(grid: Grid) -> Experiment:
    points = [
        Point(Synthetic(crowd, 4096, 16), unit, 1.0, "some", methods)
        for unit, methods in (("event", EVENT), ("user", USER))
        for crowd in grid.crowds
    ]
    return Experiment(
        name="error-n",
        title="Error against the number of clients, k = 16, d = 4096, ε = 1",
        question="How many clients does an error take?",
        axis="clients",
        measures=("mse",),
        points=tuple(points),
        facet="unit",
    )


def _recall(grid: Grid) -> Experiment:
    points = [
        Point(data, unit, epsilon, "all", (*_for(unit, SETS), *_of_sets(data, unit, epsilon, grid)))
        for data in ((KOSARAK,) if grid is QUICK else (KOSARAK, NPM))
        for unit in ("event", "user")
        for epsilon in grid.stored_epsilons
    ]
    return Experiment(
        name="recall",
        title="True top 20 found, and signal to noise, on real sets",
        question="Are the most frequent items found? “Ours” allows for negative values, which sets "
        "do not have; “ours, for sets” and collision (sets), which ran on kosarak100k at user "
        "level (but for quick runs), know that there are none.",
        axis="epsilon",
        measures=("recall", "signal"),
        points=tuple(points),
        facet="data and unit",
    )


def _of_sets(data: Stored, unit: str, epsilon: float, grid: Grid) -> tuple[str, ...]:
    """Return the methods for sets, where reading every key of every report is not too slow.

    On kosarak collision takes 3 seconds a run and wheel 45. On npm there are eight times the reads,
    and a quick run has no time for either. Ours is read from tables at user level, and directly at
    event level, where it takes 13 seconds on npm at epsilon 1, and longer with more rows.
    """
    user = unit == "user"
    if data is KOSARAK and grid is not QUICK:
        return ("ours-sets", "collision") if user else ("ours-sets",)
    soon = grid is FULL or (grid is not QUICK and epsilon <= 1)
    return ("ours-sets",) if user or soon else ()


def _sets(grid: Grid) -> Experiment:
    rivals = ("paper", "published", "sampling", "pckv", "collision", "wheel")
    methods = ("ours", "ours-sets", *rivals)
    points = [Point(KOSARAK, "user", e, "some", methods) for e in grid.stored_epsilons]
    return Experiment(
        name="sets",
        title="Error against ε on real sets, user level, kosarak100k, k = 32, 1,000 keys",
        question="What do methods gain that are made for sets, whose values are 0 or 1?",
        axis="epsilon",
        measures=("linf", "mse"),
        points=tuple(points),
    )


def _bounds(grid: Grid) -> Experiment:
    data = Synthetic(grid.clients, 4096, 16, "signs")
    points = [
        Point(data, unit, epsilon, "some", methods)
        for unit, methods in (("event", EVENT), ("user", (*USER, "projection-bins")))
        for epsilon in grid.epsilons
    ]
    return Experiment(
        name="bounds",
        title="n·MSE over the lower bound for pure, unbiased mechanisms at their worst key, ±1, "
        "k = 16",
        question="How much could anybody still improve? The bound is about the worst key, and "
        "most keys asked about are held by few, so that points may lie below 1. It does not bind "
        "naive Gaussian noise, which has a δ, nor biased methods.",
        axis="epsilon",
        measures=("ratio",),
        points=tuple(points),
        facet="unit",
    )


def _bias(grid: Grid) -> Experiment:
    data = Synthetic(grid.clients, 256, 16, "signs")
    points = (
        Point(data, "event", 1.0, "all", EVENT),
        Point(data, "user", 1.0, "all", USER),
    )
    return Experiment(
        name="bias",
        title="Bias relative to the truth, full ±1 vectors, k = 16, d = 256, ε = 1",
        question="Does the error average out?",
        axis="data",
        measures=("bias",),
        points=points,
        facet="unit",
        table=True,
    )


def experiments(grid: Grid = DEFAULT) -> dict[str, Experiment]:
    """Return every experiment by name, the paper's first."""
    made = [
        *_panels("user", USER, grid),
        *_panels("event", EVENT, grid),
        _neighbouring(grid),
        *(_table(data) for data in (CLOTHING, RENTING, MOVIES)),
        _headline(grid),
        _pareto(grid),
        _error_n(grid),
        _recall(grid),
        _sets(grid),
        _bounds(grid),
        _bias(grid),
    ]
    return {experiment.name: experiment for experiment in made}
