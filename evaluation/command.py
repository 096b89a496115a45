"""python -m evaluation: every figure and table of the paper, and ours, in one command."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from evaluation.experiments import experiments
from evaluation.formatting import plain_time
from evaluation.grids import DEFAULT, FULL, QUICK, Grid
from evaluation.methods import METHODS
from evaluation.reproduce import ALL, Reproduction
from evaluation.reproduce import reproduce as run_experiments
from evaluation.runner import Pace, Progress
from faintly.cli import main as run_command
from faintly.cli.options import one_of
from faintly.cli.output import Json, emit, note, progress, say, table
from faintly.errors import InvalidInput

QUICK_SECONDS = 180  # limit of a quick run on two cores; exceeding it only prints a note
LINE_SECONDS = 10  # between two progress lines, where there is no terminal

app = typer.Typer(
    name="python -m evaluation",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # as in faintly itself: brackets are not markup
)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Experiments, or all; without a name they are listed.",
            show_default=False,
            **one_of(lambda: [*experiments(), ALL]),
        ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option("--output", "--out", "-o", help="Folder for results, figures and report."),
    ] = Path("reproduction"),
    runs: Annotated[
        int | None, typer.Option(min=1, help="Independent runs: 10, or 3 with --quick.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    quick: Annotated[bool, typer.Option("--quick", help="Few points, 20,000 clients.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Every point, k up to 1024.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of stored datasets. [default: FAINTLY_DATA]", show_default=False),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Run this method only; repeatable.",
            metavar="NAME",
            show_default=False,
            **one_of(lambda: METHODS),
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List experiments and methods.")] = False,
    as_json: Json = False,
) -> None:
    """Run experiments: the paper's figures and tables, and ours.

    Results go to the folder as CSV and Parquet, figures as SVG and PNG, and all of it into
    report.html. A stopped run resumes: finished tasks are kept.
    The status is 1 if a task failed, if methods came out in an order that theory rules out, or if
    errors are not as large as the methods predict.
    """
    if quick and full:
        raise InvalidInput("--quick and --full exclude each other; choose one")
    if data is not None and not data.is_dir():
        raise InvalidInput(f"--data must be the folder of datasets; {data} is not a folder")
    grid = QUICK if quick else FULL if full else DEFAULT
    if listed or not (names or method):
        _list(grid, as_json)
        if not listed:
            note("nothing was run; name experiments, or all")
        return
    folder = None if data is None else str(data)
    with _progress() as on_progress:
        try:
            done = run_experiments(
                names or [],
                grid,
                output,
                runs=runs,
                jobs=jobs,
                folder=folder,
                methods=method or [],
                on_progress=on_progress,
            )
        except KeyboardInterrupt:
            note(f"stopped; what is done is kept in {output}, and the same command resumes it")
            raise typer.Exit(130) from None
    _print(done, output, as_json)
    if not done.good:
        raise typer.Exit(1)


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows progress: a bar on terminals, a line now and then elsewhere."""
    with progress() as bar:
        if not bar.disable:
            task = bar.add_task("running")
            yield lambda state: bar.update(
                task,
                total=state.total,
                completed=state.done,
                # The bar's own estimate ignores that some methods take longer.
                description="running"
                + (f", about {plain_time(state.left)} left" if state.left else "")
                + (f", {state.failed} failed" if state.failed else ""),
            )
            return
        pace = Pace(LINE_SECONDS)

        def line(state: Progress) -> None:
            if pace.due() or state.done == state.total:
                left = f", about {plain_time(state.left)} left" if state.left else ""
                failed = f", {state.failed} failed" if state.failed else ""
                typer.echo(f"{state.done} of {state.total} tasks done{failed}{left}", err=True)

        yield line


def _list(grid: Grid, as_json: bool) -> None:
    known = experiments(grid)
    if as_json:
        emit(
            {
                "experiments": [
                    {"name": e.name, "title": e.title, "methods": e.methods, "paper": e.paper}
                    for e in known.values()
                ],
                "methods": [{"name": m.name, "label": m.label} for m in METHODS.values()],
            }
        )
        return
    table(["experiment", ""], [(e.name, e.title) for e in known.values()])
    table(["method", ""], [(m.name, m.label) for m in METHODS.values()])


def _print(done: Reproduction, out: Path, as_json: bool) -> None:
    records = done.results.records.values()
    counts = {s: sum(r["status"] == s for r in records) for s in ("done", "refused", "failed")}
    if as_json:
        emit(
            {
                "tasks": counts,
                "claims": [_claim(one) for one in done.verdicts],
                "left_out": done.left_out,
                "failures": {r["task"]: r["error"] for r in done.results.failures},
                "seconds": done.seconds,
                "sessions": [asdict(one) for one in done.sessions],
                "files": [str(path) for path in done.files],
            }
        )
        return
    marks = {True: "yes", False: "NO", None: "not run"}
    rows = [(one.text, one.wanted, one.measured, marks[one.holds]) for one in done.verdicts]
    table(["claim", "wanted", "measured", "holds"], rows)
    for name, reason in done.left_out.items():
        note(f"left out: {name}: {reason}")
    for record in done.results.failures[:10]:
        note(f"failed: {record['task']}: {record['error']}")
    for one in done.contradicted:
        note(f"against theory: {one.text}: measured {one.measured}, wanted {one.wanted}")
    if done.grid.name == "quick" and done.seconds > QUICK_SECONDS:
        note(f"{done.seconds:.0f} s are more than the {QUICK_SECONDS} that a quick run should take")
    say(
        f"{counts['done']} tasks done, {counts['refused']} refused by their method, "
        f"{counts['failed']} failed, in {done.seconds:.0f} s. See {out / 'report.html'}"
    )


def _claim(one: Any) -> dict[str, Any]:
    return {
        "of": one.kind,
        "claim": one.text,
        "wanted": one.wanted,
        "measured": one.value,
        "stderr": None if math.isnan(one.error) else one.error,
        "holds": one.holds,
        "remark": one.remark,
        "why": one.why,
        "where": one.where,
    }


def main() -> None:
    """Run the command; errors that a user can fix become one line and status 1."""
    run_command(app)
