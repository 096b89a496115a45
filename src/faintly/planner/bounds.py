"""Lower bounds: how small n·Var can be for any unbiased report that keeps a promise.

Letters: g = e^ε, c = (g+1)/(g-1). Every bound is about one client's report, pure ε and an
unbiased estimate, and bounds the largest n·Var over all inputs.

user    LB1      k·c² for g ≤ 3, else 8k/(g-1): the posterior of a uniform k-sparse sign
                 vector moves too little for any estimate to do better
        LB worst k/(2·KL)-1 with KL = s-1-ln s, s = εg/(g-1): what a report can say about k
                 independent signs
event            2(g+2)/(g-1)² for g ≥ 2, else 4g/(g-1)²: the best channel of one coordinate
l1(L)            vectors of m items of size a ≤ 1 with 2am ≤ L are all neighbours, so the
                 user-level bound holds for them with a² in front
"""

import math

from faintly.core import EventLevel, Unit, UserLevel, WithinL1


def lower_bound(unit: Unit, epsilon: float, sparsity: int, universe: int | None = None) -> float:
    """Return a bound below the worst-case n·Var of every pure mechanism for the unit.

    Args:
        unit: what is hidden.
        epsilon: privacy budget of one report.
        sparsity: items that a vector may hold.
        universe: number of keys; None where it is open.

    >>> round(lower_bound(EventLevel(), 1.0, 6), 3), round(lower_bound(UserLevel(), 1.0, 6), 2)
    (3.196, 28.1)
    """
    if isinstance(unit, EventLevel):
        return event_bound(epsilon)
    held = sparsity if universe is None else min(sparsity, universe)
    if isinstance(unit, UserLevel):
        return user_bound(epsilon, held, universe)
    assert isinstance(unit, WithinL1)
    return l1_bound(epsilon, unit.distance, held, universe)


def event_bound(epsilon: float) -> float:
    """Return the least n·Var, at a coordinate of value 0, of a report that hides one item.

    The best channel maximises Σ(P₊-P₋)²/P₀ over laws within a factor e^ε of each other.
    """
    ratio = math.exp(epsilon)
    gain = math.expm1(epsilon) ** 2
    return 2 * (ratio + 2) / gain if ratio >= 2 else 4 * ratio / gain


def user_average_bound(epsilon: float, sparsity: int, universe: int | None = None) -> float:
    """Return LB1, a bound on n·Var averaged over keys and over uniform k-sparse sign vectors.

    The argument bounds the second moment; over a universe of d keys a mean square of k/d
    belongs to the values themselves and is taken off.
    """
    own = 0.0 if universe is None else sparsity / universe
    return sparsity * _single_bound(epsilon) - own


def user_signs_bound(epsilon: float, sparsity: int) -> float:
    """Return "LB worst", the bound from k independent signs on k keys; at least 0.

    A report's information about the signs is at most KL, and unbiased estimates of k
    independent signs need k/(2(n·Var + 1)) of it (Donsker and Varadhan with Hoeffding).
    """
    # s - 1 as written loses digits at small ε; this form does not.
    excess = (epsilon + math.expm1(-epsilon)) / -math.expm1(-epsilon)
    information = excess - math.log1p(excess)
    return max(0.0, sparsity / (2 * information) - 1)


def user_bound(epsilon: float, sparsity: int, universe: int | None = None) -> float:
    """Return the larger of the two user-level bounds on the worst-case n·Var."""
    return max(user_average_bound(epsilon, sparsity, universe), user_signs_bound(epsilon, sparsity))


def l1_bound(epsilon: float, distance: float, sparsity: int, universe: int | None = None) -> float:
    """Return a bound on the worst-case n·Var of any report that hides a change of `distance`.

    Any two vectors of m items of size a are within 2am of each other. Where that is at most
    the distance they are hidden from each other as at user level, and an estimate of v/a
    has n·Var/a².
    """
    most = max(1, min(sparsity, math.ceil(distance / 2)))
    sizes = {items: min(1.0, distance / (2 * items)) for items in {most, max(1, most - 1)}}
    return max(size**2 * user_bound(epsilon, items, universe) for items, size in sizes.items())


def _single_bound(epsilon: float) -> float:
    ratio = math.exp(epsilon)
    if ratio >= 3:
        return 8 / math.expm1(epsilon)
    return ((ratio + 1) / math.expm1(epsilon)) ** 2
