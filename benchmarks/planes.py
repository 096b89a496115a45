"""Reports of sets at event level, read without tables: planes of one bit of 512 reports each."""

import numpy as np

from benchmarks import comparison, samples
from benchmarks.comparison import LANGUAGE
from benchmarks.decode import PAIRS_OF_LOOP
from benchmarks.measure import Effort, compare, measure, one_core
from benchmarks.result import Row, amount, gain
from faintly.core import Plan
from faintly.engine import Aggregator
from faintly.mechanisms.orthogonal import Orthogonal


def planes(
    effort: Effort, reports: int = 200_000, keys: int = 1_000, listed: int = 50_000
) -> list[Row]:
    """Return how reading orthogonal reports by planes of bits compares with a loop over pairs.

    Also how long a whole top list of many keys takes.
    """
    plan = samples.orthogonal_plan(reports, keys)
    mechanism, ids = Orthogonal.from_plan(plan), np.arange(keys, dtype=np.uint64)
    (batch,) = samples.batches(plan, reports, reports)
    draw, size = samples.generator(), -(-mechanism.bits // 32)
    rows = draw.integers(0, 2**32, (keys, mechanism.channel.most, size), dtype=np.uint32)
    cells = np.ascontiguousarray(batch.fields[:, 1:])
    subset = max(1, PAIRS_OF_LOOP // reports)
    with one_core():
        ours, some = compare(
            lambda: mechanism.read(batch, ids),
            lambda: comparison.hit_loop(cells, rows[:subset]),
            effort,
        )
    return [
        gain(
            "planes_vs_loop",
            f"read {keys:,} keys from {reports:,} reports of orthogonal, {mechanism.bits} bits, "
            f"hashing included, against a loop over the pairs in {LANGUAGE}",
            (ours, some.times(keys / subset)),
            at_least=5,
            note=f"the loop ran for {subset} keys with rows made before, and is scaled linearly",
        ),
        _top_list(samples.orthogonal_plan(reports, listed), reports, listed),
    ]


def _top_list(plan: Plan, reports: int, keys: int) -> Row:
    """Return the row of a top list of all keys, read as the command reads it."""
    aggregator = Aggregator(plan)
    for batch in samples.batches(plan, reports, reports):
        aggregator.add(batch)
    reader = aggregator.reader().watched(lambda: None)
    spent = measure(lambda: reader.top(100), Effort(rounds=1, seconds=0))
    return amount(
        "planes_top",
        f"top list of {keys:,} keys from {reports:,} reports of orthogonal, processor time of all "
        "cores",
        spent.best,
        unit="s",
        at_most=30,  # 15 seconds on two cores
    )
