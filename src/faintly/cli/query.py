"""faintly query: the mean of given keys."""

from pathlib import Path
from typing import Annotated

import typer

from faintly.cli.output import (
    Integers,
    Json,
    Level,
    as_keys,
    emit,
    estimate_cells,
    note,
    read_keys,
    say,
    table,
)


def query(
    sketch: Annotated[Path, typer.Argument(help="A sketch file.")],
    keys: Annotated[list[str] | None, typer.Argument(help="Keys to ask about.")] = None,
    keys_from: Annotated[
        Path | None, typer.Option(help="Read further keys from this file, one a line.")
    ] = None,
    integers: Integers = False,
    level: Level = 0.95,
    as_json: Json = False,
) -> None:
    """Estimate the mean of each key over the reporting clients, with its error."""
    from faintly.engine import Reader
    from faintly.engine.documents import estimate_document
    from faintly.engine.files import load_sketch
    from faintly.errors import InvalidInput

    loaded = load_sketch(sketch)
    texts = [*(keys or []), *(read_keys(keys_from) if keys_from else [])]
    if not texts:
        raise InvalidInput("give at least one key, or --keys-from FILE")
    kind = loaded.plan.universe.kind
    estimates = Reader(loaded, level).estimate(as_keys(texts, kind, integers))
    if as_json:
        emit(estimate_document(estimates))
        return
    table(
        ["key", "mean", "std. error", f"{level:.0%} interval", "over all keys asked"],
        ((*estimate_cells(row), f"{row.low_all:.5f} … {row.high_all:.5f}") for row in estimates),
    )
    say(
        f"{estimates.reports:,} reports. Noise floor of one key that nobody holds: "
        f"±{estimates.noise_floor:.5f}."
    )
    for sentence in estimates.notes:
        note(sentence)
    say(estimates.guarantee.describe())
