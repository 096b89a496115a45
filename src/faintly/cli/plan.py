"""faintly plan: choose every public parameter of a collection."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from faintly.cli import options
from faintly.cli.options import Protect, mechanisms, one_of, option, real, whole, whole_number, word
from faintly.cli.output import Json, note, read_keys, say
from faintly.errors import InvalidPlan

if TYPE_CHECKING:
    from faintly.core import Universe
    from faintly.planner import Ranking, Solution, Trials

BINNING = "signed-binning"  # the mechanism that --bins, --row, --steps and --cap belong to


def plan(
    protect: Protect,
    universe: Annotated[
        str, option("SIZE for keys 0..SIZE-1, open for any text, or a file of names.")
    ],
    epsilon: Annotated[float | None, real("Privacy budget of one report [or solved for].")] = None,
    sparsity: Annotated[
        int | None, whole("Items a client usually holds at most [or solved for, or from --sample].")
    ] = None,
    sample: Annotated[
        Path | None,
        option(
            "Pilot data, in a form that encode reads: compare sparsities on it, and take the best."
        ),
    ] = None,
    clients: Annotated[int | None, whole("Expected number of clients [or solved for].")] = None,
    values: Annotated[
        options.Values,
        word("What people hold: values in [-1, 1], in [0, 1], or sets.", options.Values),
    ] = "signed",
    share: Annotated[
        float | None,
        real(
            "Largest share of the clients that hold a key of interest [default: 0.05; 1, which "
            "is the worst case, for signed values]."
        ),
    ] = None,
    target_error: Annotated[
        float | None,
        real(
            "Required worst-case standard error; then one of --epsilon, --clients and --sparsity "
            "may be left out."
        ),
    ] = None,
    max_bytes: Annotated[int | None, whole("Largest report, in bytes.")] = None,
    memory: Annotated[
        int, whole("MiB that the server's tables may take.", least=1, most=2**14)
    ] = 256,
    hard_sparsity: Annotated[
        bool,
        option(
            "Promise that no vector exceeds --sparsity; admits mechanisms that refuse longer ones.",
            "--hard-sparsity",
        ),
    ] = False,
    output: Annotated[Path | None, option("Write the plan to this file.", "--output", "-o")] = None,
    delta: Annotated[float, real("Above 0 only where a theorem needs it.")] = 0.0,
    mechanism: Annotated[
        str | None,
        option("Only this one [default: the best of all].", metavar="NAME", **one_of(mechanisms)),
    ] = None,
    decode: Annotated[
        options.Decode | None,
        word(
            "table: all keys at once; direct: any key, O(reports) each [default: the best].",
            options.Decode,
        ),
    ] = None,
    family: Annotated[
        options.Family | None, word("Hash family [default: by decode].", options.Family)
    ] = None,
    option: Annotated[
        list[str] | None,
        option("Option of the named mechanism; repeatable.", "--option", metavar="NAME=VALUE"),
    ] = None,
    bins: Annotated[
        str | None,
        option(
            "signed-binning: paper, best, or a number [default: paper].",
            autocompletion=lambda: ["paper", "best"],
        ),
    ] = None,
    row: Annotated[
        options.Row | None,
        word("signed-binning: the theorem to follow [default: the best].", options.Row),
    ] = None,
    steps: Annotated[
        int | None, whole("signed-binning: grid steps per unit, a power of two.")
    ] = None,
    cap: Annotated[
        str | None,
        option(
            "signed-binning, user: largest clip, or none [default: sparsity].",
            autocompletion=lambda: ["none"],
        ),
    ] = None,
    failure: Annotated[
        float, real("Chance that clipping or truncation touches any report.")
    ] = 0.05,
    maps: Annotated[int | None, whole("Public maps of the linear family.")] = None,
    bits: Annotated[int | None, whole("Code bits of the linear family.")] = None,
    rank: Annotated[options.Rank, word("The error to rank by.", options.Rank)] = "worst",
    mean_square: Annotated[
        float | None, real("Sum of squares of a typical vector [default: sparsity / 4].")
    ] = None,
    expected_mean: Annotated[
        float | None, real("How large the interesting means are; warns if noise would hide them.")
    ] = None,
    candidates: Annotated[
        bool, option("Show the whole ranking, and what was refused.", "--candidates")
    ] = False,
    explain: Annotated[
        bool, option("Explain the plan in words, for decision makers.", "--explain")
    ] = False,
    verbose: Annotated[
        bool, option("Show every number of the plan, and why it was chosen.", "--verbose", "-v")
    ] = False,
    plot: Annotated[
        Path | None, option("Draw error against bytes and epsilon (.png, .svg).")
    ] = None,
    shuffle: Annotated[
        bool, option("Add the bound that a trusted shuffler would give.", "--shuffle")
    ] = False,
    shuffle_delta: Annotated[float, real("Delta of that bound.")] = 1e-6,
    as_json: Json = False,
) -> None:
    """Choose every public parameter of a collection, and show what to expect of it.

    All mechanisms are ranked by their predicted error, and the best is taken.

    Example: faintly plan --protect event --epsilon 1 --sparsity 16 --clients 100000
    --universe open -o plan.json
    """
    given = locals()
    from faintly.cli.plan_output import Shown, describe, document
    from faintly.planner.plan_request import request_names

    wanted = {name: given[name] for name in request_names() & given.keys()}
    wanted |= {"universe": _universe(universe), "memory": memory * 2**20, "measure": rank}
    wanted["mechanism"], wanted["options"] = _options(given)
    trials = None if sample is None else _tried(sample, wanted)
    ranking, solution = _ranked(target_error, **wanted)
    if output is not None:
        from faintly.engine.files import save_plan

        save_plan(ranking.pick.plan, output)
    if plot is not None:
        from faintly.planner.plots import draw

        draw(ranking, plot, trials)
    shown = Shown(
        ranking=ranking,
        trials=trials,
        solution=solution,
        expected_mean=expected_mean,
        shuffle_delta=shuffle_delta if shuffle else None,
        everything=candidates,
        explain=explain,
        verbose=verbose,
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


def _tried(sample: Path, wanted: dict[str, Any]) -> "Trials":
    """Return trials of several sparsities on a sample; the best is taken where none was given."""
    from faintly.planner import try_sparsities

    for name in ("epsilon", "clients"):
        if wanted[name] is None:
            raise InvalidPlan(f"give --{name}: a sample determines the sparsity, and nothing else")
    trials = try_sparsities(sample, **wanted)
    if wanted["sparsity"] is None:
        wanted["sparsity"] = trials.pick.sparsity
    wanted["mean_square"] = trials.at(wanted["sparsity"]).ranking.request.mean_square
    return trials


def _ranked(target_error: float | None, **wanted: Any) -> tuple["Ranking", "Solution | None"]:
    from faintly.planner import request_for, solve, survey

    if target_error is not None:
        solution = solve(target_error, **wanted)
        return solution.ranking, solution
    for name in ("epsilon", "sparsity", "clients"):
        if wanted[name] is None:
            raise InvalidPlan(f"give --{name}, or --target-error to solve for it")
    ranking = survey(request_for(**wanted))
    # Picked now, so that an impossible request fails before anything is written.
    assert ranking.pick is not None
    return ranking, None


def _options(given: dict[str, Any]) -> tuple[str | None, dict[str, Any] | None]:
    """Return the mechanism that is named and its own options, None for all its variants."""
    mechanism, options = given["mechanism"], {}
    for pair in given["option"] or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidPlan(f"an option is given as NAME=VALUE, got {pair!r}")
        options[name] = _value(value)
    own = {name: given[name] for name in ("bins", "row", "steps", "cap") if given[name] is not None}
    if "bins" in own:
        own["bins"] = _value(own["bins"])
    if own.get("bins") == "best" and given["max_bytes"] is not None:
        own["max_bytes"] = given["max_bytes"]
    if "cap" in own:
        try:
            own["cap"] = None if own["cap"] == "none" else float(own["cap"])
        except ValueError:
            raise InvalidPlan(f"cap must be none or a number above 0, got {own['cap']!r}") from None
    if own and mechanism is None:
        mechanism = BINNING
        note(f"--{min(own)} belongs to {BINNING}, so no other mechanism is considered")
    return mechanism, options | own or None


def _value(text: str) -> int | str:
    """Return an integer where the text is one; unlike isdigit, refuse "²" and "--5"."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text


def _universe(text: str) -> "int | Universe | list[str]":
    from faintly.core import Universe

    if text == "open":
        return Universe.open()
    size = whole_number(text)
    return read_keys(Path(text)) if size is None else size
