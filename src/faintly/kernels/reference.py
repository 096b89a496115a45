"""The definition of correct: each kernel as plainly as numpy can say it."""

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, IntArray, NarrowArray, TableArray, WordArray
from faintly.kernels import arguments
from faintly.primitives import hashing


def scatter_add(tables: TableArray, index: WordArray, weight: NarrowArray, mass: int) -> int:
    """Add weight[i] to the entry index[i] of the flattened tables, in place.

    Args:
        tables: (rows, columns) of int32 or int64.
        index: uint32 positions, row by row.
        weight: int32.
        mass: the sum of |weights| that the tables hold already. It bounds every entry of the
            tables and of their transform, so that neither can overflow.

    Returns:
        The mass with these cells; OverflowError before anything is added if it is too large.
    """
    bits = arguments.tables(tables, "tables")
    index, weight = arguments.apart(tables, *arguments.cells(index, weight))
    arguments.inside(int(index.max()) if len(index) else -1, tables.size)
    mass = arguments.mass_after(mass, int(np.abs(weight.astype(np.int64)).sum()), bits)
    np.add.at(tables.reshape(-1), index, weight)
    return mass


def walsh_hadamard(rows: TableArray) -> None:
    """Replace each row f of 2^D integers by its transform Σ_r f[r]·(-1)^<r,c>, in place."""
    bits = arguments.power_of_two_columns(rows)
    arguments.transform_fits(_heaviest(rows), bits)
    count, size = rows.shape
    half = 1
    while half < size:
        pairs = rows.reshape(count, size // (2 * half), 2, half)
        top = pairs[:, :, 0] + pairs[:, :, 1]
        pairs[:, :, 1] = pairs[:, :, 0] - pairs[:, :, 1]
        pairs[:, :, 0] = top
        half *= 2


def _heaviest(rows: TableArray) -> int:
    """Return the largest sum of |entries| of a row, as an integer that cannot overflow."""
    magnitudes = np.abs(rows.astype(np.int64)).view(np.uint64)  # also right for -2^63
    upper = (magnitudes >> np.uint64(32)).sum(axis=1).tolist()
    lower = (magnitudes & hashing.LOW32).sum(axis=1).tolist()
    return max(((a << 32) + b for a, b in zip(upper, lower, strict=True)), default=0)


def total_mass(tables: TableArray) -> int:
    """Return the sum of |entries| of all tables, exactly."""
    arguments.tables(tables, "tables", read_only=True)
    return _heaviest(tables.reshape(1, -1))


def gather(tables: TableArray, ids: IdArray, maps: hashing.LinearMaps, blocks: int) -> IntArray:
    """Return (2, ids): sum and largest, over the maps, of what transformed tables hold for each id.

    A map has `blocks` tables, and the code of an id names one of them and an entry in it; the
    public sign of the id turns what stands there.
    """
    _, ids = arguments.gathered(tables, ids, maps.maps, blocks)
    size = tables.shape[1]
    found = np.zeros((2, len(ids)), dtype=np.int64)
    found[1] = np.iinfo(np.int64).min
    for j in range(maps.maps):
        here = np.array([j])  # an array, since scalar hashing would warn of overflow
        codes = maps.codes(ids, here).astype(np.int64)
        rows, columns = j * blocks + codes % blocks, codes // blocks & (size - 1)
        own = maps.masks(ids, here) * tables[rows, columns].astype(np.int64)
        found[0] += own
        np.maximum(found[1], own, out=found[1])
    return found


def map_codes(ids: IdArray, factor: WordArray, offset: WordArray, bits: int) -> WordArray:
    """Return the code of each id under a bijection of `bits` bits.

    Each round multiplies by an odd factor, adds an offset and folds the upper half down.
    """
    ids, factor, offset = arguments.bijection(ids, factor, offset, bits)
    low, shift = np.uint32(2**bits - 1), np.uint32((bits + 1) // 2)
    code = ids.astype(np.uint32)
    for multiply, add in zip(factor, offset, strict=True):
        code = (code * multiply + add) & low
        code = code ^ (code >> shift)
    return code


def hash_ids(key: int, ids: IdArray, tag: int) -> WordArray:
    """Return the hash of each id ‖ tag under one key."""
    ids = arguments.one_key(key, ids, tag)
    return hashing.mix(np.uint64(key), ids, tag)


def read_cells(index: WordArray, weight: NarrowArray, codes: WordArray) -> IntArray:
    """Return Σ_i weight_i·(-1)^<index_i,code> for each code, over cells i of one table."""
    index, weight, codes = arguments.read_cells(index, weight, codes)
    totals = np.zeros(len(codes), dtype=np.int64)
    for position, code in enumerate(codes):
        totals[position] = (hashing.to_signs(hashing.parity(index & code)) * weight).sum()
    return totals


def read_prf(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return Σ_i s_i(x)·values[i, h_i(x)] for each id x, hashing with HalfSipHash."""
    return _read_hashed(seeds, values, ids, "prf")


def read_blake2s(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return Σ_i s_i(x)·values[i, h_i(x)] for each id x, hashing with keyed BLAKE2s."""
    return _read_hashed(seeds, values, ids, "blake2s")


def _read_hashed(seeds: IdArray, values: IntArray, ids: IdArray, family: str) -> IntArray:
    seeds, values, ids = arguments.hashed_reports(seeds, values, ids)
    reports = np.arange(len(seeds))
    totals = np.zeros(len(ids), dtype=np.int64)
    for position, item in enumerate(ids):
        repeated = np.full(len(seeds), item, dtype=np.uint64)
        place = hashing.places(seeds, repeated, values.shape[1], family)
        totals[position] = (place.signs * values[reports, place.bins]).sum()
    return totals


def hash_each(seeds: IdArray, ids: IdArray, tag: int) -> WordArray:
    """Return the word that ids[i] ‖ tag hashes to under seeds[i]."""
    arguments.one_byte(tag, "tag")
    seeds, ids = arguments.own_keys(seeds, ids, 1, arguments.MOST_WORDS)
    return hashing.mix(seeds, ids, tag)


def hash_words(seeds: IdArray, ids: IdArray, tag: int, count: int) -> WordArray:
    """Return words (items, count): entry [i, w] hashes ids[i] ‖ tag ‖ w under seeds[i]."""
    arguments.one_byte(tag, "tag")
    seeds, ids = arguments.own_keys(seeds, ids, count, arguments.MOST_WORDS)
    return hashing.hash_words(seeds, ids, tag, count, "prf")


def hash_wide(seeds: IdArray, ids: IdArray, count: int) -> WordArray:
    """Return words (items, count) of BLAKE2s, eight from each call."""
    seeds, ids = arguments.own_keys(seeds, ids, count, 8 * arguments.MOST_WORDS)
    return hashing.wide_words(seeds, ids, count)


def solve_gf2(
    offsets: IntArray, order: WordArray, rows: WordArray, answers: IntArray, free: WordArray
) -> WordArray:
    """Return for each segment a vector over GF(2) that answers its equations.

    Segment s owns items offsets[s]:offsets[s+1]. They are taken by ascending `order`, ties by
    position; an item whose row is in the span of the rows before it is dropped. The solution
    has <solution, row> = answer for all others, and the bits of `free` wherever no row has
    its pivot: the lowest bit left after reduction by the rows before.

    Args:
        offsets: (segments + 1,) ascending.
        order: (items,) words to sort by.
        rows: (items, words) little-endian bit vectors.
        answers: (items,) of 0 and 1.
        free: (segments, words) uniform bits, for a uniform solution.
    """
    offsets, order, rows, answers, free = arguments.equations(offsets, order, rows, answers, free)
    out = free.copy()
    for segment in range(len(free)):
        first, last = int(offsets[segment]), int(offsets[segment + 1])
        taken = sorted(range(first, last), key=lambda item: (int(order[item]), item))
        equations = [(_integer(rows[item]), int(answers[item])) for item in taken]
        solution = _solve(equations, _integer(free[segment]))
        out[segment] = np.frombuffer(solution.to_bytes(4 * free.shape[1], "little"), "<u4")
    return out


def _integer(words: WordArray) -> int:
    return int.from_bytes(words.astype("<u4").tobytes(), "little")


def _solve(equations: list[tuple[int, int]], free: int) -> int:
    basis: list[tuple[int, int, int]] = []  # pivot, row and answer
    for row, answer in equations:
        for pivot, known, said in basis:
            if row & pivot:
                row, answer = row ^ known, answer ^ said  # noqa: PLW2901
        if row:
            basis.append((row & -row, row, answer))
    # A row holds no earlier pivot, so from the last one back only its own bit is open.
    for pivot, row, answer in reversed(basis):
        free &= ~pivot
        if ((row & free).bit_count() ^ answer) & 1:
            free |= pivot
    return free


def read_parity(seeds: IdArray, payload: WordArray, ids: IdArray) -> IntArray:
    """Return Σ_i (-1)^(<payload_i, a_i(x)> + c_i(x)) for each id x, hashing with HalfSipHash."""
    seeds, payload, ids = arguments.parity_reports(seeds, payload, ids)
    totals = np.zeros(len(ids), dtype=np.int64)
    for position, item in enumerate(ids):
        repeated = np.full(len(seeds), item, dtype=np.uint64)
        rows = hash_words(seeds, repeated, hashing.EQUATION, payload.shape[1])
        folded = np.bitwise_xor.reduce(rows & payload, axis=1, dtype=np.uint32)
        coins = hash_words(seeds, repeated, hashing.COIN, 1)[:, 0]
        totals[position] = hashing.to_signs(hashing.parity(folded) ^ (coins & 1)).sum()
    return totals


def read_slots(
    seeds: IdArray, slots: WordArray, ids: IdArray, bins: int
) -> tuple[IntArray, IntArray]:
    """Return Σ_i hit·sign and Σ_i hit for each id x, hashing with HalfSipHash.

    The hash of x ‖ tag ‖ word_i under seeds[i] hits if its bin is where_i; its sign is -1 if it
    has the bit mask_i, and the other one if minus_i is 1. The rows of `slots` are word, mask,
    where and minus.
    """
    seeds, slots, ids = arguments.slot_reports(seeds, slots, ids, bins)
    word, mask, where, minus = slots
    totals, hits = np.zeros(len(ids), dtype=np.int64), np.zeros(len(ids), dtype=np.int64)
    closing = np.uint32(10 << 24 | hashing.PROJECTION) | (word << np.uint32(8))
    for position, item in enumerate(ids):
        halves = [item & hashing.LOW32, item >> np.uint64(32)]
        message = [np.full(len(seeds), half, dtype=np.uint32) for half in halves]
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
    seeds, offsets, negative = arguments.segments(seeds, offsets, negative)
    ids = arguments.projected_ids(ids, negative, groups)
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
    seeds, offsets, negative = arguments.segments(seeds, offsets, negative)
    codes = arguments.projected_codes(codes, negative, groups, bits)
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


def shuffle_rows(records: AnyArray, keys: WordArray) -> AnyArray:
    """Return the rows in ascending order of their keys; rows of equal keys stay as they came."""
    records, keys = arguments.keyed_rows(records, keys)
    # Two stable sorts by 16 bits are one by 32, and numpy is at least half as fast again at them.
    order = keys.astype(np.uint16).argsort(kind="stable")
    upper = (keys >> np.uint32(16)).astype(np.uint16)
    return records.take(order[upper[order].argsort(kind="stable")], axis=0)
