"""On real executor processes the integers are those of one machine, whatever happens to tasks.

All tests share one cluster, `local-cluster[2,1,1024]`: starting one takes longer than the tests.
"""

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from benchmarks import samples
from faintly import Reader, Sketch, aggregate
from faintly.collector.admin.lake import commit
from faintly.collector.storage.store import Limits, Store
from faintly.engine.files import save_plan
from faintly.errors import InvalidData, InvalidInput, ReportRejected
from faintly.lake import Lake
from faintly.mechanisms import mechanism_of
from faintly.spark.pieces import entries_of
from faintly.spark.session import job
from faintly.wire import report_v1
from tests.unit.spark.samples import made_up, plan_of, records

pyspark = pytest.importorskip("pyspark", reason="left out, no PySpark: make .venv/spark.stamp")
if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
    pytest.skip("left out, no Java: scripts/system_packages.sh", allow_module_level=True)

from faintly import spark as cluster  # noqa: E402

# One worker: a second cluster would only take cores from the first.
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

REPORTS = 5_000_000
PLAN = plan_of(mechanism="retrieval", maps=4)
LEAN = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # these JVMs live for a minute
SETTINGS = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.port": "0",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.executor.extraJavaOptions": LEAN,
}


@pytest.fixture(scope="module")
def spark():
    root = str(Path(__file__).resolve().parents[2])
    before = dict(os.environ)
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    os.environ |= {"PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{LEAN}' pyspark-shell"}
    os.environ["PYTHONPATH"] = root  # executors unpickle functions of these tests
    started = cluster.session("tests", **SETTINGS)
    started.sparkContext.setLogLevel("ERROR")
    yield started
    started.stop()
    os.environ.clear()
    os.environ.update(before)


def write(path, values):
    """Write records as collectors seal them, in several row groups."""
    kind = pa.binary(values.shape[1])
    column = pa.FixedSizeBinaryArray.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
    parquet.write_table(
        pa.table({"record": column}), path, use_dictionary=False, row_group_size=2**19
    )


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Return a folder of five million reports, and the sketch that one process makes of them."""
    folder = tmp_path_factory.mktemp("reports")
    batch = made_up(PLAN, REPORTS)
    values = records(batch, PLAN)
    for part in range(4):
        write(folder / f"{part}.parquet", values[part::4].copy())
    return folder, aggregate(PLAN, [batch])


def stages(spark):
    """Return what Spark's own REST interface says about its stages."""
    context = spark.sparkContext
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages"
    with urllib.request.urlopen(address) as answer:
        return json.load(answer)


def shuffled(spark, work):
    """Return the bytes that a piece of work has shuffled, by Spark's own count."""
    before = {stage["stageId"] for stage in stages(spark)}
    work()
    new = [stage for stage in stages(spark) if stage["stageId"] not in before]
    return sum(stage["shuffleWriteBytes"] for stage in new)


def test_five_million_reports_give_the_sketch_of_one_process(spark, many):
    folder, alone = many
    made = cluster.aggregate(spark.read.parquet(str(folder)), PLAN)
    assert made.sketch == alone
    assert made.sketch.count == REPORTS
    assert made.rejected == {}
    hosts = spark.sparkContext.uiWebUrl  # executors are processes of their own, not threads
    with urllib.request.urlopen(
        f"{hosts}/api/v1/applications/{spark.sparkContext.applicationId}/executors"
    ) as answer:
        working = [each["id"] for each in json.load(answer) if each["totalTasks"]]
    assert set(working) - {"driver"}


