"""What `make bench` measures the kernels against: plain loops in comparison.c.

They are compiled when first used, into a library that only this process has. Without the C
kernels, numpy serves here, too.
"""

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from faintly import kernels
from faintly.core.arrays import IdArray, IntArray, NarrowArray, TableArray, WordArray
from faintly.kernels import compiled
from faintly.kernels.arguments import arrays
from faintly.kernels.binning import checked_reports, read_hashed
from faintly.kernels.native import HASHED, I32, INT, OUT_I32, OUT_I64, U32, Library, Signature
from faintly.kernels.orthogonal import checked_rows, read_hits
from faintly.kernels.tables import CELLS, table_bits

IN_C = compiled.available()
LANGUAGE = "C" if IN_C else "numpy"
SOURCE = Path(__file__).with_suffix(".c")
SIGNATURES: dict[str, Signature] = {
    "bare_add_32": (OUT_I32, U32, I32, INT),
    "bare_add_64": (OUT_I64, U32, I32, INT),
    "paper_loop": HASHED,
    "hit_loop": (U32, INT, INT, U32, INT, INT, OUT_I64),
}


def built() -> Library:
    """Return the library of the loops, compiled as the kernels are."""
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        raise SystemExit(
            f"the benchmarks compile loops in C, and there is no compiler {compiler}; install "
            "one, or name it: CC=clang make bench"
        )
    flags = ["-O3", "-std=gnu11", "-shared", "-fPIC", f"-I{Path(kernels.__file__).parent}"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "comparison.so"
        subprocess.run([compiler, *flags, "-o", path, SOURCE], check=True)
        return Library(path, SIGNATURES)  # stays loaded without its file


library = cache(built)


def bare_add(table: TableArray, index: WordArray, weight: NarrowArray) -> None:
    """Add weight[i] to table[0, index[i]], with no check but of types: every index must fit."""
    bits = table_bits(table, "table")
    index, weight = arrays(CELLS, index, weight)
    if IN_C:
        library().call(f"bare_add_{bits}", table, index, weight, len(index))
    else:
        np.add.at(table.reshape(-1), index, weight)


def paper_loop(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return Σ_i s_i(x)·values[i, h_i(x)] for each id x: one key, one report at a time."""
    if not IN_C:
        return read_hashed(seeds, values, ids)
    seeds, values, ids = checked_reports(seeds, values, ids)
    totals = np.empty(len(ids), dtype=np.int64)
    columns = (seeds, values, values.shape[1], len(seeds))
    library().call("paper_loop", *columns, ids, len(ids), totals)
    return totals


def hit_loop(cells: WordArray, rows: WordArray) -> IntArray:
    """Return how many cells hit each key: one key, one cell, one row at a time."""
    if not IN_C:
        return read_hits(cells, rows, 1)[1]
    cells, rows = checked_rows(cells, rows, 1)
    keys, count, words = rows.shape
    hits = np.empty(keys, dtype=np.int64)
    library().call("hit_loop", cells, len(cells), words, rows, keys, count, hits)
    return hits
