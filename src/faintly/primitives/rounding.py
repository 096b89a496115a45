"""Unbiased rounding onto a grid, decided by exact comparison with random bits.

A value becomes one of the two grid points around it, with the value itself as mean. The
comparison draws further random words on a tie, so the probability is exact to the last bit:
the proof for l1 rests on that, and it costs nothing elsewhere.
"""

import numpy as np

from faintly.core import AnyArray, FloatArray, IntArray
from faintly.primitives.entropy import Rng

WORD = 2.0**32
BLOCK = 2**15  # entries that stay in a cache from one step to the next


def bernoulli(probability: FloatArray, rng: Rng) -> AnyArray:
    """Return True with exactly the given probability, for each entry (floats in [0, 1])."""
    drawn = rng.words(len(probability))
    hit = np.empty(len(probability), dtype=bool)
    tie = np.empty(len(probability), dtype=bool)
    for start in range(0, len(probability), BLOCK):
        part = slice(start, start + BLOCK)
        scaled, word = probability[part] * WORD, drawn[part].astype(np.float64)
        np.less_equal(word + 1, scaled, out=hit[part])
        # The word ties with the first 32 bits: the next word decides.
        np.greater(word < scaled, hit[part], out=tie[part])
    if tie.any():
        hit[tie] = bernoulli(np.modf(probability[tie] * WORD)[0], rng)
    return hit


def round_unbiased(values: FloatArray, steps: int, rng: Rng) -> IntArray:
    """Return each value on the grid of 1/steps, as an integer number of steps.

    `steps` is a power of two, so that scaling and splitting a float are exact.
    """
    # The magnitude is rounded and the sign restored: the fraction of a positive float is exact,
    # while that of a tiny negative one would round to 1.
    scaled = np.abs(values) * steps
    low = np.floor(scaled)
    up = bernoulli(scaled - low, rng)
    return np.sign(values).astype(np.int64) * (low.astype(np.int64) + up)


def settle(values: FloatArray, steps: int, rng: Rng) -> IntArray:
    """Return what to add to values that tied with their first word and were rounded toward 0.

    The words are those that `round_unbiased` takes after the first one of each value.
    """
    fraction = np.modf(np.abs(values) * steps)[0]
    up = bernoulli(np.modf(fraction * WORD)[0], rng)
    return np.sign(values).astype(np.int64) * up
