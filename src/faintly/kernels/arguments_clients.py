"""What both implementations of the client kernels demand of their arguments."""

from collections.abc import Sequence

import numpy as np

from faintly.core.arrays import AnyArray
from faintly.kernels.arguments import ascending, exactly, same_length


def rounding(values: AnyArray, steps: int, words: AnyArray) -> list[AnyArray]:
    """Return values to round onto a grid, and a word for each."""
    checked = [exactly(values, np.float64, 1, "values"), exactly(words, np.uint32, 1, "words")]
    same_length(values=values, words=words)
    if not 1 <= steps < 2**31 or steps & (steps - 1):
        raise TypeError("steps must be a power of two below 2^31")
    return checked


def items(seeds: AnyArray, offsets: AnyArray, ids: AnyArray) -> list[AnyArray]:
    """Return the columns of clients that hold items."""
    ids = exactly(ids, np.uint64, 1, "ids")
    checked = [exactly(seeds, np.uint64, 1, "seeds"), ascending(offsets, len(ids)), ids]
    if len(offsets) != len(seeds) + 1:
        raise TypeError("seeds and offsets must describe the same clients")
    return checked


def clients(seeds: AnyArray, offsets: AnyArray, ids: AnyArray, amounts: AnyArray) -> list[AnyArray]:
    """Return the columns of clients that hold items, and how much of each."""
    same_length(ids=ids, amounts=amounts)
    return [*items(seeds, offsets, ids), exactly(amounts, np.int32, 1, "amounts")]


def binning(bins: int, family: str) -> None:
    """Refuse bins or a family that no hash serves."""
    if not 1 <= bins < 2**31 or family not in ("prf", "blake2s"):
        raise TypeError("bins must be between 1 and 2^31, and the family prf or blake2s")


def linear_width(bins: int) -> int:
    """Return the bits of a bin's number in the linear family."""
    if not 1 <= bins <= 2**16 or bins & (bins - 1):
        raise TypeError("bins must be a power of two up to 2^16")
    return bins.bit_length() - 1


def linear_fields(seeds: AnyArray, fields: AnyArray, center: int) -> tuple[AnyArray, AnyArray, int]:
    """Return the columns of linear reports and the bits of a bin's number."""
    seeds, fields = exactly(seeds, np.uint64, 1, "seeds"), exactly(fields, np.uint32, 2, "fields")
    same_length(seeds=seeds, fields=fields)
    width = linear_width(fields.shape[1])
    if not 0 <= center << width < 2**31:
        raise TypeError("bins times center must fit 31 bits")
    return seeds, fields, width


def map_count(maps: int) -> None:
    """Refuse a number of maps that a hash word cannot choose from."""
    if not 1 <= maps < 2**31:
        raise TypeError("maps must be between 1 and 2^31")


def word(value: int, name: str) -> None:
    """Refuse an integer that 32 bits do not hold."""
    if not 0 <= value < 2**32:
        raise TypeError(f"{name} must fit 32 bits")


def word_request(seeds: AnyArray, ids: AnyArray, tag: int, count: int) -> list[AnyArray]:
    """Return seeds and ids that pair up, having checked that tag and count fit their bytes."""
    checked = [exactly(seeds, np.uint64, 1, "seeds"), exactly(ids, np.uint64, 1, "ids")]
    if len(seeds) != len(ids) or not 0 <= tag < 256 or not 0 <= count <= 256:
        raise TypeError("seeds and ids must pair up, and tag and count fit one byte")
    return checked


def strings(data: AnyArray, offsets: AnyArray, salt: bytes) -> list[AnyArray]:
    """Return byte strings that stand one after another, and where each begins."""
    data = exactly(data, np.uint8, 1, "data")
    if not 1 <= len(salt) <= 32:
        raise TypeError("salt must have 1 to 32 bytes")
    return [data, ascending(offsets, len(data))]


def _record_bytes(seed_bytes: int, widths: Sequence[int]) -> int:
    if not 0 <= seed_bytes <= 8 or not all(1 <= width <= 32 for width in widths):
        raise TypeError("a seed has at most 8 bytes, and a field 1 to 32 bits")
    return seed_bytes + (sum(widths) + 7) // 8


def report_columns(
    seeds: AnyArray, fields: AnyArray, seed_bytes: int, widths: Sequence[int]
) -> tuple[AnyArray, AnyArray, int]:
    """Return the columns of reports and the bytes of a record."""
    seeds, fields = exactly(seeds, np.uint64, 1, "seeds"), exactly(fields, np.uint32, 2, "fields")
    same_length(seeds=seeds, fields=fields)
    if fields.shape[1] != len(widths):
        raise TypeError("fields must have a column for each width")
    return seeds, fields, _record_bytes(seed_bytes, widths)


def records(
    given: AnyArray, seed_bytes: int, widths: Sequence[int], limits: Sequence[int]
) -> AnyArray:
    """Return records that have just the bytes of their fields."""
    given = exactly(given, np.uint8, 2, "records")
    if given.shape[1] != _record_bytes(seed_bytes, widths):
        raise TypeError("records must have the bytes of the seed and of all fields")
    if len(limits) != len(widths) or not all(
        1 <= limit <= 2**width for limit, width in zip(limits, widths, strict=True)
    ):
        raise TypeError("limits must be between 1 and what the width of a field can hold")
    return given
