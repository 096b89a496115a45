"""Privacy by enumeration: does every neighbouring pair keep the budget of a small plan?

pure   max over hash outcomes o and reports y of |ln P(y|v,o) - ln P(y|v',o)|  ≤  ε
delta  mean over o of Σ_y max(0, P(y|v,o) - e^ε·P(y|v',o)), either way round    ≤  δ

for every neighbouring pair v, v' on a grid of values. Nothing here samples: the laws come
from `Mechanism.law`, which `checks` therefore trusts; that `randomize` follows the law is a
statistical question, which the auditor and tests/statistical ask.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from faintly.core import EventLevel, FloatArray, Unit, UserLevel
from faintly.mechanisms.base import Mechanism
from faintly.mechanisms.law import SmallCase

Values = tuple[float, ...]
Pair = tuple[Values, Values]

GRID: Values = (-1.0, -0.5, 0.0, 0.5, 1.0)
SLACK = 1e-12  # what 64-bit sums of positive terms may lose; far below any real leak
BLOCK = 2**21  # likelihood ratios compared at once: 16 MiB of them


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: whether it holds, what was measured against what is allowed, and where."""

    check: str
    holds: bool
    measured: float
    allowed: float
    evidence: str = ""


class Laws:
    """The laws of one mechanism's reports, each computed once and checked to sum to 1.

    An item of value 0 is absent (vectors drop it before anything else happens), so where an
    outcome has one entry per item, the entries of absent items are dropped too.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self._known: dict[tuple[Values, Any], FloatArray] = {}

    def of(self, values: Values, outcome: Any) -> FloatArray:
        """Return the probability of every report for these values under this outcome."""
        if isinstance(outcome, tuple) and len(outcome) == len(values):
            held = [position for position, value in enumerate(values) if value != 0]
            values = tuple(values[position] for position in held)
            outcome = tuple(outcome[position] for position in held)
        key = (values, outcome)
        if key not in self._known:
            law = self.mechanism.law(values, outcome)
            if (law < 0).any() or abs(math.fsum(law) - 1) > SLACK:
                raise AssertionError(f"the law of a report sums to {math.fsum(law)!r}, not to 1")
            self._known[key] = law
        return self._known[key]


def neighbours(unit: Unit, grid: Sequence[float], items: int) -> Iterator[Pair]:
    """Yield every neighbouring pair of vectors on the grid, each pair once.

    Args:
        unit: what may change between the two.
        grid: allowed values; 0 among them means that items can be absent.
        items: coordinates, of which any number may be held; k + 2 tries vectors with more
            items than the plan expects.
    """
    vectors = list(itertools.product(sorted(set(grid)), repeat=items))
    if isinstance(unit, EventLevel):
        for left in vectors:
            for position, value in itertools.product(range(items), sorted(set(grid))):
                if value > left[position]:
                    yield left, (*left[:position], value, *left[position + 1 :])
        return
    for left, right in itertools.combinations(vectors, 2):
        if isinstance(unit, UserLevel) or _distance(left, right) <= unit.distance:
            yield left, right


def _distance(left: Values, right: Values) -> float:
    return math.fsum(abs(one - other) for one, other in zip(left, right, strict=True))


def worst_pair(mechanism: Mechanism, pairs: Iterable[Pair]) -> tuple[float, Pair | None]:
    """Return the largest |log ratio| over pairs, hash outcomes and reports, and its pair.

    All pairs must have the same number of items.
    """
    listed = list(pairs)
    if not listed:
        return 0.0, None
    vectors = {
        values: place for place, values in enumerate(dict.fromkeys(itertools.chain(*listed)))
    }
    left = np.array([vectors[one] for one, _ in listed])
    right = np.array([vectors[other] for _, other in listed])
    laws, worst, where = Laws(mechanism), 0.0, 0
    for outcome in mechanism.outcomes(len(listed[0][0])):
        with np.errstate(divide="ignore"):  # ln 0 is intended: a report that cannot occur
            logs = np.log(np.stack([laws.of(values, outcome) for values in vectors]))
        size = max(1, BLOCK // logs.shape[1])
        for start in range(0, len(listed), size):
            block = slice(start, start + size)
            ratios = _gaps(logs[left[block]], logs[right[block]])
            if ratios.max() > worst:
                worst, where = float(ratios.max()), start + int(ratios.argmax())
    return worst, listed[where]


def _gaps(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the largest |left - right| of each row; two impossible reports differ by 0."""
    with np.errstate(invalid="ignore"):
        gaps = np.abs(left - right)
    gaps[np.isnan(gaps)] = 0.0
    worst: FloatArray = gaps.max(axis=1)
    return worst


def exact_delta(
    mechanism: Mechanism,
    left: Sequence[float],
    right: Sequence[float],
    epsilon: float,
    weighted: Iterable[tuple[float, Any]] | None = None,
) -> float:
    """Return the least δ for which the pair is (ε, δ)-indistinguishable, the hash being public.

    Args:
        mechanism: what makes the reports.
        left: values of one vector.
        right: values of the other, item by item.
        epsilon: the allowed loss.
        weighted: classes of equivalent outcomes of the hash with their probabilities; by
            default every outcome, all equally likely.
    """
    laws, growth = Laws(mechanism), math.exp(epsilon)
    if weighted is None:
        outcomes = list(mechanism.outcomes(len(left)))
        weighted = [(1 / len(outcomes), outcome) for outcome in outcomes]
    forward, backward = [], []
    for weight, outcome in weighted:
        one, other = laws.of(tuple(left), outcome), laws.of(tuple(right), outcome)
        forward.append(weight * float(np.maximum(one - growth * other, 0).sum()))
        backward.append(weight * float(np.maximum(other - growth * one, 0).sum()))
    return max(math.fsum(forward), math.fsum(backward))


def check_privacy(
    mechanism: Mechanism, grid: Sequence[float] = GRID, items: int | None = None
) -> Finding:
    """Return whether every neighbouring pair on the grid keeps the budget of the plan.

    Args:
        mechanism: small enough to enumerate.
        grid: values to try.
        items: coordinates; k + 2 by default, or k where the theorem needs a delta.
    """
    unit, budget = mechanism.plan.unit, mechanism.plan.budget
    proven = mechanism.guarantee().budget
    if items is None:
        items = mechanism.plan.sparsity + (2 if proven.delta == 0 else 0)
    pairs = list(neighbours(unit, grid, items))
    if proven.delta == 0:
        worst, pair = worst_pair(mechanism, pairs)
        return Finding("privacy", worst <= budget.epsilon + SLACK, worst, budget.epsilon, f"{pair}")
    deltas = [exact_delta(mechanism, *pair, budget.epsilon) for pair in pairs]
    worst = max(deltas)
    pair = pairs[deltas.index(worst)]
    return Finding("privacy", worst <= budget.delta + SLACK, worst, budget.delta, f"{pair}")


def check_case(case: SmallCase) -> Finding:
    """Return whether a small case keeps its budget: all its pairs, or the one that it names."""
    if case.pair is None:
        return check_privacy(case.mechanism, case.grid, case.items)
    budget = case.mechanism.plan.budget
    delta = exact_delta(case.mechanism, *case.pair, budget.epsilon, case.weighted)
    return Finding(
        "privacy", delta <= budget.delta, delta, budget.delta, f"{len(case.pair[0])} flips"
    )


def check_statement(mechanism: Mechanism) -> Finding:
    """Return whether the loss that the integers prove is within what the plan promises."""
    proven, promised = mechanism.guarantee().budget, mechanism.plan.budget
    return Finding("statement", promised.covers(proven), proven.epsilon, promised.epsilon)
