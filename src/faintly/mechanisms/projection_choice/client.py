"""The private steps of projection-choice after its tokens: dummies, scores, the choice of a slot.

Everything is vectorised over clients. All randomness is words of `rng`, taken stage by stage,
clients in order within a stage. `mechanisms.tokens` rounds and cuts first; then:

pad      dense: ⌈k/32⌉ times one word per group, of which dummies use the low bits; other
         forms: one word per dummy and group
choose   one word per client for the coin, one for the rank, one for the member
"""

from typing import NamedTuple

import numpy as np

from faintly import kernels
from faintly.core import AnyArray, IntArray, WordArray
from faintly.mechanisms.projection_choice.constants import Shape
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng

WORD_BITS = 32


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


def choose(sums: AnyArray, signed: bool, top: int, threshold: int, rng: Rng) -> IntArray:
    """Return one slot per client: of its `top` best with the chance threshold/2^32, else another.

    Ties at the border are broken uniformly. Slots fall into three classes, above the border,
    at it, and below; within a class all are alike. So a uniform rank among the best (or the
    others) determines the class, and a uniform member of the class is the slot.

    Args:
        sums: (clients, bins of all groups) integers; a signed bin is two slots, of scores
            +sum and -sum, and `top` is then at most the number of bins.
        signed: whether bins have signs.
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
    drawn = _draw(np.stack([border, above, tied]), slots, top, threshold, rng)
    kind = drawn.kind.astype(sums.dtype)[:, None]
    scores = np.stack([sums, -sums], axis=2).reshape(len(sums), -1) if signed else sums
    alike = np.flatnonzero(np.sign(scores - border[:, None]) == kind)
    starts = np.concatenate([[0], np.cumsum(drawn.sizes)[:-1]])
    return alike[starts + drawn.member] - slots * np.arange(len(sums))


def choose_hit(hits: WordArray, shape: Shape, top: int, threshold: int, rng: Rng) -> IntArray:
    """Return the same as `choose`, from the places that tokens hit: (clients, tokens)."""
    bins = shape.groups * shape.bins
    ranked = kernels.rank_slots(hits, bins, shape.signed, top)
    drawn = _draw(ranked, shape.slots, top, threshold, rng)
    classes = np.stack([ranked[0], drawn.kind])
    return kernels.pick_slots(hits, bins, shape.signed, classes, drawn.member)


class _Drawn(NamedTuple):
    """The class of each client's slot, how many slots are in it, and its place among them."""

    kind: IntArray  # 1 above the border, 0 at it, -1 below
    sizes: IntArray
    member: IntArray


def _draw(ranked: IntArray, slots: int, top: int, threshold: int, rng: Rng) -> _Drawn:
    """Draw coin, rank and member for clients whose border, above and tied are known."""
    _, above, tied = ranked
    best = rng.words(len(above)) < threshold
    rank = uniform_below(np.where(best, top, slots - top), rng)
    at_border = np.where(best, rank >= above, rank < above + tied - top)
    sizes = np.where(at_border, tied, np.where(best, above, slots - above - tied))
    kind = np.where(at_border, 0, np.where(best, 1, -1))
    return _Drawn(kind, sizes, uniform_below(sizes, rng))


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
