"""Planning backwards: which budget, clients, items or bytes reach a target error?

The error is the predicted worst-case standard error of one mean. An unknown is found by
coarse steps and then bisection over the best error of the whole ranking, on values of three
digits: the error falls with ε and with clients and grows with sparsity, except for small jumps
of integer parameters. The value returned has itself been ranked, so it reaches the target.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from faintly.core import WithinL1
from faintly.core.plan import MAX_EPSILON
from faintly.errors import FaintlyError, InvalidPlan
from faintly.planner.plan_request import request_for
from faintly.planner.search import Candidate, Ranking, survey

UNKNOWNS = ("epsilon", "clients", "sparsity")
LEAST_EPSILON = 0.01  # below this even a large crowd's reports show nothing
SEARCHED_CLIENTS = 10**11  # more people than ever lived
COARSE_STEPS = 24  # about two to a doubling of epsilon
SEARCHED_SPARSITY = 4096  # beyond this, vectors are no longer sparse


@dataclass(frozen=True, kw_only=True)
class Solution:
    """The ranking at the solved value, and its candidate that reaches the target."""

    ranking: Ranking
    pick: Candidate
    unknown: str | None = None
    value: float | None = None

    @property
    def description(self) -> str:
        """Return what was solved, in a sentence."""
        if self.unknown is None:
            return f"{self.pick.bytes} bytes: the smallest report that reaches the target error"
        extreme = "largest" if self.unknown == "sparsity" else "smallest"
        return (
            f"{self.unknown} {self.value:,.6g}: the {extreme} that reaches the target error, by "
            "bisection over the ranking, to three digits"
        )


def solve(target_error: float, **wanted: Any) -> Solution:
    """Return the solution that reaches the target with the smallest report.

    Args:
        target_error: largest worst-case standard error of one mean.
        **wanted: arguments of `request_for`; at most one of epsilon, clients and sparsity may be
            None, and is then solved for.
    """
    if not target_error > 0:
        raise InvalidPlan(f"target-error must be above 0, got {target_error:g}")
    missing = [name for name in UNKNOWNS if wanted.get(name) is None]
    if len(missing) > 1:
        raise InvalidPlan(f"only one of {', '.join(UNKNOWNS)} can be solved for; give the others")
    if not missing:
        ranking = survey(request_for(**wanted))
        reaching = _reaching(ranking, target_error)
        if not reaching:
            raise InvalidPlan(_nearest(ranking, target_error, wanted))
        return Solution(ranking=_reordered(ranking, reaching), pick=reaching[0])
    return _search(target_error, missing[0], wanted)


def _search(target_error: float, unknown: str, wanted: dict[str, Any]) -> Solution:
    grid = _grid(unknown, wanted)
    seen: dict[float, Ranking | FaintlyError] = {}

    def reaches(value: float) -> bool:
        try:
            request = request_for(**{**wanted, unknown: value})
            if request.budget.delta == 0 and request.bound > target_error**2 * request.clients:
                return False  # no mechanism can, and ranking them all takes longer
            seen[value] = survey(request)
        except FaintlyError as error:
            seen[value] = error
        found = seen[value]
        return isinstance(found, Ranking) and bool(_reaching(found, target_error))

    value = first(grid, reaches)
    if value is None:
        raise _unreachable(target_error, unknown, grid, seen)
    ranking = seen[value]
    assert isinstance(ranking, Ranking)
    reaching = _reaching(ranking, target_error)
    return Solution(
        ranking=_reordered(ranking, reaching), pick=reaching[0], unknown=unknown, value=value
    )


def _unreachable(
    target_error: float,
    unknown: str,
    grid: Sequence[float],
    seen: dict[float, Ranking | FaintlyError],
) -> FaintlyError:
    text = (
        f"no {unknown} from {min(grid):g} to {max(grid):g} reaches a standard error of "
        f"{target_error:g}"
    )
    served = {
        value: min(one.stderr for one in _eligible(found))
        for value, found in seen.items()
        if isinstance(found, Ranking) and found.candidates
    }
    if served:
        nearest = min(served, key=lambda value: served[value])
        return InvalidPlan(
            f"{text}; the nearest is {served[nearest]:.3g}, at {unknown} {nearest:g}"
        )
    for found in reversed(seen.values()):
        return found if isinstance(found, FaintlyError) else InvalidPlan(found.refusal_message)
    return InvalidPlan(f"{text}: that is below the lower bound for any mechanism")


def first(grid: Sequence[float], reaches: Callable[[float], bool]) -> float | None:
    """Return the first value of the grid that reaches, or None if none was found.

    Coarse steps first: a byte limit can make large values fail too, so the end of the grid
    says nothing about its middle. Then bisection within the first step that ends well.
    """
    stride = max(1, len(grid) // COARSE_STEPS)
    marks = [*range(0, len(grid) - 1, stride), len(grid) - 1]
    high = next((mark for mark in marks if reaches(grid[mark])), None)
    if high is None:
        return None
    # Bisection ends at a value that was seen to reach, or at this one.
    return grid[bisect_left(grid, True, max(0, high - stride + 1), high, key=reaches)]


def three_digits(least: float, most: float) -> list[float]:
    """Return the numbers of three digits from `least` to `most`, both included.

    >>> three_digits(0.998, 1.02)
    [0.998, 0.999, 1.0, 1.01, 1.02]
    """
    exponents = range(-6, 14)
    numbers = [float(f"{digits}e{power}") for power in exponents for digits in range(100, 1000)]
    return [number for number in numbers if least <= number <= most]


def _grid(unknown: str, wanted: dict[str, Any]) -> Sequence[float]:
    """Return the values to search, from the best for a deployer to the likeliest to succeed."""
    if unknown == "epsilon":
        return three_digits(LEAST_EPSILON, MAX_EPSILON)
    if unknown == "clients":
        few = list(range(1, 100))
        return few + [int(number) for number in three_digits(100, SEARCHED_CLIENTS)]
    probe = request_for(**{**wanted, "sparsity": SEARCHED_SPARSITY})
    most = min(SEARCHED_SPARSITY, probe.universe.size or SEARCHED_SPARSITY)
    least = 1
    if isinstance(probe.unit, WithinL1):
        least = max(1, -int(-probe.unit.distance // 2))
    return list(range(max(least, most), least - 1, -1))


def _eligible(ranking: Ranking) -> list[Candidate]:
    """Return the candidates without drawbacks, or all where each has one."""
    return [one for one in ranking.candidates if not one.drawbacks] or ranking.candidates


def _reaching(ranking: Ranking, target_error: float) -> list[Candidate]:
    """Return the candidates within the target, the smallest report first."""
    within = [one for one in _eligible(ranking) if one.stderr <= target_error]
    return sorted(within, key=lambda one: (one.bytes, one.worst))


def _reordered(ranking: Ranking, reaching: list[Candidate]) -> Ranking:
    """Return the ranking with those that reach the target first, in their order."""
    chosen = {one.plan.digest for one in reaching}
    rest = [one for one in ranking.candidates if one.plan.digest not in chosen]
    return replace(ranking, candidates=reaching + rest)


def _nearest(ranking: Ranking, target_error: float, wanted: dict[str, Any]) -> str:
    best = min(_eligible(ranking) or [ranking.pick], key=lambda one: one.worst)
    text = (
        f"no mechanism reaches a standard error of {target_error:g} here; the nearest is "
        f"{best.stderr:.3g} ({best.title}, {best.bytes} bytes)"
    )
    helps = []
    for unknown in ("clients", "epsilon"):
        try:
            found = _search(target_error, unknown, {**wanted, unknown: None})
        except FaintlyError:
            continue
        helps.append(f"{unknown} {found.value:,.6g}")
    return f"{text}; {' or '.join(helps)} would" if helps else text
