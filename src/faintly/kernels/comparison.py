"""What the kernels are measured against: plain loops in C, for benchmarks and nothing else."""

import numpy as np

from faintly.core.arrays import IdArray, IntArray, NarrowArray, TableArray, WordArray
from faintly.kernels import arguments
from faintly.kernels.compiled import call


def bare_add(tables: TableArray, index: WordArray, weight: NarrowArray) -> None:
    """Add weight[i] to entry index[i] of the flattened tables: a random read-modify-write.

    Indices are not checked, since that would be part of what is timed: make them yourself.
    """
    bits = arguments.tables(tables, "tables")
    index, weight = arguments.cells(index, weight)
    call(f"faintly_bare_add_{bits}", tables, index, weight, len(index))


def paper_loop(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return what `read_prf` returns, by the paper's formula: for each key over each report."""
    seeds, values, ids = arguments.hashed_reports(seeds, values, ids)
    totals = np.zeros(len(ids), dtype=np.int64)
    call("faintly_paper_loop", seeds, values, values.shape[1], len(seeds), ids, len(ids), totals)
    return totals
