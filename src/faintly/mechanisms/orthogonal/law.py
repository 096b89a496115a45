"""The exact law of a report, for enumeration: small cells only.

A set of rows is represented by the cells orthogonal to it: a mask with a bit for each of the 2^t
cells. Asking for more rows keeps the common bits of two masks, even if rows are dependent.
"""

import itertools
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from faintly import kernels
from faintly.core import FloatArray, IdArray, Universe, WordArray
from faintly.mechanisms.bit_cells import CellLaw
from faintly.mechanisms.law import SmallCase
from faintly.mechanisms.orthogonal.channel import Channel
from faintly.mechanisms.orthogonal.rows import table_rows
from faintly.primitives.noise import FULL

if TYPE_CHECKING:
    from faintly.mechanisms.orthogonal import Orthogonal


Masks = tuple[int, int]  # masks of the first m rows, and of all


class OrthogonalLaw(CellLaw):
    """The law of cells, each uniform among those orthogonal to the rows asked for."""

    mechanism: "Orthogonal"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield fewer bits than rows, so that dependent rows and full cells are enumerated."""
        mechanism = self.mechanism
        grid, rows = (0.0, 0.5, 1.0), mechanism.channel.most
        options: dict[str, Any] = {
            "rows": mechanism.channel.rows,
            "levels": len(mechanism.channel.speak),
            "maps": 1,
        }
        if not mechanism.table:
            yield SmallCase(self.small(bits=2, options=options), grid, items=3)
            yield SmallCase(self.small(bits=3, options=options), grid, items=2)
            return
        four = {"bits": rows + 2, "universe": Universe.indexed(4)}
        yield SmallCase(self.small(**four, options=options | {"blocks": 1}), grid, items=3)
        two = {"bits": rows + 1, "universe": Universe.indexed(4)}
        if mechanism.blocks > 1 and rows < 4:  # there are 2^(2b) reports of two cells
            yield SmallCase(self.small(**two, options=options | {"blocks": 2}), grid, items=3)

    def outcomes(self, items: int) -> Iterator[tuple[tuple[int, int, int], ...]]:
        """Yield every (block, mask, mask) of items: cells orthogonal to its first rows, and to all.

        In direct mode every map is included, with rows that repeat, are dependent or are 0.
        """
        yield from itertools.product(list(self._one_outcome()), repeat=items)

    def _one_outcome(self) -> Iterator[tuple[int, int, int]]:
        mechanism = self.mechanism
        if not mechanism.table:
            for masks in every_masks(mechanism.channel, mechanism.bits):
                yield 0, *masks
            return
        elements = np.arange(2**mechanism.field, dtype=np.uint32)
        for block in range(mechanism.blocks):
            for rows in table_rows(elements, mechanism.constants, mechanism.field):
                yield block, *masks_of(rows, mechanism.channel, mechanism.bits)

    def outcome_of(self, seed: int, ids: IdArray) -> tuple[tuple[int, int, int], ...]:
        """Return block and masks of each id under a seed."""
        mechanism = self.mechanism
        chosen = kernels.pick_maps(np.array([seed], dtype=np.uint64), self.plan.hashing.maps)
        blocks, rows = mechanism.rows(ids, np.repeat(chosen, len(ids)))
        return tuple(
            (block, *masks_of(own, mechanism.channel, mechanism.bits))
            for block, own in zip(blocks.tolist(), rows, strict=True)
        )

    def _cell_law(self, held: list[tuple[float, int, int]]) -> FloatArray:
        return cell_law(self.mechanism.channel, held, self.mechanism.bits)


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
    """Return the probability of every cell for items of these values, over what they ask for."""
    chances = {mask_of((), bits): 1.0}
    for value, *masks in held:
        spoken = [value * words / FULL for words in channel.speak]
        # The chance of silence comes from its own integer, so that it is exact at values of 1.
        silent = (1 - value) + value * channel.silent / FULL
        following: dict[int, float] = {}
        for mask, chance in chances.items():
            following[mask] = following.get(mask, 0.0) + chance * silent
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
