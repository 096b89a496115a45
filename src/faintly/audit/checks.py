"""Privacy by enumeration: does every neighbouring pair keep the budget of a small plan?

pure   max over hash outcomes o and reports y of |ln P(y|v,o) - ln P(y|v',o)|  ≤  ε
delta  mean over o of Σ_y max(0, P(y|v,o) - e^ε·P(y|v',o)), either way round    ≤  δ

for every neighbouring pair v, v' on a grid of values. Nothing here samples: the laws come
from `mechanism.law`, which this module therefore trusts; that `randomize` follows the law is a
statistical question, which the auditor and tests/statistical ask.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from faintly.core import EventLevel, FloatArray, Unit, UserLevel
from faintly.core.arrays import AnyArray
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


class KnownLaws:
    """The laws of one mechanism's reports, each computed once, and checked to sum to 1.

    An item of value 0 is absent (vectors drop it before anything else happens), so where an
    outcome has one entry per item, the entries of absent items are dropped too.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self._known: dict[Any, dict[Values, FloatArray]] = {}

    def table(self, vectors: Sequence[Values], outcome: Any) -> FloatArray:
        """Return the law of each vector, by row; all have the same number of items."""
        found = np.concatenate(list(self._laws(vectors, outcome))).reshape(len(vectors), -1)
        sums = found.sum(axis=1)
        off = np.abs(sums - 1)
        if found.min() < 0 or off.max() > SLACK:
            total = float(sums[off.argmax()])
            raise AssertionError(f"the law of a report sums to {total!r}, not to 1")
        return found

    def _laws(self, vectors: Sequence[Values], outcome: Any) -> Iterator[FloatArray]:
        by_item = isinstance(outcome, tuple) and len(outcome) == len(vectors[0])
        # Hashing an outcome takes longer than the rest: once for all vectors of the same items.
        found: dict[tuple[bool, ...], tuple[Any, dict[Values, FloatArray]]] = {}
        for values in vectors:
            held, items = _held(values) if by_item else (values, ())
            if items not in found:
                left = tuple(itertools.compress(outcome, items)) if by_item else outcome
                found[items] = left, self._known.setdefault(left, {})
            left, known = found[items]
            if held not in known:
                known[held] = self.mechanism.law.probabilities(held, left)
            yield known[held]


@lru_cache(maxsize=2**14)  # enumeration repeats few vectors
def _held(values: Values) -> tuple[Values, tuple[bool, ...]]:
    """Return the values that are not 0, and which items they belong to."""
    return tuple(filter(None, values)), tuple(map(bool, values))


def neighbours(unit: Unit, grid: Sequence[float], items: int) -> Iterator[Pair]:
    """Yield every neighbouring pair of vectors on the grid, each pair once.

    Args:
        unit: what may change between the two.
        grid: allowed values; 0 among them means that items can be absent.
        items: coordinates, of which any number may be held; k + 2 tries vectors with more
            items than the plan expects.
    """
    for group in neighbourhoods(unit, grid, items):
        yield from itertools.combinations(group, 2)


def neighbourhoods(unit: Unit, grid: Sequence[float], items: int) -> Iterator[tuple[Values, ...]]:
    """Yield groups of vectors, all neighbours of one another; every pair is in one of them."""
    values = sorted(set(grid))
    vectors = tuple(itertools.product(values, repeat=items))
    if isinstance(unit, UserLevel):
        yield vectors
    elif isinstance(unit, EventLevel):
        others = list(itertools.product(values, repeat=items - 1))
        for position, rest in itertools.product(range(items), others):
            yield tuple((*rest[:position], value, *rest[position:]) for value in values)
    else:
        for pair in itertools.combinations(vectors, 2):
            if _distance(*pair) <= unit.distance:
                yield pair


def _distance(left: Values, right: Values) -> float:
    return math.fsum(abs(one - other) for one, other in zip(left, right, strict=True))


