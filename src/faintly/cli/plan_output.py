"""What faintly plan prints: the plan, the ranking behind it, and its warnings."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from faintly.cli.output import counted, emit, note, say, table
from faintly.core.estimate import LEVEL, normal_quantile
from faintly.errors import BoundDoesNotApply
from faintly.mechanisms import mechanism_of
from faintly.planner import Candidate, Ranking, Solution, Trials, amplified, explain
from faintly.planner.error_model import smallest_visible
from faintly.planner.explain import held, warnings, why
from faintly.planner.shuffle import CAVEAT

LINES = 6  # rows of the ranking that are shown by default
NOISE_FLOOR = normal_quantile(LEVEL)  # in standard errors, at the default level of answers


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A ranking and how much of it to show."""

    ranking: Ranking
    trials: Trials | None
    solution: Solution | None
    expected_mean: float | None
    shuffle_delta: float | None
    everything: bool
    explain: bool
    verbose: bool = False


def document(shown: Shown) -> None:
    """Print the plan and its ranking as one JSON object."""
    ranking, pick = shown.ranking, shown.ranking.pick
    mechanism = mechanism_of(pick.plan)
    model = pick.error
    answer: dict[str, Any] = {
        "digest": pick.plan.digest.hex(),
        "bytes": pick.bytes,
        "share": model.share,
        "predicted_n_var_worst": model.worst,
        "predicted_n_var_unheld": model.unheld,
        "predicted_n_var_held": model.held,
        "predicted_n_var_typical": model.typical,
        "predicted_stderr": model.stderr,
        "predicted_linf": model.linf,
        "noise_floor": NOISE_FLOOR * model.stderr,
        "memory_bytes": pick.memory,
        "influence": pick.influence / pick.plan.clients,
        "relative_bias": pick.bias,
        "lower_bound": pick.bound,
        "smallest_visible_mean": smallest_visible(model.stderr, ranking.request.keys),
        "guarantee": mechanism.guarantee().describe(),
        "why": why(ranking),
        "explanation": explain(ranking, shown.expected_mean),
        "warnings": warnings(ranking, shown.expected_mean),
        "candidates": [_candidate(one) for one in ranking.candidates],
        "refused": [asdict(one) for one in ranking.refused],
    }
    if shown.solution is not None:
        answer["solved"] = {
            "for": shown.solution.unknown or "bytes",
            "value": pick.bytes if shown.solution.value is None else shown.solution.value,
            "words": shown.solution.description,
        }
    if shown.trials is not None:
        answer["sample"] = [one.document() for one in shown.trials.tried]
        answer["sample_sparsity"] = shown.trials.pick.sparsity
    if shown.shuffle_delta is not None:
        answer["shuffle"] = _shuffled(shown)
    emit(answer | {"plan": pick.plan.document()})


def _candidate(one: Candidate) -> dict[str, Any]:
    return {
        "mechanism": one.mechanism,
        "options": dict(one.options),
        "decode": one.decode,
        "bytes": one.bytes,
        "memory_bytes": one.memory,
        "operations": one.operations,
        "operations_per_key": one.key_operations,
        "n_var_worst": one.worst,
        "n_var_unheld": one.error.unheld,
        "n_var_held": one.error.held,
        "n_var_typical": one.typical,
        "stderr": one.stderr,
        "relative_bias": one.bias,
        "times_lower_bound": one.ratio if math.isfinite(one.ratio) else None,
        "drawbacks": list(one.drawbacks),
    }


def _shuffled(shown: Shown) -> dict[str, Any]:
    plan = shown.ranking.pick.plan
    assert shown.shuffle_delta is not None
    try:
        guarantee = mechanism_of(plan).guarantee()
        epsilon = amplified(guarantee, plan.clients, shown.shuffle_delta)
    except BoundDoesNotApply as error:
        return {"epsilon": None, "delta": shown.shuffle_delta, "reason": str(error)}
    return {"epsilon": epsilon, "delta": shown.shuffle_delta, "caveat": CAVEAT}


def describe(shown: Shown) -> None:
    """Print the plan and its ranking for people."""
    ranking, pick = shown.ranking, shown.ranking.pick
    if shown.trials is not None:
        _say_trials(shown.trials, pick.plan.sparsity)
    if shown.solution is not None:
        say(f"solved           {shown.solution.description}")
    say(f"you can learn    {_learned(ranking)}")
    say(f"is promised      {mechanism_of(pick.plan).guarantee().short()}")
    memory = f"about {pick.memory / 2**20:,.1f} MiB"
    size = counted(pick.bytes, "byte")
    say(f"it costs         {size} from each person, and {memory} of the server's memory")
    if shown.verbose:
        _say_details(ranking)
    if shown.verbose or shown.everything or shown.explain:
        say(f"why              {why(ranking)}")
    if shown.shuffle_delta is not None:
        _say_shuffled(_shuffled(shown))
    if shown.everything or len(ranking.candidates) > 1:
        _say_candidates(shown)
    if shown.explain:
        for paragraph in explain(ranking, shown.expected_mean):
            say(f"\n{paragraph}")
        say()
    for warning in warnings(ranking, shown.expected_mean):
        note(warning)


