"""Uniform choices among a given number of things, by rejection: no remainder is favoured."""

import numpy as np

from faintly.core import IntArray
from faintly.primitives.entropy import Rng
from faintly.primitives.noise import FULL


def uniform_below(limits: IntArray, rng: Rng) -> IntArray:
    """Return a uniform integer in 0..limit-1 for each limit (1 to 2^32).

    One word per entry is drawn first, in order; entries whose word fell into the incomplete
    last block draw again, in order, until none is left.
    """
    limits = np.asarray(limits, dtype=np.int64)
    accepted = FULL - FULL % limits
    out = np.zeros(len(limits), dtype=np.int64)
    open_ = np.arange(len(limits))
    while len(open_):
        drawn = rng.words(len(open_)).astype(np.int64)
        done = drawn < accepted[open_]
        out[open_[done]] = drawn[done] % limits[open_[done]]
        open_ = open_[~done]
    return out
