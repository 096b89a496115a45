"""What a server does besides decoding: ingest, stream, merge, answer text keys."""

import numpy as np

from benchmarks import samples
from benchmarks.measure import (
    PROCESSOR,
    Effort,
    Timing,
    compare,
    forget_peak,
    measure,
    one_core,
    peak_bytes,
)
from benchmarks.result import Row, amount, cost, rate
from faintly.engine import Aggregator, Reader, aggregate, decode
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1

BATCH = 2**17  # reports: two megabytes of columns
FIRST = 2**20  # reports after which memory must stay flat
FLAT_MIB = 8.0  # what an allocator may keep for itself


def ingest(effort: Effort, reports: int = 2**20) -> list[Row]:
    """Return how many reports a core takes from wire bytes into a sketch in a second."""
    plan = samples.one_cell_plan(reports, 100_000)
    layout = mechanism_of(plan).layout
    packed = [report_v1.encode_batch(batch, layout) for batch in samples.batches(plan, reports)]
    aggregator = Aggregator(plan)

    def take() -> None:
        for data in packed:
            aggregator.add(decode(plan, data))

    with one_core():
        timing = measure(take, effort)
    what = f"ingest reports of {layout.record_bytes} bytes, checksum and all"
    return [rate("ingest_per_s", what, timing, reports, unit="reports/s")]


def stream(effort: Effort, reports: int = 10_000_000) -> list[Row]:  # noqa: ARG001  one pass is all
    """Return how fast reports of one cell stream through, and what memory that takes."""
    plan = samples.one_cell_plan(reports, 100_000)
    aggregator, seconds, taken, level = Aggregator(plan), 0.0, 0, 0
    forget_peak()
    with one_core():
        for batch in samples.batches(plan, reports, BATCH):
            start = PROCESSOR()
            aggregator.add(batch)
            seconds += PROCESSOR() - start
            taken += len(batch)
            if not level and taken >= min(FIRST, reports):
                level = peak_bytes()
    grown = (peak_bytes() - level) / 2**20
    assert aggregator.sketch().count == taken == reports
    what = f"stream {reports:,} reports of one cell"
    timing = Timing(seconds, seconds)
    growth = f"{what}: growth of the peak after the first {FIRST:,}"
    return [
        rate(
            "stream_per_s", what, timing, reports, unit="reports/s", note="made outside the clock"
        ),
        amount("stream_growth", growth, grown, unit="MiB", at_most=FLAT_MIB),
        amount("stream_peak", f"{what}: peak of the process", peak_bytes() / 2**20, unit="MiB"),
    ]


def text_keys(effort: Effort, keys: int = 1_000_000, reports: int = 100_000) -> list[Row]:
    """Return the processor time that text keys take after one transform."""
    plan = samples.open_plan(reports)
    reader = Reader(aggregate(plan, samples.batches(plan, reports)))
    texts = [f"key-{number}" for number in range(keys)]
    with one_core():
        reader.estimate(texts[:1])  # the transform, made once
        timing = measure(lambda: reader.estimate(texts), effort)
    what = f"answer {keys:,} text keys from 4 tables, after one transform"
    note = "hashing of the texts, errors and exact scores included"
    return [amount("text_keys_cpu_s", what, timing.best, unit="s of CPU", at_most=1.0, note=note)]


def merge(effort: Effort, reports: int = 100_000) -> list[Row]:
    """Return how merging two sketches compares with adding their tables in numpy."""
    plan = samples.one_cell_plan(reports, 2**20)
    left = aggregate(plan, samples.batches(plan, reports))
    right = aggregate(plan, samples.batches(plan, reports))
    assert left.tables is not None and right.tables is not None
    tables = left.tables, right.tables
    with one_core():
        pair = compare(lambda: left.merge(right), lambda: np.add(*tables), effort)
    what = "merge two sketches of 2^20 entries, against adding arrays"
    return [cost("merge_vs_add", what, pair)]
