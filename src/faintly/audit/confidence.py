"""Exact confidence bounds on a probability, and the privacy loss that two of them prove.

Clopper and Pearson: from x hits in n trials, p is at least the value at which x or more
hits would still have probability `tail`, and at most the one for x or fewer.
"""

import math
from functools import lru_cache

import numpy as np

from faintly.core import FloatArray

_STEPS = 60  # halvings of [0, 1]: beyond the precision of a float


@lru_cache(maxsize=4)  # every halving uses the same number of trials
def _log_choose(trials: int) -> FloatArray:
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    return logs[trials] - logs - logs[::-1]


def upper_tail(hits: int, trials: int, chance: float) -> float:
    """Return P(at least `hits` of `trials`) where each hits with the given chance."""
    if hits <= 0 or chance >= 1:
        return 1.0
    if chance <= 0:
        return 0.0
    counts = np.arange(hits, trials + 1)
    logs = (
        _log_choose(trials)[hits:]
        + counts * math.log(chance)
        + (trials - counts) * math.log1p(-chance)
    )
    return float(min(1.0, np.exp(logs).sum()))


def at_least(hits: int, trials: int, tail: float) -> float:
    """Return a lower bound on the chance of a hit; it fails with probability at most `tail`."""
    if hits == 0:
        return 0.0
    low, high = 0.0, hits / trials
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if upper_tail(hits, trials, middle) > tail:
            high = middle
        else:
            low = middle
    return low


def at_most(hits: int, trials: int, tail: float) -> float:
    """Return an upper bound on the chance of a hit; it fails with probability at most `tail`."""
    return 1 - at_least(trials - hits, trials, tail)


def loss_at_least(hits: int, misses: int, trials: int, delta: float, tail: float) -> float:
    """Return a lower bound on epsilon from one event's hits under two neighbouring inputs.

    Args:
        hits: how often the event happened under one input.
        misses: how often it happened under the other.
        trials: samples of each.
        delta: what the guarantee allows besides epsilon.
        tail: chance that the bound is wrong.
    """
    seen = at_least(hits, trials, tail / 2) - delta
    other = at_most(misses, trials, tail / 2)
    return math.log(seen / other) if seen > other else 0.0
