"""faintly plan: choose every public parameter of a collection."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faintly.cli import plan_options as given
from faintly.cli.options import whole_number
from faintly.cli.output import Json, note, say
from faintly.errors import InvalidPlan

if TYPE_CHECKING:
    from faintly.cli.plan_output import Shown
    from faintly.core import Universe
    from faintly.planner import Ranking, Solution, Trials

BINNING = "signed-binning"  # the mechanism that --bins, --row, --steps and --cap belong to


def plan(
    protect: given.Protect,
    universe: given.UniverseText,
    epsilon: given.Epsilon = None,
    sparsity: given.Sparsity = None,
    sample: given.Sample = None,
    clients: given.Clients = None,
    values: given.Values = "signed",
    share: given.Share = None,
    target_error: given.TargetError = None,
    max_bytes: given.MaxBytes = None,
    memory: given.Memory = 256,
    hard_sparsity: given.HardSparsity = False,
    output: given.PlanOutput = None,
    delta: given.Delta = 0.0,
    mechanism: given.Mechanism = None,
    decode: given.Decode = None,
    family: given.Family = None,
    option: given.Options = None,
    bins: given.Bins = None,
    row: given.Row = None,
    steps: given.Steps = None,
    cap: given.Cap = None,
    failure: given.Failure = 0.05,
    maps: given.Maps = None,
    bits: given.Bits = None,
    rank: given.Rank = "worst",
    mean_square: given.MeanSquare = None,
    expected_mean: given.ExpectedMean = None,
    candidates: given.Everything = False,
    explain: given.Explain = False,
    verbose: given.Verbose = False,
    plot: given.Plot = None,
    shuffle: given.Shuffle = False,
    shuffle_delta: given.ShuffleDelta = 1e-6,
    as_json: Json = False,
) -> None:
    """Choose every public parameter of a collection, and say what to expect of it.

    All mechanisms are ranked by their predicted error, and the best is taken.

    Example: faintly plan --protect event --epsilon 1 --sparsity 16 --clients 100000
    --universe open -o plan.json
    """
    from faintly.cli.plan_output import Shown

    named, options = _options(mechanism, option, bins, max_bytes, row, steps, cap)
    wanted: dict[str, Any] = {
        "protect": protect,
        "epsilon": epsilon,
        "sparsity": sparsity,
        "clients": clients,
        "universe": _universe(universe),
        "delta": delta,
        "failure": failure,
        "values": values,
        "share": share,
        "mechanism": named,
        "options": options,
        "decode": decode,
        "family": family,
        "maps": maps,
        "bits": bits,
        "max_bytes": max_bytes,
        "memory": memory * 2**20,
        "mean_square": mean_square,
        "measure": rank,
        "hard_sparsity": hard_sparsity,
    }
    trials = None if sample is None else _tried(sample, wanted)
    ranking, solution = _ranked(target_error, **wanted)
    _keep(ranking, output, plot, trials)
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
    _show(shown, output, plot, as_json)


def _tried(sample: Path, wanted: dict[str, Any]) -> "Trials":
    """Return what several sparsities do to a sample, and want the best where none was given."""
    from faintly.planner import try_sparsities

    for name in ("epsilon", "clients"):
        if wanted[name] is None:
            raise InvalidPlan(f"give --{name}: a sample determines the sparsity, and nothing else")
    trials = try_sparsities(sample, **wanted)
    if wanted["sparsity"] is None:
        wanted["sparsity"] = trials.pick.sparsity
    wanted["mean_square"] = trials.at(wanted["sparsity"]).ranking.request.mean_square
    return trials


def _keep(
    ranking: "Ranking", output: Path | None, plot: Path | None, trials: "Trials | None"
) -> None:
    if output is not None:
        from faintly.engine.files import save_plan

        save_plan(ranking.pick.plan, output)
    if plot is not None:
        from faintly.planner.plots import draw

        draw(ranking, plot, trials)


def _show(shown: "Shown", output: Path | None, plot: Path | None, as_json: bool) -> None:
    from faintly.cli.plan_output import describe, document

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


def _options(
    mechanism: str | None,
    pairs: list[str] | None,
    bins: str | None,
    max_bytes: int | None,
    row: str | None,
    steps: int | None,
    cap: str | None,
) -> tuple[str | None, dict[str, Any] | None]:
    """Return the mechanism that is named and its own options, None for all its variants."""
    options: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidPlan(f"an option is given as NAME=VALUE, got {pair!r}")
        options[name] = _value(value)
    asked = {"bins": None if bins is None else _value(bins), "row": row, "steps": steps}
    own: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
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
    """Return an integer where the text is one; "²" and "--5" are none, whatever isdigit says."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text


def _universe(text: str) -> "int | Universe | list[str]":
    from faintly.cli.output import read_keys
    from faintly.core import Universe

    if text == "open":
        return Universe.open()
    size = whole_number(text)
    return read_keys(Path(text)) if size is None else size
