"""Bins of projection choice: places of codes, the best slots, and tables of bins.

A code of D bits is x0·2^s + x', where 2^e is the number of bins and s = D - e. A row a puts
it into the bin x0 ⊕ (bit i = <X^i·a, x'>), X being a shift modulo a polynomial of degree s. So
<u, bin> = <u, x0> ⊕ <u(X)·a, x'>: a table of rows and bins becomes one of characters by a short
transform of each row and a permutation for each u. A transform of the whole table then reads all
codes at once.
"""

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, TableArray, WordArray
from faintly.kernels import threads
from faintly.kernels.arguments import arrays, segments
from faintly.kernels.language import in_c
from faintly.kernels.native import call
from faintly.kernels.projection import check_signs
from faintly.kernels.tables import table_bits, walsh_hadamard
from faintly.primitives import hashing
from faintly.primitives.hashing import LinearBins

MOST_GROUPS = 256  # bins.c has arrays of this length
CLIENTS = 64  # least work for a thread of its own
SPREAD = 2**18  # table entries transformed together, so that they stay in the cache
TOO_FEW = "a class has too few slots for its member"


def place_codes(
    seeds: IdArray,
    offsets: IntArray,
    codes: WordArray,
    flips: AnyArray,
    *,
    groups: int,
    bins: LinearBins,
) -> WordArray:
    """Return the place of each code (row) in each group (column), under its segment's seed.

    A place is a bin; where bins have signs, it is twice that, and one more where the sign is -1.
    A flip of 1 negates the sign.
    """
    described = "codes u32[items], flips u8[items]"
    seeds, offsets, codes, flips = segments(described, seeds, offsets, codes, flips)
    check_signs(flips, groups, MOST_GROUPS)
    if in_c():
        places = np.empty((len(codes), groups), dtype=np.uint32)
        sizes = (groups, bins.row_bits, bins.width, int(bins.signed), bins.polynomial)
        call("place_codes", seeds, offsets, len(seeds), codes, flips, *sizes, places)
        return places
    owners = np.repeat(np.arange(len(seeds)), np.diff(offsets))
    counter = np.arange(groups, dtype=np.uint64)
    rows = hashing.mix(seeds[:, None], counter[None, :], hashing.GROUP) & np.uint32(bins.rows - 1)
    places = bins.places(rows[owners], codes[:, None])
    return places ^ flips[:, None].astype(np.uint32) if bins.signed else places


def rank_slots(hits: WordArray, bins: int, signed: bool, top: int) -> IntArray:
    """Return (3, clients): the `top`-th highest score, how many slots are above it, how many at it.

    Args:
        hits: (clients, tokens) the place that each token hits, among those of all bins.
        bins: of all groups together; a signed one is two slots, of opposite scores.
        signed: whether bins have signs.
        top: 1 to `bins`.
    """
    hits = _checked_hits(hits, bins, signed, top)
    clients, tokens = hits.shape
    if in_c():
        found = np.empty((3, clients), dtype=np.int64)

        def work(a: int, b: int) -> None:
            scratch = (np.zeros(bins, dtype=np.int32), np.zeros(tokens + 1, dtype=np.int64))
            sizes = (b - a, tokens, bins, int(signed), top)
            call("rank_slots", hits[a:b], *sizes, *scratch, *(row[a:b] for row in found))

        threads.parallel(work, clients, CLIENTS)
        return found
    levels = _scores(hits, bins, signed)
    if signed:
        levels = np.abs(levels)
    border = np.sort(levels, axis=1)[:, bins - top]
    above = (levels > border[:, None]).sum(axis=1)
    tied = (levels == border[:, None]).sum(axis=1)
    if signed:
        tied[border == 0] *= 2  # where a bin has the score 0, both its slots have it
    return np.stack([border, above, tied])


