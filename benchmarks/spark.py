"""Aggregation on Spark against the same in one process: cold, warm, and where the time goes.

python -m benchmarks.spark [--reports 1e6] [--json FILE] [--plot FILE]

Every time is the CPU time of all processes that take part (driver, executors, Python workers), so
that other work on the machine changes little. The constants of `benchmarks.sizing` are
fitted to these rows; the plot shows that model.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import document, samples
from benchmarks.result import Row, shown
from benchmarks.script import finish, options, started
from benchmarks.sizing import Constants, Job, cost, factors, simulate
from faintly.client.bulk import randomize
from faintly.core import Plan
from faintly.engine.aggregate import Aggregator
from faintly.mechanisms import mechanism_of
from faintly.spark import aggregate, session
from faintly.spark.keys import secret_of, streams
from faintly.spark.pieces import entries_of
from faintly.spark.records import Sifter
from faintly.wire import report_v1

TICK = os.sysconf("SC_CLK_TCK")
FEW = 1000  # reports of a job that does nothing but start
TASKS = 200  # that do nothing
CLIENTS = 200  # encoded one by one
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# What the constants of the model are, and the row that one is fitted to.
CONSTANTS = {
    "report_s": ("a report: from Parquet through the JVM to Python, counted", "spark_report"),
    "byte_s": (
        "a byte of a partial table: cut, shuffled, added up, by tasks in Python",
        "spark_byte",
    ),
    "start_s": ("a task that does nothing, executor and driver together", "spark_task"),
    "collect_s": ("a byte of the result that the driver takes", "spark_collect"),
    "session_s": ("until executors run", ""),
    "bandwidth": ("bytes a second into one executor", ""),
    "spread": ("of the tasks' times: standard deviation of their logarithms", ""),
    "core_hour": ("money for a core and hour", ""),
}


def tree_cpu() -> float:
    """Return the CPU seconds of this process and of all that it started, ended ones included."""
    own: dict[int, list[int]] = {}
    spent: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        own.setdefault(int(fields[1]), []).append(int(path.parent.name))
        spent[int(path.parent.name)] = sum(map(int, fields[11:15]))
    total, waiting = 0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        total += spent.get(process, 0)
        waiting += own.get(process, [])
    return total / TICK


def timed(work: Callable[[], object], times: int = 1) -> float:
    """Return the CPU seconds of a piece of work: the best of some runs."""

    def once() -> float:
        before = tree_cpu()
        work()
        return tree_cpu() - before

    return min(once() for _ in range(times))


def rows(reports: int) -> Iterator[Row]:
    """Yield what was measured."""
    small = samples.open_plan(reports, bits=16)
    large = samples.open_plan(reports, maps=16, bits=20)
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder) / name) for name in ("all", "few", "large")}
        _write(paths["all"], small, reports)
        _write(paths["few"], small, FEW)
        _write(paths["large"], large, FEW)
        yield from _aggregations(small, large, paths, reports)
    yield _encoded(small)


def _aggregations(small: Plan, large: Plan, paths: dict[str, str], reports: int) -> Iterator[Row]:
    alone = timed(lambda: _alone(small, paths["all"]), 2)
    yield _row("spark_alone", f"one process: read {reports:,} reports, count them", alone)
    started("a session")
    held: list[Any] = []
    yield _row("spark_session", "start a session", timed(lambda: held.append(_session())))
    spark = held[0]
    frames = {name: spark.read.parquet(path) for name, path in paths.items()}
    started("cold and warm")
    cold = timed(lambda: aggregate(frames["all"], small))
    yield _row("spark_cold", "Spark, the first time", cold, alone)
    warm = timed(lambda: aggregate(frames["all"], small), 2)
    yield _row("spark_warm", "Spark, again", warm, alone)
    started("where it goes")
    few = timed(lambda: aggregate(frames["few"], small), 2)
    yield _row("spark_few", f"Spark with {FEW:,} reports: tasks, tables, driver", few)
    started("constants")
    wide = timed(lambda: aggregate(frames["large"], large), 2)
    shuffled = 2 * 4 * (entries_of(large) - entries_of(small))
    yield _each("spark_report", "a report", warm - few, reports)
    yield _each("spark_byte", "a byte of a partial table", wide - few, shuffled)
    tasks = spark.range(TASKS, numPartitions=TASKS)
    yield _each("spark_task", "a task of the JVM", timed(tasks.count, 2), TASKS)
    sent = spark.range(64, numPartitions=2).mapInArrow(_mebibytes, "data binary")
    taken = timed(sent.toArrow, 2) - timed(sent.count, 2)
    yield _each("spark_collect", "a byte that the driver takes", taken, 2**26)
    spark.stop()


def _session() -> Any:
    spark = session("benchmark", **SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _alone(plan: Plan, path: str) -> None:
    from pyarrow.parquet import ParquetFile

    aggregator, sifter = Aggregator(plan), Sifter(plan)
    for each in Path(path).iterdir():
        with ParquetFile(each) as file:
            for part in file.iter_batches():
                for batch in sifter.batches(part.column(0)):
                    aggregator.add(batch)
    aggregator.sketch()


def _mebibytes(batches: Any) -> Any:
    import pyarrow as pa

    for batch in batches:
        for _ in range(len(batch)):
            yield pa.RecordBatch.from_arrays([pa.array([bytes(2**20)])], ["data"])


def _encoded(plan: Plan) -> Row:
    """Return what bulk encoding costs a client, without Spark: a call for each, with its keys."""
    mechanism, vectors = mechanism_of(plan), samples.vectors(CLIENTS, plan.sparsity, 2**20)

    def encode() -> None:
        for i in range(CLIENTS):
            secret = secret_of(samples.SALT * 2, plan.digest, i.to_bytes(4, "little"))
            own = vectors.slice(i, i + 1)
            randomize(plan, mechanism, own, *streams(secret, plan.digest, own))

    return _each("spark_encode", "a client's report, encoded", timed(encode, 2), CLIENTS)


def _row(name: str, what: str, took: float, alone: float | None = None) -> Row:
    ratio = took / alone if alone else None
    return Row(name=name, what=what, ours=took, theirs=alone, unit="s", ratio=ratio)


def _each(name: str, what: str, seconds: float, count: int) -> Row:
    return Row(name=name, what=what, ours=seconds / count, unit="s")


def _write(path: str, plan: Plan, reports: int) -> None:
    """Write records as collectors seal them, in two files for two tasks."""
    import pyarrow as pa
    from pyarrow import parquet

    layout = mechanism_of(plan).layout
    kind = pa.binary(layout.record_bytes)
    Path(path).mkdir()
    for part, batch in enumerate(samples.batches(plan, reports, -(-reports // 2))):
        made = report_v1.pack(batch, layout)
        column = pa.FixedSizeBinaryArray.from_buffers(kind, len(made), [None, pa.py_buffer(made)])
        file = Path(path) / f"{part}.parquet"
        parquet.write_table(pa.table({"record": column}), file, use_dictionary=False)


def page(made: dict[str, Any]) -> Iterator[str]:
    """Yield the tables of docs/explanation/scale.md: what was measured, and the model."""
    found = {row["name"]: Row.from_document(row) for row in made["rows"]}
    yield "| work | CPU | against one process |"
    yield "|---|---:|---:|"
    for name in ("alone", "session", "cold", "warm"):
        what, ours, _, ratio, *_ = found[f"spark_{name}"].cells()
        yield f"| {what} | {ours} | {ratio} |"
    yield ""
    warm, few, alone = (found[f"spark_{name}"].ours for name in ("warm", "few", "alone"))
    yield "| where it goes, when warm | share |"
    yield "|---|---:|"
    parts = {
        "tasks, tables, driver, whatever the number of reports": few,
        "what one process needs: read, decode, count": alone,
        "the way of each report through the JVM to Python": warm - few - alone,
    }
    yield from (f"| {what} | {share / warm:.0%} |" for what, share in parts.items())
    yield ""
    yield f"Bulk encoding: {found['spark_encode'].cells()[1]} for each client, without Spark."
    yield ""
    yield "| constant | what it is | in the model | measured |"
    yield "|---|---|---:|---:|"
    for name, (what, row) in CONSTANTS.items():
        here = found[row].cells()[1] if row else "assumed"
        yield f"| `{name}` | {what} | {getattr(Constants(), name):.3g} | {here} |"
    yield ""
    yield from _costs()


def _costs() -> Iterator[str]:
    heads = "reports", "tables", "executors", "minutes", "shuffled", "memory of an executor"
    yield f"| {' | '.join(heads)} | money for 10^9 reports | bottleneck |"
    yield "|---|---|---:|---:|---:|---:|---:|---|"
    for power in (9, 11, 12):
        for entries in (2**22, 2**26):
            for executors in (10, 100, 1000):
                job = Job(reports=10.0**power, entries=entries, executors=executors)
                took = cost(job)
                sizes = (took.shuffle_bytes / 2**30, job.executor_bytes / 2**30)
                cells = [f"10^{power}", f"{job.table_bytes >> 20} MiB", f"{executors:,}"]
                cells += [f"{took.seconds / 60:.1f}", *(f"{size:.1f} GiB" for size in sizes)]
                cells += [shown(took.money * 1e9 / job.reports), took.bottleneck]
                yield f"| {' | '.join(cells)} |"


def plot(path: Path) -> None:
    """Draw the model, with the simulation beside it."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": "faintly", "svg.fonttype": "path"})
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    sizes = [2 ** (step / 2) for step in range(1, 23)]
    draws = factors(10_007)
    for power, color in ((9, "tab:blue"), (11, "tab:orange"), (12, "tab:red")):
        for entries, style, inside in ((2**22, "-", color), (2**26, "--", "white")):
            jobs = [Job(reports=10.0**power, entries=entries, executors=round(n)) for n in sizes]
            minutes = [cost(job).seconds / 60 for job in jobs]
            label = f"$10^{{{power}}}$ reports, {4 * entries >> 20} MiB of tables"
            axes.plot([job.executors for job in jobs], minutes, style, color=color, label=label)
            for executors in (10, 1000):
                job = Job(reports=10.0**power, entries=entries, executors=executors)
                seen = simulate(job, draws) / 60
                axes.plot(executors, seen, "o", color=color, markerfacecolor=inside, ms=4)
    axes.set(xscale="log", yscale="log", xlabel="executors of 4 cores", ylabel="minutes")
    axes.set_title("Aggregation on Spark: the model (lines) and a simulation (points)", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> int:
    """Measure, and draw the model if asked to."""
    parser = options("Spark")
    parser.add_argument("--reports", type=float, default=1e6, help="how many; 1e6 by default")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the model there")
    given = parser.parse_args()
    if given.plot is not None:
        plot(given.plot)
        return 0
    finish("Spark", document(list(rows(int(given.reports)))), given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
