"""Projection choice: signs of groups and of slots."""

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, WordArray
from faintly.kernels import threads
from faintly.kernels.arguments import arrays, segments
from faintly.kernels.hashing import hash_words
from faintly.kernels.language import in_c
from faintly.kernels.native import call
from faintly.primitives import hashing

MOST_GROUPS = 8192  # projection.c has arrays of this length


def read_slots(
    seeds: IdArray, slots: WordArray, ids: IdArray, bins: int
) -> tuple[IntArray, IntArray]:
    """Return Σ_i hit·sign and Σ_i hit for each id x, hashing with HalfSipHash.

    The hash of x ‖ tag ‖ word_i under seeds[i] hits if its bin is where_i; its sign is -1 if it
    has the bit mask_i, and is negated if minus_i is 1. The rows of `slots` are word, mask,
    where and minus.
    """
    seeds, slots, ids = arrays("seeds u64[n], slots u32[four,n], ids u64[keys]", seeds, slots, ids)
    if len(slots) != 4:
        raise TypeError("slots must have the rows word, mask, where and minus, one entry per seed")
    if not 1 <= bins < 2**32 or slots[0].max(initial=0) > 255 or slots[3].max(initial=0) > 1:
        raise TypeError("bins must fit 32 bits, word one byte and minus one bit")

    def read(some: slice, queried: slice, sums: IntArray) -> None:
        mine, keys = seeds[some], ids[queried]
        columns = (mine, *slots[:, some], len(mine))
        call("read_slots", *columns, bins, keys, len(keys), *sums)

    if in_c():
        both = threads.read_in_slices(read, len(seeds), len(ids), threads.PAIRS, sums=2)
        return both[0], both[1]
    word, mask, where, minus = slots
    totals, hits = np.zeros(len(ids), dtype=np.int64), np.zeros(len(ids), dtype=np.int64)
    closing = np.uint32(10 << 24 | hashing.PROJECTION) | (word << np.uint32(8))
    for position, item in enumerate(ids):
        message = hashing.halves(np.full(len(seeds), item, dtype=np.uint64))
        hashed = hashing.half_sip(seeds, [*message, closing], 1, 3)
        hit = hashing.scale_to(hashed, bins) == where
        odd = ((hashed & mask) != 0) ^ (minus != 0)
        hits[position] = hit.sum()
        totals[position] = hits[position] - 2 * (hit & odd).sum()
    return totals, hits


def project_prf(
    seeds: IdArray, offsets: IntArray, ids: IdArray, negative: AnyArray, groups: int
) -> IntArray:
    """Return Σ σ·s_g(x) over the items of each segment (row) for each group g (column).

    Segment i owns items offsets[i]:offsets[i+1]. σ is -1 where `negative` is 1, and s_g(x) is
    -1 where bit g of the hash of x under seeds[i] is 1.
    """
    described = "ids u64[items], negative u8[items]"
    seeds, offsets, ids, negative = segments(described, seeds, offsets, ids, negative)
    check_signs(negative, groups, MOST_GROUPS)
    if in_c():
        sums = np.empty((len(seeds), groups), dtype=np.int64)
        call("project_prf", seeds, offsets, len(seeds), ids, negative, groups, sums)
        return sums
    owners = np.repeat(np.arange(len(seeds)), np.diff(offsets))
    words = hash_words(seeds[owners], ids, hashing.PROJECTION, -(-groups // 32))
    octets = words.astype("<u4", copy=False).view(np.uint8)
    odd = np.unpackbits(octets, axis=1, count=groups, bitorder="little")
    return _sign_sums(odd ^ negative[:, None], offsets)


def project_linear(
    seeds: IdArray,
    offsets: IntArray,
    codes: WordArray,
    negative: AnyArray,
    *,
    groups: int,
    bits: int,
) -> IntArray:
    """Return Σ σ·(-1)^<r_g,code> over the items of each segment (row) for each group (column).

    r_g is `bits` bits of the hash of g under the segment's seed; σ is -1 where `negative` is 1.
    """
    described = "codes u32[items], negative u8[items]"
    seeds, offsets, codes, negative = segments(described, seeds, offsets, codes, negative)
    check_signs(negative, groups, MOST_GROUPS)
    if not 1 <= bits <= 32:
        raise TypeError("bits must be between 1 and 32")
    if in_c():
        sums = np.empty((len(seeds), groups), dtype=np.int64)
        call("project_linear", seeds, offsets, len(seeds), codes, negative, groups, bits, sums)
        return sums
    owners = np.repeat(np.arange(len(seeds)), np.diff(offsets))
    counter = np.arange(groups, dtype=np.uint64)
    rows = hashing.mix(seeds[:, None], counter[None, :], hashing.GROUP) & np.uint32(2**bits - 1)
    odd = hashing.parity(rows[owners] & codes[:, None])
    return _sign_sums(odd ^ negative[:, None], offsets)


def _sign_sums(odd: AnyArray, offsets: IntArray) -> IntArray:
    """Return the sums of signs over each segment, where 1 stands for -1."""
    counts = np.diff(offsets)
    sums = np.zeros((len(counts), odd.shape[1]), dtype=np.int64)
    held = np.flatnonzero(counts)  # reduceat cannot sum an empty segment
    if len(held):
        ones = np.add.reduceat(odd, offsets[held], axis=0, dtype=np.int64)
        sums[held] = counts[held, None] - 2 * ones
    return sums


def check_signs(negative: AnyArray, groups: int, most: int) -> None:
    """Refuse signs that are not 0 or 1, and more groups than the arrays of C hold."""
    if negative.max(initial=0) > 1:
        raise TypeError("negative must be 0 or 1")
    if not 1 <= groups <= most:
        raise TypeError(f"groups must be between 1 and {most}")
