"""Ingestion: batches of reports become one sketch, and memory does not grow in table mode."""

from collections.abc import Iterable

import numpy as np

from faintly import kernels
from faintly.core import Plan, ReportBatch, Sketch
from faintly.core.sketch import sorted_columns
from faintly.errors import Reject, ReportRejected
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1


class Aggregator:
    """Counts reports of one plan; ask for the `sketch` at any time."""

    def __init__(self, plan: Plan) -> None:
        self.mechanism = mechanism_of(plan)
        self._base = self.mechanism.empty_sketch()
        self._reports = self._base.reports
        self._tables = self._base.tables
        self._squares = self._mass = 0
        self._kept: list[ReportBatch] = []

    def add(self, batch: ReportBatch) -> None:
        """Count every report of the batch."""
        plan = self._base.plan
        if batch.plan_digest != plan.digest:
            raise ReportRejected(
                Reject.OTHER_PLAN,
                f"the batch belongs to plan {batch.plan_digest.hex()}, not {plan.digest.hex()}",
            )
        if not len(batch):
            return
        self._reports += np.bincount(self.mechanism.map_of(batch), minlength=len(self._reports))
        self._squares += self.mechanism.squares(batch)
        if self._tables is None:
            self._kept.append(batch)
            return
        cells = self.mechanism.cells(batch)
        try:
            self._mass = kernels.scatter_add(self._tables, cells.index, cells.weight, self._mass)
        except OverflowError:
            if self._tables.dtype == np.int64:
                raise
            self._tables = self._tables.astype(np.int64)
            self._mass = kernels.scatter_add(self._tables, cells.index, cells.weight, self._mass)

    def sketch(self) -> Sketch:
        """Return the sketch of everything counted so far, independent of further additions."""
        plan = self._base.plan
        if self._tables is not None:
            tables = self._tables.copy()
            return Sketch(plan, self._reports.copy(), self._squares, self._mass, tables=tables)
        width = len(self.mechanism.layout.widths)
        seeds, fields = sorted_columns(
            np.concatenate([np.zeros(0, np.uint64), *(b.hash_seeds for b in self._kept)]),
            np.concatenate([np.zeros((0, width), np.uint32), *(b.fields for b in self._kept)]),
        )
        return Sketch(plan, self._reports.copy(), self._squares, hash_seeds=seeds, fields=fields)


def aggregate(plan: Plan, batches: Iterable[ReportBatch]) -> Sketch:
    """Return the sketch of all the batches."""
    aggregator = Aggregator(plan)
    for batch in batches:
        aggregator.add(batch)
    return aggregator.sketch()


def decode(plan: Plan, data: bytes) -> ReportBatch:
    """Return the batch of reports that a client sent, or raise `ReportRejected` with the reason."""
    return report_v1.decode_batch(data, plan.digest, mechanism_of(plan).layout)
