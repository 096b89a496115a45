"""Tables of rows and bins: what reports add to them, and how all codes are read.

dense     an entry for each row; one bin needs no more than the transform
unsigned  an entry for each cell; after the transform a code reads b·C - n, where C counts the
          reports in its bin
bins      two entries for each cell, one for each sign. Their differences, transformed, give the
          estimates. Their sums give counts, whose share of all reports gives the variance at a
          key, since keys that more people hold have fuller bins
"""

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from faintly import kernels
from faintly.core import Cells, FloatArray, IdArray, IntArray, ReportBatch, Sketch, TableArray
from faintly.mechanisms.tables import Tables, wide_enough
from faintly.primitives import hashing

if TYPE_CHECKING:
    from faintly.mechanisms.projection_choice import ProjectionChoice

AT_ONCE = 2**19  # entries of tables that are split by sign while they stay in the cache


class DenseTables(Tables):
    """Tables of rows; what a report adds has its sign."""

    mechanism: "ProjectionChoice"

    def cells(self, batch: ReportBatch) -> Cells:
        """Return one cell of weight +1 or -1 per report."""
        sent, one = batch.fields[:, 0], np.uint32(1)
        if self.mechanism.plan.decode == "table":
            rows, minus = batch.fields[:, 1], sent
        else:
            rows, minus = self.mechanism.rows(batch.hash_seeds, sent >> one), sent & one
        table = self.map_of(batch).astype(np.uint32) << np.uint32(self.hashing.bits)
        return Cells(table | rows, 1 - 2 * minus.astype(np.int32))


class UnsignedTables(Tables):
    """Tables of the counts of all cells."""

    signed: ClassVar[bool] = False
    mechanism: "ProjectionChoice"

    def cells(self, batch: ReportBatch) -> Cells:
        """Return the entry that each report adds 1 to: that of its cell."""
        table = self.map_of(batch).astype(np.uint32) << np.uint32(self.hashing.bits)
        return Cells(table | batch.fields[:, 0], np.ones(len(batch), dtype=np.int32))

    def transform(self, tables: TableArray) -> TableArray:
        """Return tables of all codes, by way of the characters of their bins.

        Every report reads up to b at the codes of its bin.
        """
        bins = self.mechanism.linear_bins
        wide = tables.astype(wide_enough(tables, bins.bins), copy=False)
        made = kernels.spread_bins(wide, bins)
        kernels.walsh_hadamard(made)
        return made

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return what tables of these reports would give for each id, one key at a time."""
        bins, maps = self.mechanism.linear_bins, self.map_of(batch)
        rows, where = np.divmod(batch.fields[:, int(bins.signed)], np.uint32(bins.bins))
        sent, found = hashing.to_signs(batch.fields[:, 0]), np.zeros(len(ids), dtype=np.int64)
        for position, one in enumerate(ids):
            mine = np.full(len(batch), one)
            place = bins.places(rows, self.maps.codes(mine, maps))
            hit = place >> np.uint32(bins.signed) == where
            if bins.signed:
                signs = sent * hashing.to_signs(place) * self.maps.masks(mine, maps)
                found[position] = signs[hit].sum()
            else:
                found[position] = bins.bins * np.count_nonzero(hit) - len(batch)
        return found


class SignedTables(UnsignedTables):
    """Tables of the counts of both signs of all cells."""

    signed: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        return self.hashing.maps, 2 ** (self.hashing.bits + 1)

    def cells(self, batch: ReportBatch) -> Cells:
        """Return the entry that each report adds 1 to: that of its cell and its sign."""
        cell = batch.fields[:, 1] << np.uint32(1) | batch.fields[:, 0]
        index = self.map_of(batch).astype(np.uint32) << np.uint32(self.hashing.bits + 1) | cell
        return Cells(index, np.ones(len(batch), dtype=np.int32))

    def transform(self, tables: TableArray) -> TableArray:
        """Return a row of estimates for each map, and below them a row of counts for each."""
        bins = self.mechanism.linear_bins
        unsigned = replace(bins, signed=False)
        tables = tables.astype(wide_enough(tables, bins.bins), copy=False)
        maps, codes = len(tables), tables.shape[1] // 2
        made = np.empty((2, maps, codes), dtype=tables.dtype)
        many = max(1, AT_ONCE // codes)
        buffer = np.empty((min(many, maps), codes), dtype=tables.dtype)
        for start in range(0, maps, many):
            some = slice(start, min(start + many, maps))
            plus, minus = tables[some, 0::2], tables[some, 1::2]
            here = buffer[: len(plus)]
            kernels.spread_bins(np.subtract(plus, minus, out=here), bins, made[0, some])
            kernels.spread_bins(np.add(plus, minus, out=here), unsigned, made[1, some])
        made = made.reshape(2 * maps, codes)
        kernels.walsh_hadamard(made)
        made[:maps] >>= bins.width  # exact: each is b times a sum over reports
        return made

    def gather(self, transformed: TableArray, ids: IdArray) -> IntArray:
        """Return (2, ids): sum and largest over the maps; the rows below them hold counts."""
        return super().gather(transformed[: self.hashing.maps], ids)

    def variance(
        self, transformed: TableArray, sketch: Sketch, ids: IdArray, means: FloatArray
    ) -> FloatArray:
        """Return n·Var from the counts of the tables at each id."""
        counts = kernels.gather(transformed[self.hashing.maps :], ids, self.maps, 1, signed=False)[
            0
        ]
        hits = (counts + sketch.count) // self.mechanism.bins
        return self.mechanism.variance_of_hits(hits, sketch.count, means)


def tables_of(mechanism: "ProjectionChoice") -> Tables:
    """Return the tables of a form."""
    forms = {"dense": DenseTables, "bins": SignedTables, "unsigned": UnsignedTables}
    return forms[mechanism.form](mechanism)
