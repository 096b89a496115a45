"""Tables of orthogonal: a cell of a report is an entry, and elements of the field look it up."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from faintly import kernels
from faintly.core import Cells, ReportBatch, TableArray
from faintly.mechanisms.orthogonal import rows
from faintly.mechanisms.tables import Tables, wide_enough

if TYPE_CHECKING:
    from faintly.mechanisms.orthogonal import Orthogonal


class CellTables(Tables):
    """A table for each map and block, of counts; rows that are hashed have no table."""

    # Reports are kept sorted, and so are grouped by map.
    map_first: ClassVar[bool] = True
    signed: ClassVar[bool] = False  # there are no signs
    mechanism: "Orthogonal"

    @property
    def shape(self) -> tuple[int, int]:
        mechanism = self.mechanism
        if mechanism.plan.decode == "direct":
            return self.hashing.maps, 1
        return self.hashing.maps * mechanism.blocks, 2**mechanism.bits

    def cells(self, batch: ReportBatch) -> Cells:
        """Return B cells per report, of weight 1."""
        mechanism = self.mechanism
        if mechanism.plan.decode == "direct":
            return super().cells(batch)
        blocks, cell = mechanism.blocks, mechanism.cell_fields(batch.fields)
        tables = self.map_of(batch)[:, None] * blocks + np.arange(blocks)
        index = cell + (tables << mechanism.bits).astype(np.uint32)
        return Cells(index.ravel(), np.ones(index.size, dtype=np.int32))

    def transform(self, tables: TableArray) -> TableArray:
        """Return tables with an entry for each element of the field, the sum of its characters.

        A cell that is 0 says nothing, so it does not count.
        """
        mechanism = self.mechanism
        channel = mechanism.channel
        weights = channel.weights_of_sets
        made = tables.astype(wide_enough(tables, int(weights.sum())))
        made[:, 0] = 0
        kernels.walsh_hadamard(made)
        sums = rows.combined(mechanism.constants)
        images = rows.images(sums, mechanism.bits - channel.most)
        return kernels.fold_characters(made, images, weights)
