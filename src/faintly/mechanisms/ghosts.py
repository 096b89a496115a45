"""Ghosts: what a key shows in one public map because others hold what its code adds up to.

In one map the codes of several held keys may add up to that of a key that nobody holds, which
then reads a share of theirs. In an open universe two keys may even have one code. A map draws
codes and signs anew, so with J maps such a ghost speaks in 1/J of the reports, and the sum of
all ghosts of a key is noise of known size that does not shrink with more reports. Both are
worst where everybody holds the same keys, and the sizes of a plan are chosen for that case.

strength  the largest that one ghost can read, where a key held by all reads 1
energy    the sum of the squares of all ghosts in one table, likewise
"""

import math

from faintly.core.plan import MAX_MAPS

LARGEST = 0.3  # standard errors: one ghost moves the coverage of 95 % intervals to 94 %
TOGETHER = 0.02  # of the variance, from all ghosts: the planner calls that a tie
# Where keys share codes too, an eighth: less would cost bytes and memory for data nobody has.
OPEN_TOGETHER = 0.125


FEWEST = 16  # maps: the top list lets one count for little, so it should not be much of the whole


def least_maps(strength: float, clients: int, variance: float) -> int:
    """Return how many maps keep one ghost small, a power of two; `variance` is n·Var."""
    needed = strength * math.sqrt(clients / variance) / LARGEST
    return min(MAX_MAPS, 1 << max(0, math.ceil(math.log2(max(1.0, needed)) - 1e-9)))


def least_codes(energy: float, clients: int, variance: float, size: int | None) -> float:
    """Return how many codes, over all maps, keep the variance from all ghosts small."""
    share = OPEN_TOGETHER if size is None else TOGETHER
    return clients * energy / (share * variance)


def in_errors(strength: float, maps: int, clients: int, variance: float) -> float:
    """Return the largest ghost in standard errors."""
    return strength / max(1, maps) * math.sqrt(clients / variance)
