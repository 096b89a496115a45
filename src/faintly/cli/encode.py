"""faintly encode: randomize every client of a file."""

from typing import TYPE_CHECKING, Annotated

from faintly.cli.data_options import Files, Rows
from faintly.cli.options import grouped, option
from faintly.cli.output import ADVICE, Json, Output, PlanFile, emit, note, progress, say
from faintly.errors import TooManyItems

if TYPE_CHECKING:
    from faintly.core import VectorBatch
    from faintly.data import Records
    from faintly.mechanisms import Mechanism


@grouped
def encode(
    data: Files,
    plan: PlanFile,
    output: Output,
    rows: Rows,
    strict: Annotated[
        bool,
        option(
            "Refuse keys that the plan does not have, values that it does not take and repeated "
            "items; or leave them out, clip them and add them up, as a device does.",
            "--strict/--no-strict",
        ),
    ] = True,
    pad: Annotated[
        bool,
        option(
            "Let clients of the plan that no FILE mentions send an empty vector, as real ones "
            "would, so that means are over all clients; or leave them out.",
            "--pad/--no-pad",
        ),
    ] = True,
    as_json: Json = False,
) -> None:
    """Turn every client of the files into one randomized report, with secure randomness.

    Reports are written in random order. Each run spends the plan's budget once for every client.
    """
    import numpy as np

    from faintly.client import randomize_all
    from faintly.engine.files import atomic_write, load_plan
    from faintly.mechanisms import mechanism_of
    from faintly.planner import excess
    from faintly.primitives.entropy import secure, uniform_seeds
    from faintly.wire.report_v1 import encode_batch

    loaded = load_plan(plan)
    mechanism = mechanism_of(loaded)
    records = rows.read(data, strict=strict)
    vectors = _vectors(records, mechanism)
    held = len(vectors)
    if held > loaded.clients:
        note(f"{held:,} clients, where the plan expects {loaded.clients:,}; all are encoded")
    vectors = vectors.padded(loaded.clients) if pad else vectors
    beyond = excess(mechanism, vectors)
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


def _vectors(records: "Records", mechanism: "Mechanism") -> "VectorBatch":
    """Return one vector for each client of the rows; refuse those that the mechanism refuses."""
    import numpy as np

    from faintly.data import projected, to_vectors

    plan = mechanism.plan
    if records.source.strict:
        vectors = to_vectors(records, plan)
    else:
        vectors, lost = projected(records, plan, mechanism.domain)
        note(
            f"keys left out: {lost.unknown:,}; values that are not numbers: {lost.absent:,}; "
            f"clipped: {lost.clipped:,}; repeated items: {lost.repeated:,}"
        )
    over = vectors.lengths > plan.sparsity
    if mechanism.enforces_sparsity and over.any():
        row = int(np.argmax(records.clients == np.argmax(over)))
        raise TooManyItems(
            f"{records.source.at(row)}: this client holds {int(vectors.lengths[over][0]):,} items, "
            f"and {int(over.sum()):,} of {len(vectors):,} clients hold more than {plan.sparsity}, "
            f"which {plan.mechanism} refuses; choose which to keep, or plan a larger sparsity"
        )
    return vectors
