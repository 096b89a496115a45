"""faintly simulate: how a plan would do on known data, and how other mechanisms would."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faintly.cli._plan_options import mechanisms
from faintly.cli.output import Json, PlanFile, emit, note, progress, say

if TYPE_CHECKING:
    from faintly.core import IdArray, Plan, VectorBatch


def simulate(
    plan: PlanFile,
    data: Annotated[
        Path, typer.Option(help="Parquet, CSV, JSONL or FIMI with client, item (or key), value.")
    ],
    runs: Annotated[int, typer.Option(min=1, help="Independent runs.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of hashing, noise and any cut.")] = 1,
    compare: Annotated[
        str | None,
        typer.Option(
            help="Compare the plan with these mechanisms, each at its best; all: with every one "
            "but the baselines.",
            metavar="NAME[,NAME...]",
            autocompletion=lambda: ["all", *mechanisms()],
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="With --compare: draw the comparison (.png, .svg).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Encode DATA, decode it, and compare with the truth, several times over.

    The truth is that of everything clients hold; a second column compares with what reports
    carry of it, where some hold more than the plan's sparsity. Noise is seeded: for study only,
    never for real reports.

    With --compare, other mechanisms serve the same unit, budget, sparsity, clients and universe,
    in one table, the smallest error first. The plan stands for its own mechanism.
    """
    from faintly.engine.files import load_plan

    loaded = load_plan(plan)
    if compare is not None:
        names = [name.strip() for name in compare.split(",")]
        _compare(loaded, data, names, plot, as_json, runs=runs, seed=seed)
        return
    if plot is not None:
        raise typer.BadParameter("it draws a comparison: add --compare", param_hint="--plot")
    _simulate(loaded, data, as_json, runs=runs, seed=seed)


def _simulate(plan: "Plan", data: Path, as_json: bool, *, runs: int, seed: int) -> None:
    from faintly.cli._simulate_output import describe
    from faintly.simulate import simulate as run_all

    known = _known(plan, data)
    with progress() as bar:
        task = bar.add_task("simulating", total=runs)
        result = run_all(plan, *known, runs=runs, seed=seed, on_run=lambda: bar.advance(task))
    if as_json:
        emit(result.document() | {"seed": seed})
    else:
        describe(result)


def _compare(
    plan: "Plan",
    data: Path,
    names: list[str],
    plot: Path | None,
    as_json: bool,
    *,
    runs: int,
    seed: int,
) -> None:
    from faintly.cli._simulate_output import describe_all
    from faintly.planner.plots import pyplot
    from faintly.simulate import compare as run_all
    from faintly.simulate.plots import draw

    if plot is not None:
        pyplot(plot)  # a picture that cannot be drawn is refused before the work
    known = _known(plan, data)
    with progress() as bar:
        task = bar.add_task("simulating", total=None)

        def show(title: str, done: int, total: int) -> None:
            bar.update(task, description=title, completed=done, total=total)

        result = run_all(plan, names, *known, runs=runs, seed=seed, on_step=show)
    if plot is not None:
        draw(result, plot)
    if as_json:
        emit(result.document() | {"runs": runs, "seed": seed})
        return
    describe_all(result)
    if plot is not None:
        say(f"drawn to {plot}")


def _known(plan: "Plan", data: Path) -> tuple["VectorBatch", "IdArray", Any]:
    """Return what the clients hold, the keys to ask about, and their true means."""
    from faintly.data import find_dataset, read_records, to_vectors, true_means

    vectors = to_vectors(read_records(find_dataset(data)), plan)
    if len(vectors) > plan.clients:
        note(f"{len(vectors):,} clients, where the plan expects {plan.clients:,}; all report")
    vectors = vectors.padded(plan.clients)
    ids = _asked(plan, vectors)
    return vectors, ids, true_means(vectors, ids)


def _asked(plan: "Plan", vectors: "VectorBatch") -> "IdArray":
    """Return the ids to ask about: the whole universe, or every key of the data if it is open."""
    import numpy as np

    if plan.universe.size is not None:
        return np.arange(plan.universe.size, dtype=np.uint64)
    return np.unique(vectors.indices)
