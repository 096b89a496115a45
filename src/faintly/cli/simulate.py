"""faintly simulate: how a plan would do on known data, and how other mechanisms would."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faintly.cli import data_options as given
from faintly.cli.options import option, whole
from faintly.cli.output import Json, PlanFile, emit, note, progress, say
from faintly.cli.plan_options import mechanisms

if TYPE_CHECKING:
    from faintly.core import IdArray, Plan, VectorBatch
    from faintly.data import Records

Known = tuple["VectorBatch", "IdArray", Any]


def simulate(
    plan: PlanFile,
    data: given.FileOptions,
    client: given.ClientColumn = None,
    key: given.KeyColumn = None,
    value: given.ValueColumn = None,
    duplicates: given.Duplicates = None,
    runs: Annotated[int, whole("Independent runs.", least=1)] = 10,
    seed: Annotated[int, whole("Seed of hashing, noise and any cut.")] = 1,
    compare: Annotated[
        str | None,
        option(
            "Compare the plan with these mechanisms, each at its best; all: with every one but "
            "the baselines.",
            metavar="NAME[,NAME...]",
            autocompletion=lambda: ["all", *mechanisms()],
        ),
    ] = None,
    plot: Annotated[
        Path | None, option("With --compare: draw the comparison (.png, .svg).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Encode the data, decode it, and compare with the truth, several times over.

    The truth is that of everything clients hold; a second column compares with what reports
    carry of it, where some hold more than the plan's sparsity. Noise is seeded: for study only,
    never for real reports.

    With --compare, other mechanisms serve the same unit, budget, sparsity, clients and universe,
    in one table, the smallest error first. The plan represents its own mechanism.
    """
    from faintly.engine.files import load_plan

    loaded = load_plan(plan)
    if plot is not None and compare is None:
        raise typer.BadParameter("it draws a comparison: add --compare", param_hint="--plot")
    if plot is not None:
        from faintly.planner.plots import pyplot

        pyplot(plot)  # a picture that cannot be drawn is refused before the work
    known = _known(loaded, given.read(data, client, key, value, duplicates))
    if compare is not None:
        names = [name.strip() for name in compare.split(",")]
        _compare(loaded, known, names, plot, as_json, runs=runs, seed=seed)
        return
    _simulate(loaded, known, as_json, runs=runs, seed=seed)


def _simulate(plan: "Plan", known: Known, as_json: bool, *, runs: int, seed: int) -> None:
    from faintly.cli.simulate_output import describe
    from faintly.simulate import simulate as run_all

    with progress() as bar:
        task = bar.add_task("simulating", total=runs)
        bar.advance(task, 0)  # starts the clock, so that the first run predicts the others
        result = run_all(plan, *known, runs=runs, seed=seed, on_run=lambda: bar.advance(task))
    if as_json:
        emit(result.document() | {"seed": seed})
    else:
        describe(result)


def _compare(
    plan: "Plan",
    known: Known,
    names: list[str],
    plot: Path | None,
    as_json: bool,
    *,
    runs: int,
    seed: int,
) -> None:
    from faintly.cli.simulate_output import describe_all
    from faintly.simulate import compare as run_all
    from faintly.simulate.plots import draw

    with progress() as bar:
        task = bar.add_task("simulating", total=None)
        bar.advance(task, 0)

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


def _known(plan: "Plan", records: "Records") -> Known:
    """Return what the clients hold, the keys to ask about, and their true means."""
    from faintly.data import to_vectors, true_means

    vectors = to_vectors(records, plan)
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
