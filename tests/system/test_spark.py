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
import threading
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from faintly import Reader, Sketch, aggregate
from faintly.cli import app
from faintly.engine.files import save_plan
from faintly.errors import InvalidData, InvalidInput, ReportRejected
from faintly.lake import Lake
from faintly.mechanisms import mechanism_of
from faintly.spark.pieces import entries_of
from faintly.spark.session import job
from faintly.wire import report_v1
from faintly_collector.admin.lake import commit
from faintly_collector.storage.store import Store, StoreLimits
from tests.collecting import submit
from tests.unit.spark.samples import made_up, plan_of, records

pyspark = pytest.importorskip("pyspark", reason="left out, no PySpark: make .venv/spark.stamp")
if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
    pytest.skip("left out, no Java: scripts/system_packages.sh", allow_module_level=True)

from faintly import spark as cluster  # noqa: E402

pytestmark = pytest.mark.long

REPORTS, SOME = 5_000_000, 200_000
PATIENCE_S = 300  # far beyond what any wait takes: then a test fails
PLAN = plan_of(mechanism="retrieval", maps=16)  # two pieces of tables
LEAN = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # these JVMs live for a minute
SETTINGS = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.port": "0",
    "spark.ui.showConsoleProgress": "false",
    "spark.cores.max": "3",  # one of them for a worker that joins
    "spark.scheduler.minRegisteredResourcesRatio": "0.6",  # no job begins with one executor
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
    "spark.sql.files.minPartitionNum": "4",
    "spark.sql.shuffle.partitions": "2",
    "spark.shuffle.compress": "false",  # so that what is shuffled can be counted
    "spark.executor.extraJavaOptions": LEAN,
    "spark.speculation": "true",  # which needs a second host: see other_host
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1",
}


@pytest.fixture(scope="module")
def spark():
    root = str(Path(__file__).resolve().parents[2])
    before = dict(os.environ)
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    os.environ |= {"PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{LEAN}' pyspark-shell"}
    os.environ["SPARK_DAEMON_JAVA_OPTS"] = LEAN
    # Executors unpickle functions of these tests.
    os.environ["PYTHONPATH"] = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
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


def stored(folder, count):
    """Write reports into four files, and return the sketch that one process makes of them."""
    folder.mkdir()
    batch = made_up(PLAN, count)
    values = records(batch, PLAN)
    for part in range(4):
        write(folder / f"{part}.parquet", values[part::4].copy())
    return aggregate(PLAN, [batch])


@pytest.fixture(scope="module")
def some(spark, tmp_path_factory):
    """Return a DataFrame of some reports, and the sketch that one process makes of them."""
    folder = tmp_path_factory.mktemp("some") / "reports"
    alone = stored(folder, SOME)
    return spark.read.parquet(str(folder)), alone


def ask(spark, what):
    """Return what Spark's own REST interface says now."""
    context = spark.sparkContext
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{what}"
    with urllib.request.urlopen(address) as answer:
        return json.load(answer)


def told(spark, what):
    """Return what Spark's own REST interface says, once it has heard of everything.

    It hears of jobs one after the other, so one more job is run, which shuffles nothing.
    """
    context, late = spark.sparkContext, time.monotonic() + PATIENCE_S
    mark = f"mark {time.monotonic_ns()}"
    context.setJobDescription(mark)
    context.parallelize([0], 1).count()
    context.setJobDescription(None)
    while mark not in [each.get("description") for each in ask(spark, "jobs?status=succeeded")]:
        assert time.monotonic() < late, "Spark does not tell of a job that has ended"
        time.sleep(0.01)
    return ask(spark, what)


def shuffled(spark, reports, wanted):
    """Return the bytes that an aggregation shuffles, by Spark's own count."""
    before = {stage["stageId"] for stage in told(spark, "stages")}
    made = cluster.aggregate(reports, PLAN)
    assert made.sketch == wanted
    assert made.rejected == {}
    new = [stage for stage in told(spark, "stages") if stage["stageId"] not in before]
    return sum(stage["shuffleWriteBytes"] for stage in new)


def test_five_million_reports_give_the_sketch_of_one_process(spark, some, tmp_path):
    """And as many bytes are shuffled as for a few: the tables of each task, and its counts."""
    alone = stored(tmp_path / "reports", REPORTS)
    many = shuffled(spark, spark.read.parquet(str(tmp_path / "reports")), alone)
    assert alone.count == REPORTS
    few = shuffled(spark, *some)
    tables = 2 * 4 * entries_of(PLAN)
    assert tables <= few <= many <= tables + 4096
    assert many - few < 256, "counts have more digits, and nothing else grows"
    assert shuffled(spark, some[0].repartition(2), some[1]) > tables + 4096  # so reports would show
    working = {each["id"] for each in told(spark, "executors") if each["totalTasks"]}
    assert working >= {"0", "1"}, "executors are processes of their own, not threads of the driver"


