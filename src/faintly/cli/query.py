"""faintly query: the mean of given keys."""

from pathlib import Path
from typing import Annotated

import typer

from faintly.cli._estimate_output import Above, explain_posterior, show_estimates
from faintly.cli.output import Integers, Json, Level, as_keys, emit, note, read_keys, say, watched


def query(
    sketch: Annotated[Path, typer.Argument(help="A sketch file.")],
    keys: Annotated[list[str] | None, typer.Argument(help="Keys to ask about.")] = None,
    keys_from: Annotated[
        Path | None, typer.Option(help="Read further keys from this file, one a line.")
    ] = None,
    posterior: Annotated[
        bool,
        typer.Option("--posterior", help="Show first what the crowd of keys says about each."),
    ] = False,
    above: Above = None,
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
    reader, asked = Reader(loaded, level), as_keys(texts, loaded.plan.universe, integers)
    crowd = posterior or above is not None
    with watched(reader) as patient:
        estimates = patient.posterior(asked, above) if crowd else patient.estimate(asked)
    if as_json:
        emit(estimate_document(estimates))
        return
    together = [f"{row.low_all:.5f} … {row.high_all:.5f}" for row in estimates]
    show_estimates(estimates, "" if crowd else "over all keys asked", together)
    say(
        f"{estimates.reports:,} reports. Noise floor of one key that nobody holds: "
        f"±{estimates.noise_floor:.5f}."
    )
    explain_posterior(estimates)
    for sentence in estimates.notes:
        note(sentence)
    say(estimates.guarantee.describe())
