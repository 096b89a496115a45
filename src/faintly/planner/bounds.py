"""Lower bounds: how small n·Var can be for any unbiased report that keeps a promise.

Letters: g = e^ε, c = (g+1)/(g-1). Every bound is about one client's report, pure ε and an
unbiased estimate, and bounds the largest n·Var over all inputs in which at most a share of the
clients hold the key. n·Var is (1-f)·V0 + f·V1 at a key that a share f holds; so what holds for f
holds for a smaller share times that share/f.

user    LB1      k·c² for g ≤ 3, else 8k/(g-1): the posterior of a uniform k-sparse sign
                 vector moves too little for any estimate to do better
        LB worst k/(2·KL)-1 with KL = s-1-ln s, s = εg/(g-1): what a report can say about k
                 independent signs
        sets     4k(1-f)(1-1/d)·g/(g-1)² - f(1-f) with f = k/d: the posterior of a uniform set
                 of k of d keys, and Scarf's bound on what exceeds a level
        blocks   k·f(1-f)²/(2σ²·KL) - f(1-f): what a report can say about a set of one key out of
                 each of k blocks of 1/f keys; σ² is below
event            2(g+2)/(g-1)² for g ≥ 2, else 4g/(g-1)²: the best channel of one coordinate
        sets     g/(g-1)²: the largest chi-square distance (Chapman and Robbins)
l1(L)            vectors of m items of size a ≤ 1 with 2am ≤ L are all neighbours, so the
                 user-level bound holds for them with a² in front; in sets a is 1
"""

import math
from collections.abc import Callable

from faintly.core import EventLevel, Unit, UserLevel, WithinL1

BLOCKS = 8  # sizes of blocks that are tried: five or six keys are best, where the share allows


def lower_bound(
    unit: Unit,
    epsilon: float,
    sparsity: int,
    universe: int | None = None,
    *,
    values: str = "signed",
    share: float = 1.0,
) -> float:
    """Return a bound below the worst-case n·Var of every pure mechanism for the unit.

    Args:
        unit: what is hidden.
        epsilon: privacy budget of one report.
        sparsity: items that a vector may hold.
        universe: number of keys; None where it is open.
        values: what vectors hold: signed, nonnegative or set.
        share: largest share of the clients that hold the key.

    >>> round(lower_bound(EventLevel(), 1.0, 6), 3), round(lower_bound(UserLevel(), 1.0, 6), 2)
    (3.196, 28.1)
    >>> round(lower_bound(UserLevel(), 1.0, 16, values="set", share=0.05) / 16, 3)
    3.683
    >>> round(lower_bound(UserLevel(), 4.0, 16, values="set", share=0.2) / 16, 3)
    0.132
    """
    if isinstance(unit, EventLevel):
        return event_bound(epsilon) if values == "signed" else event_set_bound(epsilon)
    held = sparsity if universe is None else min(sparsity, universe)

    def user(items: int) -> float:
        if values != "signed":
            uniform = _spread(user_set_bound, epsilon, items, universe, share)
            return max(uniform, user_blocks_bound(epsilon, items, universe, share))
        average = _spread(user_average_bound, epsilon, items, universe, share)
        return max(average, share * user_signs_bound(epsilon, items))

    if isinstance(unit, UserLevel):
        return user(held)
    assert isinstance(unit, WithinL1)
    return _l1_bound(unit.distance, held, user, whole=values == "set")


def _spread(
    bound: Callable[[float, int, int | None], float],
    epsilon: float,
    sparsity: int,
    universe: int | None,
    share: float,
) -> float:
    """Return a bound of items spread evenly over the keys, as many as the share allows."""
    if universe is None:
        return bound(epsilon, sparsity, None)
    items = max(1, min(sparsity, math.floor(share * universe)))
    return min(1.0, share * universe / items) * bound(epsilon, items, universe)


def event_set_bound(epsilon: float) -> float:
    """Return the least n·Var of a report that hides whether one item is in a set."""
    return math.exp(epsilon) / math.expm1(epsilon) ** 2


def user_set_bound(epsilon: float, sparsity: int, universe: int | None = None) -> float:
    """Return a bound on n·Var averaged over keys and over uniform sets of k keys."""
    whole = 4 * sparsity * event_set_bound(epsilon)
    if universe is None:
        return whole
    held = sparsity / universe
    return max(0.0, whole * (1 - held) * (1 - 1 / universe) - held * (1 - held))


def user_blocks_bound(epsilon: float, sparsity: int, universe: int | None, share: float) -> float:
    """Return the best bound from sets of one key out of each of k blocks; at least 0."""
    fewest = max(2, math.ceil(1 / share))
    return max(
        _blocks_bound(
            epsilon, sparsity if universe is None else min(sparsity, universe // keys), keys
        )
        for keys in range(fewest, fewest + BLOCKS)
    )


def _blocks_bound(epsilon: float, blocks: int, keys: int) -> float:
    """Return the bound from blocks of this many keys.

    For a vector a over the keys of a block whose entries add up to 0, the mean of e^a is at most
    e^(σ²·|a|²/2). At its extremes a has two values, and of these one key against the others is
    worst: then σ² follows from the law of one coin (Kearns and Saul 1998).
    """
    held = 1 / keys
    coin = 0.25 if keys == 2 else (1 - 2 * held) / (2 * math.log((1 - held) / held))
    needed = blocks * held * (1 - held) ** 3 / (2 * coin * _information(epsilon))
    return max(0.0, needed - held * (1 - held))


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
    belongs to the values themselves and is subtracted.
    """
    ratio, gain = math.exp(epsilon), math.expm1(epsilon)
    single = 8 / gain if ratio >= 3 else ((ratio + 1) / gain) ** 2
    own = 0.0 if universe is None else sparsity / universe
    return sparsity * single - own


def user_signs_bound(epsilon: float, sparsity: int) -> float:
    """Return "LB worst", the bound from k independent signs on k keys; at least 0.

    A report's information about the signs is at most KL, and unbiased estimates of k
    independent signs need k/(2(n·Var + 1)) of it (Donsker and Varadhan with Hoeffding).
    """
    return max(0.0, sparsity / (2 * _information(epsilon)) - 1)


def _information(epsilon: float) -> float:
    """Return KL, the most that one report can say about anything."""
    # s - 1 as written loses digits at small ε; this form does not.
    excess = (epsilon + math.expm1(-epsilon)) / -math.expm1(-epsilon)
    return excess - math.log1p(excess)


def _l1_bound(
    distance: float, sparsity: int, user: Callable[[int], float], *, whole: bool
) -> float:
    """Return a bound on the worst-case n·Var of any report that hides a change of `distance`.

    Any two vectors of m items of size a are within 2am of each other. Where that is at most
    the distance they are hidden from each other as at user level, and an estimate of v/a
    has n·Var/a². Items of a set have the size 1.
    """
    most = min(sparsity, math.floor(distance / 2) if whole else math.ceil(distance / 2))
    if most < 1:
        return 0.0
    sizes = {items: min(1.0, distance / (2 * items)) for items in {most, max(1, most - 1)}}
    return max(size**2 * user(items) for items, size in sizes.items())
