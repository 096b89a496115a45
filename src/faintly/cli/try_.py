"""faintly try: from a file of rows to what a private collection would find in it."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from faintly.cli.data_options import Files, Rows
from faintly.cli.options import Protect, grouped, option, real, whole
from faintly.cli.output import Json, bars, emit, progress, say, shown, table

if TYPE_CHECKING:
    from faintly.simulate import Preview


@grouped
def try_(
    data: Files,
    rows: Rows,
    epsilon: Annotated[float, real("Privacy budget of one report.")] = 1.0,
    protect: Protect = "event",
    sparsity: Annotated[
        int | None,
        whole("Items that a report is sized for [default: the best for these data].", least=1),
    ] = None,
    count: Annotated[int, whole("Rows to show.", "-n", "--count", least=1)] = 20,
    seed: Annotated[int, whole("Seed of the noise.")] = 1,
    plot: Annotated[Path | None, option("Draw answers beside the truth (.png, .svg).")] = None,
    output: Annotated[Path | None, option("Write the plan to this file.", "--output", "-o")] = None,
    as_json: Json = False,
) -> None:
    """Show what a private collection would find among the people of a file.

    Reads rows of who holds what, makes a plan for them, lets everybody send one randomized report,
    and shows the answers beside the truth. The noise is seeded: it is a rehearsal, and protects
    nobody. Repeated rows count once where there are no values.

    Example: faintly try visits.parquet --client user --key site --epsilon 1
    """
    if plot is not None:
        from faintly.planner.plots import pyplot

        pyplot(plot)  # a picture that cannot be drawn is refused before the work
    read = [rows.read(data)]
    from faintly.simulate import try_ as run  # after the first sign of progress

    with progress() as bar:
        task = bar.add_task("trying", total=5)
        asking = bar.add_task("asking: reports read, in %", total=100, visible=False)

        def read_on(share: float) -> None:
            """Show the longest step alone, with the time that is left."""
            bar.update(task, visible=share >= 1)
            bar.update(asking, completed=round(100 * share), visible=share < 1)

        seen = run(
            read.pop(),  # not held here, so that its memory is freed once there are vectors
            epsilon=epsilon,
            protect=protect,
            duplicates=rows.duplicates,
            sparsity=sparsity,
            count=count,
            seed=seed,
            on_step=lambda step: bar.update(task, advance=1, description=step),
            on_read=read_on,
        )
    if plot is not None:
        from faintly.simulate.plots import draw_preview

        draw_preview(seen, plot)
    if output is not None:
        from faintly.engine.files import save_plan

        save_plan(seen.fresh_plan(), output)
    if as_json:
        emit(_document(seen))
        return
    _show(seen)
    if plot is not None:
        say(f"Drawn to {plot}.")
    columns = {f"--{name}": given for name, given in asdict(rows).items()}
    _next(seen, data, columns, output)


def _document(seen: "Preview") -> dict[str, Any]:
    from faintly.engine.documents import top_document

    document = top_document(seen.top)
    for row, truth in zip(document["estimates"], seen.truth.tolist(), strict=True):
        row["truth"] = truth
    return document | {
        "held": asdict(seen.held),
        "bytes": seen.bytes,
        "recall": seen.recall,
        "coverage95": seen.coverage,
        "stand_out": seen.found,
        "smallest_visible_mean": seen.visible,
        "keys_as_large": seen.large,
        "more": asdict(seen.more),
        "beyond_sparsity": seen.excess.document(),
        "words": seen.describe(),
        "plan": seen.plan.document(),
    }


def _show(seen: "Preview") -> None:
    found = seen.top.estimates
    mean, low, high = found.answers()
    columns = (found.keys, mean, low, high, seen.truth, seen.top.verdicts, bars(mean))
    table(
        ["key", "answer", "95 % interval", "truth", "stands out", ""],
        (
            (
                shown(key),
                f"{answer:.4f}",
                f"{least:.4f} … {most:.4f}",
                f"{truth:.4f}",
                verdict,
                bar,
            )
            for key, answer, least, most, truth, verdict, bar in zip(*columns, strict=True)
        ),
    )
    for sentence in seen.describe():
        say(sentence)


def _next(
    seen: "Preview", files: list[Path], columns: dict[str, str | None], output: Path | None
) -> None:
    """Print the commands of a real collection."""
    plan, named = seen.plan, output or Path("plan.json")
    universe = "open" if plan.universe.size is None else str(plan.universe.size)
    if columns["--duplicates"] is None and seen.held.repeated:
        columns = columns | {"--duplicates": "once"}
    given_columns = [word for pair in columns.items() if pair[1] is not None for word in pair]
    wanted = ["--protect", str(plan.unit), "--epsilon", f"{plan.budget.epsilon:g}"]
    wanted += ["--sparsity", str(plan.sparsity), "--clients", str(plan.clients)]
    wanted += ["--universe", universe, "--values", plan.values]
    first = [str(key) for key in list(seen.top.estimates.keys)[:2]]
    integers = ["--integers"] if seen.held.integers and universe == "open" else []
    commands: list[list[object]] = [
        *([] if output else [["plan", *wanted, "-o", named]]),
        ["encode", "--plan", named, *files, *given_columns, "-o", "reports.fnt"],
        ["aggregate", "--plan", named, "reports.fnt", "-o", "sketch.fns"],
        ["query", "sketch.fns", *first, *integers],
    ]
    say("\nTo do it for real, with secure randomness:")
    for command in commands:
        say("  faintly " + shlex.join(str(word) for word in command))
    say("To collect from people's own devices: faintly serve --data collected")
