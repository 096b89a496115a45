"""Records of reports: packing columns into bytes, unpacking, shuffling rows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, WordArray
from faintly.kernels.arguments import arrays
from faintly.kernels.language import in_c
from faintly.kernels.native import call

NARROW = 32  # bytes of a record up to which two copies in cache beat one cache miss


def pack_records(
    seeds: IdArray, fields: WordArray, seed_bytes: int, widths: tuple[int, ...]
) -> AnyArray:
    """Return records (reports, bytes): seed bytes, then each field in its width, low bit first.

    A field fits its width. Only the first `seed_bytes` bytes of a seed are packed.
    """
    seeds, fields = arrays("seeds u64[n], fields u32[n,columns]", seeds, fields)
    if fields.shape[1] != len(widths):
        raise TypeError("fields must have a column for each width")
    size = _record_bytes(seed_bytes, widths)
    if in_c():
        records = np.empty((len(seeds), size), dtype=np.uint8)
        sizes, too_wide = np.array(widths, dtype=np.uint32), np.zeros(1, dtype=np.int64)
        call(
            "pack_records",
            *(seeds, fields, len(seeds), seed_bytes, sizes, len(widths), size, records, too_wide),
        )
        if not too_wide[0]:
            return records
    ends = np.array([2**width for width in widths], dtype=np.uint64)
    if (fields >= ends).any():
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
    """The columns of records, and where they first break each rule, if at all."""

    seeds: IdArray
    fields: WordArray
    outside: tuple[int, int] | None  # the first field not below its limit, and its first record
    unused: int | None  # the first record with a bit that no field uses


def unpack_records(
    records: AnyArray, seed_bytes: int, widths: tuple[int, ...], limits: tuple[int, ...]
) -> Unpacked:
    """Return the columns that `pack_records` packed, and where records break its rules."""
    (records,) = arrays("records u8[n,bytes]", records)
    if records.shape[1] != _record_bytes(seed_bytes, widths):
        raise TypeError("records must have the bytes of the seed and of all fields")
    if len(limits) != len(widths) or not all(
        1 <= limit <= 2**width for limit, width in zip(limits, widths, strict=True)
    ):
        raise TypeError("limits must be between 1 and what the width of a field can hold")
    unpack = _unpack_in_c if in_c() else _unpack
    return unpack(records, seed_bytes, widths, limits)


def _unpack_in_c(
    records: AnyArray, seed_bytes: int, widths: Sequence[int], limits: Sequence[int]
) -> Unpacked:
    count, columns = len(records), len(widths)
    seeds, fields = np.empty(count, np.uint64), np.empty((count, columns), np.uint32)
    largest = np.array([limit - 1 for limit in limits], dtype=np.uint32)
    faults = np.array([columns, 0, count], dtype=np.int64)
    call(
        "unpack_records",
        *(records, count, records.shape[1], seed_bytes),
        *(np.array(widths, dtype=np.uint32), largest, columns, seeds, fields, faults),
    )
    field, record, unused = faults.tolist()
    outside = (field, record) if field < columns else None
    return Unpacked(seeds, fields, outside, unused if unused < count else None)


def _unpack(
    records: AnyArray, seed_bytes: int, widths: Sequence[int], limits: Sequence[int]
) -> Unpacked:
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


def shuffle_rows(records: AnyArray, keys: WordArray) -> AnyArray:
    """Return the rows in ascending order of their keys, by a stable sort."""
    if len(keys) >= 2**32:
        raise TypeError("keys must be fewer than 2^32: a row's number is one word")
    records, keys = arrays("records u8[n,bytes], keys u32[n]", records, keys)
    if in_c():
        count, width = records.shape
        carried = width <= NARROW
        moved = np.empty_like(records) if carried else np.empty(0, dtype=np.uint8)
        pairs, shuffled = np.empty((2, count), dtype=np.uint64), np.empty_like(records)
        call("shuffle_rows", records, width, keys, count, carried, moved, *pairs, shuffled)
        return shuffled
    # Two stable sorts by 16 bits equal one by 32, and numpy does them at least 1.5 times as fast.
    order = keys.astype(np.uint16).argsort(kind="stable")
    upper = (keys >> np.uint32(16)).astype(np.uint16)
    return records.take(order[upper[order].argsort(kind="stable")], axis=0)


def _record_bytes(seed_bytes: int, widths: Sequence[int]) -> int:
    if not 0 <= seed_bytes <= 8 or not all(1 <= width <= 32 for width in widths):
        raise TypeError("a seed has at most 8 bytes, and a field 1 to 32 bits")
    return seed_bytes + (sum(widths) + 7) // 8
