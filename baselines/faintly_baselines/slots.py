"""Dealing items to slots, the law of all slots, and the odds of a symbol."""

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from faintly.core import AnyArray, FloatArray, IntArray
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng

MAX_BINS = 2**16  # more than any epsilon up to 11 needs

Places = tuple[int, ...]  # an item's symbol in each slot, were its value 1


def deal(counts: IntArray, sparsity: int, slots: int, rng: Rng) -> AnyArray:
    """Return the item in each slot (column) of each client (row); from `counts` on, dummies.

    The items of a client, with dummies up to k, are shuffled (Fisher and Yates) as far as there
    are slots. So a client of more than k items keeps a uniform choice of them, in uniform order.
    """
    sizes = np.maximum(counts, sparsity)
    if slots == 1:
        return uniform_below(sizes, rng)[:, None]
    clients = np.arange(len(counts))
    cards = np.arange(sizes.max(initial=sparsity), dtype=np.int32)
    deck = np.repeat(cards[:, None], len(counts), axis=1)
    flat = deck.reshape(-1)  # a view
    for slot in range(slots):
        drawn = (slot + uniform_below(sizes - slot, rng)) * len(counts) + clients
        top = deck[slot].copy()
        deck[slot] = flat[drawn]
        flat[drawn] = top
    return deck[:slots].T.copy()  # a client's slots side by side


@lru_cache(maxsize=2**14)  # enumeration repeats few arguments
def dealt_law(
    held: tuple[tuple[float, Places], ...],
    dummies: int,
    slots: int,
    chances: tuple[float, float],
) -> FloatArray:
    """Return the law of all slots together, averaged over every way to deal items and dummies."""
    nothing = (0.0, (0,) * slots)
    deals = list(itertools.permutations([*held, *[nothing] * dummies], slots))
    return np.mean([deal_law(one, chances) for one in deals], axis=0)


def deal_law(dealt: Sequence[tuple[float, Places]], chances: tuple[float, float]) -> FloatArray:
    """Return the law of all slots together, for one deal."""
    kept, other = chances
    symbols = 1 + round((1 - kept) / other)
    joint = np.ones(1)
    for slot, (value, places) in enumerate(dealt):
        law = np.full(symbols, (1 - abs(value)) / symbols + abs(value) * other)
        law[places[slot] ^ (value < 0)] += abs(value) * (kept - other)
        joint = np.outer(joint, law).ravel()
    return joint


def best_bins(epsilon: float) -> int:
    """Return the b of least n·Var (e^ε+2b-1)²/(b(e^ε-1)²), which is near (e^ε-1)/2."""
    growth = math.exp(epsilon)
    near = max(1, min(MAX_BINS - 1, math.floor((growth - 1) / 2)))
    return min((near, near + 1), key=lambda bins: (growth + 2 * bins - 1) ** 2 / bins)
