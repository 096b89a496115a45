"""Tables of rows and bins: what reports add to them, and how all codes are read.

unsigned  an entry for each cell; after the transform a code reads b·C - n, where C counts the
          reports in its bin
signed    two entries for each cell, one for each sign. Their differences, transformed, give the
          estimates; their sums the counts, whose share of all reports says how large the variance
          of a key is, since keys that more people hold have fuller bins
"""

from dataclasses import replace

import numpy as np

from faintly import kernels
from faintly.core import Cells, IdArray, IntArray, ReportBatch, TableArray
from faintly.primitives import hashing
from faintly.primitives.hashing import LinearBins, LinearMaps

AT_ONCE = 2**19  # entries of tables whose signs are parted while they stay in the cache


def transform(tables: TableArray, bins: LinearBins) -> TableArray:
    """Return tables of all codes, by way of the characters of their bins."""
    made = kernels.spread_bins(_wide_enough(tables, bins), bins)
    kernels.walsh_hadamard(made)
    return made


def _wide_enough(tables: TableArray, bins: LinearBins) -> TableArray:
    """Return the tables in integers that hold b times what one of them adds up to.

    Every report reads up to b at the codes of its bin.
    """
    heaviest = max(kernels.total_mass(one) for one in np.split(tables, len(tables)))
    wide = heaviest * bins.bins >= 2 ** (8 * tables.itemsize - 1)
    return tables.astype(np.int64) if wide else tables


def signed_cells(batch: ReportBatch, maps: IntArray, bits: int) -> Cells:
    """Return the entry that each report adds 1 to: that of its cell and its sign."""
    cell = batch.fields[:, 1] << np.uint32(1) | batch.fields[:, 0]
    index = maps.astype(np.uint32) << np.uint32(bits + 1) | cell
    return Cells(index, np.ones(len(batch), dtype=np.int32))


def signed_transform(tables: TableArray, bins: LinearBins) -> TableArray:
    """Return a row of estimates for each map, and below them a row of counts for each."""
    tables, unsigned = _wide_enough(tables, bins), replace(bins, signed=False)
    maps, codes = len(tables), tables.shape[1] // 2
    made = np.empty((2, maps, codes), dtype=tables.dtype)
    many = max(1, AT_ONCE // codes)
    room = np.empty((min(many, maps), codes), dtype=tables.dtype)
    for start in range(0, maps, many):
        some = slice(start, min(start + many, maps))
        plus, minus = tables[some, 0::2], tables[some, 1::2]
        here = room[: len(plus)]
        kernels.spread_bins(np.subtract(plus, minus, out=here), bins, made[0, some])
        kernels.spread_bins(np.add(plus, minus, out=here), unsigned, made[1, some])
    made = made.reshape(2 * maps, codes)
    kernels.walsh_hadamard(made)
    made[:maps] >>= bins.width  # exact: each is b times a sum over reports
    return made


def read(
    batch: ReportBatch, maps: IntArray, ids: IdArray, public: LinearMaps, bins: LinearBins
) -> IntArray:
    """Return what tables of these reports would give for each id, one key at a time."""
    rows, where = np.divmod(batch.fields[:, int(bins.signed)], np.uint32(bins.bins))
    said, found = hashing.to_signs(batch.fields[:, 0]), np.zeros(len(ids), dtype=np.int64)
    for position, one in enumerate(ids):
        mine = np.full(len(batch), one)
        place = bins.places(rows, public.codes(mine, maps))
        hit = place >> np.uint32(bins.signed) == where
        if bins.signed:
            turned = said * hashing.to_signs(place) * public.masks(mine, maps)
            found[position] = turned[hit].sum()
        else:
            found[position] = bins.bins * np.count_nonzero(hit) - len(batch)
    return found
