"""Records of reports, as plainly as numpy can say it; records.c gives the same bytes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, WordArray
from faintly.kernels import arguments


def pack_records(
    seeds: IdArray, fields: WordArray, seed_bytes: int, widths: tuple[int, ...]
) -> AnyArray:
    """Return records (reports, bytes): seed bytes, then each field in its width, low bit first.

    A field fits its width. Of a seed, the first bytes are taken and the others stay at home.
    """
    seeds, fields, size = checked_columns(seeds, fields, seed_bytes, widths)
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
    records = checked_records(records, seed_bytes, widths, limits)
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
    """Return the rows in ascending order of their keys; rows of equal keys stay as they came."""
    records, keys = checked_rows(records, keys)
    # Two stable sorts by 16 bits are one by 32, and numpy is at least half as fast again at them.
    order = keys.astype(np.uint16).argsort(kind="stable")
    upper = (keys >> np.uint32(16)).astype(np.uint16)
    return records.take(order[upper[order].argsort(kind="stable")], axis=0)


def checked_columns(
    seeds: AnyArray, fields: AnyArray, seed_bytes: int, widths: Sequence[int]
) -> tuple[AnyArray, AnyArray, int]:
    """Return the columns of reports and the bytes of a record."""
    seeds, fields = (
        arguments.exactly(seeds, np.uint64, 1, "seeds"),
        arguments.exactly(fields, np.uint32, 2, "fields"),
    )
    arguments.same_length(seeds=seeds, fields=fields)
    if fields.shape[1] != len(widths):
        raise TypeError("fields must have a column for each width")
    return seeds, fields, _record_bytes(seed_bytes, widths)


def checked_records(
    given: AnyArray, seed_bytes: int, widths: Sequence[int], limits: Sequence[int]
) -> AnyArray:
    """Return records that have just the bytes of their fields."""
    given = arguments.exactly(given, np.uint8, 2, "records")
    if given.shape[1] != _record_bytes(seed_bytes, widths):
        raise TypeError("records must have the bytes of the seed and of all fields")
    if len(limits) != len(widths) or not all(
        1 <= limit <= 2**width for limit, width in zip(limits, widths, strict=True)
    ):
        raise TypeError("limits must be between 1 and what the width of a field can hold")
    return given


def _record_bytes(seed_bytes: int, widths: Sequence[int]) -> int:
    if not 0 <= seed_bytes <= 8 or not all(1 <= width <= 32 for width in widths):
        raise TypeError("a seed has at most 8 bytes, and a field 1 to 32 bits")
    return seed_bytes + (sum(widths) + 7) // 8


def checked_rows(records: AnyArray, keys: AnyArray) -> list[AnyArray]:
    """Return rows of bytes, and a key to sort each by."""
    if len(keys) >= 2**32:
        raise TypeError("keys must be fewer than 2^32: a row's number is one word")
    checked = [
        arguments.exactly(records, np.uint8, 2, "records"),
        arguments.exactly(keys, np.uint32, 1, "keys"),
    ]
    arguments.same_length(records=records, keys=keys)
    return checked
