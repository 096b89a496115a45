"""Sizes of ghosts where everybody holds the same k tokens, in units of a held item's mean.

dense     the XOR of m tokens' codes, m odd, reads what the product of their signs says of the
          sign of the report
unsigned  codes that share all of an item's but the highest bits never have its bin, so that they
          read -1/(b-1); the XOR of three reads whether the XOR of their bins is that of the report,
          which is as much again where bins and groups are few, and far less where they are many
bins      the XOR of three reads whether the XOR of their bins, with the product of their signs, is
          that of the report; where one slot of one group is the best, which is the worst case,
          that was 1.0, 0.71, 0.46 and 0.25 for 2, 4, 8 and 16 bins, and with the best N below 0.1
"""

import numpy as np

from faintly.mechanisms.projection_choice import constants
from faintly.mechanisms.projection_choice.constants import Shape


def energy(shape: Shape, top: int) -> float:
    """Return a bound on κ: what linear hashing lets appear at XORs of a client's items.

    It is G·N·(δ/c)² - k by Parseval, with chances of at most 1 replaced by 1, and the odds cancel.
    Without signs the mean over the bins of a group is taken off: a factor of 1 - N/M.
    """
    gain = float(constants.score_curve(shape)[top]) / shape.tokens
    spread = 1.0
    if not shape.signed:
        gain -= top / shape.bins
        spread -= top / shape.slots
    return max(0.0, shape.groups * top * spread / gain**2 - shape.tokens)


def strength(shape: Shape, top: int) -> float:
    """Return the largest ghost, relative to an item's own value."""
    if shape.bins == 1:
        return _dense(shape, top)
    return min(1.0, 4 / shape.bins if shape.signed else 2 / (shape.bins - 1))


def _dense(shape: Shape, top: int) -> float:
    """Return the largest mean over the score X = k-2j of the reported slot, relative to m = 1.

    Over all sets of m tokens whose signs add up to X the product of their signs is on average
    φ_m(X), the Krawtchouk polynomial K_m(j)/C(k, m), and φ_1 = X/k is the items' own.
    """
    k = shape.tokens
    if k < 3:
        return 0.0
    exact = constants.best_scores(shape, top)
    scores = np.arange(1, len(exact) + 1, dtype=np.float64)
    odd_minus = np.where((k - scores) / 2 % 2 == 1, -1.0, 1.0)  # (-1)^j
    before, now = np.ones(len(scores)), scores / k
    own, largest = float(exact @ now), 0.0
    for m in range(1, k // 2 + 1):
        if m > 1 and m % 2:
            largest = max(largest, abs(float(exact @ now)))
        if (k - m) % 2 and k - m > 1:
            largest = max(largest, abs(float(exact @ (odd_minus * now))))  # φ_(k-m) = (-1)^j·φ_m
        before, now = now, (scores * now - m * before) / (k - m)
    if k % 2:
        largest = max(largest, abs(float(exact @ odd_minus)))  # all k tokens
    return largest / own
