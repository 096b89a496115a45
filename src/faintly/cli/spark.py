"""faintly spark: aggregate, ask and encode on a Spark cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from faintly.cli.options import argument, group, option, whole
from faintly.cli.output import Json, Level, Output, PlanFile, note, result
from faintly.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from faintly.core import Plan

app = group("Aggregate, ask and encode on a Spark cluster: spark-submit PATH/TO/faintly spark …")
LAKE = "A Delta table of sealed segments to read instead of files; see faintly lake."
LakeTable = Annotated[str | None, option(LAKE, "--lake")]
Epoch = Annotated[int | None, whole("One epoch of the lake.", least=0, show_default="all epochs")]
Strict = Annotated[
    bool, option("Fail at the first value that is not a report of the plan.", "--strict")
]
Folder = Annotated[str, option("Folder of Parquet to write.", "--output", "-o", show_default=False)]


@app.command(short_help="Count reports on a cluster into one sketch.")
def aggregate(
    plan: PlanFile,
    output: Output,
    reports: Annotated[
        list[str] | None, argument("Parquet files or folders of reports.", show_default=False)
    ] = None,
    lake: LakeTable = None,
    epoch: Epoch = None,
    column: Annotated[str, option("Column of the reports.")] = "record",
    tasks: Annotated[
        int | None, whole("Partial tables to make.", least=1, show_default="one per core")
    ] = None,
    set_aside: Annotated[
        str | None, option("Folder of Parquet for values that are not reports.")
    ] = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Count reports into one sketch: the same integers as faintly aggregate.

    Values that are not reports of the plan are counted by reason, and written to --set-aside.
    """
    from faintly.engine.files import load_plan, save_sketch

    loaded = load_plan(plan)
    with _running() as spark:
        from faintly import spark as cluster
        from faintly.spark.session import job

        frame = _reports(spark, loaded, reports, lake, epoch)
        made = cluster.aggregate(frame, loaded, column=column, tasks=tasks, strict=strict)
        if made.rejected and set_aside:
            with job(spark, "set values aside"):
                cluster.rejects(frame, loaded, column=column).write.parquet(set_aside)
    save_sketch(made.sketch, output)
    kept = f"they are in {set_aside}" if set_aside else "--set-aside FOLDER would keep them"
    _note(made.rejected, kept)
    result(
        as_json,
        {"reports": made.sketch.count, "rejected": made.rejected, "digest": loaded.digest.hex()},
        f"{made.sketch.count:,} reports are in {output}",
    )


