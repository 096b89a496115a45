"""Reports on a cluster to one sketch: the integers of a single machine.

    reports ──tabulate──▶ pieces of partial tables ──add up──▶ … ──add up──▶ one table, in pieces

Each task makes one partial table, whatever the number of its reports. Pieces of at most `FAN_IN`
tasks are added up at a time, a few pieces by each task, until one table is left. So what is
shuffled depends on the size of the tables and the number of tasks alone, and no task holds more
than its partial table or some pieces. Tasks that are run again make the same rows, and Spark counts
one of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from faintly.core import IntArray, Plan, Sketch
from faintly.core.arguments import instance
from faintly.core.sketch import table_type
from faintly.errors import InvalidInput
from faintly.mechanisms import mechanism_of
from faintly.spark import pieces
from faintly.spark.pieces import COUNTS, FAN_IN, SPAN, TOGETHER, Adder, Counts, Row
from faintly.spark.records import Sifter
from faintly.spark.session import job

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COLLECTED = 2**28  # bytes of tables that the driver takes at once, else a piece at a time
ROWS = "piece int, part int, data binary"
RECORD = "record"

Batches = Iterator["pa.RecordBatch"]
Make = Callable[[Any, Sifter], Iterator[Row]]  # from batches of reports to rows


@dataclass(frozen=True, slots=True)
class Reports:
    """A DataFrame of reports, and how to read it; see `aggregate`."""

    frame: "DataFrame"
    plan: Plan
    column: str = RECORD
    tasks: int | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Aggregated:
    """A sketch, and how many values were refused, by the code of the reason."""

    sketch: Sketch
    rejected: dict[str, int]


def aggregate(
    reports: "DataFrame",
    plan: Plan,
    *,
    column: str = RECORD,
    tasks: int | None = None,
    strict: bool = False,
    memory: int = pieces.MEMORY,
) -> Aggregated:
    """Return the sketch of all reports of a DataFrame, and what was refused.

    Args:
        reports: one record or one batch of records in each row.
        plan: a plan that decodes by tables.
        column: of bytes.
        tasks: partial tables to make; by default one for each core of the cluster.
        strict: raise at the first value that is refused, instead of counting it. `rejects` gives
            the refused values themselves.
        memory: bytes of tables that one task may hold.
    """
    instance(plan, Plan, "plan", "as make_plan returns it")
    if plan.decode == "direct":
        raise InvalidInput(
            "a direct plan has no tables to aggregate; ask its reports: faintly.spark.query_reports"
        )
    source = Reports(reports, plan, column, tasks, strict)
    with job(reports.sparkSession, f"aggregate plan {plan.digest.hex()}"):
        return _aggregated(tables(source, memory), plan)


def tables(source: Reports, memory: int = pieces.MEMORY) -> "DataFrame":
    """Return the pieces of a plan's tables, still on the cluster."""
    plan = source.plan

    def make(batches: Any, sifter: Sifter) -> Iterator[Row]:
        return pieces.tabulate(plan, batches, sifter.counts, memory)

    return reduced(source, make, pieces.entries_of(plan))


