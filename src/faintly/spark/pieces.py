"""What travels between tasks: integer tables in pieces, and counts. Without Spark.

A task turns its reports into rows (piece, data). Rows of the same piece add up, in any order and
any number of steps, so their volume depends on the tables and the tasks, and not on the reports.

piece ≥ 0   entries piece·span, … of a flat array, as 32- or 64-bit integers
COUNTS      reports of each map, squares, mass, and what was refused by reason, as JSON
SAMPLE      some reports of a direct plan, for variances: those whose hashes are smallest
"""

import json
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from faintly import kernels
from faintly.core import AnyArray, IdArray, IntArray, Plan, ReportBatch, Sketch
from faintly.core.sketch import sorted_columns
from faintly.engine.aggregate import SLICE, Aggregator
from faintly.mechanisms import Mechanism, mechanism_of
from faintly.wire import report_v1

COUNTS, SAMPLE = -1, -2
SPAN = 2**18  # entries of a piece: a mebibyte or two
FAN_IN = 32  # partial tables that one task adds up
TOGETHER = 4  # pieces of each that it adds up: 128 MiB as they come, and seldom twice that
MEMORY = 2**28  # bytes of tables in a task; larger ones are made range by range
SAMPLED = 2**16  # reports in the sample: a second moment of 1 in 16 to one percent or two
MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits balanced: 2^64 over the golden ratio

Row = tuple[int, bytes]


@dataclass
class Counts:
    """What a sketch holds besides its tables, and how many values were refused for each reason."""

    reports: list[int]
    squares: int = 0
    mass: int = 0
    rejected: Counter[str] = field(default_factory=Counter)

    @classmethod
    def none(cls, plan: Plan) -> "Counts":
        """Return the counts of no reports."""
        return cls([0] * max(1, plan.hashing.maps))

    def row(self) -> Row:
        """Return the counts as a row."""
        return COUNTS, json.dumps(self.__dict__).encode()

    @classmethod
    def of(cls, data: bytes) -> "Counts":
        """Return the counts of a row."""
        found = json.loads(data)
        return cls(**found | {"rejected": Counter(found["rejected"])})

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            [a + b for a, b in zip(self.reports, other.reports, strict=True)],
            self.squares + other.squares,
            self.mass + other.mass,
            self.rejected + other.rejected,
        )

    def sketch(self, plan: Plan) -> Sketch:
        """Return a sketch that has everything but its arrays."""
        return Sketch(plan, np.array(self.reports, dtype=np.int64), self.squares, self.mass)


def entries_of(plan: Plan) -> int:
    """Return the entries of a plan's tables."""
    rows, columns = mechanism_of(plan).tables.shape
    return rows * columns


def tabulate(
    plan: Plan, batches: Iterable[ReportBatch], rejected: Counter[str], memory: int = MEMORY
) -> Iterator[Row]:
    """Yield the tables of all batches in pieces, then their counts.

    Tables that fit the memory are filled as batches come. For larger ones the batches of the task
    are kept, and the tables are made range by range.
    """
    if 4 * entries_of(plan) <= memory:
        aggregator = Aggregator(plan)
        for batch in batches:
            aggregator.add(batch)
        sketch = aggregator.sketch()
        assert sketch.tables is not None
        yield from split(sketch.tables.reshape(-1))
        counts = Counts(sketch.reports.tolist(), sketch.squares, sketch.mass)
    else:
        counts = yield from _by_ranges(mechanism_of(plan), batches, memory)
    counts.rejected = rejected
    yield counts.row()


