"""Tokens: values rounded to items with a sign, at most k for each client.

Everything is vectorised over clients. All randomness is words of `rng`, taken stage by stage,
clients in order within a stage:

round    one word per held item (more where a value ties with its word); with systematic
         rounding also one word per client
cut      for clients with more than k tokens: one word for each token still undecided
"""

from typing import NamedTuple

import numpy as np

from faintly.core import AnyArray, FloatArray, IdArray, IntArray, VectorBatch
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng
from faintly.primitives.noise import FULL
from faintly.primitives.rounding import bernoulli, round_unbiased


class Tokens(NamedTuple):
    """At most k items per client, each with the sign of its value, grouped by client."""

    owners: IntArray
    ids: IdArray
    negative: AnyArray  # whether the value was below 0
    counts: IntArray  # tokens of each client


def draw_tokens(vectors: VectorBatch, most: int, rounding: str, rng: Rng) -> Tokens:
    """Return the tokens of every client: an item becomes one with probability |value|.

    A client with more than `most` of them keeps a uniform random choice of that size.
    """
    systematic = rounding == "systematic"
    sizes = np.abs(vectors.values)
    kept = _systematic(sizes, vectors, rng) if systematic else bernoulli(sizes, rng)
    held = np.flatnonzero(kept)
    owners = vectors.owners[held]
    counts = np.bincount(owners, minlength=len(vectors))
    if (counts > most).any():
        chosen = _cut(owners, counts, most, rng)
        held, owners = held[chosen], owners[chosen]
    return Tokens(owners, vectors.indices[held], vectors.values[held] < 0, np.minimum(counts, most))


def _systematic(sizes: FloatArray, vectors: VectorBatch, rng: Rng) -> AnyArray:
    """Return a systematic sample: steps of 1 from a uniform start along the cumulative sizes.

    Sizes are first rounded, without bias, to multiples of 2^-32, so that all is exact.
    """
    parts = round_unbiased(sizes, FULL, rng)
    starts = rng.words(len(vectors)).astype(np.int64)[vectors.owners]
    ends = np.cumsum(parts)
    before = np.concatenate([[0], ends])[vectors.offsets[:-1]][vectors.owners]
    # ⌈x/2^32⌉ counts the steps passed before x.
    passed = -((starts - (ends - before)) // FULL)
    passed_before = -((starts - (ends - parts - before)) // FULL)
    return passed > passed_before


def _cut(owners: IntArray, counts: IntArray, most: int, rng: Rng) -> AnyArray:
    """Return which tokens stay: all, or a uniform choice of `most` where there are more.

    Each token in turn stays with the chance (places left)/(tokens left), which makes all
    choices of that size equally likely.
    """
    chosen = np.ones(len(owners), dtype=bool)
    full = np.flatnonzero(counts > most)
    first = np.concatenate([[0], np.cumsum(counts)])[full]
    left, places = counts[full], np.full(len(full), most)
    while len(full):
        stays = uniform_below(left, rng) < places
        chosen[first] = stays
        going = left > 1
        full, first = full[going], first[going] + 1
        left, places = left[going] - 1, (places - stays)[going]
    return chosen
