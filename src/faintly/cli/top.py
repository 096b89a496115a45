"""faintly top: the largest means, and which of them stand out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faintly.cli import choices
from faintly.cli._estimate_output import Above, explain_posterior, show_estimates
from faintly.cli.numbers import real, whole
from faintly.cli.output import Integers, Json, Level, as_keys, emit, note, read_keys, say, watched

if TYPE_CHECKING:
    from faintly.engine import TopList

_REASONS = {
    "one map": "the key stands out by one of its maps, where other keys may be in the way",
}


def top(
    sketch: Annotated[Path, typer.Argument(help="A sketch file.")],
    count: Annotated[int, typer.Option("-n", "--count", help="Rows to show.", parser=whole())] = 20,
    keys_from: Annotated[
        Path | None,
        typer.Option(help="Choose among the keys in this file (needed for an open universe)."),
    ] = None,
    control: Annotated[
        choices.Control,
        typer.Option(help="family: chance of any false row; fdr: share of false rows."),
    ] = "family",
    false_rate: Annotated[
        float, typer.Option(help="The bound that --control keeps.", parser=real())
    ] = 0.05,
    posterior: Annotated[
        bool | None,
        typer.Option(
            "--posterior/--no-posterior",
            help="Show first what the crowd of keys says about each; without a word, where the "
            "keys are enough of a crowd.",
            show_default=False,
        ),
    ] = None,
    above: Above = None,
    integers: Integers = False,
    level: Level = 0.95,
    as_json: Json = False,
) -> None:
    """List the keys with the largest means, and mark those that stand out of the noise."""
    from faintly.engine import Reader
    from faintly.engine.documents import top_document
    from faintly.engine.files import load_sketch
    from faintly.errors import InvalidInput

    loaded = load_sketch(sketch)
    if keys_from is None and loaded.plan.universe.size is None:
        raise InvalidInput("an open universe has no list of keys; name some with --keys-from FILE")
    candidates = (
        as_keys(read_keys(keys_from), loaded.plan.universe, integers) if keys_from else None
    )
    reader = Reader(loaded, level)
    if posterior is None:
        posterior = reader.populated(len(candidates or ())) or above is not None
    with watched(reader) as patient:
        found = patient.top(
            count, candidates, control, false_rate, posterior=posterior, above=above
        )
    if as_json:
        emit(top_document(found))
        return
    show_estimates(found.estimates, "significant", found.verdicts)
    _explain(found)


def _explain(found: "TopList") -> None:
    promise = (
        "the chance that any row marked yes is held by nobody"
        if found.control == "family"
        else "the expected share of rows marked yes that are held by nobody"
    )
    limit = f"{found.threshold:.5f}" if found.threshold < float("inf") else "none"
    say(
        f"{found.estimates.reports:,} reports, {found.compared:,} keys compared. The smallest "
        f"unbiased mean that stands out over all of them is {limit}: {promise} is at most "
        f"{found.false_rate:.0%}. Noise floor of one key that nobody holds: "
        f"±{found.estimates.noise_floor:.5f}."
    )
    explain_posterior(found.estimates)
    for verdict, meaning in _REASONS.items():
        if verdict in found.verdicts:
            say(f"{verdict}: {meaning}.")
    for sentence in found.estimates.notes:
        note(sentence)
    say(found.estimates.guarantee.describe())