def faulty(how, marks, after=3):
    """Return a function for mapInArrow that hands batches on, and fails a first attempt."""

    def pass_on(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        for number, batch in enumerate(batches):
            if number == after and context.partitionId() == 0:
                Path(marks, f"attempt-{context.attemptNumber()}").touch()
                if context.attemptNumber() == 0 and how == "kill":  # the worker of this task
                    os.kill(os.getpid(), signal.SIGKILL)
                if context.attemptNumber() == 0:
                    raise RuntimeError("planted")
            yield batch

    return pass_on


@pytest.mark.parametrize("how", ["raise", "kill"])
def test_failed_and_killed_tasks_change_no_integer(spark, some, tmp_path, how):
    reports, alone = some
    reports = reports.mapInArrow(faulty(how, str(tmp_path)), "record binary")
    assert cluster.aggregate(reports, PLAN).sketch == alone
    assert (tmp_path / "attempt-1").exists(), "the fault was planted"


@contextmanager
def other_host(spark, folder):
    """Let a worker with an address of its own join the cluster, and leave it.

    Spark starts no speculative copy of a task on the host that runs it.
    """
    executors = [each for each in told(spark, "executors") if each["id"] != "driver"]
    page = urljoin(executors[0]["executorLogs"]["stdout"], "/json/")  # of a worker
    with urllib.request.urlopen(page) as answer:
        master = json.load(answer)["masterurl"]
    command = [Path(pyspark.__file__).with_name("bin") / "spark-class"]
    command += ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.2", "--webui-port", "0"]
    command += ["--cores", "1", "--memory", "1g", "--work-dir", folder, master]
    with subprocess.Popen(command) as worker:
        try:
            yield
        finally:
            worker.kill()  # its executor ends with it
    late = time.monotonic() + PATIENCE_S
    while any("127.0.0.2" in each["hostPort"] for each in ask(spark, "executors")):
        assert time.monotonic() < late, "the worker has not left"
        time.sleep(0.01)


def paired(winner, marks):
    """Return a function for mapInArrow that hands batches on, and then waits for a second attempt.

    When both have handed everything on, the winner ends; Spark kills the other, which waits on.
    """

    def pass_on(batches):
        from pyspark import TaskContext

        yield from batches
        context, late = TaskContext.get(), time.monotonic() + PATIENCE_S
        if context.partitionId() == 0:
            attempt = context.attemptNumber()
            Path(marks, f"attempt-{attempt}").touch()
            other = Path(marks, f"attempt-{1 - attempt}")
            while time.monotonic() < late and not (attempt == winner and other.exists()):
                time.sleep(0.01)

    return pass_on


def test_speculative_tasks_change_no_integer(spark, some, tmp_path):
    """Whether the first attempt wins, or its copy."""
    reports, alone = some
    with other_host(spark, tmp_path / "worker"):
        for winner in (0, 1):
            marks = tmp_path / f"marks-{winner}"
            marks.mkdir()
            frame = reports.mapInArrow(paired(winner, str(marks)), "record binary")
            assert cluster.aggregate(frame, PLAN, tasks=4).sketch == alone
            done = told(spark, "stages?status=complete")
            stage = max(each["stageId"] for each in done if each["numTasks"] == 4)
            tasks = told(spark, f"stages/{stage}/0/taskList")
            pair = [each for each in tasks if each["index"] == 0]
            copies = [each["attempt"] for each in pair if each["speculative"]]
            ended = [each["attempt"] for each in pair if each["status"] == "SUCCESS"]
            assert (len(pair), copies, ended) == (2, [1], [winner])


def test_a_killed_executor_changes_no_integer(spark, some, tmp_path):
    """It has one task half done, and takes what others have made with it."""
    reports, alone = some
    marks, go = tmp_path / "marks", tmp_path / "go"
    marks.mkdir()

    def waiting(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        mark = marks / f"{context.partitionId()}-{context.taskAttemptId()}"
        # The parent of a worker is Python's daemon, and its parent the executor.
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
        mark.symlink_to(daemon[1])
        for number, batch in enumerate(batches):
            # Two cores have done two tasks before they begin the third.
            while number == 3 and context.partitionId() > 1 and not go.exists():
                time.sleep(0.01)
            yield batch

    def executors(partitions):
        begun = [mark for number in partitions for mark in marks.glob(f"{number}-*")]
        return {int(mark.readlink().name) for mark in begun}

    def kill():
        # One of those that wait has done a task before, whichever was the quicker.
        while not (both := executors((0, 1)) & executors((2, 3))):
            time.sleep(0.01)
        executor = both.pop()
        command = Path(f"/proc/{executor}/cmdline").read_text()
        if "CoarseGrainedExecutorBackend" in command and application in command:
            os.kill(executor, signal.SIGKILL)
            killed.append(executor)
        go.touch()

    killed, application = [], spark.sparkContext.applicationId
    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    frame = reports.mapInArrow(waiting, "record binary")
    assert cluster.aggregate(frame, PLAN, tasks=4).sketch == alone
    killer.join()
    assert killed
    assert len(list(marks.iterdir())) > 5, "the half and the whole are done again"


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


def test_estimates_of_keys_are_those_of_one_process(spark, some):
    """Broadcast, and by SQL."""
    _, alone = some
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


@pytest.mark.parametrize("decode", ["direct", "table"])
def test_a_frame_without_partitions_has_no_answers(spark, decode):
    nothing = spark.createDataFrame(spark.sparkContext.emptyRDD(), "record binary")
    keys = spark.createDataFrame([(3,)], "key long")
    with pytest.raises(InvalidInput, match="no reports"):
        cluster.query_reports(nothing, plan_of(decode), keys)


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
        faulty("raise", str(tmp_path), after=0), "client string, key long, value double"
    )
    again = cluster.encode(broken, plan, key, value="value", partitions=2)
    assert [bytes(row.record) for row in again.collect()] == once
    assert (tmp_path / "attempt-1").exists(), "the fault was planted"
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


def test_a_lake_is_read_by_executors(spark, s3, tmp_path):
    """One committed state, over the S3 protocol and from a path; files must be of the plan."""
    folder, table, local = tmp_path / "data", "s3://lake/spark", tmp_path / "lake"
    layout, batch = mechanism_of(PLAN).layout, made_up(PLAN, 3000)
    alone = aggregate(PLAN, [batch])
    save_plan(PLAN, tmp_path / "plan.json")
    store = Store.open(folder, StoreLimits(seal_s=1e9))
    store.registry.create(PLAN)
    for start in range(0, 3000, 1000):
        body = report_v1.encode_batch(batch.take(slice(start, start + 1000)), layout)
        submit(store, PLAN.digest, 0, bytes([start // 1000] * 16), body)
        store.seal(PLAN.digest)
    store.close()
    state = commit(folder, Lake(table, s3))
    found = Lake(table, s3).snapshot(PLAN.digest.hex(), version=state.version)
    assert len(found.files) == 3
    reports = cluster.read_segments(spark, table, found.files, PLAN, s3)
    assert cluster.aggregate(reports, PLAN).sketch == alone
    other = plan_of(mechanism="retrieval", maps=1)
    foreign = cluster.read_segments(spark, table, found.files, other, s3)
    with pytest.raises(InvalidInput, match="not hold reports of this plan"):
        cluster.aggregate(foreign, other)
    commit(folder, Lake(local))
    words = ["--plan", tmp_path / "plan.json", "--lake", local, "-o", tmp_path / "sketch.fns"]
    done = CliRunner().invoke(app, ["spark", "aggregate", *map(str, words)])
    assert done.exit_code == 0, done.exception
    assert Sketch.load(tmp_path / "sketch.fns") == alone


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


def test_the_commands_from_raw_rows_to_estimates(spark, tmp_path):
    """In a session that is there, which goes on; and in a process with one of its own."""

    def at(name):  # a session keeps the folder that it began in
        return str(tmp_path / name)

    plan = plan_of(mechanism="signed-binning", epsilon=4.0, clients=300)
    save_plan(plan, tmp_path / "plan.json")
    rows = {"who": [f"client-{n}" for n in range(300)], "site": [n % 3 for n in range(300)]}
    parquet.write_table(pa.table(rows), at("rows.parquet"))
    parquet.write_table(pa.table({"key": [0, 1, 2, 999]}), at("keys.parquet"))

    def run(*words):
        return CliRunner().invoke(app, ["spark", *words])

    encode = "encode", at("rows.parquet"), "--plan", at("plan.json"), "--key-file", at("job.key")
    made = run(*encode, "--client", "who", "--key", "site", "-o", at("reports"), "--json")
    assert made.exit_code == 0, made.exception
    assert json.loads(made.stdout) == {"reports": 300}
    assert (tmp_path / "job.key").stat().st_mode & 0o777 == 0o600
    command = [sys.executable, "-m", "faintly", "spark", "aggregate", "--plan", "plan.json"]
    command += ["reports", "-o", "sketch.fns"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "300 reports are in sketch.fns" in done.stdout
    made = run("query", at("keys.parquet"), "--sketch", at("sketch.fns"), "-o", at("answers"))
    assert made.exit_code == 0, made.exception
    found = parquet.read_table(tmp_path / "answers").to_pandas().sort_values("key")
    wanted = Reader(Sketch.load(tmp_path / "sketch.fns")).estimate([0, 1, 2, 999])
    np.testing.assert_array_equal(found["mean"], wanted.mean)
    missing = run("aggregate", "--plan", at("plan.json"), at("nowhere"), "-o", at("none.fns"))
    assert isinstance(missing.exception, InvalidInput)
    assert "nowhere" in str(missing.exception)
