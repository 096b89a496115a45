"""What clients and their reports need in bulk, as plainly as numpy can say it."""

import hashlib
import itertools
from typing import NamedTuple

import numpy as np

from faintly.core.arrays import AnyArray, FloatArray, IdArray, IntArray, NarrowArray, WordArray
from faintly.kernels import arguments_clients as arguments
from faintly.kernels import reference
from faintly.kernels.arguments import exactly
from faintly.primitives import hashing
from faintly.primitives.hashing import LinearMaps

WORD = 2.0**32


def round_values(values: FloatArray, steps: int, words: WordArray) -> tuple[NarrowArray, IntArray]:
    """Return values in [-1, 1] on the grid of 1/steps, and where one word did not decide.

    A size is rounded up if its word, as the first 32 bits of a uniform number, is below its
    fraction of a step. Where the two agree in all 32 bits and the fraction goes on, the value
    is rounded toward 0 and its position returned: more words must settle it.
    """
    values, words = arguments.rounding(values, steps, words)
    if not (np.abs(values) <= 1).all():
        raise ValueError("values must lie in [-1, 1]")
    scaled = np.abs(values) * steps
    low = np.floor(scaled)
    odds = (scaled - low) * WORD
    up = words < np.floor(odds)
    ties = np.flatnonzero((words == np.floor(odds)) & (odds > words))
    return (np.sign(values) * (low + up)).astype(np.int32), ties


def bin_hashed(
    seeds: IdArray,
    offsets: IntArray,
    ids: IdArray,
    amounts: NarrowArray,
    *,
    bins: int,
    family: str,
) -> IntArray:
    """Return sums (clients, bins) of s(x)·amount over the items x with h(x) = bin of each client.

    Client c owns items offsets[c]:offsets[c+1] and hashes them under seeds[c].
    """
    seeds, offsets, ids, amounts = arguments.clients(seeds, offsets, ids, amounts)
    arguments.binning(bins, family)
    owners = np.repeat(np.arange(len(seeds)), np.diff(offsets))
    place = hashing.places(seeds[owners], ids, bins, family)
    return _bin_sums(owners, place, amounts, (len(seeds), bins))


def bin_linear(
    seeds: IdArray,
    offsets: IntArray,
    ids: IdArray,
    amounts: NarrowArray,
    *,
    bins: int,
    maps: LinearMaps,
) -> IntArray:
    """Return what `bin_hashed` does, hashing by the public maps."""
    seeds, offsets, ids, amounts = arguments.clients(seeds, offsets, ids, amounts)
    arguments.linear_width(bins)
    owners = np.repeat(np.arange(len(seeds)), np.diff(offsets))
    place = maps.places(seeds[owners], ids, bins)
    return _bin_sums(owners, place, amounts, (len(seeds), bins))


def _bin_sums(
    owners: IntArray, place: hashing.Places, amounts: NarrowArray, shape: tuple[int, int]
) -> IntArray:
    sums = np.zeros(shape, dtype=np.int64)
    np.add.at(sums, (owners, place.bins), place.signs * amounts)
    return sums


def code_items(
    seeds: IdArray, offsets: IntArray, ids: IdArray, maps: LinearMaps
) -> tuple[WordArray, AnyArray]:
    """Return the code of every item in the map that its client's seed picks, and its flip.

    Client c owns items offsets[c]:offsets[c+1]; a flip is 1 where the public sign is -1.
    """
    seeds, offsets, ids = arguments.items(seeds, offsets, ids)
    chosen = np.repeat(maps.map_of(seeds), np.diff(offsets))
    return maps.codes(ids, chosen), (maps.masks(ids, chosen) < 0).astype(np.uint8)


def pick_maps(seeds: IdArray, maps: int) -> IntArray:
    """Return the public map that each seed uses."""
    seeds = exactly(seeds, np.uint64, 1, "seeds")
    arguments.map_count(maps)
    return hashing.scale_to(hashing.mix(seeds, np.uint64(0), hashing.MAP), maps)


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
    seeds, fields, width = arguments.linear_fields(seeds, fields, center)
    if fields.max(initial=0) > 2 * center:
        raise ValueError(f"fields must be at most {2 * center}")
    weight = fields.astype(np.int64) - center
    reference.walsh_hadamard(weight)
    row, matrix = maps.rows(seeds, width)
    index = np.empty(fields.shape, dtype=np.uint32)
    index[:, 0] = row | maps.map_of(seeds).astype(np.uint32) << np.uint32(maps.bits)
    for bit in range(width):
        known = 1 << bit
        index[:, known : 2 * known] = index[:, :known] ^ matrix[:, bit : bit + 1]
    return index.ravel(), weight.astype(np.int32).ravel()


