"""Write what was measured into README.md and two pages of docs/explanation.

python scripts/bench_readme.py           write the tables between the markers
python scripts/bench_readme.py --check   fail if they are not what benchmarks/results say

`make bench` measures; this script measures nothing.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # what is measured is not part of the installed package

from benchmarks.machine import one_line
from benchmarks.result import HEADINGS, Row
from benchmarks.spark import page as spark_page

RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "explanation" / "performance.md"
SCALE = ROOT / "docs" / "explanation" / "scale.md"
FILES = ("tables", "decode", "planes", "peers", "clients", "server", "stream", "collector", "page")
HEADLINES = (
    "decode_vs_loop",
    "peer_pure_ldp_OLH",
    "encode_per_s",
    "stream_per_s",
    "collector-single",
    "collector-batch",
)
MARKED = re.compile(r"(<!-- bench -->\n).*?(<!-- /bench -->)", re.DOTALL)


def results(*names: str) -> dict[str, dict[str, Any]]:
    """Return the saved results by file."""
    return {
        name: json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in names
    }


def rows_of(document: dict[str, Any]) -> list[Row]:
    """Return the rows of one result."""
    return [Row.from_document(row) for row in document["rows"]]


def headline_table(saved: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the README's table: what was measured, and the target."""
    found = {row.name: row for document in saved.values() for row in rows_of(document)}
    yield "| work | measured | target | |"
    yield "|---|---:|---:|---|"
    for name in HEADLINES:
        what, ours, _, ratio, target, met = found[name].cells()
        # A rate alone says little; the ratio beside it says what else was running.
        measured = f"{ours} ({ratio})" if ratio and ours.endswith("/s") else ratio or ours
        yield f"| {what} | {measured} | {target} | {met} |"


def full_tables(saved: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield every row that was measured, a table for each file, with its notes."""
    for name, document in saved.items():
        rows = rows_of(document)
        yield f"### {document['title']}"
        yield ""
        yield f"`benchmarks/{name}.py`, peak memory {document['peak_mib']:,} MiB."
        yield ""
        yield f"| {' | '.join(HEADINGS)} |"
        yield "|---|---:|---:|---:|---:|---|"
        yield from (f"| {' | '.join(row.cells())} |" for row in rows)
        yield ""
        notes = list(dict.fromkeys(row.note for row in rows if row.note))
        yield from (f"- {note}" for note in notes)
        if notes:
            yield ""
    yield from machines(saved)


def machines(saved: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield on what it was measured, a line for each machine."""
    titles: dict[str, list[str]] = {}
    for document in saved.values():
        titles.setdefault(one_line(document), []).append(document["title"])
    yield from (f"- {', '.join(some)}: {machine}." for machine, some in titles.items())


def filled(page: Path, lines: Iterable[str]) -> str:
    """Return a page with the lines between its markers."""
    text = page.read_text(encoding="utf-8")
    body = "\n".join(lines)
    made, count = MARKED.subn(lambda match: f"{match[1]}\n{body}\n\n{match[2]}", text)
    if count != 1:
        raise SystemExit(
            f"{page.name} needs one pair of markers, <!-- bench --> and <!-- /bench -->"
        )
    return made


def main() -> int:
    """Write the pages, or compare them; return the exit status."""
    parser = argparse.ArgumentParser(description="Write measured ratios into the documents.")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    saved, spark = results(*FILES), results("spark")
    wanted = {
        README: filled(README, headline_table(saved)),
        PAGE: filled(PAGE, full_tables(saved)),
        SCALE: filled(SCALE, chain(spark_page(spark["spark"]), [""], machines(spark))),
    }
    if not parser.parse_args().check:
        for path, text in wanted.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path.name for path, text in wanted.items() if path.read_text(encoding="utf-8") != text]
    if stale:
        print(f"{', '.join(stale)}: not what benchmarks/results say; run: "
              "python scripts/bench_readme.py")  # fmt: skip
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