def test_what_is_shuffled_does_not_depend_on_the_number_of_reports(spark, many, tmp_path):
    """Of five times the reports, no more is shuffled: the tables of each task, compressed."""
    folder, _ = many
    everything = spark.read.parquet(str(folder))
    few = records(made_up(PLAN, REPORTS // 5), PLAN)
    for part in range(4):
        write(tmp_path / f"{part}.parquet", few[part::4].copy())
    some = spark.read.parquet(str(tmp_path))
    tables = 4 * entries_of(PLAN)
    large = shuffled(spark, lambda: cluster.aggregate(everything, PLAN, tasks=4))
    small = shuffled(spark, lambda: cluster.aggregate(some, PLAN, tasks=4))
    for found in (large, small):
        assert 0 < found <= 4 * (tables + 4096), "one table for each task, and counts"
    # Integers of five times the size compress by some bits less.
    assert large <= 1.5 * small
    assert large < REPORTS, "less than a byte for a report"


def faulty(how, marks):
    """Return a function for mapInArrow that hands batches on, and fails some first attempts."""

    def pass_on(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        first = context.attemptNumber() == 0
        for number, batch in enumerate(batches):
            if first and number == 3 and context.partitionId() % 2 == 0:
                Path(marks, f"{how}-{context.partitionId()}").touch()
                if how == "raise":
                    raise RuntimeError("planted")
                if how == "kill":  # the worker of this task, in the middle of it
                    os.kill(os.getpid(), signal.SIGKILL)
                if how == "kill executor":
                    os.kill(os.getppid(), signal.SIGKILL)
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(30)  # a straggler: speculation starts another, which wins
            yield batch

    return pass_on


@pytest.mark.parametrize("how", ["raise", "kill", "straggle"])
def test_failed_killed_and_speculative_tasks_change_no_integer(spark, many, tmp_path, how):
    folder, alone = many
    reports = spark.read.parquet(str(folder)).mapInArrow(
        faulty(how, str(tmp_path)), "record binary"
    )
    assert cluster.aggregate(reports, PLAN, tasks=4).sketch == alone
    assert list(tmp_path.iterdir()), "the fault was planted"


def test_bad_values_are_counted_by_reason_and_set_aside(spark, tmp_path):
    plan = plan_of(mechanism="signed-binning")
    batch, layout = made_up(plan, 2000), mechanism_of(plan).layout
    other = plan_of(epsilon=2.0)
    foreign = report_v1.encode_batch(made_up(other, 3), mechanism_of(other).layout)
    bad = [b"\xff" * layout.record_bytes, b"", b"no report at all, but long enough", foreign]
    good = [bytes(record) for record in records(batch, plan)]
    framed = report_v1.encode_batch(batch, layout)
    rows = [(value,) for value in [*good[:1000], *bad, *good[1000:], framed]]
    frame = spark.createDataFrame(rows, "record binary").repartition(3)
    made = cluster.aggregate(frame, plan)
    assert made.sketch == aggregate(plan, [batch, batch])
    assert made.rejected == {"BAD_MAGIC": 1, "OTHER_PLAN": 1, "OUT_OF_RANGE": 1, "TRUNCATED": 1}
    aside = {(row.reason, bytes(row.record)) for row in cluster.rejects(frame, plan).collect()}
    assert {value for _, value in aside} == set(bad)
    with pytest.raises(ReportRejected) as refused:
        cluster.aggregate(frame, plan, strict=True)
    assert "\n" not in str(refused.value)
    with pytest.raises(InvalidInput, match="no column sent"):
        cluster.aggregate(frame, plan, column="sent")


def test_estimates_of_keys_are_those_of_one_process(spark, many):
    """Broadcast, by SQL, and sharded by map."""
    _, alone = many
    keys = spark.range(1000).withColumnRenamed("id", "key").repartition(3)
    wanted = Reader(alone).estimate_all()
    found = cluster.query(alone, keys).toPandas().sort_values("key")
    for name in ("mean", "stderr", "low", "high", "low_all", "high_all"):
        np.testing.assert_array_equal(found[name], getattr(wanted, name), err_msg=name)
    cluster.register(spark, alone)
    keys.createOrReplaceTempView("keys")
    (row,) = spark.sql("SELECT faintly_estimate(key) AS e FROM keys WHERE key = 17").collect()
    assert (row.e.mean, row.e.low) == (wanted.mean[17], wanted.low[17])


@pytest.mark.parametrize("decode", ["table", "direct"])
def test_reports_answer_without_a_sketch_on_the_driver(spark, tmp_path, decode):
    """Direct plans, and tables that are read map by map where they are."""
    plan = plan_of(decode, universe="open" if decode == "table" else 1000)
    batch = made_up(plan, 20_000)
    write(tmp_path / "reports.parquet", records(batch, plan))
    reports = spark.read.parquet(str(tmp_path / "reports.parquet")).repartition(3)
    asked = [str(key) for key in range(200)] if decode == "table" else list(range(200))
    kind = "string" if decode == "table" else "long"
    keys = spark.createDataFrame([(key,) for key in asked], f"key {kind}")
    answered = cluster.query_reports(reports, plan, keys)
    found = answered.estimates.toPandas()
    wanted = Reader(aggregate(plan, [batch])).estimate(asked)
    assert found["key"].tolist() == asked
    np.testing.assert_array_equal(found["mean"], wanted.mean)
    np.testing.assert_allclose(found["stderr"], wanted.stderr, rtol=1e-9)
    np.testing.assert_allclose(found["high_all"], wanted.high_all, rtol=1e-9)


def test_encoding_repeats_its_bytes_and_names_nobody(spark, tmp_path):
    """Other partitions and planted failures give the same reports; estimates are near the truth."""
    plan = plan_of(mechanism="signed-binning", epsilon=4.0, clients=1000)
    rows = [(f"client-{n}", n % 7, 1.0) for n in range(990)] + [
        (f"client-{n}", None, None) for n in range(990, 1000)
    ]
    frame = spark.createDataFrame(rows, "client string, key long, value double")
    key = bytes(range(32))
    made = cluster.encode(frame.repartition(3), plan, key, value="value", partitions=2)
    once = [bytes(row.record) for row in made.collect()]
    broken = frame.repartition(5).mapInArrow(
        faulty("raise", str(tmp_path)), "client string, key long, value double"
    )
    again = cluster.encode(broken, plan, key, value="value", partitions=2)
    assert [bytes(row.record) for row in again.collect()] == once
    assert made.columns == ["record"]
    assert len(once) == 1000
    width = mechanism_of(plan).layout.record_bytes
    assert {len(record) for record in once} == {width}
    assert not any(b"client" in record for record in once)
    others = cluster.encode(frame, plan, bytes(range(1, 33)), value="value").collect()
    assert not {bytes(row.record) for row in others} & set(once)
    sketch = cluster.aggregate(made, plan).sketch
    found = Reader(sketch).estimate([0, 500])
    assert abs(found.mean[0] - 1 / 7) < 6 * found.stderr[0]
    assert abs(found.mean[1]) < 6 * found.stderr[1]
    wrong = spark.createDataFrame([("a", 5000, 1.0)], "client string, key long, value double")
    refused = cluster.encode(wrong, plan, key, value="value")
    with pytest.raises(InvalidData, match="does not have"), job(spark, "encode"):
        refused.collect()


def test_a_lake_is_read_by_executors(spark, tmp_path):
    """One committed state, by the names of its files, which must belong to the plan."""
    folder, lake = tmp_path / "data", Lake(tmp_path / "lake")
    plan = samples.one_cell_plan(1000, 64)
    layout = mechanism_of(plan).layout
    batches = list(samples.batches(plan, 3000, 1000))
    store = Store.open(folder, Limits(seal_s=1e9))
    store.registry.create(plan)
    for batch in batches:
        body = report_v1.encode_batch(batch, layout)
        store.submit(plan.digest, 0, os.urandom(16), body)
        store.seal(plan.digest)
    store.close()
    state = commit(folder, lake)
    found = lake.snapshot(plan.digest.hex(), version=state.version)
    reports = cluster.read_segments(spark, str(tmp_path / "lake"), found.files, plan)
    assert cluster.aggregate(reports, plan).sketch == aggregate(plan, batches)
    # The files are plain Parquet, which Spark reads by itself.
    paths = [str(tmp_path / "lake" / name) for name in found.files]
    assert cluster.aggregate(spark.read.parquet(*paths), plan).sketch == aggregate(plan, batches)
    other = cluster.read_segments(spark, str(tmp_path / "lake"), found.files, PLAN)
    with pytest.raises(InvalidInput, match="not hold reports of this plan"):
        cluster.aggregate(other, PLAN)


def test_the_example_of_a_warehouse(spark, capsys):
    path = Path(__file__).resolve().parents[2] / "examples" / "spark" / "warehouse.py"
    answers = runpy.run_path(str(path))["main"](spark)
    truth = np.array([1 / 4, 1 / 8, 1 / 16, 1 / 32, 0, 0])
    assert (np.abs(answers["mean"] - truth) < 6 * answers["stderr"]).all()
    assert "4,000 reports, 0 refused" in capsys.readouterr().out


def test_spark_stays_out_of_the_way():
    """Importing faintly, and faintly.spark, starts no Spark and imports none."""
    code = (
        "import sys, faintly, faintly.spark, faintly.lake, faintly.cli; "
        "print([m for m in ('pyspark', 'deltalake') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_commands_from_raw_rows_to_estimates(tmp_path):
    plan = plan_of(mechanism="signed-binning", epsilon=4.0, clients=300)
    save_plan(plan, tmp_path / "plan.json")
    rows = {"who": [f"client-{n}" for n in range(300)], "site": [n % 3 for n in range(300)]}
    parquet.write_table(pa.table(rows), tmp_path / "rows.parquet")
    parquet.write_table(pa.table({"key": [0, 1, 2, 999]}), tmp_path / "keys.parquet")

    def run(*words):
        command = [sys.executable, "-m", "faintly", "spark", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    encode = "encode", "rows.parquet", "--plan", "plan.json", "--key-file", "job.key"
    made = run(*encode, "--client", "who", "--key", "site", "-o", "reports", "--json")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout) == {"reports": 300}
    assert (tmp_path / "job.key").stat().st_mode & 0o777 == 0o600
    made = run("aggregate", "--plan", "plan.json", "reports", "-o", "sketch.fns")
    assert made.returncode == 0, made.stderr
    assert "300 reports are in sketch.fns" in made.stdout
    made = run("query", "keys.parquet", "--sketch", "sketch.fns", "-o", "answers")
    assert made.returncode == 0, made.stderr
    found = parquet.read_table(tmp_path / "answers").to_pandas().sort_values("key")
    wanted = Reader(Sketch.load(tmp_path / "sketch.fns")).estimate([0, 1, 2, 999])
    np.testing.assert_array_equal(found["mean"], wanted.mean)
    missing = run("aggregate", "--plan", "plan.json", "nowhere", "-o", "none.fns")
    assert missing.returncode == 1
    assert "nowhere" in missing.stderr
    assert "Traceback" not in missing.stderr
