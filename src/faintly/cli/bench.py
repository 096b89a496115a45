"""faintly bench: the ratios that the README shows, on this machine."""

from typing import Annotated

import typer

from faintly.cli.choices import one_of
from faintly.cli.output import Json, emit, note, progress, say, table


def _names() -> list[str]:
    from faintly.bench import BENCHMARKS

    return list(BENCHMARKS)


Only = Annotated[
    list[str] | None,
    typer.Option(
        help="Measure this one alone; repeatable.",
        metavar="NAME",
        show_default=False,
        **one_of(_names),
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="The main ratios, in less than a minute.")]


def bench(quick: Quick = False, only: Only = None, as_json: Json = False) -> None:
    """Measure speed on this machine, as ratios to a plain loop, a copy, a bare addition.

    Each ratio comes from one run, in which both sides take turns. Ends with status 0 whether
    or not the targets are met: machines differ, and are busy.
    """
    from faintly.bench import BENCHMARKS, QUICK_BENCHMARKS, document, run
    from faintly.bench.machine import words
    from faintly.bench.result import HEADINGS

    names = only or list(QUICK_BENCHMARKS if quick else BENCHMARKS)
    with progress() as bar:
        task = bar.add_task("measuring", total=len(names))

        def started(name: str) -> None:
            bar.update(task, description=f"measuring {name}", completed=names.index(name))

        rows = run(names, quick=quick, on_start=started)
    made = document(rows)
    if as_json:
        emit(made)
        return
    table(list(HEADINGS), (row.cells() for row in rows))
    for remark in dict.fromkeys(row.note for row in rows if row.note):
        say(f"note: {remark}")
    say(words(made))
    if made["kernel"] == "numpy":
        note("these are the numpy kernels; with a C compiler at install they are much faster")
