"""What `make bench` measures the kernels against."""

import numpy as np

from faintly.core.arrays import IdArray, IntArray, NarrowArray, TableArray, WordArray
from faintly.kernels._native import available, call
from faintly.kernels.arguments import arrays
from faintly.kernels.binning import checked_reports, read_hashed
from faintly.kernels.orthogonal import checked_rows, read_hits
from faintly.kernels.tables import CELLS, table_bits

LANGUAGE = "C" if available() else "numpy"


def bare_add(table: TableArray, index: WordArray, weight: NarrowArray) -> None:
    """Add weight[i] to table[0, index[i]], with no check but of types: every index must fit."""
    bits = table_bits(table, "table")
    index, weight = arrays(CELLS, index, weight)
    if available():
        call(f"bare_add_{bits}", table, index, weight, len(index))
    else:
        np.add.at(table.reshape(-1), index, weight)


def paper_loop(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return Σ_i s_i(x)·values[i, h_i(x)] for each id x: one key, one report at a time."""
    if not available():
        return read_hashed(seeds, values, ids)
    seeds, values, ids = checked_reports(seeds, values, ids)
    totals = np.empty(len(ids), dtype=np.int64)
    columns = (seeds, values, values.shape[1], len(seeds))
    call("paper_loop", *columns, ids, len(ids), totals)
    return totals


def hit_loop(cells: WordArray, rows: WordArray) -> IntArray:
    """Return how many cells hit each key: one key, one cell, one row at a time."""
    if not available():
        return read_hits(cells, rows, 1)[1]
    cells, rows = checked_rows(cells, rows, 1)
    keys, count, words = rows.shape
    hits = np.empty(keys, dtype=np.int64)
    call("hit_loop", cells, len(cells), words, rows, keys, count, hits)
    return hits
