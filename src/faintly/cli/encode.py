"""faintly encode: randomize every client of a file."""

from pathlib import Path
from typing import Annotated

import typer

from faintly.cli.output import ADVICE, Json, Output, PlanFile, emit, note, progress, say


def encode(
    data: Annotated[
        Path, typer.Argument(help="Parquet, CSV, JSONL or FIMI with client, item (or key), value.")
    ],
    plan: PlanFile,
    output: Output,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict/--no-strict",
            help="Refuse keys that the plan does not have, values that it does not take and "
            "repeated items; or leave them out, clip them and add them up, as a device does.",
        ),
    ] = True,
    as_json: Json = False,
) -> None:
    """Turn every client of DATA into one randomized report, with secure randomness.

    Clients of the plan that DATA does not mention send an empty vector, as real ones would.
    Reports stand in random order. Each run spends the plan's budget once for every client.
    """
    import numpy as np

    from faintly.client import randomize_all
    from faintly.data import find_dataset, projected, read_records, to_vectors
    from faintly.engine.files import atomic_write, load_plan
    from faintly.errors import TooManyItems
    from faintly.mechanisms import mechanism_of
    from faintly.planner import excess
    from faintly.primitives.entropy import secure, uniform_seeds
    from faintly.wire.report_v1 import encode_batch

    loaded = load_plan(plan)
    mechanism = mechanism_of(loaded)
    records = read_records(find_dataset(data), strict=strict)
    if strict:
        vectors = to_vectors(records, loaded)
    else:
        vectors, lost = projected(records, loaded, mechanism.domain)
        note(
            f"keys left out: {lost.unknown:,}; values that are no numbers: {lost.absent:,}; "
            f"clipped: {lost.clipped:,}; repeated items: {lost.repeated:,}"
        )
    held = len(vectors)
    if held > loaded.clients:
        note(f"{held:,} clients, where the plan expects {loaded.clients:,}; all are encoded")
    vectors = vectors.padded(loaded.clients)
    beyond = excess(mechanism, vectors)
    if beyond.over and mechanism.enforces_sparsity:
        raise TooManyItems(
            f"{beyond.over:,} of {len(vectors):,} clients hold more than {loaded.sparsity} items, "
            f"which {loaded.mechanism} refuses; choose which to keep, or plan a larger sparsity"
        )
    # The order of reports would reveal who has no data.
    vectors = vectors.take(np.argsort(uniform_seeds(secure(), len(vectors), seed_bytes=8)))
    layout = mechanism.layout
    with atomic_write(output) as stream, progress() as bar:
        task = bar.add_task("encoding", total=len(vectors))
        for batch in randomize_all(loaded, vectors, secure(), secure()):
            stream.write(encode_batch(batch, layout))
            bar.advance(task, len(batch))
    if as_json:
        counts = {"reports": len(vectors), "with_data": held, "bytes": layout.record_bytes}
        emit(counts | {"beyond_sparsity": beyond.document()})
    else:
        empty = len(vectors) - held
        say(
            f"{len(vectors):,} reports of {layout.record_bytes} bytes in {output} "
            f"({empty:,} clients without data sent an empty vector)"
        )
        if beyond.over:
            say(f"{beyond.describe()} {ADVICE}")
