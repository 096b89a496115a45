"""Merging sketches into one, in threads and in little memory.

A few dozen are mapped at a time and added to the sum of those before. Tables are added range by
range, so that a sum is written once and stays in the cache; each thread has ranges of its own, and
only one sum is in memory. The order of addition does not change the integers.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from faintly.core import Sketch, TableArray
from faintly.core.sketch import MOST_REPORTS, table_type
from faintly.engine import columns
from faintly.engine.files import load_sketch
from faintly.errors import InvalidInput, Reject, SketchRejected
from faintly.kernels.threads import threads as usual_threads

MERGE_FAN_IN = 64  # sketches that are mapped at a time: each holds a file open
RANGE = 2**18  # entries that one thread adds up at a time

Source = Sketch | Path
Run = Callable[[Callable[[int], None], range], Iterable[None]]  # `map`, or that of threads


def merge_all(
    sources: Iterable[Source], threads: int | None = None, spool: Path | None = None
) -> Sketch:
    """Return the sketch of all reports together: the same bytes for every order and thread count.

    Args:
        sources: sketches of one plan, or their files, of which a few dozen are open at a time.
        threads: how many to use; by default as many as kernels use.
        spool: a folder for the columns of direct mode, where they are too many for memory.
    """
    remaining, merged = iter(sources), None
    with ThreadPoolExecutor(threads or usual_threads()) as pool:
        while group := list(pool.map(_opened, islice(remaining, MERGE_FAN_IN))):
            merged = _merge(merged, group, pool.map, spool)
    if merged is None:
        raise InvalidInput("there is nothing to merge; give at least one sketch")
    return merged


def merge_two(one: Sketch, other: Sketch) -> Sketch:
    """Return the sketch of both sets of reports together, in memory."""
    return _merge(None, [one, other], map, None)


def _opened(source: Source) -> Sketch:
    return source if isinstance(source, Sketch) else load_sketch(source)


def _merge(before: Sketch | None, group: list[Sketch], run: Run, spool: Path | None) -> Sketch:
    every = group if before is None else [before, *group]
    counts = _merged_counts(every)
    if counts.tables is None:
        runs = [
            (sketch.hash_seeds, sketch.fields)
            for sketch in every
            if sketch.hash_seeds is not None and sketch.fields is not None
        ]
        assert counts.fields is not None
        seeds, fields = columns.merge_runs(runs, counts.fields.shape[1], spool)
        return replace(counts, hash_seeds=seeds, fields=fields)
    tables = [sketch.tables for sketch in every if sketch.tables is not None]
    wanted = table_type(counts.mass)
    return replace(counts, tables=_sum(tables, wanted, before is not None, run))


def _merged_counts(sketches: list[Sketch]) -> Sketch:
    """Return the first sketch with the counts of all; its tables or columns are still its own."""
    first = sketches[0]
    for other in sketches[1:]:
        if first.plan.digest != other.plan.digest:
            raise SketchRejected(
                Reject.OTHER_PLAN,
                f"cannot merge sketches of different plans ({first.plan.digest.hex()} and "
                f"{other.plan.digest.hex()})",
            )
    if sum(int(each) for sketch in sketches for each in sketch.reports) >= MOST_REPORTS:
        raise InvalidInput("together the sketches have 2^62 reports or more; keep them separate")
    return replace(
        first,
        reports=np.sum([sketch.reports for sketch in sketches], axis=0),
        squares=sum(sketch.squares for sketch in sketches),
        mass=sum(sketch.mass for sketch in sketches),
    )


def _sum(tables: list[TableArray], wanted: type, reuse: bool, run: Run) -> TableArray:
    """Return the sum of all tables; in place of the first if `reuse` and if its type fits."""
    if len(tables) == 1:
        return tables[0].astype(wanted)
    out = tables[0] if reuse and tables[0].dtype == wanted else np.empty(tables[0].shape, wanted)
    parts = [table.reshape(-1) for table in tables]
    total = out.reshape(-1)

    def add(start: int) -> None:
        piece = slice(start, start + RANGE)
        np.add(parts[0][piece], parts[1][piece], out=total[piece], dtype=wanted)
        for part in parts[2:]:
            total[piece] += part[piece]

    list(run(add, range(0, len(total), RANGE)))
    return out
