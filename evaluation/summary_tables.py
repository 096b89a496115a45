"""Summary tables: who errs less, where, and by how much.

Computed from the rows of summary.csv alone, so that the report and the documentation show the same
numbers.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.formatting import KEYS, number, plus_minus, span, times
from evaluation.methods import METHODS, ZERO
from evaluation.results import UNBIASED

Row = dict[str, Any]
Table = list[Sequence[str]]  # the first row is the head
OWN = ("ours", "retrieval", "projection")  # names of ours and of its variants begin so
TABLES = ("clothing", "renting", "movies")
POPULATIONS = ("clothing", "renting", "movies", "recall")  # real people, and all keys asked
SETS = ("recall", "sets")  # experiments on sets, where ours is the plan for sets
NOTES = (
    "Mean squared errors of others over that of ours, at equal ε: above 1×, ours errs less. Ranges "
    "go over the points of an experiment; the closest rival is the one with the smallest ratio at "
    "any point. Pure means δ = 0; “any kind” adds biased methods and those with a δ. In recall and "
    "sets, ours is what the planner picks for sets, where that was run."
)
SHRUNK = (
    "Mean squared errors of the estimates, and of posterior means: a prior is fitted to the "
    "estimates of all keys, of every method alike, as post-processing that costs no privacy. The "
    "bias is the mean error of the 20 largest answers, with what a cut to k items takes. On "
    "kosarak100k and npm_deps, which are sets, ours is what the planner picks for sets, but for "
    "npm_deps at event level from ε = 2 on, where a full run alone reads every report for every "
    "key."
)


@dataclass(frozen=True, slots=True)
class _Rival:
    ratio: float  # its MSE over ours
    name: str

    @property
    def description(self) -> str:
        """Return the ratio and the rival's label."""
        return f"{times(self.ratio)} ({METHODS[self.name].label})"


def winners(rows: Iterable[Row]) -> Table:
    """Return, for each experiment and unit, the MSE of others over the MSE of ours."""
    head = (
        "experiment",
        "unit",
        "paper / ours",
        "authors' settings / ours",
        "closest pure, unbiased rival",
        "closest of any kind",
        "ours below all-zero",
    )
    lines: Table = [head]
    for (experiment, unit), points in _groups(rows).items():
        measured = [point for point in points if "ours" in point]
        if experiment in SETS:
            measured = [_as_sets(point) for point in measured]
        if measured:
            lines.append((experiment, unit, *_line(measured)))
    return lines if len(lines) > 1 else []


def same_as_paper(rows: Iterable[Row]) -> str:
    """Return where the planner picks the paper's own mechanism; empty if it never does."""
    places: dict[str, list[str]] = {}
    for row in rows:
        if row["method"] == "ours" and row["mechanism"] == METHODS["paper"].mechanism:
            near = row["unit"].startswith("l1")
            where = row["unit"] if near else f"{row['unit']}, ε = {row['epsilon']:g}"
            listed = places.setdefault(row["experiment"], [])
            listed += [where] if where not in listed else []
    if not places:
        return ""
    listing = "; ".join(f"{name} ({', '.join(listed)})" for name, listed in places.items())
    return (
        f"Here the planner picks the paper's own {METHODS['paper'].mechanism}, so that ours and "
        f"paper are one method and differ by chance: {listing}."
    )


def side_by_side(rows: Iterable[Row], reported: dict[str, Any]) -> Table:
    """Return the paper's tables again: reported, re-run here and ours, in MSE."""
    head = (
        "data",
        "unit",
        "the paper reports",
        "its method re-run",
        "its authors' settings re-run",
        "ours",
        "reported / ours",
        "re-run / ours",
        "all-zero",
    )
    groups = _groups(row for row in rows if row["experiment"] in TABLES)
    if not groups:
        return []
    lines: Table = [head]
    for experiment in TABLES:
        for unit in ("event", "user"):
            (point,) = groups.get((experiment, unit), [{}])
            mse = reported[experiment][unit]["paper"][2]
            lines.append((experiment, unit, number(mse), *_again(point, mse)))
    return lines


def posteriors(rows: Iterable[Row], epsilon: float | None = None) -> Table:
    """Return unbiased and posterior errors of ours, the paper's and the best of the others.

    Args:
        rows: of summary.csv.
        epsilon: only this one; all of them if None.
    """
    head = (
        "data, unit, ε",
        "all-zero",
        "ours",
        "ours, posterior",
        "paper",
        "paper, posterior",
        "best of the others, posterior",
        "bias of our 20 largest: unbiased, posterior",
    )
    lines: Table = [head]
    for points in _groups(row for row in rows if row["experiment"] in POPULATIONS).values():
        for point in map(_as_sets, points):
            ours = point.get("ours", {})
            if ours.get("posterior_mse") is not None and epsilon in (None, ours["epsilon"]):
                where = f"{ours['data']}, {ours['unit']}, {ours['epsilon']:g}"
                lines.append((where, *_shrunk(point)))
    return lines if len(lines) > 1 else []


