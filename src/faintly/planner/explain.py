"""A plan in plain words, for decision makers, lawyers and the people whose data it is about."""

import math

from faintly.core import EventLevel, UserLevel
from faintly.core.privacy import VOID_EPSILON, WEAK_EPSILON
from faintly.errors import InvalidInput
from faintly.mechanisms import mechanism_of
from faintly.planner.error_model import smallest_visible
from faintly.planner.search import Candidate, Ranking

_WITH_VALUES = {
    "signed": " with values between -1 and 1",
    "nonnegative": " with values between 0 and 1",
    "set": "",
}
_FROM_WHOM = (
    "What is hidden, and from whom. From everybody who sees reports: the operator, its staff and "
    "suppliers, an eavesdropper, anyone who obtains the files later."
)


def explain(ranking: Ranking, expected_mean: float | None = None) -> list[str]:
    """Return the paragraphs that explain the ranking's pick, each about one question."""
    pick = ranking.pick
    return [
        _collected(pick),
        f"{_FROM_WHOM} {mechanism_of(pick.plan).guarantee().describe()}",
        _open(pick),
        accuracy(pick, ranking.request.keys, expected_mean),
        f"Why this way. {why(ranking)}",
    ]


def why(ranking: Ranking) -> str:
    """Return why the pick and not the runner-up, in numbers."""
    pick, other = ranking.pick, ranking.runner_up
    text = (
        f"{pick.title} with {pick.decode} decoding was chosen: n·Var at most {pick.worst:.4g} at a "
        f"key {held(pick.error.share)}, {pick.ratio:.3g} times the lower bound {pick.bound:.4g} "
        f"that holds for any unbiased pure mechanism, in {pick.bytes} bytes."
    )
    shared = ranking.better_when_shared
    if shared is not None:
        text += (
            f" It errs less than {shared[0].title} with {shared[0].decode} decoding at keys that "
            f"up to {shared[1]:.0%} of the clients hold, and more at others."
        )
    if pick.drawbacks:
        text += f" Note that {' and '.join(pick.drawbacks)}; no candidate avoids this."
    better = min(ranking.candidates, key=lambda one: one.worst)
    # Only a drawback put the candidate that errs least below the pick.
    if better.drawbacks and better.worst < 0.95 * pick.worst and better is not other:
        text += (
            f" {better.title} with {better.decode} decoding would have n·Var {better.worst:.4g} "
            f"in {better.bytes} bytes, but {' and '.join(better.drawbacks)}."
        )
    table = next((one for one in ranking.candidates if one.decode == "table"), None)
    if table is not None and pick.decode != "table":
        text += (
            f" It reads the reports themselves: tables within the memory would have n·Var "
            f"{table.worst:.4g} in {table.bytes} bytes ({table.title})."
        )
    if other is None:
        return f"{text} No other mechanism can serve within these limits."
    text += (
        f" The runner-up is {other.title} with {other.decode} decoding: n·Var {other.worst:.4g} "
        f"there ({_compared(other.worst, pick.worst)}) in {other.bytes} bytes"
    )
    if other.drawbacks:
        text += f", ranked below because {' and '.join(other.drawbacks)}"
    return f"{text}."


def held(share: float) -> str:
    """Return which keys an error is promised for."""
    return "whoever holds it" if share == 1 else f"that at most {share:.3g} of the clients hold"


def _compared(other: float, pick: float) -> str:
    share = other / pick - 1
    if abs(share) < 0.005:
        return "as much"
    return f"{other / pick:.3g} times as much" if share > 1 else f"{share:+.0%}"


def _collected(pick: Candidate) -> str:
    plan = pick.plan
    return (
        f"What is collected. Each of about {plan.clients:,} devices sends one report of "
        f"{pick.bytes} bytes. The device makes it from a private list of items"
        f"{_WITH_VALUES[plan.values]}, usually at most {plan.sparsity} of them, by a procedure "
        "that adds noise; the list itself never leaves the device. A device with an empty list "
        "sends a report too, of the same length."
    )


def _open(pick: Candidate) -> str:
    unit = pick.plan.unit
    text = (
        "What is not hidden. That a device takes part, when it sends and from which network "
        "address; the plan itself; and the averages over all participants, which are the purpose. "
        "Two reports about the same data reveal up to twice as much."
    )
    if isinstance(unit, EventLevel):
        text += (
            " Each item is hidden by itself: what shows in several items of one person is hidden "
            "less, m items together only within m times the stated epsilon."
        )
    elif not isinstance(unit, UserLevel):
        text += (
            f" Only changes up to {unit.distance:g} in total are hidden with the stated epsilon; "
            "a larger one reveals more."
        )
    return text


def accuracy(pick: Candidate, keys: int, expected_mean: float | None = None) -> str:
    """Return how accurate the answers are, and whether the expected signal shows."""
    visible = smallest_visible(pick.stderr, keys)
    text = (
        f"How accurate. With {pick.plan.clients:,} reports the mean of a key "
        f"{held(pick.error.share)} has a standard error of at most {pick.stderr:.3g} "
        f"({pick.error.typical_stderr:.3g} for typical clients), so it is known within "
        f"{1.96 * pick.stderr:.4g} in 19 cases of 20. The smallest mean that stands out over "
        f"{keys:,} keys is {visible:.4g}."
    )
    if pick.bias > 1e-6:
        text += f" Means may be too small by up to {pick.bias:.2g} of their size."
    text += f" One lying device moves any mean by at most {pick.influence / pick.plan.clients:.3g}."
    if expected_mean is not None and expected_mean >= visible:
        text += f" A mean of {expected_mean:g} would stand out."
    return text


def warnings(ranking: Ranking, expected_mean: float | None = None) -> list[str]:
    """Return warnings for a deployer."""
    pick, found = ranking.pick, []
    plan, stderr = pick.plan, pick.stderr
    visible = smallest_visible(stderr, ranking.request.keys)
    if expected_mean is not None and not 0 < expected_mean <= 1:
        raise InvalidInput(
            f"the expected mean must be above 0 and at most 1, got {expected_mean:g}"
        )
    if expected_mean is not None and expected_mean < visible:
        need = math.ceil(plan.clients * (visible / expected_mean) ** 2)
        found.append(
            f"a mean of {expected_mean:g} drowns in noise: the smallest that stands out over "
            f"{ranking.request.keys:,} keys is {visible:.4g}; it would take about {need:,} clients"
        )
    if visible > 1:
        found.append(
            f"no mean at all can stand out over {ranking.request.keys:,} keys: it would have to be "
            f"{visible:.4g}, and no mean is above 1"
        )
    if plan.budget.epsilon >= WEAK_EPSILON:
        hides = "nothing" if plan.budget.epsilon >= VOID_EPSILON else "little"
        found.append(
            f"epsilon {plan.budget.epsilon:g} lets odds move by a factor of "
            f"{math.ceil(math.exp(plan.budget.epsilon)):,}, which hides {hides}"
        )
    if plan.budget.delta >= 1 / plan.clients:
        found.append(
            f"delta {plan.budget.delta:g} is so large that the promise may fail for one of "
            f"{plan.clients:,} clients; take at most {0.1 / plan.clients:.1g}"
        )
    if plan.budget.delta and not mechanism_of(plan).guarantee().budget.delta:
        found.append("the plan chosen is pure and makes no use of delta")
    found += pick.drawbacks
    size = plan.universe.size
    if size is not None and plan.sparsity > size:
        found.append(f"no vector can hold {plan.sparsity} of {size} keys; a smaller sparsity helps")
    return found
