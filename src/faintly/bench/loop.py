"""What the kernels are compared with: plain loops in C, or in numpy where C is not there."""

import numpy as np

from faintly import kernels
from faintly.core import IdArray, IntArray, NarrowArray, TableArray, WordArray
from faintly.kernels import comparison, reference

LANGUAGE = "C" if kernels.active == "c" else "numpy"


def bare_add(tables: TableArray, index: WordArray, weight: NarrowArray) -> None:
    """Add weights at random places, checking nothing."""
    if kernels.active == "c":
        comparison.bare_add(tables, index, weight)
    else:
        np.add.at(tables.reshape(-1), index, weight)


def paper_loop(seeds: IdArray, values: IntArray, ids: IdArray) -> IntArray:
    """Return the totals of the paper's estimator: for each key a pass over all reports."""
    if kernels.active == "c":
        return comparison.paper_loop(seeds, values, ids)
    return reference.read_prf(seeds, values, ids)
