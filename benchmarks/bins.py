"""Tables of bins beside dense tables of as many cells: what sets cost a server more."""

from typing import Any

import numpy as np

from benchmarks import samples
from benchmarks.measure import Effort, Timing, compare, one_core
from benchmarks.result import Row, cost
from faintly.core import Plan, ReportBatch
from faintly.engine import Aggregator

AT_MOST = 1.5  # times what the dense form takes
# By form: options, and maps for as many cells as sixteen dense tables have. Signed bins have two
# cells for each code.
FORMS: dict[str, tuple[dict[str, Any], int]] = {
    "unsigned": ({"bins": 64, "values": "set"}, 16),
    "bins": ({"bins": 64}, 8),
}


def ingested(plan: Plan, batch: ReportBatch) -> Aggregator:
    """Return an aggregator that has counted the batch."""
    aggregator = Aggregator(plan)
    aggregator.add(batch)
    return aggregator


def pairs(
    form: str, effort: Effort, reports: int, bits: int
) -> tuple[tuple[Timing, Timing], tuple[Timing, Timing]]:
    """Return the timings of ingestion, and of decoding every key, each beside the dense form's."""
    options, maps = FORMS[form]
    ids = np.arange(2**bits, dtype=np.uint64)
    plans = (
        samples.choice_plan(reports, 2**bits, form=form, bits=bits, maps=maps, **options),
        samples.choice_plan(reports, 2**bits, form="dense", bits=bits, maps=16),
    )
    batches = [next(samples.batches(plan, reports, reports)) for plan in plans]
    made = [ingested(plan, batch) for plan, batch in zip(plans, batches, strict=True)]
    sketches = [one.sketch() for one in made]
    mechanisms = [one.mechanism for one in made]

    def decoded(which: int) -> None:
        tables = sketches[which].tables
        assert tables is not None
        mechanism = mechanisms[which]
        mechanism.tables.gather(mechanism.tables.transform(tables), ids)

    with one_core():
        ingest = compare(
            lambda: ingested(plans[0], batches[0]), lambda: ingested(plans[1], batches[1]), effort
        )
        return ingest, compare(lambda: decoded(0), lambda: decoded(1), effort)


def bins(effort: Effort, reports: int = 1_000_000, bits: int = 16) -> list[Row]:
    """Return how forms with bins compare with the dense form."""
    rows = []
    cells = 16 * 2**bits
    against = f"against the dense form with as many cells, {cells:,}"
    for form in FORMS:
        ingest, decode = pairs(form, effort, reports, bits)
        what = f"ingest {reports:,} reports of form {form}, {against}"
        rows.append(cost(f"{form}_ingest_vs_dense", what, ingest, at_most=AT_MOST))
        what = f"transform and read {2**bits:,} keys of form {form}, {against}"
        rows.append(cost(f"{form}_decode_vs_dense", what, decode, at_most=AT_MOST))
    return rows