def _shrunk(point: dict[str, Row]) -> Iterator[str]:
    yield number(point[ZERO.name]["mse"])
    for name in ("ours", "paper"):
        yield _mse(point.get(name))
        yield _mse(point.get(name), "posterior_mse")
    known = {
        name: row["posterior_mse"]
        for name, row in point.items()
        if name != "paper" and not name.startswith(OWN) and row.get("posterior_mse") is not None
    }
    best = min(known, key=lambda name: known[name], default="")
    yield f"{_mse(point[best], 'posterior_mse')}, {METHODS[best].label}" if best else ""
    ours = point["ours"]
    biases = (number(ours[name], 2) for name in ("listed_bias", "posterior_listed_bias"))
    yield ", ".join(biases)


def headline(rows: Iterable[Row]) -> Table:
    """Return ours beside the paper's method at the paper's own parameters."""
    head = (
        "unit, ε, values, sizes, keys",
        "bytes: paper, ours",
        "MSE: paper",
        "MSE: authors' settings",
        "MSE: ours",
        "paper / ours",
        "authors' settings / ours",
        "MSE: all-zero",
    )
    lines: Table = [head]
    for points in _groups(row for row in rows if row["experiment"] == "headline").values():
        for point in points:
            if "ours" in point and "paper" in point:
                lines.append((_setting(point["ours"]), *_beside(point)))
    return lines if len(lines) > 1 else []


def _setting(row: Row) -> str:
    sizes = f"n = {row['clients']:,.0f}, d = {row['universe']:,.0f}, k = {row['sparsity']:.0f}"
    keys = KEYS[row["keys"]]
    values = "full ±1" if "signs" in row["data"] else "the paper's"
    return f"{row['unit']}, ε = {row['epsilon']:g}, {values}, {sizes}, {keys}"


def _beside(point: dict[str, Row]) -> Iterator[str]:
    yield ", ".join(number(point[name]["bytes"]) for name in ("paper", "ours"))
    for name in ("paper", "published", "ours"):
        yield _mse(point.get(name))
    for name in ("paper", "published"):
        yield span(list(_ratios([point], name)))
    yield _mse(point.get(ZERO.name))


def _again(point: dict[str, Row], reported: float) -> Iterator[str]:
    for name in ("paper", "published", "ours"):
        yield _mse(point.get(name))
    ours = point.get("ours")
    yield "" if ours is None else times(reported / ours["mse"])
    yield span(list(_ratios([point], "paper")))
    yield _mse(point.get(ZERO.name))


def _line(points: list[dict[str, Row]]) -> Iterator[str]:
    yield span(list(_ratios(points, "paper")))
    yield span(list(_ratios(points, "published")))
    yield _closest(points, strict=True)
    yield _closest(points, strict=False)
    better = sum(point["ours"]["mse"] < point[ZERO.name]["mse"] for point in points)
    yield f"{better} of {len(points)}"


def _as_sets(point: dict[str, Row]) -> dict[str, Row]:
    """Return the point with ours as planned for sets, where that was run."""
    return point | ({"ours": point["ours-sets"]} if "ours-sets" in point else {})


def _ratios(points: list[dict[str, Row]], name: str) -> Iterator[float]:
    for point in points:
        if name in point and "ours" in point:
            yield point[name]["mse"] / point["ours"]["mse"]


def _closest(points: list[dict[str, Row]], *, strict: bool) -> str:
    """Return the smallest ratio of any rival at any point; pure and unbiased ones if strict."""
    found = [
        _Rival(row["mse"] / point["ours"]["mse"], name)
        for point in points
        for name, row in point.items()
        if name != ZERO.name and not name.startswith(OWN) and (not strict or _fair(row))
    ]
    return min(found, key=lambda rival: rival.ratio).description if found else ""


def _fair(row: Row) -> bool:
    return not METHODS[row["method"]].delta and row["claimed_bias"] <= UNBIASED


def _groups(rows: Iterable[Row]) -> dict[tuple[str, str], list[dict[str, Row]]]:
    """Return the points of each experiment and kind of unit, each as rows by method."""
    points: dict[tuple[str, str], dict[tuple[Any, ...], dict[str, Row]]] = {}
    for row in rows:
        group = row["experiment"], row["unit"].partition(":")[0]
        place = tuple(row[name] for name in ("data", "unit", "epsilon", "keys"))
        points.setdefault(group, {}).setdefault(place, {})[row["method"]] = row
    return {group: list(members.values()) for group, members in points.items()}


def _mse(row: Row | None, measure: str = "mse") -> str:
    if row is None:
        return "not run"
    if row["method"] == ZERO.name:
        return number(row[measure])
    error = row[f"{measure}_stderr"]
    return plus_minus(row[measure], float("nan") if error is None else error)
