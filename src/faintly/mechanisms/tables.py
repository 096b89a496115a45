"""Table decoding: cells of tables, whose transform holds the sums of all keys at once.

Every mechanism has such a part, `mechanism.tables`, for the server. One that decodes by tables
derives a class of its own with `cells`, and whatever else differs from one table per map:

    tables = cached_property(MyTables)
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from faintly import kernels
from faintly.core import Cells, Hashing, Layout, ReportBatch, Sketch, SketchShape, TableArray
from faintly.core.arrays import AnyArray, FloatArray, IdArray, IntArray, NarrowArray, WordArray
from faintly.errors import InvalidPlan
from faintly.mechanisms.part import Part
from faintly.primitives import hashing
from faintly.primitives.hashing import LinearMaps

ENTRY_BYTES = 4  # of a table: integers of 32 bits up to 2^31 reports
READ_AT_ONCE = 2**18  # reports whose cells are in memory at once


class Tables(Part):
    """What a sketch keeps of reports, and how keys are read from it by public maps."""

    map_first: ClassVar[bool] = False  # whether the map's number is the first field, not the last
    signed: ClassVar[bool] = True  # whether a key's public sign multiplies what a map holds for it

    @property
    def hashing(self) -> Hashing:
        """Return the plan's hash family and sizes."""
        return self.plan.hashing

    @cached_property
    def maps(self) -> LinearMaps:
        """Return the public maps of the linear family."""
        return LinearMaps(self.hashing, self.plan.salt, self.plan.universe.size)

    @property
    def map_bits(self) -> int:
        """Return the bits of the number of a map."""
        return max(1, self.hashing.maps).bit_length() - 1

    def layout(self, widths: tuple[int, ...], seed_bytes: int = 0) -> Layout:
        """Return the layout of such fields and, if there are several maps, the number of one."""
        number = (self.map_bits,) * (self.map_bits > 0)
        widths = number + widths if self.map_first else widths + number
        limits = tuple(2**width for width in widths)
        return Layout(seed_bytes=seed_bytes, widths=widths, limits=limits)

    def numbered(self, fields: WordArray, maps: AnyArray) -> WordArray:
        """Return the fields of reports with the number of each one's map, if there are several."""
        if not self.map_bits:
            return fields
        column = maps.astype(np.uint32)[:, None]
        return np.concatenate([column, fields] if self.map_first else [fields, column], axis=1)

    def map_of(self, batch: ReportBatch) -> IntArray:
        """Return the public map that each report uses; zeros where there are no maps.

        A report without a seed carries the number of its map.
        """
        if self.hashing.maps <= 1:  # families without maps have 0
            return np.zeros(len(batch), dtype=np.int64)
        if self.mechanism.layout.seed_bytes:
            return kernels.pick_maps(batch.hash_seeds, self.hashing.maps)
        return batch.fields[:, 0 if self.map_first else -1].astype(np.int64)

    @property
    def shape(self) -> tuple[int, int]:
        """Return rows and columns of the tables of table decoding."""
        return self.hashing.maps, 2**self.hashing.bits

    @property
    def sketch_shape(self) -> SketchShape:
        """Return what a sketch of this plan holds."""
        tables = self.shape if self.plan.decode == "table" else None
        return SketchShape(tables, self.mechanism.layout.limits)

    def empty_sketch(self) -> Sketch:
        """Return the sketch of no reports."""
        return Sketch.empty(self.plan, self.sketch_shape)

    def cells(self, batch: ReportBatch) -> Cells:  # noqa: ARG002  # for mechanisms with tables
        """Return what the reports add to the tables."""
        raise TypeError(f"{self.mechanism.name} decodes directly; it has no cells")

    def squares(self, batch: ReportBatch) -> int:  # noqa: ARG002  # for mechanisms that need it
        """Return the sum of squares that `variance` needs; 0 where it needs none."""
        return 0

    def transform(self, tables: TableArray) -> TableArray:
        """Return new tables in which every key can be looked up."""
        made = tables.copy()
        kernels.walsh_hadamard(made)
        return made

    def gather(self, transformed: TableArray, ids: IdArray) -> IntArray:
        """Return (2, ids): sum and largest, over the maps, of what transformed tables hold."""
        blocks = self.shape[0] // self.maps.maps
        return kernels.gather(transformed, ids, self.maps, blocks, signed=self.signed)

    def gather_map(self, tables: TableArray, ids: IdArray, j: int) -> tuple[IntArray, float, int]:
        """Return what map j holds for each id, and its sum of squares and number of entries.

        Args:
            tables: those of this map alone, not transformed.
            ids: of keys.
            j: the map.
        """
        made = self.transform(tables)
        if len(made) != len(tables):
            raise InvalidPlan(
                f"{self.mechanism.name} needs all tables for a variance; they cannot be read map "
                "by map"
            )
        found = kernels.gather(made, ids, self.maps.only(j), len(tables), signed=self.signed)
        flat = made.reshape(-1).astype(np.float64)
        return found[0], float(flat @ flat), len(flat)

    def variance(
        self,
        transformed: TableArray,  # noqa: ARG002  # for tables that show more
        sketch: Sketch,
        ids: IdArray,
        means: FloatArray,
    ) -> FloatArray:
        """Return the mechanism's `variance`, given the transformed tables."""
        return self.mechanism.variance(sketch, ids, means)

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return what `gather` over all maps would give, from the cells of the reports."""
        rows, columns = self.shape
        bits, low = np.uint32(columns.bit_length() - 1), np.uint32(columns - 1)
        totals = np.zeros(len(ids), dtype=np.int64)
        used = np.unique(self.map_of(batch)).tolist()  # few, where an audit reads one report
        lookups = list(self._lookups(ids, bits, used))
        for start in range(0, len(batch), READ_AT_ONCE):
            cells = self.cells(batch.take(slice(start, start + READ_AT_ONCE)))
            by_row = _by_row(cells, bits, rows)
            for row, keys, codes, signs in lookups:
                index, weight = by_row[row]
                totals[keys] += signs * kernels.read_cells(index & low, weight, codes)
        return totals

    def _lookups(
        self, ids: IdArray, bits: np.uint32, maps: list[int]
    ) -> Iterator[tuple[int, AnyArray, WordArray, IntArray]]:
        """Yield for each table of these maps which ids it holds, their codes and their signs."""
        for j in maps:
            entries, signs = self.entries(ids, j), hashing.to_signs(self.flips(ids, j))
            rows = entries >> bits
            for row in np.unique(rows).tolist():
                keys = np.flatnonzero(rows == row)
                yield row, keys, entries[keys] & np.uint32((1 << int(bits)) - 1), signs[keys]

    def entries(self, ids: IdArray, j: int) -> WordArray:
        """Return the entry of the transformed tables, numbered together, that map j has for ids."""
        return self.codes(ids, j) + np.uint32(j * self.shape[1])

    def codes(self, ids: IdArray, j: int) -> WordArray:
        """Return the code of each id in the public map j."""
        maps = self.maps
        if maps.bijective:
            return kernels.map_codes(ids, maps.factor[j], maps.offset[j], maps.bits)
        folded = kernels.hash_ids(int(maps.fold_key[j]), ids, hashing.FOLD)
        return folded & np.uint32(2**maps.bits - 1)

    def flips(self, ids: IdArray, j: int) -> WordArray:
        """Return words whose lowest bit says where the public sign of map j is -1."""
        return kernels.hash_ids(int(self.maps.mask_key[j]), ids, hashing.MASK)


def wide_enough(tables: TableArray, factor: int) -> np.dtype[Any]:
    """Return the type of integers that hold `factor` times the mass of any of the tables."""
    heaviest = max(kernels.total_mass(one) for one in np.split(tables, len(tables)))
    wide = heaviest * factor >= 2 ** (8 * tables.itemsize - 1)
    return np.dtype(np.int64) if wide else tables.dtype


def _by_row(cells: Cells, bits: np.uint32, rows: int) -> list[tuple[WordArray, NarrowArray]]:
    """Return the cells of each table."""
    if rows == 1:
        return [(cells.index, cells.weight)]
    owners = (cells.index >> bits).astype(np.uint16 if rows <= 2**16 else np.uint32)
    order = np.argsort(owners, kind="stable")  # of 16 bits, by radix
    ends = np.cumsum(np.bincount(owners, minlength=rows))[:-1]
    index, weight = cells.index[order], cells.weight[order]
    return list(zip(np.split(index, ends), np.split(weight, ends), strict=True))
