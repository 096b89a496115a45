"""The table of query and top: the posterior where it was asked for, with the estimate behind it."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from faintly.cli.numbers import real
from faintly.cli.output import note, say, shown, table

if TYPE_CHECKING:
    from faintly.core import Estimate, Estimates

Above = Annotated[
    float | None,
    typer.Option(
        help="With the posterior: the chance that a mean is larger than this.", parser=real()
    ),
]


def show_estimates(found: "Estimates", last: str, cells: Sequence[str]) -> None:
    """Print a row for each key, with a last column of one's own."""
    interval = f"{found.level:.0%} interval"
    if found.posterior is None:
        headings = ["mean", "std. error", interval]
    else:
        headings = ["posterior", interval, "unbiased", interval]
        if found.posterior.threshold is not None:
            headings.insert(2, f"P(> {found.posterior.threshold:g})")
    rows = zip(found, _first(found), cells, strict=True)
    table(
        ["key", *headings, *([last] if last else [])],
        (
            (shown(row.key), *first, *_unbiased(row, not first), *([cell] if last else []))
            for row, first, cell in rows
        ),
    )


def _unbiased(row: "Estimate", alone: bool) -> tuple[str, ...]:
    error = (f"{row.stderr:.5f}",) if alone else ()
    return f"{row.mean:.5f}", *error, f"{row.low:.5f} … {row.high:.5f}"


def _first(found: "Estimates") -> Iterator[tuple[str, ...]]:
    """Yield the cells of the posterior of each row; none where there is no posterior."""
    if found.posterior is None:
        yield from [()] * len(found)
        return
    columns = (column.tolist() for column in found.posterior.columns().values())
    for mean, _, low, high, *above in zip(*columns, strict=True):
        if math.isnan(mean):
            yield "", "maps disagree", *("" for _ in above)
        else:
            yield f"{mean:.5f}", f"{low:.5f} … {high:.5f}", *(f"{one:.1%}" for one in above)


def explain_posterior(found: "Estimates") -> None:
    """Print whom the posterior is about, and what it is good for."""
    made = found.posterior
    if made is None:
        return
    say(
        f"The posterior was fitted to {made.population}. It errs less over them as a whole; at a "
        f"key that was chosen for being truly large, the unbiased mean errs less."
    )
    for sentence in made.notes:
        note(sentence)
