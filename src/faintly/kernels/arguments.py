"""What both implementations demand of their arguments, before any memory is touched."""

import numpy as np

from faintly.core.arrays import AnyArray

MOST_GROUPS = 8192  # kernels.c has arrays of this length
MOST_WORDS = 256  # hashed from one item: the number of a word is one byte


def exactly(array: AnyArray, dtype: type, dimensions: int, name: str) -> AnyArray:
    """Return the array in C order, or refuse one of another type or shape: values never change."""
    if array.dtype == np.bool_ and dtype is np.uint8:
        array = array.view(np.uint8)  # the same bytes, 0 and 1
    if array.dtype != dtype or array.ndim != dimensions:
        raise TypeError(f"{name} must be {np.dtype(dtype).name} of {dimensions} dimension(s)")
    return np.ascontiguousarray(array if array.flags.aligned else array.copy())


def in_place(array: AnyArray, dtype: type, dimensions: int, name: str) -> None:
    """Refuse an array that cannot be changed where it lies."""
    where_it_lies(array, dtype, dimensions, name)
    if not array.flags.writeable:
        raise TypeError(f"{name} must be writeable")


def where_it_lies(array: AnyArray, dtype: type, dimensions: int, name: str) -> None:
    """Refuse an array that cannot be read without a copy."""
    fits = array.dtype == dtype and array.ndim == dimensions
    if not (fits and array.flags.c_contiguous and array.flags.aligned):
        raise TypeError(
            f"{name} must be an aligned, C-contiguous {np.dtype(dtype).name} array "
            f"of {dimensions} dimension(s)"
        )


def same_length(**arrays: AnyArray) -> None:
    """Refuse columns of different lengths."""
    if len({len(array) for array in arrays.values()}) > 1:
        raise TypeError(f"{', '.join(arrays)} must pair up: their lengths differ")


def one_byte(number: int, name: str) -> None:
    """Refuse a number that does not fit one byte."""
    if not 0 <= number < 256:
        raise TypeError(f"{name} must fit one byte")


def tables(array: AnyArray, name: str, *, read_only: bool = False) -> int:
    """Return the bits of the integers of tables, which can be changed unless only read."""
    bits = {np.dtype(np.int32): 32, np.dtype(np.int64): 64}.get(array.dtype)
    if bits is None:
        raise TypeError(f"{name} must be int32 or int64, C-contiguous")
    check = where_it_lies if read_only else in_place
    check(array, np.int32 if bits == 32 else np.int64, 2, name)
    return bits


def cells(index: AnyArray, weight: AnyArray) -> list[AnyArray]:
    """Return the columns of cells."""
    checked = [exactly(index, np.uint32, 1, "index"), exactly(weight, np.int32, 1, "weight")]
    same_length(index=index, weight=weight)
    return checked


def read_cells(index: AnyArray, weight: AnyArray, codes: AnyArray) -> list[AnyArray]:
    """Return the columns of cells and the codes to read."""
    return [*cells(index, weight), exactly(codes, np.uint32, 1, "codes")]


def inside(largest: int, size: int) -> None:
    """Refuse cells of which the largest is not below `size`."""
    if largest >= size:
        raise IndexError("a cell lies outside its table")


def apart(tables: AnyArray, *columns: AnyArray) -> list[AnyArray]:
    """Return columns that do not change while the tables do."""
    return [column.copy() if np.may_share_memory(tables, column) else column for column in columns]


def mass_after(mass: int, added: int, bits: int) -> int:
    """Return the sum of |weights| in a table, or refuse what its integers might not hold.

    No entry of a table, and none of its transform, exceeds this sum.
    """
    if mass < 0 or mass + added >= 2 ** (bits - 1):
        raise OverflowError(f"tables of {bits} bits could overflow; widen them first")
    return mass + added


def power_of_two_columns(rows: AnyArray) -> int:
    """Return the bits of rows that a Walsh-Hadamard transform can take in place."""
    bits = tables(rows, "rows")
    if rows.shape[1] == 0 or rows.shape[1] & (rows.shape[1] - 1):
        raise TypeError("rows must have a power of two of columns")
    return bits


def transform_fits(heaviest: int, bits: int) -> None:
    """Refuse rows of which one has a sum of |entries| that might overflow in a transform."""
    if heaviest >= 2 ** (bits - 1):
        raise OverflowError(f"rows of {bits} bits could overflow; widen them first")


def gathered(array: AnyArray, ids: AnyArray, maps: int, blocks: int) -> tuple[int, AnyArray]:
    """Return the bits of tables that have `blocks` rows for each map, and the ids to read there."""
    bits = tables(array, "tables", read_only=True)
    rows, size = array.shape
    if blocks < 1 or rows != maps * blocks or size < 1 or size & (size - 1):
        raise TypeError("tables must have a row for each map and block, of 2^D columns")
    return bits, exactly(ids, np.uint64, 1, "ids")


def bijection(ids: AnyArray, factor: AnyArray, offset: AnyArray, bits: int) -> list[AnyArray]:
    """Return ids, and the factors and offsets of the rounds that map them."""
    checked = [
        exactly(ids, np.uint64, 1, "ids"),
        exactly(factor, np.uint32, 1, "factor"),
        exactly(offset, np.uint32, 1, "offset"),
    ]
    same_length(factor=factor, offset=offset)
    if not 1 <= bits <= 32:
        raise TypeError("bits must be between 1 and 32")
    return checked


