"""Signed bins: rounding, binning, cells of reports, and reading them."""

import numpy as np

from faintly.core.arrays import AnyArray, FloatArray, IdArray, IntArray, NarrowArray, WordArray
from faintly.kernels import threads
from faintly.kernels.arguments import arrays, segments, unsigned
from faintly.kernels.hashing import public_maps
from faintly.kernels.language import in_c
from faintly.kernels.native import call
from faintly.kernels.tables import walsh_hadamard
from faintly.primitives import hashing
from faintly.primitives.hashing import LinearMaps

WORD = 2.0**32


def round_values(values: FloatArray, steps: int, words: WordArray) -> tuple[NarrowArray, IntArray]:
    """Return values in [-1, 1] on the grid of 1/steps, and where one word did not decide.

    A magnitude is rounded up if its word, as the first 32 bits of a uniform number, is below its
    fraction of a step. Where the two agree in all 32 bits and the fraction has more, the value
    is rounded toward 0 and its position returned: more words must settle it.
    """
    values, words = arrays("values f64[n], words u32[n]", values, words)
    if not 1 <= steps < 2**31 or steps & (steps - 1):
        raise TypeError("steps must be a power of two below 2^31")
    if in_c():
        rounded, found = np.empty(len(values), dtype=np.int32), np.zeros(2, dtype=np.int64)
        call("round_values", values, words, len(values), steps, rounded, found)
        if not found.any():
            return rounded, np.zeros(0, dtype=np.int64)
        # A value is out of range or, once in 2^32, undecided: find out which.
    if not (np.abs(values) <= 1).all():
        raise ValueError("values must lie in [-1, 1]")
    scaled = np.abs(values) * steps
    low = np.floor(scaled)
    odds = (scaled - low) * WORD
    up = words < np.floor(odds)
    ties = np.flatnonzero((words == np.floor(odds)) & (odds > words))
    return (np.sign(values) * (low + up)).astype(np.int32), ties


def bin_items(
    seeds: IdArray,
    offsets: IntArray,
    ids: IdArray,
    amounts: NarrowArray,
    *,
    bins: int,
    hashed: str | LinearMaps,
) -> IntArray:
    """Return sums (clients, bins) of s(x)·amount over the items x with h(x) = bin of each client.

    Client c owns items offsets[c]:offsets[c+1] and hashes them under seeds[c], by the family prf or
    blake2s or by public maps.
    """
    described = "ids u64[items], amounts i32[items]"
    seeds, offsets, ids, amounts = segments(described, seeds, offsets, ids, amounts)
    if isinstance(hashed, LinearMaps):
        name, sizes = "bin_linear", [_linear_width(bins), *public_maps(hashed)]
    elif 1 <= bins < 2**31 and hashed in ("prf", "blake2s"):
        name, sizes = f"bin_{hashed}", [bins]
    else:
        raise TypeError("bins must be between 1 and 2^31, and the family prf or blake2s")
    sums = np.zeros((len(seeds), bins), dtype=np.int64)
    if in_c():
        call(name, seeds, offsets, len(seeds), ids, amounts, *sizes, sums)
        return sums
    owners = np.repeat(np.arange(len(seeds)), np.diff(offsets))
    place = hashing.places(seeds[owners], ids, bins, hashed)
    np.add.at(sums, (owners, place.bins), place.signs * amounts)
    return sums


def linear_cells(
    seeds: IdArray, fields: WordArray, center: int, maps: LinearMaps
) -> tuple[WordArray, NarrowArray]:
    """Return b cells per report: index r ⊕ Aᵀm of its map with weight WHT(y)[m], for m below b.

    Args:
        seeds: (reports,).
        fields: (reports, b) of y + center, between 0 and 2·center.
        center: b·center fits 31 bits, so every weight fits 32.
        maps: the public maps; entries of all tables are numbered together.
    """
    seeds, fields = arrays("seeds u64[n], fields u32[n,bins]", seeds, fields)
    width = _linear_width(fields.shape[1])
    if not 0 <= center << width < 2**31:
        raise TypeError("bins times center must fit 31 bits")
    if in_c():
        cells, weights = np.empty(fields.size, np.uint32), np.empty(fields.size, np.int32)
        sizes, largest = (len(seeds), center, width, maps.maps, maps.bits), np.zeros(1, np.int64)
        call("linear_cells", seeds, fields, *sizes, cells, weights.view(np.uint32), largest)
        if largest[0] <= 2 * center:
            return cells, weights
    if fields.max(initial=0) > 2 * center:
        raise ValueError(f"fields must be at most {2 * center}")
    weight = fields.astype(np.int64) - center
    walsh_hadamard(weight)
    row, matrix = maps.rows(seeds, width)
    index = np.empty(fields.shape, dtype=np.uint32)
    index[:, 0] = row | maps.map_of(seeds).astype(np.uint32) << np.uint32(maps.bits)
    for bit in range(width):
        known = 1 << bit
        index[:, known : 2 * known] = index[:, :known] ^ matrix[:, bit : bit + 1]
    return index.ravel(), weight.astype(np.int32).ravel()


def _linear_width(bins: int) -> int:
    """Return the bits of a bin's number in the linear family."""
    if not 1 <= bins <= 2**16 or bins & (bins - 1):
        raise TypeError("bins must be a power of two up to 2^16")
    return bins.bit_length() - 1


def sum_squares(fields: WordArray, center: int) -> int:
    """Return Σ (field - center)² over all fields, exactly."""
    (fields,) = arrays("fields u32[n,bins]", fields)
    unsigned(center, 32, "center")
    if in_c():
        halves = np.zeros(2, dtype=np.uint64)
        call("sum_squares", fields, fields.size, center, halves)
        low, high = halves
    else:
        squares = np.abs(fields.astype(np.int64) - center).astype(np.uint64) ** np.uint64(2)
        # A square has up to 64 bits; the sums of its halves cannot overflow.
        low, high = (squares & hashing.LOW32).sum(), (squares >> np.uint64(32)).sum()
    return int(low) + (int(high) << 32)


def read_hashed(seeds: IdArray, values: IntArray, ids: IdArray, family: str = "prf") -> IntArray:
    """Return Σ_i s_i(x)·values[i, h_i(x)] for each id x."""
    seeds, values, ids = checked_reports(seeds, values, ids)

    def read(some: slice, queried: slice, sums: IntArray) -> None:
        mine, keys = seeds[some], ids[queried]
        columns = (mine, values[some], values.shape[1], len(mine))
        call(f"read_{family}", *columns, keys, len(keys), sums)

    if in_c():
        return threads.read_in_slices(read, len(seeds), len(ids), threads.PAIRS)[0]
    reports = np.arange(len(seeds))
    totals = np.zeros(len(ids), dtype=np.int64)
    for position, item in enumerate(ids):
        repeated = np.full(len(seeds), item, dtype=np.uint64)
        place = hashing.places(seeds, repeated, values.shape[1], family)
        totals[position] = (place.signs * values[reports, place.bins]).sum()
    return totals


def checked_reports(seeds: AnyArray, values: AnyArray, ids: AnyArray) -> list[AnyArray]:
    """Return the columns of hashed reports and the ids to read, checked."""
    columns = arrays("seeds u64[n], values i64[n,bins], ids u64[keys]", seeds, values, ids)
    if not 1 <= values.shape[1] < 2**32:
        raise TypeError("values must have at least one column, and fewer than 2^32")
    return columns
