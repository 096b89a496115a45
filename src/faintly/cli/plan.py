"""faintly plan: choose every public parameter of a collection."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faintly.cli.output import Json, emit, note, say

if TYPE_CHECKING:
    from faintly.core import Plan, Universe


def plan(
    protect: Annotated[str, typer.Option(help="What is hidden: event, user or l1:DISTANCE.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of one report.")],
    sparsity: Annotated[int, typer.Option(help="Items a client usually holds at most.")],
    clients: Annotated[int, typer.Option(help="Expected number of clients.")],
    universe: Annotated[
        str, typer.Option(help="SIZE for keys 0..SIZE-1, open for any text, or a file of names.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the plan to this file.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Above 0 only where a theorem needs it.")] = 0.0,
    mechanism: Annotated[str, typer.Option(help="How reports are randomized.")] = "signed-binning",
    decode: Annotated[
        str, typer.Option(help="table: all keys at once; direct: any key, O(reports) each.")
    ] = "table",
    family: Annotated[
        str | None, typer.Option(help="Hash family: linear, prf or blake2s [default: by decode].")
    ] = None,
    bins: Annotated[str, typer.Option(help="signed-binning: paper, best, or a number.")] = "paper",
    max_bytes: Annotated[
        int | None, typer.Option(help="With --bins best: the largest report.")
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
    as_json: Json = False,
) -> None:
    """Choose every public parameter of a collection, and say what to expect of it.

    Example: faintly plan --protect event --epsilon 1 --sparsity 16 --clients 100000
    --universe open -o plan.json
    """
    from faintly.engine.files import save_plan
    from faintly.planner import make_plan

    made = make_plan(
        protect=protect,
        epsilon=epsilon,
        sparsity=sparsity,
        clients=clients,
        universe=_universe(universe),
        delta=delta,
        failure=failure,
        mechanism=mechanism,
        decode=decode,
        family=family,
        maps=maps,
        bits=bits,
        **_options(bins, max_bytes, row, steps, cap),
    )
    if output is not None:
        save_plan(made, output)
    if as_json:
        emit(_document(made))
        return
    _describe(made)
    if output is None:
        note("nothing was written; add -o plan.json to keep this plan")
    else:
        say(f"written to       {output}")


def _options(
    bins: str, max_bytes: int | None, row: str | None, steps: int | None, cap: str | None
) -> dict[str, Any]:
    from faintly.errors import InvalidPlan

    options: dict[str, Any] = {"bins": int(bins) if bins.isdigit() else bins}
    given = {"max_bytes": max_bytes, "row": row, "steps": steps}
    options |= {name: value for name, value in given.items() if value is not None}
    if cap is not None:
        if cap != "none" and not cap.isdigit():
            raise InvalidPlan(f"cap must be none or a positive integer, got {cap!r}")
        options["cap"] = None if cap == "none" else int(cap)
    return options


def _universe(text: str) -> "int | Universe | list[str]":
    from faintly.cli.output import read_keys
    from faintly.core import Universe

    if text == "open":
        return Universe.open()
    if text.lstrip("-").isdigit():
        return int(text)
    return read_keys(Path(text))


def _document(made: "Plan") -> dict[str, Any]:
    from faintly.mechanisms import mechanism_of
    from faintly.planner import predict

    mechanism, model = mechanism_of(made), predict(made)
    return {
        "digest": made.digest.hex(),
        "bytes": mechanism.layout.record_bytes,
        "predicted_n_var_worst": model.worst,
        "predicted_n_var_typical": model.typical,
        "predicted_stderr": model.stderr,
        "predicted_linf": model.linf,
        "memory_bytes": _memory(made),
        "influence": mechanism.influence() / made.clients,
        "relative_bias": mechanism.relative_bias(),
        "guarantee": mechanism.guarantee().words(),
        "plan": made.document(),
    }


def _memory(made: "Plan") -> int:
    from faintly.mechanisms import mechanism_of

    mechanism = mechanism_of(made)
    if made.decode == "table":
        rows, columns = mechanism.table_shape
        return 8 * rows * columns
    return made.clients * (8 + 4 * len(mechanism.layout.widths))


def _describe(made: "Plan") -> None:
    from faintly.mechanisms import mechanism_of
    from faintly.planner import predict

    mechanism, model = mechanism_of(made), predict(made)
    hashing = made.hashing
    maps = f", {hashing.bits} bits, {hashing.maps} map(s)" if hashing.family == "linear" else ""
    say(f"plan             {made.digest.hex()}")
    say(f"mechanism        {made.mechanism} ({_parameters(made)})")
    say(f"decoding         {made.decode}, {hashing.family} hash{maps}")
    say(f"report           {mechanism.layout.record_bytes} bytes")
    say(f"server memory    about {_memory(made) / 2**20:,.1f} MiB")
    say(f"standard error   at most {model.stderr:.4g} for one key, with {made.clients:,} reports")
    say(f"noise floor      {1.96 * model.stderr:.4g} for one key, {model.linf:.4g} over all keys")
    say(
        f"one lying client moves any estimate by at most {mechanism.influence() / made.clients:.3g}"
    )
    say(f"guarantee        {mechanism.guarantee().words()}")


def _parameters(made: "Plan") -> str:
    shown = {name: value for name, value in made.parameters.items() if name != "noise"}
    return ", ".join(f"{name} {value}" for name, value in shown.items() if value is not None)
