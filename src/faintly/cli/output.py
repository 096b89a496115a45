"""What commands share: options, tables, notes, progress. Results go to stdout, notes to stderr."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faintly.cli.options import option, real
from faintly.errors import InvalidInput

if TYPE_CHECKING:
    from rich.progress import Progress


# What to do about clients that hold more items than planned.
ADVICE = "faintly plan --sample FILE compares sparsities on such data."

BAR = 20  # characters of the longest bar

Json = Annotated[bool, option("Print one JSON object instead of text.", "--json")]
PlanFile = Annotated[
    Path, option("The plan that client and server share.", "--plan", show_default=False)
]
Output = Annotated[Path, option("File to write.", "--output", "-o", show_default=False)]
Level = Annotated[float, real("Confidence level of the intervals.")]


def emit(document: dict[str, Any]) -> None:
    """Print one JSON object to standard output."""
    say(json.dumps(document, ensure_ascii=False, allow_nan=False))


def result(as_json: bool, document: dict[str, Any], text: str) -> None:
    """Print what a command did: one JSON object, or a sentence."""
    if as_json:
        emit(document)
    else:
        say(text)


def say(text: str = "") -> None:
    """Print a line for people to standard output."""
    _write(text, err=False)


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number and its noun: 1 file, 2 files."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def note(text: str) -> None:
    """Print a remark for people to standard error, so that it never mixes with results."""
    _write(typer.style(f"note: {text}", fg="yellow"), err=True)


def _write(text: str, err: bool) -> None:
    """Print a line at once: the reader may be waiting, or may have closed the pipe."""
    try:
        typer.echo(text, err=err)
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does. Further output is discarded, including
        # what Python flushes at exit. The command still ends with the status of its work.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, (sys.stderr if err else sys.stdout).fileno())
        os.close(nowhere)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> None:
    """Print a table; the first column and one without a heading are text, the others numbers."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    made = Table(*headings, box=SIMPLE, title=title or None, title_justify="left")
    for column, heading in zip(made.columns[1:], headings[1:], strict=True):
        column.justify = "right" if heading else "left"
    made.columns[0].overflow = "fold"
    for row in rows:
        made.add_row(*(escape(cell) for cell in row))
    # A pipe has no width; 100 columns show every number in full.
    console = Console(width=None if sys.stdout.isatty() else 100)
    with console.capture() as lines:
        console.print(made)
    say(lines.get().removesuffix("\n"))


def bars(values: Iterable[float]) -> list[str]:
    """Return a bar for each value, as the last column of a table."""
    sizes = [max(0.0, value) for value in values]
    return ["█" * round(BAR * size / max(*sizes, 1e-9)) for size in sizes]


@contextmanager
def progress() -> Iterator["Progress"]:
    """Yield a progress display on standard error; silent if that is not a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        # A step may take minutes, so the time left is estimated from all steps so far.
        speed_estimate_period=24 * 3600,
    )
    with shown:
        yield shown


def shown(key: object) -> str:
    """Return a key for the terminal, with control characters spelled out."""
    text = str(key)
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def read_text(path: Path) -> str:
    """Return what a text file holds."""
    from faintly.engine.files import read_bytes

    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text") from None


def read_keys(path: Path) -> list[str]:
    """Return the keys in a text file, one per line; empty lines are skipped."""
    return [line for line in read_text(path).splitlines() if line]
