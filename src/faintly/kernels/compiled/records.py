"""The kernels of records.py from records.c: same signatures, same integers."""

import numpy as np

from faintly.core.arrays import AnyArray, IdArray, WordArray
from faintly.kernels._native import call
from faintly.kernels.records import Unpacked, checked_columns, checked_records, checked_rows

NARROW = 32  # bytes of a record, up to which two copies nearby cost less than one from far away


def pack_records(
    seeds: IdArray, fields: WordArray, seed_bytes: int, widths: tuple[int, ...]
) -> AnyArray:
    """Return records (reports, bytes): seed bytes, then each field in its width, low bit first."""
    seeds, fields, size = checked_columns(seeds, fields, seed_bytes, widths)
    records = np.empty((len(seeds), size), dtype=np.uint8)
    sizes, too_wide = np.array(widths, dtype=np.uint32), np.zeros(1, dtype=np.int64)
    call(
        "pack_records",
        *(seeds, fields, len(seeds), seed_bytes, sizes, len(widths), size, records, too_wide),
    )
    if too_wide[0]:
        raise ValueError("a field does not fit its bits")
    return records


def unpack_records(
    records: AnyArray, seed_bytes: int, widths: tuple[int, ...], limits: tuple[int, ...]
) -> Unpacked:
    """Return what `pack_records` put into the records, and the first breach of each rule."""
    records = checked_records(records, seed_bytes, widths, limits)
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


def shuffle_rows(records: AnyArray, keys: WordArray) -> AnyArray:
    """Return the rows in ascending order of their keys; rows of equal keys stay as they came."""
    records, keys = checked_rows(records, keys)
    count, width = records.shape
    carried = width <= NARROW
    moved = np.empty_like(records) if carried else np.empty(0, dtype=np.uint8)
    pairs, shuffled = np.empty((2, count), dtype=np.uint64), np.empty_like(records)
    call("shuffle_rows", records, width, keys, count, carried, moved, *pairs, shuffled)
    return shuffled
