"""Ingestion: batches of reports become one sketch, in bounded memory.

In table mode a report is added to the tables and forgotten. In direct mode reports are kept;
with a folder to spool to, at most a few million of them are in memory.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np

from faintly import kernels
from faintly.core import Cells, Plan, ReportBatch, Sketch, WordArray
from faintly.core.arguments import instance
from faintly.core.estimate import LEVEL
from faintly.core.sketch import table_type
from faintly.engine import columns
from faintly.engine.answers import Reader
from faintly.errors import InvalidInput, Reject, ReportRejected
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1

SLICE = 2**15  # reports whose cells are made at a time: they stay in the cache
KEPT = 2**22  # reports of direct mode that are kept in memory before they are spooled
FEW = 8  # columns: with fewer, scanning them one by one is faster than row by row


class Aggregator:
    """Counts reports of one plan; ask for the `sketch` or a `reader` at any time."""

    def __init__(self, plan: Plan, spool: Path | None = None) -> None:
        """Start with no reports.

        Args:
            plan: what the reports were made under.
            spool: a folder for reports of direct mode that are too many for memory. Its files
                have no names and vanish with the aggregator and its sketches.
        """
        instance(plan, Plan, "plan", "as make_plan returns it")
        self.mechanism = mechanism_of(plan)
        self.plan, self._spool = plan, spool
        base = self.mechanism.tables.empty_sketch()
        self._reports, self._tables = base.reports, base.tables
        self._squares = self._mass = 0
        self._bound = 0  # on the entries of the tables and of their transform
        self._recent: list[ReportBatch] = []
        self._runs: list[columns.Columns] = []
        self._reader: Reader | None = None

    @classmethod
    def resume(cls, sketch: Sketch, spool: Path | None = None) -> Self:
        """Return an aggregator that has counted the reports of a sketch, which stays as it is."""
        made = cls(sketch.plan, spool)
        made._reports, made._squares = sketch.reports.copy(), sketch.squares
        made._mass = made._bound = sketch.mass
        if sketch.tables is not None:
            made._tables = sketch.tables.copy()
        else:
            assert sketch.hash_seeds is not None and sketch.fields is not None
            made._runs = [(sketch.hash_seeds, sketch.fields)]
        return made

    @property
    def count(self) -> int:
        """Return the number of reports counted."""
        return int(self._reports.sum())

    def add(self, batch: ReportBatch) -> None:
        """Count every report of the batch."""
        instance(batch, ReportBatch, "batch", "as decode returns it")
        if batch.plan_digest != self.plan.digest:
            raise ReportRejected(
                Reject.OTHER_PLAN,
                f"the batch belongs to plan {batch.plan_digest.hex()}, "
                f"not {self.plan.digest.hex()}",
            )
        if not len(batch):
            return
        self._check_limits(batch)
        self._reader = None
        for start in range(0, len(batch), SLICE):
            self._count(batch.take(slice(start, start + SLICE)))
        if self._tables is None:
            self._recent.append(batch)
            if self._spool is not None and sum(map(len, self._recent)) >= KEPT:
                self._runs.append(columns.spill([self._sorted()], self._width, self._spool))
                self._recent = []

    def _check_limits(self, batch: ReportBatch) -> None:
        """Refuse a batch that `decode` could not have made, before counting."""
        limits = self.mechanism.layout.limits
        seeds, fields = batch.hash_seeds, batch.fields
        typed = seeds.dtype == np.uint64 and fields.dtype == np.uint32
        if not typed or fields.shape != (len(batch), len(limits)):
            raise TypeError("a batch has uint64 seeds and a uint32 row of fields for each")
        # Most layouts have one limit, and a single maximum is several times as fast.
        most = fields.max() if len(set(limits)) == 1 else _largest(fields)
        if np.any(most >= np.array(limits, dtype=np.uint64)):
            raise ReportRejected(Reject.OUT_OF_RANGE, "a field of a report is not below its limit")

    def _count(self, batch: ReportBatch) -> None:
        if self._tables is not None:
            self._scatter(self.mechanism.tables.cells(batch))
        if len(self._reports) == 1:
            self._reports += len(batch)
        else:
            maps = self.mechanism.tables.map_of(batch)
            self._reports += np.bincount(maps, minlength=len(self._reports))
        self._squares += self.mechanism.tables.squares(batch)

    def _scatter(self, cells: Cells) -> None:
        for make_room in (self._weigh, self._widen):
            try:
                return self._add(cells)
            except OverflowError:
                make_room()
        return self._add(cells)

    def _add(self, cells: Cells) -> None:
        assert self._tables is not None
        after = kernels.scatter_add(self._tables, cells.index, cells.weight, self._bound)
        self._mass += after - self._bound
        self._bound = after

    def _weigh(self) -> None:
        # Weights cancel: what the tables hold is often far below all that was added.
        assert self._tables is not None
        self._bound = kernels.total_mass(self._tables)

    def _widen(self) -> None:
        assert self._tables is not None
        self._tables = self._tables.astype(np.int64)

    @property
    def _width(self) -> int:
        return len(self.mechanism.layout.widths)

    def _sorted(self) -> columns.Columns:
        parts = [(batch.hash_seeds, batch.fields) for batch in self._recent]
        return columns.join(parts, self._width)

    def sketch(self) -> Sketch:
        """Return the sketch of everything counted so far, independent of further additions."""
        counts = Sketch(self.plan, self._reports.copy(), self._squares, self._mass)
        if self._tables is not None:
            return replace(counts, tables=self._tables.astype(table_type(self._mass)))
        runs = [*self._runs, self._sorted()]
        seeds, fields = columns.merge_runs(runs, self._width, self._spool)
        return replace(counts, hash_seeds=seeds, fields=fields)

    def reader(self, level: float = LEVEL) -> Reader:
        """Return a reader of everything counted so far.

        Its transform is made once, and used until more is added. It keeps no second copy of the
        tables, so `reader.sketch` has counts but no tables.
        """
        if self._reader is None:
            if self._tables is None:
                self._reader = Reader(self.sketch(), mechanism=self.mechanism)
            else:
                counts = Sketch(self.plan, self._reports.copy(), self._squares, self._mass)
                made = self.mechanism.tables.transform(self._tables)
                self._reader = Reader(counts, transformed=made, mechanism=self.mechanism)
        return self._reader.at(level)


def aggregate(plan: Plan, batches: Iterable[ReportBatch], spool: Path | None = None) -> Sketch:
    """Return the sketch of all the batches, one of them in memory at a time."""
    aggregator = Aggregator(plan, spool)
    if not isinstance(batches, Iterable):
        raise InvalidInput("batches must be a list of ReportBatches, as decode returns them")
    for batch in batches:
        aggregator.add(batch)
    return aggregator.sketch()


def decode(plan: Plan, data: bytes) -> ReportBatch:
    """Return the batch of reports that a client sent, or raise `ReportRejected` with the reason."""
    instance(plan, Plan, "plan", "as make_plan returns it")
    instance(data, bytes, "data", "as Client.encode returns it")
    return report_v1.decode_batch(data, plan.digest, mechanism_of(plan).layout)


def _largest(fields: WordArray) -> WordArray:
    """Return the largest entry of each column."""
    if fields.shape[1] < FEW:
        return np.array([column.max() for column in fields.T])
    return fields.max(axis=0)
