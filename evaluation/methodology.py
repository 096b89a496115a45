"""The part of the report that says how things were run, and what was not."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from evaluation.formatting import number, times
from evaluation.methods import METHODS
from evaluation.results import Cell, Results

DATA = """Synthetic data follow the paper: distinct items by Zipf's law with exponent 1.4, values
Normal(1, 0.3) cut off at ±1, with fresh clients in every run. Stored data are cut to k items per
client, uniformly at random and once, before any method sees them: all runs share that cut, and
differ in their noise. Every seed is hashed from the name of its task, and is in results.csv with
every parameter. Estimates are not cut to [−1, 1]; entries of 1.0 in the paper's tables suggest that
its were. Compare the paper's user-level entries with both of its rows: its proven constants, and
its authors' settings."""
OURS = """Ours is the planner's choice among its variants with 64 groups at most, decoded by tables
where every key of a large universe is asked about."""
RESPONSE, POLYNOMIAL = "naive-response", "retrieval-polynomial"


def methodology(results: Results, left_out: dict[str, str], took: str) -> str:
    """Return the section in HTML."""
    refused = _unique(
        f"{METHODS[r['method']].label} at {r['unit']}, ε = {r['epsilon']:g}, k = {r['sparsity']}, "
        f"d = {r['universe']:,}: {r['error']}"
        for r in results.refusals
    )
    failed = _unique(f"{r['task']}: {r['error']}" for r in results.failures)
    absent = [f"{name}: {text}" for name, text in left_out.items()]
    paragraphs = [DATA, *_response(results), OURS, " ".join(_drawn(results))]
    paragraphs += [f"{took}."] if took else []
    return (
        "<h2>How it was run</h2>\n"
        + "".join(f"<p>{escape(one)}</p>\n" for one in paragraphs)
        + _list("Not run", absent)
        + _list("Refused by the method itself", refused)
        + _list("Failed", failed)
    )


def _response(results: Results) -> Iterator[str]:
    """Yield where randomized response on every key errs less than ours, and what that costs."""
    for experiment in results.experiments:
        # Another experiment may have the point, and not show the method.
        for point in [one for one in experiment.points if RESPONSE in one.methods]:
            ours, other = (results.cell(point, name) for name in ("ours", RESPONSE))
            if ours is None or other is None or other.mean("mse") >= ours.mean("mse"):
                continue
            short = results.cell(point, POLYNOMIAL)
            yield (
                f"In {experiment.name}, {point.unit} level, randomized response on every key has "
                f"{times(_ratio(other, ours))} the MSE of ours, in reports of "
                f"{number(other.bytes)} bytes, two bits for each key of the universe, against "
                f"{number(ours.bytes)}."
                + (
                    f" The polynomial form of retrieval-gf has {times(_ratio(short, ours))} in "
                    f"{number(short.bytes)} bytes, which grow with k instead; it refuses a vector "
                    "of more than k items."
                    if short is not None
                    else ""
                )
            )


def _drawn(results: Results) -> Iterator[str]:
    """Yield for which methods the sum of all reports was drawn, and how exactly."""
    drawn = {r["method"] for r in results.records.values() if r.get("aggregate")}
    kinds: dict[str, list[str]] = {}
    for name in sorted(drawn):
        method = METHODS[name]
        rounded = method.options.get("noise") == "gaussian"
        kind = "keys" if method.mechanism == "alp" else "normal" if rounded else "exact"
        kinds.setdefault(kind, []).append(method.label)
    if "exact" in kinds:
        yield (
            "Reports as long as the universe were not made; the sum over all clients was drawn by "
            f"its exact law: {', '.join(kinds['exact'])}."
        )
    if "normal" in kinds:
        yield (
            "Likewise not made; the sum was drawn as a rounded normal variable, which is close to "
            f"its law: {', '.join(kinds['normal'])}."
        )
    if "keys" in kinds:
        yield (
            f"Reports of {', '.join(kinds['keys'])} are short but slow to read; its total is drawn "
            "by its exact law at each key, and what two keys share in one report is left out, so "
            "that its L∞ is not exact in law."
        )
    if kinds:
        yield "Their rows say “sum drawn”."
    yield (
        "All other methods made and decoded every report."
        if kinds
        else ("Every report was made and decoded.")
    )


def _ratio(cell: Cell, other: Cell) -> float:
    return cell.mean("mse") / other.mean("mse")


def _list(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<details open><summary>{escape(title)}</summary><ul>{items}</ul></details>\n"


def _unique(lines: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(lines))
