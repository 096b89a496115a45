"""Write the evaluation's results into README.md and docs/explanation/evaluation.md.

python scripts/evaluation_docs.py --take FOLDER   first take the results of `make reproduce`
python scripts/evaluation_docs.py                 write tables between the markers, draw figures
python scripts/evaluation_docs.py --check         fail if they are not what evaluation/results say

`make reproduce` measures; this script measures nothing.
"""

import argparse
import csv
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # what is measured is not part of the installed package

from evaluation.experiments import experiments
from evaluation.figures import svg
from evaluation.formatting import is_words
from evaluation.report import paper_numbers
from evaluation.results import read_summary
from evaluation.summary_tables import (
    NOTES,
    SHRUNK,
    Row,
    Table,
    headline,
    posteriors,
    same_as_paper,
    side_by_side,
    winners,
)
from evaluation.timing import RUN, describe, read

RESULTS = ROOT / "evaluation" / "results"
FIGURES = ROOT / "docs" / "explanation" / "figures"  # the pages can only show what is beside them
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "explanation" / "evaluation.md"
TABLES = ("summary.csv", "claims.csv", RUN)
SHARPER = "posterior.csv"  # rows of the summary of a later run
APART = (
    "These experiments were run again for it, later than the others: 10 runs of each cell, with "
    "the seeds of the evaluation."
)
FINDABLE = ("kosarak100k", "npm_deps")  # elsewhere no mean is large enough to stand out
SHOWN = ("user-k", "event-k", "pareto", "recall")
MOST_BYTES = 300_000  # of the tables together: they are kept in the repository
OF = {"paper": "the paper", "ours": "this library", "order": "theory"}
HOLDS = {"True": "yes", "False": "**no**", "": "not run"}
MARKED = re.compile(r"(<!-- evaluation -->\n).*?(<!-- /evaluation -->)", re.DOTALL)


def take(folder: Path) -> None:
    """Copy the tables of a finished run; the figures are drawn from them."""
    size = sum((folder / name).stat().st_size for name in TABLES)
    if size > MOST_BYTES:
        raise SystemExit(f"the tables have {size:,} bytes, more than {MOST_BYTES:,}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        shutil.copyfile(folder / name, RESULTS / name)


def lines_of(table: Table) -> Iterator[str]:
    """Yield a table in Markdown, words at the left and numbers at the right."""
    head, *rows = table
    yield f"| {' | '.join(head)} |"
    columns = zip(*rows, strict=True)
    yield f"|{'|'.join('---' if is_words(column) else '---:' for column in columns)}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def size_of(rows: list[Row]) -> str:
    """Return how much was run."""
    runs = sorted({int(row["runs"]) for row in rows})
    points = {(row["data"], row["unit"], row["epsilon"], row["keys"]) for row in rows}
    methods = {row["method"] for row in rows} - {"zero"}
    took = describe(read(RESULTS / RUN))
    many = " to ".join(str(number) for number in dict.fromkeys((runs[0], runs[-1])))
    size = f"{len(methods)} methods at {len(points)} points, {many} independent runs of each"
    return f"{size}; {took}" if took else size


def readme_lines() -> Iterator[str]:
    """Yield the README's table: errors alone, at one epsilon, where there is something to find."""
    head, *rows = posteriors(sharper(), epsilon=1.0)
    yield from lines_of([head[:7], *(row[:7] for row in rows if row[0].startswith(FINDABLE))])


def sharper() -> list[Row]:
    """Return the rows that posterior answers were measured for."""
    return read_summary(RESULTS / SHARPER)


def page_lines(rows: list[Row]) -> Iterator[str]:
    """Yield the tables of the page."""
    yield f"{size_of(rows)}; ± is one standard error."
    yield ""
    yield "### Who errs less, where, and by how much"
    yield ""
    yield from fill(NOTES, 100).splitlines()
    yield ""
    yield from lines_of(winners(rows))
    yield from fill(same_as_paper(rows), 100).splitlines()
    yield ""
    yield "### Ours at the paper's own parameters"
    yield ""
    yield from lines_of(headline(rows))
    yield "### The paper's tables: reported, re-run, ours"
    yield ""
    yield "Mean squared errors at ε = 1."
    yield ""
    yield from lines_of(side_by_side(rows, paper_numbers()))
    yield "### Unbiased and posterior"
    yield ""
    yield from fill(f"{SHRUNK} {APART}", 100).splitlines()
    yield ""
    yield from lines_of(posteriors(sharper()))
    yield "### What was claimed, and what holds"
    yield ""
    yield from lines_of(claim_table())
    yield from reasons()


def claims() -> list[dict[str, str]]:
    """Return the saved verdicts."""
    with (RESULTS / "claims.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def claim_table() -> Table:
    """Return every claim with its verdict."""
    table: Table = [("claim", "of", "wanted", "measured", "holds")]
    for one in claims():
        words = one["text"].replace("|", "\\|")
        table.append((words, OF[one["kind"]], one["wanted"], one["measured"], HOLDS[one["holds"]]))
    return table


def reasons() -> Iterator[str]:
    """Yield why claims do not hold, and where they fail."""
    broken = [one for one in claims() if one["holds"] == "False"]
    if not broken:
        return
    yield "Why not:"
    yield ""
    for one in broken:
        where = f" ({one['where']})" if one["where"] else ""
        yield f"- *{one['text']}*{where}: {one['why'] or 'not known'}."


def filled(page: Path, lines: Iterator[str]) -> str:
    """Return a page with the lines between its markers."""
    text = page.read_text(encoding="utf-8")
    body = "\n".join(lines).strip()
    made, count = MARKED.subn(lambda match: f"{match[1]}\n{body}\n\n{match[2]}", text)
    if count != 1:
        raise SystemExit(f"{page.name} needs one pair of markers, <!-- evaluation --> and its end")
    return made


def main() -> int:
    """Write the pages, or compare them; return the exit status."""
    parser = argparse.ArgumentParser(description="Write the evaluation into the documents.")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--take", type=Path, metavar="FOLDER", help="a finished run to take")
    options = parser.parse_args()
    if options.take is not None:
        take(options.take)
    rows = read_summary(RESULTS / "summary.csv")
    wanted = {README: filled(README, readme_lines()), PAGE: filled(PAGE, page_lines(rows))}
    known = experiments()
    wanted |= {FIGURES / f"{name}.svg": svg(known[name], rows) for name in SHOWN}
    if not options.check:
        FIGURES.mkdir(parents=True, exist_ok=True)
        for path, text in wanted.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [
        path.name
        for path, text in wanted.items()
        if not path.is_file() or path.read_text("utf-8") != text
    ]
    if stale:
        print(f"{', '.join(stale)}: not what evaluation/results say; run: "
              "python scripts/evaluation_docs.py")  # fmt: skip
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