@app.command(short_help="Estimate keys on a cluster.")
def query(
    keys: Annotated[str, argument("Parquet with a column of keys.")],
    output: Folder,
    sketch: Annotated[Path | None, option("A sketch to ask.")] = None,
    plan: Annotated[Path | None, option("Or a plan, to ask its reports without a sketch.")] = None,
    reports: Annotated[
        list[str] | None, option("Parquet of reports, with --plan. Repeatable.")
    ] = None,
    lake: LakeTable = None,
    epoch: Epoch = None,
    key_column: Annotated[str, option("Column of the keys.")] = "key",
    level: Level = 0.95,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Estimate the mean of every key of a file, with error bars, and write them as Parquet.

    Asks a sketch; or, for a direct plan or tables too large for one machine, the reports.
    """
    from faintly.engine import load_sketch
    from faintly.engine.files import load_plan

    if (sketch is None) == (plan is None):
        raise InvalidInput("give --sketch, or --plan with the reports to ask")
    rejected: dict[str, int] = {}
    with _running() as spark:
        from faintly import spark as cluster
        from faintly.spark.session import job

        names = spark.read.parquet(keys)
        options: Any = {"level": level}
        if plan is not None:
            loaded = load_plan(plan)
            frame = _reports(spark, loaded, reports, lake, epoch)
            options |= {"key_column": key_column, "strict": strict}
            answered = cluster.query_reports(frame, loaded, names, **options)
            found, rejected = answered.estimates, answered.rejected
        else:
            assert sketch is not None
            found = cluster.query(load_sketch(sketch), names, column=key_column, **options)
        with job(spark, "write estimates"):
            found.write.mode("errorifexists").parquet(output)
            count = spark.read.parquet(output).count()
    _note(rejected, "faintly spark aggregate --set-aside FOLDER would keep them")
    result(as_json, {"keys": count, "rejected": rejected}, f"{count:,} estimates are in {output}")


@app.command(short_help="Turn raw data on a cluster into reports.")
def encode(
    rows: Annotated[list[str], argument("Parquet with a row for each client's item.")],
    plan: PlanFile,
    key_file: Annotated[
        Path,
        option(
            "File of the secret job key; created if it does not exist. Destroy it after the job.",
            show_default=False,
        ),
    ],
    output: Folder,
    client: Annotated[str, option("Column of the clients.")] = "client",
    key: Annotated[
        str, option("Column of the keys; missing in the row of a client without items.")
    ] = "key",
    value: Annotated[str | None, option("Column of the values; none: vectors are sets.")] = None,
    strict: Annotated[
        bool,
        option(
            "Refuse keys and values that the plan does not take; or leave them out and clip "
            "them, as a device does.",
            "--strict/--no-strict",
        ),
    ] = True,
    as_json: Json = False,
) -> None:
    """Turn every client of the rows into one randomized report, in random order.

    The same key and data give the same reports, so a run may be repeated. Another key draws other
    noise, which spends the plan's budget again.
    """
    from faintly.engine.files import load_plan

    loaded = load_plan(plan)
    with _running() as spark:
        from faintly import spark as cluster
        from faintly.spark.session import job

        options: Any = {"client": client, "item": key, "value": value, "strict": strict}
        frame = cluster.encode(spark.read.parquet(*rows), loaded, _key(key_file), **options)
        with job(spark, "encode"):
            frame.write.mode("errorifexists").parquet(output)
            count = spark.read.parquet(output).count()
    result(as_json, {"reports": count}, f"{count:,} reports are in {output}")


@contextmanager
def _running() -> Iterator["SparkSession"]:
    """Yield a session, stopped here if it was started here; Spark's refusals become one line."""
    from faintly.spark.session import check, session

    check()
    from pyspark.errors import AnalysisException
    from pyspark.sql import SparkSession

    before = SparkSession.getActiveSession()
    spark = before or session()
    try:
        yield spark
    except AnalysisException as error:
        raise InvalidInput(str(error).splitlines()[0]) from None
    finally:
        if before is None:
            spark.stop()


def _reports(
    spark: "SparkSession",
    plan: "Plan",
    paths: list[str] | None,
    lake: str | None,
    epoch: int | None,
) -> "DataFrame":
    if bool(paths) == bool(lake):
        raise InvalidInput("give files of reports, or --lake TABLE")
    if lake is None:
        return spark.read.parquet(*paths or [])
    from faintly.lake import Lake
    from faintly.spark import read_segments

    found = Lake(lake).snapshot(plan.digest.hex(), epoch)
    if not found.files:
        raise InvalidInput(f"version {found.version} of {lake} has no reports of this plan")
    note(f"version {found.version} of {lake}: {found.reports:,} reports")
    return read_segments(spark, lake, found.files, plan)


def _key(path: Path) -> bytes:
    """Return the job key of a file, or of a new one that nobody else may read."""
    from faintly.engine.files import atomic_write, read_bytes
    from faintly.spark.keys import check_key, new_key

    if not path.exists():
        with atomic_write(path, private=True) as stream:
            stream.write(new_key().hex().encode() + b"\n")
        note(f"a new job key is in {path}; destroy it once the reports are complete")
    try:
        return check_key(bytes.fromhex(read_bytes(path).decode("ascii").strip()))
    except ValueError:  # InvalidInput is one, too
        raise InvalidInput(f"{path} must hold a job key: 64 hexadecimal digits") from None


def _note(rejected: dict[str, int], kept: str) -> None:
    if rejected:
        listed = ", ".join(f"{count:,} {code}" for code, count in sorted(rejected.items()))
        note(f"{sum(rejected.values()):,} values are not reports of the plan ({listed}); {kept}")
