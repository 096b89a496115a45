"""Aggregation on Spark against the same in one process: cold, warm, and where the time goes.

python -m benchmarks.spark [--reports 2e6] [--json FILE] [--plot FILE]

Every time is CPU time of all processes that take part, driver, executors and Python workers, so
that whatever else the machine does changes little; the wall clock stands beside it. The constants
of `faintly.spark.sizing` are fitted to these rows; the plot shows that model.
"""

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import document, samples
from benchmarks.result import Row
from benchmarks.script import finish, options, started
from faintly import aggregate
from faintly.core import Plan, ReportBatch
from faintly.mechanisms import mechanism_of
from faintly.spark import aggregate as on_spark
from faintly.spark import pieces, session
from faintly.spark.sizing import Job, cost, factors, simulate
from faintly.wire import report_v1

TICK = os.sysconf("SC_CLK_TCK")
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
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


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the CPU seconds of a piece of work, and those of the clock."""
    cpu, clock = tree_cpu(), time.perf_counter()
    work()
    return tree_cpu() - cpu, time.perf_counter() - clock


def rows(reports: int) -> Iterator[Row]:
    """Yield what was measured."""
    plan = samples.one_cell_plan(reports, 2**10)
    batches = list(samples.batches(plan, reports, 2**17))
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder) / "reports.parquet", plan, batches)
        yield from _aggregations(plan, batches, str(Path(folder) / "reports.parquet"))
    yield from _pieces()


def _aggregations(plan: Plan, batches: list[ReportBatch], path: str) -> Iterator[Row]:
    reports = sum(map(len, batches))
    alone, _ = timed(lambda: aggregate(plan, batches))
    started("a session")
    held: list[Any] = []
    begun = timed(lambda: held.append(session("benchmark", **SETTINGS)))
    spark = held[0]
    spark.sparkContext.setLogLevel("ERROR")
    yield _row("spark_session", "start a session", begun, None, reports)
    frame = spark.read.parquet(path)
    started("cold and warm")
    cold = timed(lambda: on_spark(frame, plan))
    yield _row("spark_cold", "aggregate, the first time", cold, alone, reports)
    warm = min(timed(lambda: on_spark(frame, plan)) for _ in range(3))
    yield _row("spark_warm", "aggregate again", warm, alone, reports)
    started("where it goes")
    empty = min(timed(lambda: on_spark(frame.limit(0), plan)) for _ in range(3))
    yield _row(
        "spark_empty", "the same without reports: tables, tasks, driver", empty, None, reports
    )
    read = min(timed(lambda: _consume(frame)) for _ in range(3))
    yield _row("spark_read", "read the file, hand it to Python, drop it", read, None, reports)
    spark.stop()


def _consume(frame: Any) -> None:
    def drop(batches: Any) -> Any:
        for _ in batches:
            pass
        return iter(())

    frame.mapInArrow(drop, "record binary").count()


def _pieces() -> Iterator[Row]:
    """Yield what adding up a partial table costs, without Spark."""
    entries = 2**24
    flat = np.arange(entries, dtype=np.int32)

    def add() -> None:
        adder = pieces.Adder(entries)
        for row in pieces.split(flat):
            adder.add(*row)
        for row in pieces.split(flat):
            adder.add(*row)
        Counter(piece for piece, _ in adder.rows())

    spent, _ = min(timed(add) for _ in range(3))
    yield Row(
        name="spark_byte",
        what="cut a table, add it up, write it: one byte",
        ours=spent / (2 * 4 * entries) * 1e9,
        unit="ns",
    )


def _row(name: str, what: str, took: tuple[float, float], alone: float | None, reports: int) -> Row:
    cpu, clock = took
    note = f"{what}: {clock:.1f} s by the clock, of a machine that may be busy; {reports:,} reports"
    ratio = cpu / alone if alone else None
    return Row(name=name, what=what, ours=cpu, theirs=alone, unit="s", ratio=ratio, note=note)


def _write(path: Path, plan: Plan, batches: list[ReportBatch]) -> None:
    """Write records as collectors seal them."""
    import pyarrow as pa
    from pyarrow import parquet

    layout = mechanism_of(plan).layout
    kind = pa.binary(layout.record_bytes)
    with parquet.ParquetWriter(path, pa.schema([("record", kind)]), use_dictionary=False) as out:
        for batch in batches:
            made = report_v1.pack(batch, layout)
            buffers = [None, pa.py_buffer(made)]
            column = pa.FixedSizeBinaryArray.from_buffers(kind, len(made), buffers)
            out.write_table(pa.table({"record": column}))


def plot(path: Path) -> None:
    """Draw the model, with the simulation beside it."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    sizes = [2 ** (step / 2) for step in range(1, 23)]
    draws = factors(10_007)
    for reports, color in ((1e9, "tab:blue"), (1e11, "tab:orange"), (1e12, "tab:red")):
        for entries, style in ((2**22, "-"), (2**26, "--")):
            jobs = [Job(reports=reports, entries=entries, executors=round(n)) for n in sizes]
            minutes = [cost(job).seconds / 60 for job in jobs]
            label = f"{reports:.0e} reports, {4 * entries >> 20} MiB of tables"
            axes.plot([job.executors for job in jobs], minutes, style, color=color, label=label)
            for executors in (10, 1000):
                job = Job(reports=reports, entries=entries, executors=executors)
                axes.plot(executors, simulate(job, draws) / 60, "o", color=color, ms=4)
    axes.set(xscale="log", yscale="log", xlabel="executors of 4 cores", ylabel="minutes")
    axes.set_title("Aggregation on Spark: the model (lines) and a simulation (points)", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    figure.savefig(path)


def main() -> int:
    """Measure, and draw the model if asked to."""
    parser = options("Spark")
    parser.add_argument("--reports", type=float, default=2e6, help="how many; 2e6 by default")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the model there")
    given = parser.parse_args()
    if given.plot is not None:
        plot(given.plot)
        return 0
    finish("Spark", document(list(rows(int(given.reports)))), given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