def worst_pair(
    mechanism: Mechanism, groups: Iterable[tuple[Values, ...]]
) -> tuple[float, Pair | None]:
    """Return the largest |log ratio| over pairs, hash outcomes and reports, and its pair.

    Args:
        mechanism: small enough to enumerate.
        groups: pairs, or larger groups of which any two are a pair; all of one size, and all
            vectors with the same number of items.
    """
    listed = list(groups)
    if not listed:
        return 0.0, None
    vectors, places = _numbered(listed)
    laws, worst, where = KnownLaws(mechanism), 0.0, listed[0][:2]
    for outcome in mechanism.law.outcomes(len(vectors[0])):
        with np.errstate(divide="ignore"):  # ln 0 is intended: a report that cannot occur
            logs = np.log(laws.table(vectors, outcome))
        for block in _blocks(places, logs.shape[1]):
            among = logs[block]
            gaps = _gaps(among)
            if gaps.max() > worst:
                worst = float(gaps.max())
                group, report = np.unravel_index(int(gaps.argmax()), gaps.shape)
                chances = among[group, :, report]
                ends = sorted((int(chances.argmax()), int(chances.argmin())))
                where = tuple(vectors[place] for place in block[group, ends])
    return worst, (where[0], where[1])


def _numbered(groups: Sequence[tuple[Values, ...]]) -> tuple[list[Values], AnyArray]:
    """Return the vectors of all groups, each once, and the places of those in each group (row)."""
    vectors = list(dict.fromkeys(itertools.chain.from_iterable(groups)))
    places = {values: place for place, values in enumerate(vectors)}
    return vectors, np.array([[places[values] for values in group] for group in groups])


def _blocks(places: AnyArray, reports: int) -> Iterator[AnyArray]:
    """Yield the groups in blocks of about BLOCK probabilities."""
    size = max(1, BLOCK // (places.shape[1] * reports))
    for start in range(0, len(places), size):
        yield places[start : start + size]


def _gaps(logs: FloatArray) -> FloatArray:
    """Return the range over each group, by report; 0 for reports that nobody in it can send."""
    with np.errstate(invalid="ignore"):
        gaps: FloatArray = logs.max(axis=1) - logs.min(axis=1)
    gaps[np.isnan(gaps)] = 0.0
    return gaps


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
    pair = tuple(left), tuple(right)
    return float(exact_deltas(mechanism, [pair], epsilon, weighted)[0])


def exact_deltas(
    mechanism: Mechanism,
    pairs: Iterable[Pair],
    epsilon: float,
    weighted: Iterable[tuple[float, Any]] | None = None,
) -> FloatArray:
    """Return `exact_delta` of each of many pairs, all with the same number of items."""
    vectors, places = _numbered(list(pairs))
    laws, growth = KnownLaws(mechanism), math.exp(epsilon)
    if weighted is None:
        outcomes = list(mechanism.law.outcomes(len(vectors[0])))
        weighted = [(1 / len(outcomes), outcome) for outcome in outcomes]
    deltas = np.zeros((2, len(places)))  # either way round
    for weight, outcome in weighted:
        known = laws.table(vectors, outcome)
        excess = [_excess(known[block], growth) for block in _blocks(places, known.shape[1])]
        deltas += weight * np.concatenate(excess, axis=1)
    worst: FloatArray = deltas.max(axis=0)
    return worst


def _excess(known: FloatArray, growth: float) -> FloatArray:
    """Return how much of each law of a pair exceeds `growth` times the other, either way round."""
    one, other = known[:, 0], known[:, 1]
    both = (np.maximum(a - growth * b, 0).sum(axis=1) for a, b in ((one, other), (other, one)))
    return np.stack(list(both))


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
    if proven.delta == 0:
        worst, pair = worst_pair(mechanism, neighbourhoods(unit, grid, items))
        return Finding("privacy", worst <= budget.epsilon + SLACK, worst, budget.epsilon, f"{pair}")
    pairs = list(neighbours(unit, grid, items))
    deltas = exact_deltas(mechanism, pairs, budget.epsilon)
    worst, pair = float(deltas.max()), pairs[int(deltas.argmax())]
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