def one_key(key: int, ids: AnyArray, tag: int) -> AnyArray:
    """Return the ids to hash under one key and tag."""
    if not 0 <= key < 2**64:
        raise TypeError("key must fit 64 bits")
    one_byte(tag, "tag")
    return exactly(ids, np.uint64, 1, "ids")


def own_keys(seeds: AnyArray, ids: AnyArray, count: int, most: int) -> list[AnyArray]:
    """Return ids, each with the seed to hash it under, to `count` words."""
    checked = [exactly(seeds, np.uint64, 1, "seeds"), exactly(ids, np.uint64, 1, "ids")]
    same_length(seeds=seeds, ids=ids)
    if not 0 <= count <= most:
        raise TypeError(f"count must be between 0 and {most}")
    return checked


def hashed_reports(seeds: AnyArray, values: AnyArray, ids: AnyArray) -> list[AnyArray]:
    """Return the columns of hashed reports and the ids to read."""
    checked = [
        exactly(seeds, np.uint64, 1, "seeds"),
        exactly(values, np.int64, 2, "values"),
        exactly(ids, np.uint64, 1, "ids"),
    ]
    same_length(seeds=seeds, values=values)
    if not 1 <= values.shape[1] < 2**32:
        raise TypeError("values must have at least one column, and fewer than 2^32")
    return checked


def parity_reports(seeds: AnyArray, payload: AnyArray, ids: AnyArray) -> list[AnyArray]:
    """Return the columns of retrieval reports and the ids to read."""
    checked = [
        exactly(seeds, np.uint64, 1, "seeds"),
        exactly(payload, np.uint32, 2, "payload"),
        exactly(ids, np.uint64, 1, "ids"),
    ]
    same_length(seeds=seeds, payload=payload)
    if not 1 <= payload.shape[1] <= MOST_WORDS:
        raise TypeError("payload must have between 1 and 256 words")
    return checked


def slot_reports(seeds: AnyArray, slots: AnyArray, ids: AnyArray, bins: int) -> list[AnyArray]:
    """Return the columns of projection reports and the ids to read."""
    checked = [
        exactly(seeds, np.uint64, 1, "seeds"),
        exactly(slots, np.uint32, 2, "slots"),
        exactly(ids, np.uint64, 1, "ids"),
    ]
    if slots.shape != (4, len(seeds)):
        raise TypeError("slots must have the rows word, mask, where and minus, one entry per seed")
    if not 1 <= bins < 2**32 or slots[0].max(initial=0) > 255 or slots[3].max(initial=0) > 1:
        raise TypeError("bins must fit 32 bits, word one byte and minus one bit")
    return checked


def keyed_rows(records: AnyArray, keys: AnyArray) -> list[AnyArray]:
    """Return rows of bytes, and a key to sort each by."""
    if len(keys) >= 2**32:
        raise TypeError("keys must be fewer than 2^32: a row's number is one word")
    checked = [exactly(records, np.uint8, 2, "records"), exactly(keys, np.uint32, 1, "keys")]
    same_length(records=records, keys=keys)
    return checked


def ascending(offsets: AnyArray, items: int) -> AnyArray:
    """Return offsets that cut `items` items into segments."""
    offsets = exactly(offsets, np.int64, 1, "offsets")
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != items:
        raise TypeError("offsets must run from 0 to the number of items")
    if (offsets[1:] < offsets[:-1]).any():
        raise TypeError("offsets must ascend")
    return offsets


def segments(seeds: AnyArray, offsets: AnyArray, negative: AnyArray) -> list[AnyArray]:
    """Return the columns that describe segments of items, having checked that they fit."""
    seeds = exactly(seeds, np.uint64, 1, "seeds")
    negative = exactly(negative, np.uint8, 1, "negative")
    offsets = ascending(offsets, len(negative))
    if len(offsets) != len(seeds) + 1:
        raise TypeError("seeds and offsets must describe the same segments")
    if negative.max(initial=0) > 1:
        raise TypeError("negative must be 0 or 1")
    return [seeds, offsets, negative]


def projected_ids(ids: AnyArray, negative: AnyArray, groups: int) -> AnyArray:
    """Return the ids to project on groups."""
    ids = exactly(ids, np.uint64, 1, "ids")
    same_length(ids=ids, negative=negative)
    _some_groups(groups)
    return ids


def projected_codes(codes: AnyArray, negative: AnyArray, groups: int, bits: int) -> AnyArray:
    """Return the codes to project on groups."""
    codes = exactly(codes, np.uint32, 1, "codes")
    same_length(codes=codes, negative=negative)
    _some_groups(groups)
    if not 1 <= bits <= 32:
        raise TypeError("bits must be between 1 and 32")
    return codes


def _some_groups(groups: int) -> None:
    if not 1 <= groups <= MOST_GROUPS:
        raise TypeError(f"groups must be between 1 and {MOST_GROUPS}")


def equations(
    offsets: AnyArray, order: AnyArray, rows: AnyArray, answers: AnyArray, free: AnyArray
) -> list[AnyArray]:
    """Return the columns of systems of equations over GF(2)."""
    checked = [
        ascending(offsets, len(rows)),
        exactly(order, np.uint32, 1, "order"),
        exactly(rows, np.uint32, 2, "rows"),
        exactly(answers, np.uint8, 1, "answers"),
        exactly(free, np.uint32, 2, "free"),
    ]
    if len(offsets) != len(free) + 1:
        raise TypeError("free must have one row for each segment")
    same_length(order=order, rows=rows, answers=answers)
    if rows.shape[1] != free.shape[1]:
        raise TypeError("rows and free must have the same words")
    if answers.max(initial=0) > 1:
        raise TypeError("answers must be 0 or 1")
    return checked
