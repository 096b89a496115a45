"""faintly simulate: how a plan would do on known data."""

from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faintly.cli.output import ADVICE, Json, PlanFile, counted, emit, note, progress, say, table

if TYPE_CHECKING:
    from faintly.core import IdArray, Plan, VectorBatch
    from faintly.simulate import Simulation


def simulate(
    plan: PlanFile,
    data: Annotated[
        Path, typer.Option(help="Parquet, CSV, JSONL or FIMI with client, item (or key), value.")
    ],
    runs: Annotated[int, typer.Option(min=1, help="Independent runs.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of hashing, noise and any cut.")] = 1,
    as_json: Json = False,
) -> None:
    """Encode DATA, decode it, and compare with the truth, several times over.

    The truth is that of everything clients hold; a second column compares with what reports
    carry of it, where some hold more than the plan's sparsity. Noise is seeded: for study only,
    never for real reports.
    """
    from faintly.data import find_dataset, read_records, to_vectors, true_means
    from faintly.engine.files import load_plan
    from faintly.simulate import simulate as run_all

    loaded = load_plan(plan)
    vectors = to_vectors(read_records(find_dataset(data)), loaded)
    if len(vectors) > loaded.clients:
        note(f"{len(vectors):,} clients, where the plan expects {loaded.clients:,}; all report")
    vectors = vectors.padded(loaded.clients)
    ids = _asked(loaded, vectors)
    with progress() as bar:
        task = bar.add_task("simulating", total=runs)
        result = run_all(
            loaded,
            vectors,
            ids,
            true_means(vectors, ids),
            runs=runs,
            seed=seed,
            on_run=lambda: bar.advance(task),
        )
    if as_json:
        emit(result.document() | {"seed": seed})
    else:
        _describe(result)


def _asked(plan: "Plan", vectors: "VectorBatch") -> "IdArray":
    """Return the ids to ask about: the whole universe, or every key of the data if it is open."""
    import numpy as np

    if plan.universe.size is not None:
        return np.arange(plan.universe.size, dtype=np.uint64)
    return np.unique(vectors.indices)


def _describe(result: "Simulation") -> None:
    from faintly.simulate import SCORES

    names = {
        "linf": "largest error",
        "mse": "mean squared error",
        "n_mse": "n·MSE",
        "predicted_n_var": "predicted n·Var",
        "coverage95": "95 % intervals that cover, all keys",
        "coverage95_top20": "95 % intervals that cover, true top 20",
        "bias_top20": "bias at the true top 20",
        "top20_recall": "true top 20 found",
        "significant": "keys that stand out",
        "false_significant": "of these held by nobody",
    }
    headings = [counted(len(result.runs), "run"), "mean", "std. error"]
    cut = result.excess.over > 0
    rows = [[text, *_cells(result, name, "truth")] for name, text in names.items()]
    if cut:
        headings += ["after the cut", "std. error"]
        rows = [
            row + (_cells(result, name, "after_cut") if name in SCORES else ["", ""])
            for row, name in zip(rows, names, strict=True)
        ]
    blank = [""] * (len(headings) - 2)
    for name, error in (("linf", result.zero_linf), ("mse", result.zero_mse)):
        rows.append([f"all-zero answer: {names[name]}", f"{error:.6g}", *blank])
    table(headings, rows)
    table(
        ["true top keys", "truth", "after the cut", "answered", "bias", "its std. error"],
        (
            [str(place), *(f"{one:.5f}" for one in (*astuple(key)[:3], key.bias, key.stderr))]
            for place, key in enumerate(result.top, 1)
        ),
    )
    say(f"{result.reports:,} reports of {result.bytes} bytes, {result.keys:,} keys.")
    say(f"{result.excess.describe()} {ADVICE if cut else ''}".rstrip())
    if result.mean("significant") < 1:
        say(
            "Hardly any key stands out: collect from more clients, ask for less, or do not collect."
        )


def _cells(result: "Simulation", name: str, against: str) -> list[str]:
    return [f"{result.mean(name, against):.6g}", f"{result.stderr(name, against):.2g}"]
