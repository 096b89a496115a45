"""From a binary column to reports: decoding is strict, and what it refuses is counted.

A value as long as a record of the plan is one record, as segments hold them; any other must be a
batch, as clients send them. Without Spark: Arrow and numpy only.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from faintly.core import AnyArray, Plan, ReportBatch
from faintly.errors import ReportRejected
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1

if TYPE_CHECKING:
    import pyarrow as pa


class Sifter:
    """Decodes columns of one plan; counts what it refuses by reason, and keeps it on request."""

    def __init__(self, plan: Plan, *, strict: bool = False, keep: bool = False) -> None:
        """Start with nothing refused.

        Args:
            plan: what the reports were made under.
            strict: raise at the first value that is refused.
            keep: hold refused values in `refused` until the caller takes them.
        """
        self._digest, self._layout = plan.digest, mechanism_of(plan).layout
        self._strict, self._keep = strict, keep
        self.counts: Counter[str] = Counter()
        self.refused: list[tuple[str, bytes]] = []

    def batches(self, values: "pa.Array") -> Iterator[ReportBatch]:
        """Yield the reports of a column; a missing value counts as one without bytes."""
        if not len(values):
            return
        data, ends = _flat(values)
        starts, width = ends[:-1], self._layout.record_bytes
        single = np.diff(ends) == width
        records = data[starts[0] : ends[-1]]
        if not single.all():
            kept = np.repeat(single, np.diff(ends))
            records = records[kept]
        yield from self._sifted(records.reshape(-1, width))
        for row in np.flatnonzero(~single).tolist():
            batch = self._decoded(data[starts[row] : ends[row + 1]].tobytes())
            if batch is not None:
                yield batch

    def _sifted(self, records: AnyArray) -> Iterator[ReportBatch]:
        """Yield the valid records; an array with an invalid one is tried again in halves."""
        try:
            if len(records):
                yield report_v1.unpack(records, self._digest, self._layout)
        except ReportRejected as error:
            if len(records) == 1:
                self._refuse(error, records.tobytes())
                return
            middle = len(records) // 2
            yield from self._sifted(records[:middle])
            yield from self._sifted(records[middle:])

    def _decoded(self, data: bytes) -> ReportBatch | None:
        try:
            return report_v1.decode_batch(data, self._digest, self._layout)
        except ReportRejected as error:
            self._refuse(error, data)
            return None

    def _refuse(self, error: ReportRejected, data: bytes) -> None:
        if self._strict:
            raise error
        self.counts[error.code] += 1
        if self._keep:
            self.refused.append((str(error.code), data))


def _flat(values: "pa.Array") -> tuple[AnyArray, AnyArray]:
    """Return all bytes of a column, and where its values start and end among them."""
    import pyarrow as pa

    if values.null_count or pa.types.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary()).fill_null(b"")
    wide = pa.types.is_large_binary(values.type)
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)
    ends = ends[values.offset : values.offset + len(values) + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8), ends
