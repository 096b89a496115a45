"""Ghosts: what a key that nobody holds reads because its code is the sum of held keys' codes.

In one map the codes of several held keys may add up to that of another key, which then reads a
share of theirs. In an open universe two keys may even share a code. Each map has codes and signs
of its own, so with J maps such a ghost appears in 1/J of the reports. The sum of all ghosts of a
key is noise of known size that does not shrink with more reports. Both are largest where
everybody holds the same keys; the sizes of a plan are chosen for that case.

strength  the largest that one ghost can read, where a key held by all reads 1
energy    the sum of the squares of all ghosts in one table, in the same unit
"""

import math

from faintly.core.plan import MAX_MAPS

LARGEST = 0.3  # standard errors: one ghost moves the coverage of 95 % intervals to 94 %
TOGETHER = 0.02  # of the variance, from all ghosts: the planner calls that a tie
# An open universe, where keys share codes: less would cost bytes and memory for unlikely data.
OPEN_TOGETHER = 0.125
FEWEST = 16  # maps: the top list ignores the largest reading of a key, so each should be small


def least_maps(strength: float, clients: int, variance: float) -> int:
    """Return how many maps keep one ghost small, a power of two; `variance` is n·Var."""
    needed = strength * math.sqrt(clients / variance) / LARGEST
    return min(MAX_MAPS, 1 << max(0, math.ceil(math.log2(max(1.0, needed)) - 1e-9)))


def least_codes(energy: float, clients: int, variance: float, size: int | None) -> float:
    """Return how many codes, over all maps, keep the variance from all ghosts small."""
    share = OPEN_TOGETHER if size is None else TOGETHER
    return clients * energy / (share * variance)


def hidden(variance: float, clients: int) -> float:
    """Return the largest effect that the noise hides even at a key that everybody holds."""
    return LARGEST * math.sqrt(variance / clients)


def in_errors(strength: float, maps: int, clients: int, variance: float) -> float:
    """Return the largest ghost in standard errors."""
    return strength / max(1, maps) * math.sqrt(clients / variance)