def reduced(source: Reports, make: Make, entries: int) -> "DataFrame":
    """Return the rows that `make` makes of the reports of each task, added up by their pieces."""
    plan, strict = source.plan, source.strict
    tasks = source.tasks or source.frame.sparkSession.sparkContext.defaultParallelism

    def tabulated(values: Batches) -> Batches:
        from pyspark import TaskContext

        sifter = Sifter(plan, strict=strict)
        batches = (batch for part in values for batch in sifter.batches(part.column(0)))
        context = TaskContext.get()
        assert context is not None
        for row in make(batches, sifter):
            yield _row(row, context.partitionId() // FAN_IN)

    def added(rows: Batches) -> Batches:
        adders: dict[int, Adder] = {}
        for piece, part, data in _rows(rows):
            adders.setdefault(part, Adder(entries)).add(piece, data)
        for part, adder in adders.items():
            for row in adder.rows():
                yield _row(row, part // FAN_IN)

    values = bytes_of(source.frame, source.column)
    frame = values.coalesce(tasks).mapInArrow(tabulated, ROWS)
    parts = tasks
    while True:
        parts = -(-parts // FAN_IN)
        each = -(-entries // SPAN) + 1
        spread = -(-parts * each // TOGETHER)
        frame = frame.repartition(spread, "piece", "part").mapInArrow(added, ROWS)
        if parts == 1:
            return frame


def rejects(reports: "DataFrame", plan: Plan, *, column: str = RECORD) -> "DataFrame":
    """Return the values that `aggregate` refuses, with the code of the reason: a side output."""

    def refused(values: Batches) -> Batches:
        import pyarrow as pa

        sifter = Sifter(plan, keep=True)
        for part in values:
            for _ in sifter.batches(part.column(0)):
                pass
            reasons, data = zip(*sifter.refused, strict=True) if sifter.refused else ((), ())
            sifter.refused = []
            columns = [pa.array(reasons, pa.string()), pa.array(data, pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, ["reason", RECORD])

    return bytes_of(reports, column).mapInArrow(refused, f"reason string, {RECORD} binary")


def read_segments(
    spark: "SparkSession",
    table: str,
    files: list[str],
    plan: Plan,
    options: dict[str, str] | None = None,
) -> "DataFrame":
    """Return the records of files of a lake's snapshot; executors read them from its store.

    Args:
        spark: the session.
        table: where the lake is.
        files: names in it, as a snapshot lists them.
        plan: what the files must belong to.
        options: of the store, as `Lake` takes them.
    """
    digest = plan.digest.hex().encode()

    def records(names: Batches) -> Batches:
        import pyarrow as pa

        from faintly.lake import Lake

        lake = Lake(table, options)
        for part in names:
            for name in part.column(0).to_pylist():
                with lake.opened(name) as file:
                    if (file.schema_arrow.metadata or {}).get(b"faintly.plan") != digest:
                        raise InvalidInput(f"{name} does not hold reports of this plan")
                    for batch in file.iter_batches(columns=[RECORD]):
                        values = batch.column(0).cast(pa.binary())
                        yield pa.RecordBatch.from_arrays([values], [RECORD])

    named = spark.createDataFrame([(name,) for name in files], "name string")
    return named.mapInArrow(records, f"{RECORD} binary")


def bytes_of(reports: "DataFrame", column: str) -> "DataFrame":
    """Return the column of bytes, or say what is wrong with it."""
    kinds = dict(reports.dtypes)
    if column not in kinds:
        raise InvalidInput(f"there is no column {column}; there are {', '.join(kinds) or 'none'}")
    if kinds[column] != "binary":
        raise InvalidInput(f"column {column} is {kinds[column]}; reports are binary")
    return reports.select(reports[column].alias(RECORD))


def _row(row: Row, part: int) -> "pa.RecordBatch":
    import pyarrow as pa

    piece, data = row
    schema = pa.schema([("piece", pa.int32()), ("part", pa.int32()), ("data", pa.binary())])
    return pa.RecordBatch.from_pydict({"piece": [piece], "part": [part], "data": [data]}, schema)


def _rows(batches: Batches) -> Iterator[tuple[int, int, bytes]]:
    for batch in batches:
        piece, part, data = batch.columns
        for position in range(len(batch)):
            yield piece[position].as_py(), part[position].as_py(), data[position].as_py()


def collect(frame: "DataFrame", entries: int) -> tuple[IntArray, dict[int, bytes]]:
    """Return the array that a reduced frame holds in pieces, and the data of its other rows."""
    flat, others = np.zeros(entries, dtype=np.int64), {}
    for piece, data in _collected_rows(frame, entries):
        if piece < 0:
            others[piece] = data
        else:
            pieces.join([(piece, data)], flat)
    return flat, others


def _collected_rows(frame: "DataFrame", entries: int) -> Iterator[Row]:
    """Yield the rows of a reduced frame: at once, or where they are large one after another."""
    if 4 * entries <= COLLECTED:
        batches = frame.select("piece", "part", "data").toArrow().to_batches()
        yield from ((piece, data) for piece, _, data in _rows(iter(batches)))
    else:
        for row in frame.toLocalIterator(prefetchPartitions=True):
            yield row.piece, bytes(row.data)


def _aggregated(frame: "DataFrame", plan: Plan) -> Aggregated:
    flat, others = collect(frame, pieces.entries_of(plan))
    # A frame without partitions has no tasks, and no reports.
    counts = Counts.of(others[COUNTS]) if others else Counts.none(plan)
    made = flat.reshape(mechanism_of(plan).tables.shape).astype(table_type(counts.mass), copy=False)
    sketch = replace(counts.sketch(plan), tables=made)
    return Aggregated(sketch, dict(sorted(counts.rejected.items())))