def sum_squares(fields: WordArray, center: int) -> int:
    """Return Σ (field - center)² over all fields, exactly."""
    fields = exactly(fields, np.uint32, 2, "fields")
    arguments.word(center, "center")
    squares = np.abs(fields.astype(np.int64) - center).astype(np.uint64) ** np.uint64(2)
    # A square has up to 64 bits; the sums of its halves cannot overflow.
    low, high = (squares & hashing.LOW32).sum(), (squares >> np.uint64(32)).sum()
    return int(low) + (int(high) << 32)


def hash_words_blake2s(seeds: IdArray, ids: IdArray, tag: int, count: int) -> WordArray:
    """Return words (items, count): entry [i, w] is BLAKE2s of ids[i] ‖ tag ‖ w under seeds[i]."""
    seeds, ids = arguments.word_request(seeds, ids, tag, count)
    return hashing.hash_words(seeds, ids, tag, count, "blake2s")


def hash_keys(data: AnyArray, offsets: IntArray, salt: bytes) -> IdArray:
    """Return the 64-bit id of each byte string data[offsets[i]:offsets[i+1]].

    It is the first 8 bytes of BLAKE2s keyed with the salt, little-endian.
    """
    data, offsets = arguments.strings(data, offsets, salt)
    whole = data.tobytes()
    out = np.empty(len(offsets) - 1, dtype=np.uint64)
    for position, (first, last) in enumerate(itertools.pairwise(offsets)):
        digest = hashlib.blake2s(whole[first:last], digest_size=8, key=salt).digest()
        out[position] = int.from_bytes(digest, "little")
    return out


def pack_records(
    seeds: IdArray, fields: WordArray, seed_bytes: int, widths: tuple[int, ...]
) -> AnyArray:
    """Return records (reports, bytes): seed bytes, then each field in its width, low bit first.

    A field fits its width. Of a seed, the first bytes are taken and the others stay at home.
    """
    seeds, fields, size = arguments.report_columns(seeds, fields, seed_bytes, widths)
    room = np.array([2**width for width in widths], dtype=np.uint64)
    if (fields >= room).any():
        raise ValueError("a field does not fit its bits")
    out = np.zeros((len(seeds), size), dtype=np.uint8)
    octets = seeds.astype("<u8").view(np.uint8).reshape(len(seeds), 8)
    out[:, :seed_bytes] = octets[:, :seed_bytes]
    position = 8 * seed_bytes
    for column, width in enumerate(widths):
        first, shift = divmod(position, 8)
        moved = fields[:, column].astype(np.uint64) << np.uint64(shift)
        for byte in range((shift + width + 7) // 8):
            out[:, first + byte] |= (moved >> np.uint64(8 * byte)).astype(np.uint8)
        position += width
    return out


class Unpacked(NamedTuple):
    """The columns of records, and the first breach of each rule, where there is one."""

    seeds: IdArray
    fields: WordArray
    outside: tuple[int, int] | None  # the least field not below its limit, its first record
    unused: int | None  # the first record with a bit that no field uses


def unpack_records(
    records: AnyArray, seed_bytes: int, widths: tuple[int, ...], limits: tuple[int, ...]
) -> Unpacked:
    """Return what `pack_records` put into the records; fields must be below their limits."""
    records = arguments.records(records, seed_bytes, widths, limits)
    octets = np.zeros((len(records), 8), dtype=np.uint8)
    octets[:, :seed_bytes] = records[:, :seed_bytes]
    seeds = octets.view("<u8").reshape(len(records)).astype(np.uint64)
    fields = np.zeros((len(records), len(widths)), dtype=np.uint32)
    outside = unused = None
    position = 8 * seed_bytes
    for column, width in enumerate(widths):
        fields[:, column] = _field(records, position, width)
        position += width
        bad = fields[:, column] >= limits[column]
        if outside is None and bad.any():
            outside = column, int(np.argmax(bad))
    if position % 8:
        rest = records[:, -1] >> (position % 8)
        unused = int(np.argmax(rest != 0)) if rest.any() else None
    return Unpacked(seeds, fields, outside, unused)


def _field(records: AnyArray, position: int, width: int) -> WordArray:
    first, shift = divmod(position, 8)
    moved = np.zeros(len(records), dtype=np.uint64)
    for byte in range((shift + width + 7) // 8):
        moved |= records[:, first + byte].astype(np.uint64) << np.uint64(8 * byte)
    return ((moved >> np.uint64(shift)) & np.uint64(2**width - 1)).astype(np.uint32)
