"""Write docs/reference/cli.md from the command line itself, so that the two cannot drift.

python scripts/cli_reference.py           write the page
python scripts/cli_reference.py --check   fail if the page is not what would be written
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The help must not depend on the terminal of whoever runs this.
os.environ.update(COLUMNS="96", TERMINAL_WIDTH="96", NO_COLOR="1", TERM="dumb")

import typer
from typer.testing import CliRunner

from faintly.cli import app

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
TOP = """\
# Command line

This page is what `--help` prints. After a change of the help texts, run `make cli-reference`.

A command ends with status 0 if it did what was asked, with 1 if that was refused or a check failed,
and with 2 if its words could not be understood. What went wrong is said on standard error; with
`--json`, a refusal is a JSON object on standard output as well.
"""


def command_paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words that call `command`, then those of every command below it."""
    yield path
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from command_paths(child, (*path, name))


def page() -> str:
    """Return the whole page."""
    parts = [TOP]
    for path in command_paths(typer.main.get_command(app)):
        result = CliRunner().invoke(app, [*path, "--help"], prog_name="faintly")
        if result.exit_code != 0:
            raise SystemExit(f"faintly {' '.join(path)} --help failed: {result.output}")
        lines = "\n".join(line.rstrip() for line in result.output.strip().splitlines())
        parts.append(f"## {' '.join(('faintly', *path))}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


def main() -> int:
    """Write the page, or compare it; return the exit status."""
    parser = argparse.ArgumentParser(description="Write docs/reference/cli.md.")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    text = page()
    if not parser.parse_args().check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print("docs/reference/cli.md is not what the program says; run: make cli-reference")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