def pick_slots(
    hits: WordArray, bins: int, signed: bool, classes: IntArray, member: IntArray
) -> IntArray:
    """Return for each client the slot at place `member` in a class, in ascending order.

    Args:
        hits: as for `rank_slots`.
        bins: as for `rank_slots`.
        signed: as for `rank_slots`.
        classes: (2, clients): a border, and 1, 0 or -1 for the slots above it, at it or below.
        member: the place in the class, from 0; the class must have it.
    """
    hits = _checked_hits(hits, bins, signed, 1)
    clients, tokens = hits.shape
    classes, member = arrays("classes i64[two,n], member i64[n]", classes, member)
    if classes.shape != (2, clients) or len(member) != clients:
        raise TypeError("classes and member must have an entry for each client")
    if in_c():
        picked = np.empty(clients, dtype=np.int64)

        def work(a: int, b: int) -> None:
            sizes = (b - a, tokens, bins, int(signed))
            columns = (classes[0, a:b], classes[1, a:b], member[a:b])
            scratch = np.zeros(bins, dtype=np.int32)
            call("pick_slots", hits[a:b], *sizes, *columns, scratch, picked[a:b])

        threads.parallel(work, clients, CLIENTS)
        if (picked < 0).any():
            raise IndexError(TOO_FEW)
        return picked
    scores = _scores(hits, bins, signed)
    if signed:
        scores = np.stack([scores, -scores], axis=2).reshape(len(hits), 2 * bins)
    alike = np.sign(scores - classes[0][:, None]) == classes[1][:, None]
    count = np.cumsum(alike, axis=1)
    if (count[:, -1:] <= member[:, None]).any():
        raise IndexError(TOO_FEW)
    return np.argmax(count > member[:, None], axis=1)


def _scores(hits: WordArray, bins: int, signed: bool) -> IntArray:
    """Return (clients, bins): how many tokens hit each bin, those of sign -1 counting as -1."""
    places = bins * (1 + signed)
    flat = hits + np.arange(len(hits))[:, None] * places
    counts = np.bincount(flat.ravel(), minlength=len(hits) * places).reshape(len(hits), places)
    return counts[:, 0::2] - counts[:, 1::2] if signed else counts


def spread_bins(tables: TableArray, bins: LinearBins, out: TableArray | None = None) -> TableArray:
    """Return tables of characters: entry u·2^s + u(X)·a of a map is Σ_y (-1)^<u,y>·table[a, y].

    Where bins have signs u(X) + X^e stands for u(X); where they have none the entries of
    u = 0 are 0. The rows of `tables` are maps, their entries a·2^e + y. They are written to `out`
    if that is given: other tables of the same shape and type.
    """
    bits = table_bits(tables, "tables", read_only=True)
    if tables.shape[1] != bins.rows * bins.bins:
        raise TypeError("tables must have an entry for each row and bin")
    out = np.empty_like(tables) if out is None else out
    if table_bits(out, "out") != bits or out.shape != tables.shape:
        raise TypeError("out must have the shape and type of the tables")
    if in_c():
        return _spread_in_c(tables, bins, out)
    short = tables.reshape(-1, bins.bins).copy()
    walsh_hadamard(short)
    characters = short.reshape(len(tables), bins.rows, bins.bins)
    made = np.zeros_like(characters).reshape(len(tables), bins.bins, bins.rows)
    every = np.arange(bins.rows, dtype=np.uint32)
    for u, factor in enumerate(bins.factors()):
        if factor:
            made[:, u, bins.multiplied(every, factor)] = characters[:, :, u]
    out[:] = made.reshape(tables.shape)
    return out


def _spread_in_c(tables: TableArray, bins: LinearBins, out: TableArray) -> TableArray:
    """Spread a few maps at a time, so that what is transformed stays in the cache."""
    bits, steps = 8 * tables.itemsize, bins.steps()
    many = max(1, SPREAD // tables.shape[1])
    for start in range(0, len(tables), many):
        short = tables[start : start + many].copy()
        walsh_hadamard(short.reshape(-1, bins.bins))
        made = out[start : start + many]

        def work(a: int, b: int, short: TableArray = short, made: TableArray = made) -> None:
            sizes = (b - a, bins.row_bits, bins.bins, int(bins.signed))
            call(f"spread_bins_{bits}", short[a:b], *sizes, steps, made[a:b])

        threads.parallel(work, len(short), -(-threads.ENTRIES // tables.shape[1]))
    return out


def _checked_hits(hits: AnyArray, bins: int, signed: bool, top: int) -> AnyArray:
    """Return hits, having checked that all lie inside the bins."""
    (hits,) = arrays("hits u32[n,tokens]", hits)
    if not 1 <= top <= bins < 2**31:
        raise TypeError("top must be between 1 and the number of bins, which fits 31 bits")
    if hits.max(initial=0) >= bins * (1 + signed):
        raise IndexError("a token hits no bin")
    return hits
