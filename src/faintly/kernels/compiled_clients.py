"""The kernels of `reference_clients` from kernels.c: same signatures, same integers."""

import numpy as np

from faintly.core.arrays import AnyArray, FloatArray, IdArray, IntArray, NarrowArray, WordArray
from faintly.kernels import arguments_clients as arguments
from faintly.kernels import reference_clients
from faintly.kernels.arguments import exactly
from faintly.kernels.compiled import call, public_maps
from faintly.kernels.reference_clients import Unpacked
from faintly.primitives.hashing import LinearMaps


def round_values(values: FloatArray, steps: int, words: WordArray) -> tuple[NarrowArray, IntArray]:
    """Return values on the grid of 1/steps, and where one word did not decide; see reference."""
    values, words = arguments.rounding(values, steps, words)
    rounded, found = np.empty(len(values), dtype=np.int32), np.zeros(2, dtype=np.int64)
    call("faintly_round_values", values, words, len(values), steps, rounded, found)
    bad, ties = found.tolist()
    if bad:
        raise ValueError("values must lie in [-1, 1]")
    if ties:  # once in 2^32 values: looking for them again costs nothing
        return reference_clients.round_values(values, steps, words)
    return rounded, np.zeros(0, dtype=np.int64)


def bin_hashed(
    seeds: IdArray,
    offsets: IntArray,
    ids: IdArray,
    amounts: NarrowArray,
    *,
    bins: int,
    family: str,
) -> IntArray:
    """Return sums of s(x)·amount over the items of each client and bin; see reference."""
    seeds, offsets, ids, amounts = arguments.clients(seeds, offsets, ids, amounts)
    arguments.binning(bins, family)
    sums = np.zeros((len(seeds), bins), dtype=np.int64)
    call(f"faintly_bin_{family}", seeds, offsets, len(seeds), ids, amounts, bins, sums)
    return sums


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
    width = arguments.linear_width(bins)
    sums = np.zeros((len(seeds), bins), dtype=np.int64)
    call(
        "faintly_bin_linear",
        *(seeds, offsets, len(seeds), ids, amounts, width),
        *(*public_maps(maps), sums),
    )
    return sums


def code_items(
    seeds: IdArray, offsets: IntArray, ids: IdArray, maps: LinearMaps
) -> tuple[WordArray, AnyArray]:
    """Return the code of every item in the map that its client's seed picks, and its flip."""
    seeds, offsets, ids = arguments.items(seeds, offsets, ids)
    codes, flips = np.empty(len(ids), dtype=np.uint32), np.empty(len(ids), dtype=np.uint8)
    call("faintly_code_items", seeds, offsets, len(seeds), ids, *public_maps(maps), codes, flips)
    return codes, flips


def pick_maps(seeds: IdArray, maps: int) -> IntArray:
    """Return the public map that each seed uses."""
    seeds = exactly(seeds, np.uint64, 1, "seeds")
    arguments.map_count(maps)
    picked = np.empty(len(seeds), dtype=np.int64)
    call("faintly_pick_maps", seeds, len(seeds), maps, picked)
    return picked


def linear_cells(
    seeds: IdArray, fields: WordArray, center: int, maps: LinearMaps
) -> tuple[WordArray, NarrowArray]:
    """Return index and weight of b cells per report; see reference."""
    seeds, fields, width = arguments.linear_fields(seeds, fields, center)
    index, weight = np.empty(fields.size, np.uint32), np.empty(fields.size, np.int32)
    largest = np.zeros(1, dtype=np.int64)
    call(
        "faintly_linear_cells",
        *(seeds, fields, len(seeds), center, width),
        *(maps.maps, maps.bits, index, weight, largest),
    )
    if largest[0] > 2 * center:
        raise ValueError(f"fields must be at most {2 * center}")
    return index, weight


def sum_squares(fields: WordArray, center: int) -> int:
    """Return Σ (field - center)² over all fields, exactly."""
    fields = exactly(fields, np.uint32, 2, "fields")
    arguments.word(center, "center")
    halves = np.zeros(2, dtype=np.uint64)
    call("faintly_sum_squares", fields, fields.size, center, halves)
    low, high = halves.tolist()
    return low + (high << 32)


def hash_words_blake2s(seeds: IdArray, ids: IdArray, tag: int, count: int) -> WordArray:
    """Return words (items, count): entry [i, w] is BLAKE2s of ids[i] ‖ tag ‖ w under seeds[i]."""
    seeds, ids = arguments.word_request(seeds, ids, tag, count)
    words = np.empty((len(ids), count), dtype=np.uint32)
    call("faintly_hash_words_blake2s", seeds, ids, len(ids), tag, count, words)
    return words


def hash_keys(data: AnyArray, offsets: IntArray, salt: bytes) -> IdArray:
    """Return the 64-bit id of each byte string data[offsets[i]:offsets[i+1]]; see reference."""
    data, offsets = arguments.strings(data, offsets, salt)
    out = np.empty(len(offsets) - 1, dtype=np.uint64)
    key = np.frombuffer(salt.ljust(32, b"\0"), dtype=np.uint8)
    call("faintly_hash_keys", data, offsets, len(out), key, len(salt), out)
    return out


def pack_records(
    seeds: IdArray, fields: WordArray, seed_bytes: int, widths: tuple[int, ...]
) -> AnyArray:
    """Return records (reports, bytes): seed bytes, then each field in its width, low bit first."""
    seeds, fields, size = arguments.report_columns(seeds, fields, seed_bytes, widths)
    records = np.empty((len(seeds), size), dtype=np.uint8)
    sizes, too_wide = np.array(widths, dtype=np.uint32), np.zeros(1, dtype=np.int64)
    call(
        "faintly_pack_records",
        *(seeds, fields, len(seeds), seed_bytes, sizes, len(widths), size, records, too_wide),
    )
    if too_wide[0]:
        raise ValueError("a field does not fit its bits")
    return records


def unpack_records(
    records: AnyArray, seed_bytes: int, widths: tuple[int, ...], limits: tuple[int, ...]
) -> Unpacked:
    """Return what `pack_records` put into the records, and the first breach of each rule."""
    records = arguments.records(records, seed_bytes, widths, limits)
    count, columns = len(records), len(widths)
    seeds, fields = np.empty(count, np.uint64), np.empty((count, columns), np.uint32)
    largest = np.array([limit - 1 for limit in limits], dtype=np.uint32)
    faults = np.array([columns, 0, count], dtype=np.int64)
    call(
        "faintly_unpack_records",
        *(records, count, records.shape[1], seed_bytes),
        *(np.array(widths, dtype=np.uint32), largest, columns, seeds, fields, faults),
    )
    field, record, unused = faults.tolist()
    outside = (field, record) if field < columns else None
    return Unpacked(seeds, fields, outside, unused if unused < count else None)
