"""What the benchmarks share: one table on the screen, one JSON file if asked for."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.result import HEADINGS, Row


def options(title: str) -> argparse.ArgumentParser:
    """Return the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the results there")
    return parser


def started(name: str) -> None:
    """Say on standard error what is being measured."""
    print(f"measuring {name} …", file=sys.stderr, flush=True)


def finish(title: str, made: dict[str, Any], path: Path | None) -> None:
    """Print the table of a document, and save the document."""
    show(title, [Row.from_document(row) for row in made["rows"]], print)
    save(title, made, path)


def save(title: str, made: dict[str, Any], path: Path | None) -> None:
    """Print where a document was measured, and save it if there is a path."""
    print(f"{machine.one_line(made)}; peak memory {made['peak_mib']:,} MiB")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"title": title} | made, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def show(title: str, rows: Sequence[Row], write: Callable[[str], object]) -> None:
    """Write rows as a plain table, and their notes below it."""
    lines = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    write(f"\n{title}")
    for line in lines:
        first, *rest = (
            cell.ljust(width) if column in {0, 5} else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        write("  ".join([first, *rest]).rstrip())
    for note in dict.fromkeys(row.note for row in rows if row.note):
        write(f"note: {note}")
