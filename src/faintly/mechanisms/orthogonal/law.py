"""The exact law of a report, for enumeration: small cells only.

A set of rows is known by the cells orthogonal to it, as a mask with a bit for each of the 2^t
cells. Asking for more rows keeps the common bits of two masks, even if rows are dependent.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np

from faintly.core import FloatArray, WordArray
from faintly.mechanisms.orthogonal.channel import Channel
from faintly.primitives.noise import FULL

Masks = tuple[int, int]  # masks of the first m rows, and of all


def mask_of(rows: Iterable[int], bits: int) -> int:
    """Return the cells that are orthogonal to all rows."""
    mask = (1 << (1 << bits)) - 1
    for row in rows:
        mask &= _line(row, bits)
    return mask


@lru_cache(maxsize=2**12)
def _line(row: int, bits: int) -> int:
    return sum(1 << cell for cell in range(1 << bits) if (cell & row).bit_count() % 2 == 0)


def masks_of(rows: WordArray, channel: Channel, bits: int) -> Masks:
    """Return the masks of what a key with these rows may ask for; cells are of one word."""
    listed = rows[:, 0].tolist()
    return mask_of(listed[: channel.rows], bits), mask_of(listed, bits)


def every_masks(channel: Channel, bits: int) -> Iterator[Masks]:
    """Yield the masks of all possible rows of a key, including dependent and zero ones."""
    found = {mask_of((), bits)}
    for _ in range(channel.rows):
        found = {mask & _line(row, bits) for mask in found for row in range(1 << bits)}
    for mask in sorted(found):
        if channel.most == channel.rows:
            yield mask, mask
        else:
            yield from sorted({(mask, mask & _line(row, bits)) for row in range(1 << bits)})


def cell_law(channel: Channel, held: list[tuple[float, int, int]], bits: int) -> FloatArray:
    """Return the probability of every cell, for items of these values: a mixture over askings."""
    chances = {mask_of((), bits): 1.0}
    for value, *masks in held:
        spoken = [value * words / FULL for words in channel.speak]
        # What stays silent is counted in integers, so that nothing is lost at values of 1.
        quiet = (1 - value) + value * channel.silent / FULL
        following: dict[int, float] = {}
        for mask, chance in chances.items():
            following[mask] = following.get(mask, 0.0) + chance * quiet
            for words, other in zip(spoken, masks, strict=False):
                both = mask & other
                following[both] = following.get(both, 0.0) + chance * words
        chances = following
    law = np.zeros(1 << bits)
    for mask, chance in chances.items():
        law += chance * _uniform(mask, bits)
    return law


@lru_cache(maxsize=2**14)
def _uniform(mask: int, bits: int) -> FloatArray:
    inside = np.array([mask >> cell & 1 for cell in range(1 << bits)], dtype=np.float64)
    return inside / inside.sum()
