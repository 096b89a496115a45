"""faintly simulate: how a plan would do on known data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faintly.cli.output import Json, PlanFile, counted, emit, note, progress, say, table

if TYPE_CHECKING:
    from faintly.core import IdArray, Plan, VectorBatch
    from faintly.evaluation import Simulation


def simulate(
    plan: PlanFile,
    data: Annotated[
        Path, typer.Option(help="Parquet, CSV, JSONL or FIMI with client, item (or key), value.")
    ],
    runs: Annotated[int, typer.Option(min=1, help="Independent runs.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of data cut, hashing and noise.")] = 1,
    as_json: Json = False,
) -> None:
    """Encode DATA, decode it, and compare with the truth, several times over.

    Each client is first cut to the plan's sparsity, uniformly at random; the truth is
    taken from what is left. Noise is seeded: for study only, never for real reports.
    """
    import numpy as np

    from faintly.data import cut, find_dataset, read_records, to_vectors, true_means
    from faintly.engine.files import load_plan
    from faintly.evaluation import simulate as run_all

    loaded = load_plan(plan)
    records = read_records(find_dataset(data))
    vectors, dropped = cut(
        to_vectors(records, loaded), loaded.sparsity, np.random.default_rng(seed)
    )
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
        emit(result.document() | {"items_cut": dropped, "seed": seed})
    else:
        _describe(result, dropped)


def _asked(plan: "Plan", vectors: "VectorBatch") -> "IdArray":
    """Return the ids to ask about: the whole universe, or every key of the data if it is open."""
    import numpy as np

    if plan.universe.size is not None:
        return np.arange(plan.universe.size, dtype=np.uint64)
    return np.unique(vectors.indices)


def _describe(result: "Simulation", dropped: int) -> None:
    names = {
        "linf": "largest error",
        "mse": "mean squared error",
        "n_mse": "n·MSE",
        "predicted_n_var": "predicted n·Var",
        "coverage95": "95 % intervals that cover, all keys",
        "coverage95_top20": "95 % intervals that cover, true top 20",
        "top20_recall": "true top 20 found",
    }
    rows = [
        (text, f"{result.mean(name):.6g}", f"{result.stderr(name):.2g}")
        for name, text in names.items()
    ]
    zero: dict[str, Any] = {"linf": result.zero_linf, "mse": result.zero_mse}
    rows += [(f"all-zero answer: {names[name]}", f"{zero[name]:.6g}", "") for name in zero]
    table([counted(len(result.runs), "run"), "mean", "std. error"], rows)
    say(
        f"{result.reports:,} reports of {result.bytes} bytes, {result.keys:,} keys; "
        f"{dropped:,} items were cut from clients that held too many."
    )