def _by_ranges(
    mechanism: Mechanism, batches: Iterable[ReportBatch], memory: int
) -> Generator[Row, None, Counts]:
    """Yield the pieces of tables that exceed the memory, and return the counts."""
    entries = entries_of(mechanism.plan)
    counts = Counts.none(mechanism.plan)
    kept: list[tuple[ReportBatch, IntArray]] = []
    for batch in batches:
        for start in range(0, len(batch), SLICE):
            part = batch.take(slice(start, start + SLICE))
            kept.append((part, mechanism.tables.map_of(part)))
            counts += _counted(mechanism, *kept[-1])
    each = entries // len(counts.reports)  # of a map
    size = max(SPAN, memory // 8 // SPAN * SPAN)
    for first in range(0, entries, size):
        table = np.zeros((1, min(size, entries - first)), dtype=np.int64)
        for batch, maps in kept:
            near = (maps >= first // each) & (maps <= (first + size - 1) // each)
            cells = mechanism.tables.cells(batch.take(near))
            inside = (cells.index >= first) & (cells.index < first + size)
            index = cells.index[inside] - np.uint32(first)
            counts.mass += kernels.scatter_add(table, index, cells.weight[inside], 0)
        yield from split(table[0], first)
    return counts


def _counted(mechanism: Mechanism, batch: ReportBatch, maps: IntArray) -> Counts:
    reports = np.bincount(maps, minlength=len(Counts.none(mechanism.plan).reports))
    return Counts(reports.tolist(), mechanism.tables.squares(batch))


def scan(
    plan: Plan, ids: IdArray, batches: Iterable[ReportBatch], rejected: Counter[str]
) -> Iterator[Row]:
    """Yield the readings of ids from reports of a direct plan, a row of them for each map."""
    mechanism = mechanism_of(plan)
    counts = Counts.none(plan)
    values = np.zeros((len(counts.reports), len(ids)), dtype=np.int64)
    sample = np.zeros((0, mechanism.layout.record_bytes), dtype=np.uint8)
    for batch in batches:
        maps = mechanism.tables.map_of(batch)
        counts += _counted(mechanism, batch, maps)
        for row in np.unique(maps).tolist():
            values[row] += mechanism.read(batch.take(maps == row), ids)
        sample = _sampled([sample, report_v1.pack(batch, mechanism.layout)])
    counts.rejected = rejected
    yield from split(values.reshape(-1))
    yield _sample_row(sample)
    yield counts.row()


def sample_sketch(plan: Plan, data: bytes) -> Sketch:
    """Return the sketch of the reports of a sample."""
    mechanism = mechanism_of(plan)
    batch = report_v1.unpack(sample_of(data), plan.digest, mechanism.layout)
    counts = _counted(mechanism, batch, mechanism.tables.map_of(batch)).sketch(plan)
    seeds, fields = sorted_columns(batch.hash_seeds, batch.fields)
    return replace(counts, hash_seeds=seeds, fields=fields)


def split(flat: AnyArray, first: int = 0) -> Iterator[Row]:
    """Yield the pieces of an array that are not zero; `first` is where in the whole it begins."""
    for start in range(0, len(flat), SPAN):
        part = flat[start : start + SPAN]
        if part.any():
            fits = part.dtype == np.int32 or np.abs(part).max() < 2**31
            yield (first + start) // SPAN, part.astype("<i4" if fits else "<i8").tobytes()


def piece_of(data: bytes, entries: int) -> AnyArray:
    """Return the integers of a piece with this many entries."""
    return np.frombuffer(data, "<i4" if len(data) == 4 * entries else "<i8")


class Adder:
    """Adds up rows of an array of `entries` integers; holds one sum for each piece."""

    def __init__(self, entries: int) -> None:
        self._entries, self._counts = entries, None  # type: int, Counts | None
        self._sums: dict[int, IntArray] = {}
        self._sample: AnyArray | None = None

    def add(self, piece: int, data: bytes) -> None:
        """Take a row."""
        if piece == COUNTS:
            counts = Counts.of(data)
            self._counts = counts if self._counts is None else self._counts + counts
        elif piece == SAMPLE:
            before = [] if self._sample is None else [self._sample]
            self._sample = _sampled([*before, sample_of(data)])
        else:
            part = piece_of(data, min(SPAN, self._entries - piece * SPAN))
            if piece in self._sums:
                self._sums[piece] += part
            else:
                self._sums[piece] = part.astype(np.int64)

    def rows(self) -> Iterator[Row]:
        """Yield one row for each piece that was taken."""
        for piece, total in self._sums.items():
            yield from ((piece, data) for _, data in split(total))
        if self._counts is not None:
            yield self._counts.row()
        if self._sample is not None:
            yield _sample_row(self._sample)


def join(rows: Iterable[Row], out: AnyArray) -> None:
    """Fill a flat array of zeros with its pieces."""
    for piece, data in rows:
        part = out[piece * SPAN : (piece + 1) * SPAN]
        part[:] = piece_of(data, len(part))


def _sample_row(sample: AnyArray) -> Row:
    return SAMPLE, sample.shape[1].to_bytes(4, "little") + sample.tobytes()


def sample_of(data: bytes) -> AnyArray:
    """Return the records of a sample."""
    return np.frombuffer(data, np.uint8, offset=4).reshape(-1, int.from_bytes(data[:4], "little"))


def _sampled(parts: list[AnyArray]) -> AnyArray:
    """Return the records whose hashes are smallest: the same ones, however they are grouped."""
    records = np.concatenate([part for part in parts if len(part)] or parts[:1])
    if len(records) <= SAMPLED:
        return records
    words = np.zeros((len(records), -(-records.shape[1] // 8) * 8), dtype=np.uint8)
    words[:, : records.shape[1]] = records
    hashes = np.zeros(len(records), dtype=np.uint64)
    for column in words.view("<u8").T:
        hashes = (hashes ^ column) * MIX
        hashes ^= hashes >> np.uint64(29)
    return records[np.argsort(hashes * MIX, kind="stable")[:SAMPLED]]
