"""Estimates of keys on a cluster, from one of three places.

a sketch            its transform is broadcast, and keys are looked up where they are
tables in pieces    too large for that: each task transforms some maps and looks up all keys
reports, directly   each task reads its reports at all keys

In the last two, keys are broadcast, and their integers are added up as tables are.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from faintly.core import AnyArray, Estimates, FloatArray, IdArray, IntArray, Plan, Sketch
from faintly.core.estimate import COLUMNS, LEVEL
from faintly.core.sketch import table_type
from faintly.engine import Reader
from faintly.engine.answers import NULL
from faintly.engine.keys import ids_of
from faintly.errors import InvalidInput
from faintly.mechanisms import mechanism_of
from faintly.spark import pieces
from faintly.spark.aggregate import RECORD, Batches, Reports, collect, reduced, tables
from faintly.spark.pieces import COUNTS, SAMPLE, SPAN, Counts, Row
from faintly.spark.records import Sifter
from faintly.spark.session import job

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

NO_REPORTS = "there are no reports to answer from: their frame has no partitions"
MOST_READ = 2**25  # maps times keys that are read together: 256 MiB of integers in a task


@dataclass(frozen=True, slots=True)
class Response:
    """Estimates, and how many values of the reports were refused, by the code of the reason."""

    estimates: "DataFrame"
    rejected: dict[str, int]


class RemoteReader(Reader):
    """Answers from integers that a cluster has added up."""

    def __init__(
        self,
        counts: Sketch,
        read: Callable[[IdArray], IntArray],
        energy: tuple[float, int] = (0.0, 1),
        sample: Sketch | None = None,
        level: float = LEVEL,
    ) -> None:
        """Read sums by a function; of a direct plan, `sample` has reports for its variances."""
        super().__init__(counts, level)
        self._read_sums, self._energy, self._sample = read, energy, sample

    def sums(self, ids: IdArray) -> IntArray:
        """Return the sums from the cluster."""
        return self._read_sums(ids)

    def energy(self) -> tuple[float, int]:
        """Return the energy that the cluster has measured."""
        return self._energy

    def variances(self, ids: IdArray, means: FloatArray) -> FloatArray:
        """Return n·Var: measured on the sample, plus what grows with the number of reports."""
        if self._sample is None:
            return self.mechanism.variance(self.sketch, ids, means)
        grown = self._null_variance - self.mechanism.variance(self._sample, None, NULL)[0]
        return self.mechanism.variance(self._sample, ids, means) + grown


def query(
    sketch: Sketch,
    keys: "DataFrame",
    *,
    column: str = "key",
    level: float = LEVEL,
    compared: int | None = None,
) -> "DataFrame":
    """Return the estimates of a DataFrame of keys, which stay where they are.

    Args:
        sketch: of reports.
        keys: text, bytes or integers.
        column: of keys.
        level: of the intervals.
        compared: keys that simultaneous intervals cover together; by default all of these.
    """
    plan = sketch.plan
    many = keys.count() if compared is None else compared
    shared = _shared(keys.sparkSession, sketch, level)

    def estimated(values: Batches) -> Batches:
        for part in values:
            listed = _listed(part.column(0))
            found = shared.value.estimate_ids(ids_of(plan, listed), listed)
            yield _batch(part.column(0), replace(found, compared=many))

    chosen = keys.select(keys[column].alias("key"))
    ((_, kind),) = chosen.dtypes
    schema = ", ".join([f"key {kind}", *(f"{name} double" for name in COLUMNS)])
    return chosen.mapInArrow(estimated, schema)


def query_reports(
    reports: "DataFrame",
    plan: Plan,
    keys: "DataFrame",
    *,
    column: str = RECORD,
    key_column: str = "key",
    level: float = LEVEL,
    tasks: int | None = None,
    strict: bool = False,
) -> Response:
    """Return the estimates of keys from reports, without a sketch on the driver.

    Args:
        reports: as `aggregate` takes them; of a direct plan, or of one with very large tables.
        plan: what they were made under.
        keys: text, bytes or integers; they are sent to every task.
        column: of reports.
        key_column: of keys.
        level: of the intervals.
        tasks: as for `aggregate`.
        strict: as for `aggregate`.
    """
    spark = keys.sparkSession
    source = Reports(reports, plan, column, tasks, strict)
    chosen = keys.select(keys[key_column].alias("key"))
    with job(spark, f"query reports of plan {plan.digest.hex()}"):
        names = chosen.toArrow().column(0).combine_chunks()
        ids = ids_of(plan, _listed(names))
        _check_size(plan, ids)
        if plan.decode == "direct":
            reader, rejected = _direct(source, ids, level)
        else:
            reader, rejected = _sharded(source, level)
        found = reader.estimate_ids(ids, _listed(names))
    import pyarrow as pa

    made = pa.Table.from_batches([_batch(names, found)])
    return Response(spark.createDataFrame(made), rejected)


def _check_size(plan: Plan, ids: IdArray) -> None:
    maps = max(1, plan.hashing.maps) if plan.decode == "direct" else 1
    if len(ids) * maps > MOST_READ:
        raise InvalidInput(
            f"{len(ids):,} keys are too many to read together; ask {MOST_READ // maps:,} at a time"
        )


def _direct(source: Reports, ids: IdArray, level: float) -> tuple[Reader, dict[str, int]]:
    plan = source.plan
    shared = source.frame.sparkSession.sparkContext.broadcast(ids)

    def make(batches: Any, sifter: Sifter) -> Iterator[Row]:
        return pieces.scan(plan, shared.value, batches, sifter.counts)

    maps = max(1, plan.hashing.maps)
    entries = maps * len(ids)
    values, held = collect(reduced(source, make, entries), entries)
    if not held:
        raise InvalidInput(NO_REPORTS)
    by_map, counts = values.reshape(maps, len(ids)), Counts.of(held[COUNTS])
    found = np.stack([by_map.sum(axis=0), by_map.max(axis=0)])
    sample = pieces.sample_sketch(plan, held[SAMPLE])
    reader = RemoteReader(counts.sketch(plan), lambda _: found, sample=sample, level=level)
    return reader, dict(counts.rejected)


def _sharded(source: Reports, level: float) -> tuple[Reader, dict[str, int]]:
    from pyspark import StorageLevel

    plan = source.plan
    frame = tables(source).persist(StorageLevel.DISK_ONLY)
    row = frame.where(f"piece = {COUNTS}").first()
    if row is None:
        raise InvalidInput(NO_REPORTS)
    counts = Counts.of(bytes(row.data))
    kind = table_type(counts.mass)
    _, energy = _read_tables(frame, plan, kind, np.zeros(0, dtype=np.uint64))
    reader = RemoteReader(
        counts.sketch(plan),
        lambda ids: _read_tables(frame, plan, kind, ids)[0],
        energy,
        level=level,
    )
    return reader, dict(counts.rejected)


def _read_tables(
    frame: "DataFrame", plan: Plan, kind: type, ids: IdArray
) -> tuple[IntArray, tuple[float, int]]:
    """Transform tables in pieces on the cluster and look ids up in them.

    Returns:
        (2, ids): sum and largest over the maps; then squares and entries of all maps.
    """
    maps = max(1, plan.hashing.maps)
    each = pieces.entries_of(plan) // maps  # entries of a map
    shard = min(maps, SPAN // math.gcd(each, SPAN))  # the least number of maps in whole pieces
    shared = frame.sparkSession.sparkContext.broadcast(ids)

    def looked_up(rows: Batches) -> Batches:
        import pyarrow as pa

        mechanism = mechanism_of(plan)
        shards: dict[int, AnyArray] = {}
        for batch in rows:
            for piece, data in zip(*(part.to_pylist() for part in batch.columns), strict=True):
                first = piece * SPAN // (each * shard) * shard
                size = min(shard, maps - first) * each
                flat = shards.setdefault(first, np.zeros(size, dtype=kind))
                start = piece * SPAN - first * each
                part = flat[start : start + SPAN]
                part[:] = pieces.piece_of(data, len(part))
        for first, flat in shards.items():
            for j, own in enumerate(flat.reshape(-1, each), start=first):
                rows_of = own.reshape(-1, mechanism.tables.shape[1])
                found, squares, entries = mechanism.tables.gather_map(rows_of, shared.value, j)
                yield pa.RecordBatch.from_pydict(
                    {"read": [found.tobytes()], "squares": [squares], "entries": [entries]}
                )

    chosen = frame.where("piece >= 0").select("piece", "data")
    place = (chosen["piece"] * SPAN / (each * shard)).cast("int")
    spread = chosen.repartition(-(-maps // shard), place)
    read = spread.mapInArrow(looked_up, "read binary, squares double, entries long")
    found, squares, entries, seen = np.zeros((2, len(ids)), dtype=np.int64), 0.0, 0, 0
    found[1] = np.iinfo(np.int64).min
    for row in read.toLocalIterator():
        own = np.frombuffer(bytes(row["read"]), np.int64)
        found[0] += own
        np.maximum(found[1], own, out=found[1])
        squares, entries, seen = squares + row["squares"], row["entries"], seen + 1
    if seen < maps:  # a map without reports has no pieces, and reads 0
        np.maximum(found[1], 0, out=found[1])
    return found, (squares, max(1, entries) * maps)


def register(
    spark: "SparkSession", sketch: Sketch, name: str = "faintly_estimate", level: float = LEVEL
) -> None:
    """Make a sketch a function of SQL: name(key) gives mean, stderr, low and high of a key.

    Intervals are those of single keys: a query cannot know how many it compares.
    """
    import pandas
    from pyspark.sql.functions import pandas_udf

    plan, shared = sketch.plan, _shared(spark, sketch, level)

    # Spark reads these types, so they must be pandas' own.
    def estimate(keys: pandas.Series) -> pandas.DataFrame:
        listed = keys.tolist()
        found = shared.value.estimate_ids(ids_of(plan, listed), listed)
        return pandas.DataFrame({each: getattr(found, each) for each in COLUMNS[:4]})

    kind = ", ".join(f"{each} double" for each in COLUMNS[:4])
    spark.udf.register(name, pandas_udf(estimate, kind))


def _shared(spark: "SparkSession", sketch: Sketch, level: float) -> "Broadcast[Reader]":
    """Return a reader on every executor, with the transform and without the tables."""
    if sketch.tables is None:
        raise InvalidInput("a direct sketch is not broadcast; use query_reports")
    mechanism = mechanism_of(sketch.plan)
    made = mechanism.tables.transform(sketch.tables)
    reader = Reader(replace(sketch, tables=None), level, transformed=made, mechanism=mechanism)
    reader.estimate_ids(np.zeros(1, dtype=np.uint64), [0])  # what all keys share, once
    return spark.sparkContext.broadcast(reader)


def _listed(column: "pa.Array") -> Any:
    """Return keys as the plan takes them; the plan refuses a missing one."""
    import pyarrow as pa

    whole = pa.types.is_integer(column.type) and not column.null_count
    return column.to_numpy(zero_copy_only=False) if whole else column.to_pylist()


def _batch(keys: "pa.Array", found: Estimates) -> "pa.RecordBatch":
    import pyarrow as pa

    columns = [keys, *(pa.array(getattr(found, name)) for name in COLUMNS)]
    return pa.RecordBatch.from_arrays(columns, ["key", *COLUMNS])
