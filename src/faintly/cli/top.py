"""faintly top: the largest means, and which of them stand out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from faintly.cli import answer_sources as given
from faintly.cli import options
from faintly.cli.estimate_output import Above, finish, show_estimates
from faintly.cli.options import option, real, whole, word
from faintly.cli.output import Integers, Json, Level, as_keys, emit, read_keys, say
from faintly.cli.remote import CaFile, CredentialFile

_REASONS = {
    "one map": "the key stands out by one of its maps, where other keys may be in the way",
}


def top(
    sketch: Annotated[
        Path | None, typer.Argument(help="A sketch file; none with --server.", show_default=False)
    ] = None,
    count: Annotated[int, whole("Rows to show.", "-n", "--count")] = 20,
    keys_from: Annotated[
        Path | None, option("Choose among the keys in this file (needed for an open universe).")
    ] = None,
    control: Annotated[
        options.Control,
        word("family: chance of any false row; fdr: share of false rows.", options.Control),
    ] = "family",
    false_rate: Annotated[float, real("The bound that --control keeps.")] = 0.05,
    posterior: Annotated[
        bool | None,
        option(
            "Show posterior means first: they use what all keys together show [default: where "
            "there are enough keys].",
            "--posterior/--no-posterior",
            show_default=False,
        ),
    ] = None,
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
    """List the keys with the largest means, and mark those that stand out of the noise.

    Asks a sketch file, or with --server a collection of a running collector.
    """
    from faintly.engine.answers import populated
    from faintly.errors import InvalidInput

    if server is not None and sketch is not None:
        raise InvalidInput("ask a sketch file or a collector, not both: leave one out")
    where = {"epoch": epoch, "credential_file": credential_file, "ca_file": ca_file}
    with given.answer_source(sketch, server, collection, level=level, **where) as source:  # type: ignore[arg-type]
        universe = source.plan.universe
        if keys_from is None and universe.size is None:
            raise InvalidInput(
                "an open universe has no list of keys; name some with --keys-from FILE"
            )
        keys = as_keys(read_keys(keys_from), universe, integers) if keys_from else None
        if posterior is None:
            posterior = populated(source.plan, len(keys or ())) or above is not None
        found = source.top(
            keys,
            count=count,
            control=control,
            false_rate=false_rate,
            posterior=posterior,
            above=above,
        )
    if as_json:
        emit(found)
        return
    show_estimates(found, "significant", [row["verdict"] for row in found["estimates"]])
    _explain(found)
    finish(found, source.plan, explain)


def _explain(found: dict[str, Any]) -> None:
    promise = (
        "the chance that any row marked yes is held by nobody"
        if found["control"] == "family"
        else "the expected share of rows marked yes that are held by nobody"
    )
    limit = "none" if found["threshold"] is None else f"{found['threshold']:.5f}"
    say(
        f"{found['reports']:,} reports, {found['compared']:,} keys compared. The smallest "
        f"unbiased mean that stands out over all of them is {limit}: {promise} is at most "
        f"{found['false_rate']:.0%}. Noise floor of one key that nobody holds: "
        f"±{found['noise_floor']:.5f}."
    )
    for verdict, meaning in _REASONS.items():
        if any(row["verdict"] == verdict for row in found["estimates"]):
            say(f"{verdict}: {meaning}.")
