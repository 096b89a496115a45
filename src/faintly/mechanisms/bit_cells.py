"""Reports of cells: what retrieval and orthogonal share.

A report holds B cells of t bits, one for each public block of keys, and the number of its public
map where there are several. A cell of more than 32 bits takes several fields, the last one
narrower. In table mode a cell is an entry of a table, one table for each map and block.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from faintly.core import Layout
from faintly.core.arrays import AnyArray, FloatArray, IntArray, WordArray
from faintly.core.plan import MAX_BITS, SEED_BYTES
from faintly.mechanisms import parameters as require
from faintly.mechanisms.base import Planned
from faintly.mechanisms.forecast import Forecast
from faintly.mechanisms.law import Law, joint
from faintly.mechanisms.request import Request
from faintly.mechanisms.tables import ENTRY_BYTES

LEAST_CELLS, CELLS_PER_CLIENT = 2**23, 2**10  # 32 MiB, or 4 KiB for each client
MAX_BLOCKS = 4096


@dataclass(frozen=True, slots=True)
class CellShape:
    """Sizes of one report: bits of a cell, cells, and public maps (0 in the prf family)."""

    bits: int
    blocks: int = 1
    maps: int = 0

    @property
    def seed_bytes(self) -> int:
        """Return the bytes of seed that are sent: none where the maps are public."""
        return 0 if self.maps else SEED_BYTES["prf"]

    @property
    def record_bytes(self) -> int:
        """Return the bytes of a report."""
        map_bits = max(1, self.maps).bit_length() - 1
        return self.seed_bytes + (self.bits * self.blocks + map_bits + 7) // 8

    @property
    def cells(self) -> int:
        """Return the integers of all tables together."""
        return self.maps * self.blocks << self.bits

    def fits(self, memory: int, max_bytes: int | None) -> bool:
        """Return whether the tables fit the memory, and a report the bytes."""
        small = max_bytes is None or self.record_bytes <= max_bytes
        return small and ENTRY_BYTES * self.cells <= memory


Sized = TypeVar("Sized", bound=CellShape)


class FixedSizes(NamedTuple):
    """Sizes that a request fixes; None leaves one open."""

    bits: int | None
    blocks: int | None
    maps: int | None
    max_bytes: int | None


def smallest(shapes: Sequence[Sized], clients: int) -> Sized | None:
    """Return the shape of the fewest bytes, then of the smallest tables.

    Saving a byte is not worth tables far larger than the reports could fill.
    """
    limit = max(LEAST_CELLS, CELLS_PER_CLIENT * clients)
    few = [one for one in shapes if one.cells <= limit] or shapes
    return min(few, key=lambda one: (one.record_bytes, one.cells), default=None)


def fixed_sizes(request: Request, owner: str, limits: Mapping[str, int]) -> list[int | None]:
    """Return the sizes that a request fixes, each up to its limit; None leaves one open."""
    given = {name: value for name, value in request.options.items() if value is not None}
    for name in ("bits", "maps"):
        given.setdefault(name, getattr(request, name))
    found = [given.pop(name, None) for name in limits]
    require.none_left(given, owner, ", ".join(limits))
    for value, (name, most) in zip(found, limits.items(), strict=True):
        if value is not None:
            require.integer(value, name, 1, most)
    return found


def doubled(least: int, most: int) -> list[int]:
    """Return least, 2·least, 4·least, … up to most."""
    return [least << step for step in range((most // least).bit_length())]


def naming_bits(size: int | None, blocks: int) -> int:
    """Return the fewest bits of a code within its block that distinguish all keys."""
    codes = 1 if size is None else max(1, (size - 1).bit_length())
    return max(1, codes - (blocks.bit_length() - 1))


def code_bits(inside: int, blocks: int, size: int | None) -> int:
    """Return the bits of the codes of public maps, before each is split into block and cell.

    Args:
        inside: bits of a code within its block.
        blocks: number of blocks.
        size: number of keys; None where the universe is open.
    """
    if blocks == 1:
        return inside
    # Keys never share a code if all codes fit: 2^D ≤ B·2^inside. An open universe is folded anyway.
    return MAX_BITS if size is None else inside + blocks.bit_length() - 1


class CellForecast(Forecast):
    """What forecasts of cells share."""

    mechanism: "BitCells"

    def pair_covariance(self) -> float:
        """Return 0: every item answers with a coin of its own."""
        return 0.0


class CellLaw(Law):
    """The law of a report from those of its cells, which are independent."""

    mechanism: "BitCells"

    def report_number(self, fields: WordArray, seed: int) -> IntArray:  # noqa: ARG002
        """Return where `probabilities` has each report: it leaves the map's number out."""
        numbers = np.zeros(len(fields), dtype=np.int64)
        for cell in self.mechanism.cell_fields(fields).T:
            numbers = numbers * 2**self.mechanism.bits + cell
        return numbers

    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of all cells of a report, given the map that it names.

        An item's entry in the outcome begins with its block. Items are eliminated in the order
        given, unless a fourth element of the entry ranks them.
        """
        placed = sorted(zip(outcome, values, strict=True), key=lambda pair: pair[0][3:])
        return joint(
            self._cell_law([(value, *place[1:3]) for place, value in placed if place[0] == block])
            for block in range(self.mechanism.blocks)
        )

    @abstractmethod
    def _cell_law(self, held: list[tuple[float, int, int]]) -> FloatArray:
        """Return the probability of every cell, given the items of one block."""


class BitCells(Planned):
    """A mechanism whose reports are cells of bits."""

    bits: int  # of one cell
    blocks: int  # B: cells of a report

    @property
    def words(self) -> int:
        """Return how many fields a cell takes."""
        return -(-self.bits // 32)

    @cached_property
    def layout(self) -> Layout:
        cell = (32,) * (self.bits // 32) + (self.bits % 32,) * (self.bits % 32 > 0)
        seed_bytes = 0 if self.plan.hashing.linear else self.plan.hashing.seed_bytes
        return self.tables.layout(cell * self.blocks, seed_bytes)

    @cached_property
    def _low_bits(self) -> WordArray:
        """Return the mask of each word of a cell: the last one may be narrower."""
        return np.array(
            [2 ** min(32, self.bits - 32 * word) - 1 for word in range(self.words)], np.uint32
        )

    def cell_fields(self, fields: WordArray) -> WordArray:
        """Return (reports, fields) without the number of the map."""
        first = int(self.tables.map_first and self.tables.map_bits > 0)
        return fields[:, first : first + self.blocks * self.words]

    def split(self, codes: AnyArray, inside: int) -> tuple[IntArray, WordArray]:
        """Return the block of each code of the public maps, and its `inside` bits there."""
        blocks, low = np.uint32(self.blocks), np.uint32(2**inside - 1)
        return (codes % blocks).astype(np.int64), (codes // blocks & low).astype(np.uint32)

    def _segments(self, owners: IntArray, blocks: IntArray, clients: int) -> tuple[IntArray, ...]:
        """Return the items sorted by client and block, and how many each block has."""
        segment = owners * self.blocks + blocks
        counts = np.bincount(segment, minlength=clients * self.blocks)
        return np.argsort(segment, kind="stable"), counts
