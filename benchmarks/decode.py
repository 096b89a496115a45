"""From reports to the totals of every key: by tables, directly, and by the paper's loop."""

from collections.abc import Iterable

import numpy as np

from benchmarks import comparison, samples
from benchmarks.comparison import LANGUAGE
from benchmarks.measure import (
    WALL,
    Effort,
    Timing,
    allocated_bytes,
    compare,
    one_core,
)
from benchmarks.result import Row, amount, cost, gain
from faintly import kernels
from faintly.core import AnyArray, IdArray, IntArray, Plan, ReportBatch
from faintly.engine import Aggregator, decode
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1

PAIRS_OF_LOOP = 2_000_000 if kernels.active == "c" else 300_000  # in the subset: about 20 ms


def all_totals(plan: Plan, batches: Iterable[ReportBatch], ids: IdArray) -> IntArray:
    """Return the integer behind the estimate of every id, by the engine's own calls."""
    aggregator = Aggregator(plan)
    for batch in batches:
        aggregator.add(batch)
    return aggregator.reader().totals(ids)


def full(effort: Effort, reports: int = 100_000, keys: int = 100_000) -> list[Row]:
    """Return how decoding every key by one table compares with the paper's loop."""
    plan = samples.one_cell_plan(reports, keys)
    batches = list(samples.batches(plan, reports, reports))
    ids = np.arange(keys, dtype=np.uint64)
    seeds, values = samples.paper_reports(reports)
    subset = max(1, PAIRS_OF_LOOP // reports)
    with one_core():
        ours, some = compare(
            lambda: all_totals(plan, batches, ids),
            lambda: comparison.paper_loop(seeds, values, ids[:subset]),
            effort,
        )
    return [
        gain(
            "decode_vs_loop",
            f"decode {keys:,} keys from {reports:,} reports, against the paper's loop in "
            f"{LANGUAGE}",
            (ours, some.times(keys / subset)),
            at_least=100_000,
            note=f"the loop ran for {subset} keys and is scaled linearly",
        )
    ]


def many_cells(effort: Effort, reports: int = 1_000_000, keys: int = 2**20) -> list[Row]:
    """Return how decoding 16 cells a report compares with copying the reports and tables."""
    plan = samples.many_cell_plan(reports, keys)
    layout = mechanism_of(plan).layout
    whole = samples.encoded(plan, reports, keys)
    starts = range(0, reports, report_v1.BATCH_REPORTS)
    batches = [whole.take(slice(start, start + report_v1.BATCH_REPORTS)) for start in starts]
    packed = [report_v1.encode_batch(batch, layout) for batch in batches]
    ids = np.arange(keys, dtype=np.uint64)
    tables = np.ones(mechanism_of(plan).tables.shape, dtype=np.int32)
    arrays: list[AnyArray] = [whole.hash_seeds, whole.fields, tables]
    copies = [array.copy() for array in arrays]

    def copy() -> None:
        for target, array in zip(copies, arrays, strict=True):
            np.copyto(target, array)

    def from_columns() -> IntArray:
        return all_totals(plan, batches, ids)

    def from_wire() -> IntArray:
        return all_totals(plan, (decode(plan, data) for data in packed), ids)

    with one_core():
        columns = compare(from_columns, samples.copier(*arrays), effort)
        stricter = compare(from_columns, copy, effort)
        wire = compare(from_wire, copy, effort)
        held = allocated_bytes(from_wire) / 2**20
    everywhere = compare(from_columns, copy, effort, clock=WALL)
    work = f"decode {keys:,} keys from {reports:,} reports of 16 cells"
    plain, against = "against ndarray.copy of reports and tables", "against np.copyto of them"
    return [
        cost("decode_vs_copy", f"{work}, {plain}", columns, at_most=10),
        cost("decode_vs_copyto", f"{work}, {against}", stricter),
        cost("decode_wire_vs_copyto", f"{work}, from wire bytes, {against}", wire),
        cost("decode_vs_copyto_all_cores", f"{work}, all cores, {against}", everywhere),
        amount("decode_memory", f"{work}: memory beyond the bytes", held, unit="MiB"),
    ]


def direct(effort: Effort, reports: int = 1_000_000, keys: int = 100) -> list[Row]:
    """Return how reading keys from the reports themselves compares with the paper's loop."""
    universe = 2**20
    cells, bins = (
        samples.one_cell_plan(reports, universe),
        samples.many_cell_plan(reports, universe, decode="direct"),
    )
    ids = np.arange(keys, dtype=np.uint64) * np.uint64(universe // keys)
    with one_core():
        parity = _against_loop(cells, reports, ids, effort)
        linear = _against_loop(bins, reports, ids[: max(1, keys // 10)], effort)
    against = f"against the paper's loop in {LANGUAGE}"
    note = "the loop ran for few keys and is scaled linearly"
    return [
        gain(
            "direct_vs_loop",
            f"read {keys} keys from {reports:,} reports by parity, {against}",
            parity,
            at_least=100,
            note=note,
        ),
        gain(
            "direct_bins_vs_loop",
            f"read {keys // 10} keys from {reports:,} reports of 16 linear bins, {against}",
            linear,
            note=note,
        ),
    ]


def _against_loop(plan: Plan, reports: int, ids: IdArray, effort: Effort) -> tuple[Timing, Timing]:
    mechanism = mechanism_of(plan)
    (batch,) = samples.batches(plan, reports, reports)
    seeds, values = samples.paper_reports(reports)
    subset = min(len(ids), max(1, PAIRS_OF_LOOP // reports))
    ours, some = compare(
        lambda: mechanism.read(batch, ids),
        lambda: comparison.paper_loop(seeds, values, ids[:subset]),
        effort,
    )
    return ours, some.times(len(ids) / subset)


def hashed(effort: Effort, reports: int = 100_000, keys: int = 10) -> list[Row]:
    """Return how reading the paper's own reports compares with its loop, for each pair."""
    plan = samples.binning_plan(reports, 2**20, family="prf", decode="direct")
    ids = np.arange(keys, dtype=np.uint64)
    with one_core():
        pair = _against_loop(plan, reports, ids, effort)
    return [
        cost(
            "prf_vs_loop",
            f"read hashed bins directly, against the paper's loop in {LANGUAGE}",
            pair,
            per=reports * keys,
            unit="ns/pair",
        )
    ]
