"""Uniform integers below a limit, by rejection, so that no remainder is favoured."""

import numpy as np

from faintly.core import AnyArray, IntArray
from faintly.primitives.entropy import Rng
from faintly.primitives.noise import FULL


def uniform_below(limits: IntArray, rng: Rng) -> IntArray:
    """Return a uniform integer in 0..limit-1 for each limit (1 to 2^32).

    One word per entry is drawn first, in order; entries whose word fell into the incomplete
    last block draw again, in order, until none is left.
    """
    limits = np.asarray(limits, dtype=np.int64)
    out, done = _remainders(limits, rng)
    open_ = np.flatnonzero(~done)
    while len(open_):
        out[open_], done = _remainders(limits[open_], rng)
        open_ = open_[~done]
    return out


def _remainders(limits: IntArray, rng: Rng) -> tuple[IntArray, AnyArray]:
    """Return a word modulo each limit, and whether the block of words it fell into is whole."""
    drawn = rng.words(len(limits)).astype(np.int64)
    rest = drawn % limits
    drawn -= rest
    return rest, drawn <= FULL - limits
