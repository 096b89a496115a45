"""faintly plan: choose every public parameter of a collection."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faintly.cli.output import Json, note, say

if TYPE_CHECKING:
    from faintly.core import Universe
    from faintly.planner import Ranking, Solution

BINNING = "signed-binning"  # the mechanism that --bins, --row, --steps and --cap belong to


def plan(
    protect: Annotated[str, typer.Option(help="What is hidden: event, user or l1:DISTANCE.")],
    universe: Annotated[
        str, typer.Option(help="SIZE for keys 0..SIZE-1, open for any text, or a file of names.")
    ],
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget of one report [or solved for].")
    ] = None,
    sparsity: Annotated[
        int | None, typer.Option(help="Items a client usually holds at most [or solved for].")
    ] = None,
    clients: Annotated[
        int | None, typer.Option(help="Expected number of clients [or solved for].")
    ] = None,
    target_error: Annotated[
        float | None,
        typer.Option(
            help="Worst-case standard error wanted; then one of --epsilon, --clients and "
            "--sparsity may be left out."
        ),
    ] = None,
    max_bytes: Annotated[int | None, typer.Option(help="Largest report, in bytes.")] = None,
    hard_sparsity: Annotated[
        bool,
        typer.Option(
            "--hard-sparsity",
            help="No vector holds more than --sparsity items; admits mechanisms that refuse one.",
        ),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the plan to this file.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Above 0 only where a theorem needs it.")] = 0.0,
    mechanism: Annotated[
        str | None, typer.Option(help="Only this one [default: the best of all].")
    ] = None,
    decode: Annotated[
        str | None,
        typer.Option(
            help="table: all keys at once; direct: any key, O(reports) each [default: the best]."
        ),
    ] = None,
    family: Annotated[
        str | None, typer.Option(help="Hash family: linear, prf or blake2s [default: by decode].")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of the named mechanism; repeatable.")
    ] = None,
    bins: Annotated[
        str | None, typer.Option(help="signed-binning: paper, best, or a number [paper].")
    ] = None,
    row: Annotated[
        str | None, typer.Option(help="signed-binning: event, l1, squeeze or user [default: best].")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="signed-binning: grid steps per unit, a power of two.")
    ] = None,
    cap: Annotated[
        str | None, typer.Option(help="signed-binning, user: largest clip, or none [sparsity].")
    ] = None,
    failure: Annotated[
        float, typer.Option(help="Chance that clipping or truncation touches any report.")
    ] = 0.05,
    maps: Annotated[int | None, typer.Option(help="Public maps of the linear family.")] = None,
    bits: Annotated[int | None, typer.Option(help="Code bits of the linear family.")] = None,
    rank: Annotated[str, typer.Option(help="Rank by worst or typical error.")] = "worst",
    mean_square: Annotated[
        float | None, typer.Option(help="Sum of squares of a typical vector [sparsity / 4].")
    ] = None,
    expected_mean: Annotated[
        float | None, typer.Option(help="How large the interesting means are, to be warned.")
    ] = None,
    candidates: Annotated[
        bool, typer.Option("--candidates", help="Show the whole ranking, and what was refused.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain the plan in words, for people who decide.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw error against bytes and epsilon (.png, .svg).")
    ] = None,
    shuffle: Annotated[
        bool, typer.Option("--shuffle", help="Add what a trusted shuffler would give.")
    ] = False,
    shuffle_delta: Annotated[float, typer.Option(help="Delta of that bound.")] = 1e-6,
    as_json: Json = False,
) -> None:
    """Choose every public parameter of a collection, and say what to expect of it.

    All mechanisms are ranked by their predicted error, and the best is taken.

    Example: faintly plan --protect event --epsilon 1 --sparsity 16 --clients 100000
    --universe open -o plan.json
    """
    from faintly.cli._plan_output import Shown, describe, document
    from faintly.engine.files import save_plan

    named, options = _options(mechanism, option, bins, max_bytes, row, steps, cap)
    ranking, solution = _ranked(
        target_error,
        protect=protect,
        epsilon=epsilon,
        sparsity=sparsity,
        clients=clients,
        universe=_universe(universe),
        delta=delta,
        failure=failure,
        mechanism=named,
        options=options,
        decode=decode,
        family=family,
        maps=maps,
        bits=bits,
        max_bytes=max_bytes,
        mean_square=mean_square,
        measure=rank,
        hard_sparsity=hard_sparsity,
    )
    made = ranking.pick.plan
    if output is not None:
        save_plan(made, output)
    if plot is not None:
        from faintly.planner.plots import draw

        draw(ranking, plot)
    shown = Shown(
        ranking=ranking,
        solution=solution,
        expected_mean=expected_mean,
        shuffle_delta=shuffle_delta if shuffle else None,
        everything=candidates,
        explain=explain,
    )
    if as_json:
        document(shown)
        return
    describe(shown)
    if plot is not None:
        say(f"drawn to         {plot}")
    if output is None:
        note("nothing was written; add -o plan.json to keep this plan")
    else:
        say(f"written to       {output}")


def _ranked(target_error: float | None, **wanted: Any) -> tuple["Ranking", "Solution | None"]:
    from faintly.errors import InvalidPlan
    from faintly.planner import solve, survey, wish_for

    if target_error is not None:
        solution = solve(target_error, **wanted)
        return solution.ranking, solution
    for name in ("epsilon", "sparsity", "clients"):
        if wanted[name] is None:
            raise InvalidPlan(f"give --{name}, or --target-error to solve for it")
    ranking = survey(wish_for(**wanted))
    # Asked for now, so that an impossible wish fails before anything is written.
    assert ranking.pick is not None
    return ranking, None


def _options(
    mechanism: str | None,
    pairs: list[str] | None,
    bins: str | None,
    max_bytes: int | None,
    row: str | None,
    steps: int | None,
    cap: str | None,
) -> tuple[str | None, dict[str, Any] | None]:
    """Return the mechanism that is asked for and its own options, None for all its variants."""
    from faintly.errors import InvalidPlan

    options: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidPlan(f"an option is given as NAME=VALUE, got {pair!r}")
        options[name] = _value(value)
    given = {"bins": None if bins is None else _value(bins), "row": row, "steps": steps}
    own: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if bins == "best" and max_bytes is not None:
        own["max_bytes"] = max_bytes
    if cap is not None:
        try:
            own["cap"] = None if cap == "none" else float(cap)
        except ValueError:
            raise InvalidPlan(f"cap must be none or a number above 0, got {cap!r}") from None
    if own and mechanism is None:
        mechanism = BINNING
        note(f"--{min(own)} belongs to {BINNING}, so no other mechanism is considered")
    options |= own
    return mechanism, options or None


def _value(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else text


def _universe(text: str) -> "int | Universe | list[str]":
    from faintly.cli.output import read_keys
    from faintly.core import Universe

    if text == "open":
        return Universe.open()
    if text.lstrip("-").isdigit():
        return int(text)
    return read_keys(Path(text))