def _learned(ranking: Ranking) -> str:
    """Return which means can be found, and how well one is known."""
    request, stderr, share = ranking.request, ranking.pick.error.stderr, ranking.pick.error.share
    smallest, keys = smallest_visible(stderr, request.keys), f"{request.keys:,} keys"
    people = f"of {request.clients:,} people"
    one = "any one mean is" if share == 1 else f"one mean, of a key {held(share)}, is"
    known = f"{one} known to ±{NOISE_FLOOR * stderr:.3g} (95 %)"
    if smallest > 1:
        return (
            f"nothing stands out among {keys}: more people or a larger epsilon are needed; {known}"
        )
    what = (
        f"keys that {smallest:.2%} {people} hold"
        if request.values == "set"
        else (f"means {people} of {smallest:.3g} or more")
    )
    return f"{what} stand out among {keys}; {known}"


def _say_details(ranking: Ranking) -> None:
    """Print every number of the plan."""
    pick = ranking.pick
    made, model, hashing = pick.plan, pick.error, pick.plan.hashing
    maps = f", {hashing.bits} bits, {counted(hashing.maps, 'map')}" if hashing.maps else ""
    visible = smallest_visible(model.stderr, ranking.request.keys)
    say(f"digest           {made.digest.hex()}")
    # No lists, which do not fit on a line. Chances are out of 2^32.
    short = [pair for pair in made.parameters.items() if isinstance(pair[1], int | str)]
    parameters = ", ".join(f"{name} {value}" for name, value in short)
    say(f"mechanism        {made.mechanism} ({parameters})")
    say(f"decoding         {made.decode}, {hashing.family} hash{maps}; {pick.decoding}")
    say(f"report           {pick.bytes} bytes")
    say(f"server memory    about {pick.memory / 2**20:,.1f} MiB")
    say(
        f"standard error   at most {model.stderr:.4g} for one key {held(model.share)}, with "
        f"{made.clients:,} reports"
    )
    say(
        f"n·Var            {model.unheld:.4g} at a key that nobody holds; at most "
        f"{model.worst:.4g} at one {held(model.share)}, and {model.held:.4g} at any"
    )
    floor = NOISE_FLOOR * model.stderr
    say(f"noise floor      {floor:.4g}: what one key that nobody holds may show")
    say(f"smallest mean    that stands out over {ranking.request.keys:,} keys: {visible:.4g}")
    chance = f"except with a chance of {model.failure:g}"
    say(f"largest error    over all of them: {model.linf:.4g}, {chance}")
    say(f"one lying client moves any estimate by at most {pick.influence / made.clients:.3g}")
    say(f"guarantee        {mechanism_of(made).guarantee().describe()}")


def _say_trials(trials: Trials, taken: int) -> None:
    headings = ["sparsity", "clients over it", "weight lost", "bias", "noise", "both", "bytes"]
    table(
        headings,
        (
            [
                f"{one.sparsity:,}{' taken' * (one.sparsity == taken)}",
                f"{one.excess.over / one.excess.clients:.2%}",
                f"{one.excess.lost:.2%}",
                f"{one.excess.bias:.4g}",
                f"{one.noise:.4g}",
                f"{one.error:.4g}",
                f"{one.ranking.pick.bytes:,}",
            ]
            for one in trials.tried
        ),
    )
    say(
        "sparsity         bias is that of the mean that loses most, noise its standard error, both "
        f"the root of their squares; {trials.pick.sparsity:,} is the smallest within 1 % of the "
        "least"
    )


def _say_shuffled(found: dict[str, Any]) -> None:
    bound = f"no bound: {found.get('reason')}"
    if found["epsilon"] is not None:
        bound = f"epsilon {found['epsilon']:.3g}, delta {found['delta']:g} for the mixture of all "
        bound += f"reports: {found['caveat']}"
    say(f"shuffling        {bound}")


def _say_candidates(shown: Shown) -> None:
    ranking = shown.ranking
    listed = ranking.candidates if shown.everything else ranking.candidates[:LINES]
    left = len(ranking.candidates) - len(listed)
    headings = ["candidate", "decode", "bytes", "stderr", "n·Var", "typical", "×bound"]
    if shown.everything:
        headings += ["MiB", "ops"]
    notes = list(dict.fromkeys(drawback for one in listed for drawback in one.drawbacks))
    rows = []
    for one in listed:
        marks = "".join(f" [{notes.index(drawback) + 1}]" for drawback in one.drawbacks)
        row = [
            f"{one.title}{marks}",
            one.decode,
            f"{one.bytes:,}",
            f"{one.stderr:.3g}",
            f"{one.worst:.4g}",
            f"{one.typical:.4g}",
            f"{one.ratio:.3g}",
            f"{one.memory / 2**20:,.1f}",
            f"{one.operations:.0e}",
        ]
        rows.append(row[: len(headings)])
    table(headings, rows)
    for number, drawback in enumerate(notes, 1):
        say(f"[{number}] ranked below: {drawback}")
    if left > 0:
        say(f"{left} more: --candidates")
    if shown.everything:
        for reason in ranking.reasons:
            say(f"refused          {reason}")
