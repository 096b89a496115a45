"""faintly query: the mean of given keys."""

from pathlib import Path
from typing import Annotated

import typer

from faintly.cli import answer_sources as given
from faintly.cli.estimate_output import Above, finish, show_estimates
from faintly.cli.options import option
from faintly.cli.output import Integers, Json, Level, as_keys, emit, read_keys, say
from faintly.cli.remote import CaFile, CredentialFile


def query(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="A sketch file, then keys to ask about; with --server keys alone.",
            metavar="[SKETCH] [KEY]...",
            show_default=False,
        ),
    ] = None,
    keys_from: Annotated[
        Path | None, option("Read further keys from this file, one a line.")
    ] = None,
    posterior: Annotated[
        bool, option("Show posterior means first: they use what all keys show.", "--posterior")
    ] = False,
    above: Above = None,
    integers: Integers = False,
    level: Level = 0.95,
    server: given.ServerOption = None,
    collection: given.Collection = None,
    epoch: given.EpochOption = None,
    credential_file: CredentialFile = None,
    ca_file: CaFile = None,
    explain: given.Explain = False,
    as_json: Json = False,
) -> None:
    """Estimate the mean of each key over the reporting clients, with its error.

    Asks a sketch file, or with --server a collection of a running collector.
    """
    from faintly.errors import InvalidInput

    first, *others = words or [""]
    sketch = Path(first) if first and server is None else None
    texts = others if server is None else list(words or [])
    texts += read_keys(keys_from) if keys_from else []
    where = {"epoch": epoch, "credential_file": credential_file, "ca_file": ca_file}
    with given.answer_source(sketch, server, collection, level=level, **where) as source:  # type: ignore[arg-type]
        if not texts:
            raise InvalidInput("give at least one key, or --keys-from FILE")
        keys = as_keys(texts, source.plan.universe, integers)
        found = source.estimates(keys, posterior=posterior, above=above)
    if as_json:
        emit(found)
        return
    alone = "posterior" not in found
    together = [f"{row['low_all']:.5f} … {row['high_all']:.5f}" for row in found["estimates"]]
    show_estimates(found, "over all keys asked" if alone else "", together)
    say(
        f"{found['reports']:,} reports. Noise floor of one key that nobody holds: "
        f"±{found['noise_floor']:.5f}."
    )
    finish(found, source.plan, explain)
