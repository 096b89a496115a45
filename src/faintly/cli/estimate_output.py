"""The table of query and top: posteriors if requested, beside the unbiased estimates."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from faintly.cli.options import real
from faintly.cli.output import note, say, shown, table

if TYPE_CHECKING:
    from faintly.core import Plan

Above = Annotated[
    float | None, real("With the posterior: the chance that a mean is larger than this.")
]


def show_estimates(found: dict[str, Any], last: str, cells: Sequence[str]) -> None:
    """Print a row for each key of a document, with an extra last column if it has a heading."""
    interval = f"{found['level']:.0%} interval"
    about = found.get("posterior")
    if about is None:
        headings = ["mean", "std. error", interval]
    else:
        headings = ["posterior", interval, "unbiased", interval]
        if about["threshold"] is not None:
            headings.insert(2, f"P(> {about['threshold']:g})")
    table(
        ["key", *headings, *([last] if last else [])],
        (
            (shown(row["key"]), *_posterior(row), *_unbiased(row), *([cell] if last else []))
            for row, cell in zip(found["estimates"], cells, strict=True)
        ),
    )


def _unbiased(row: dict[str, Any]) -> tuple[str, ...]:
    error = () if "posterior_mean" in row else (f"{row['stderr']:.5f}",)
    return f"{row['mean']:.5f}", *error, f"{row['low']:.5f} … {row['high']:.5f}"


def _posterior(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of the posterior of a row; none where there is no posterior."""
    if "posterior_mean" not in row:
        return ()
    above = ("posterior_above",) if "posterior_above" in row else ()
    if row["posterior_mean"] is None:
        return "", "maps disagree", *("" for _ in above)
    interval = f"{row['posterior_low']:.5f} … {row['posterior_high']:.5f}"
    return f"{row['posterior_mean']:.5f}", interval, *(f"{row[name]:.1%}" for name in above)


def finish(found: dict[str, Any], plan: "Plan", explain: bool) -> None:
    """Print the end of every answer: its notes, and the promise to the people in the data."""
    from faintly.mechanisms import mechanism_of

    about = found.get("posterior")
    if about is not None:
        good = " It errs less over them as a whole; at a key that was chosen for being truly large,"
        more = f"{good} the unbiased mean errs less." if explain else ""
        say(f"The posterior was fitted to {about['population']}.{more}")
    for sentence in [*(about or {}).get("notes", []), *found["notes"]]:
        note(sentence)
    guarantee = mechanism_of(plan).guarantee()
    say(guarantee.describe() if explain else f"{guarantee.short()} In full: --explain")
