"""The private steps of projection-choice: tokens, dummies, scores, and the choice of a slot.

Everything is vectorised over clients. All randomness is words of `rng`, taken stage by stage,
clients in order within a stage:

round    one word per held item (more where a value ties with its word); with systematic
         rounding also one word per client
cut      for clients with more than k tokens: one word for each token still undecided
pad      dense: ⌈k/32⌉ times one word per group, of which dummies use the low bits; other
         forms: one word per dummy and group
choose   one word per client for the coin, one for the rank, one for the member
"""

from typing import NamedTuple

import numpy as np

from faintly.core import AnyArray, FloatArray, IdArray, IntArray, VectorBatch
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng
from faintly.primitives.noise import FULL
from faintly.primitives.rounding import bernoulli, round_unbiased

WORD_BITS = 32


class Tokens(NamedTuple):
    """At most k items per client, each with the sign of its value, grouped by client."""

    owners: IntArray
    ids: IdArray
    negative: AnyArray  # whether the value was below 0
    counts: IntArray  # tokens of each client


def draw_tokens(vectors: VectorBatch, most: int, rounding: str, rng: Rng) -> Tokens:
    """Return the tokens of every client: an item is one with the chance |value|.

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
    """Return the items met by steps of 1 from one uniform start along the client's total.

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


def dense_dummies(counts: IntArray, groups: int, most: int, rng: Rng) -> IntArray:
    """Return sums (clients, groups) of k - count fair signs each: popcounts of random words.

    As many words are drawn as k dummies need, whatever the client holds.
    """
    dummies = most - counts
    sums = np.repeat(dummies[:, None], groups, axis=1)
    for start in range(0, most, WORD_BITS):
        bits = np.clip(dummies - start, 0, WORD_BITS).astype(np.uint64)
        masks = ((np.uint64(1) << bits) - np.uint64(1)).astype(np.uint32)
        words = rng.words(len(counts) * groups).reshape(len(counts), groups)
        sums -= np.bitwise_count(words & masks[:, None]) * np.int64(2)
    return sums


def dummy_places(counts: IntArray, groups: int, most: int, choices: int, rng: Rng) -> IntArray:
    """Return a uniform place below `choices` for every dummy (row) in every group (column)."""
    dummies = int((most - counts).sum())
    return uniform_below(np.full(dummies * groups, choices), rng).reshape(dummies, groups)


def choose(sums: AnyArray, signed: bool, top: int, threshold: int, rng: Rng) -> IntArray:
    """Return one slot per client: of its `top` best with the chance threshold/2^32, else another.

    Ties at the border are broken uniformly. Slots fall into three classes, above the border,
    at it, and below; within a class all are alike. So a uniform rank among the best (or the
    others) tells the class, and a uniform member of the class is the slot.

    Args:
        sums: (clients, bins of all groups) integers; a signed bin is two slots, of scores
            +sum and -sum, and `top` is then at most the number of bins.
        signed: whether it is.
        top: how many slots count as the best.
        threshold: of the coin, out of 2^32.
        rng: secret randomness.
    """
    # The better slot of each signed bin has the score |sum|, and the border lies among these.
    levels = np.abs(sums) if signed else sums
    border = _border(levels, top)
    above = np.count_nonzero(levels > border[:, None], axis=1)
    tied = np.count_nonzero(levels == border[:, None], axis=1)
    if signed:
        tied[border == 0] *= 2  # both slots of a bin without a sum score 0
    slots = sums.shape[1] * (1 + signed)
    best = rng.words(len(sums)) < threshold
    rank = uniform_below(np.where(best, top, slots - top), rng)
    at_border = np.where(best, rank >= above, rank < above + tied - top)
    sizes = np.where(at_border, tied, np.where(best, above, slots - above - tied))
    member = uniform_below(sizes, rng)
    kind = np.where(at_border, 0, np.where(best, 1, -1)).astype(sums.dtype)[:, None]
    scores = np.stack([sums, -sums], axis=2).reshape(len(sums), -1) if signed else sums
    alike = np.flatnonzero(np.sign(scores - border[:, None]) == kind)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return alike[starts + member] - slots * np.arange(len(sums))


def _border(levels: AnyArray, top: int) -> AnyArray:
    """Return the `top`-th largest of each row, by halving the range of levels.

    There are few levels and many ties, where sorting and partitioning can be slow.
    """
    low, high = np.zeros(len(levels), dtype=levels.dtype), levels.max(axis=1)
    while (open_ := low < high).any():
        middle = high - (high - low) // 2
        enough = np.count_nonzero(levels >= middle[:, None], axis=1) >= top
        low = np.where(open_ & enough, middle, low)
        high = np.where(open_ & ~enough, middle - 1, high)
    return low
