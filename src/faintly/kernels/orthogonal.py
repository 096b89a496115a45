"""Reading vectors that are orthogonal to the rows of keys: one by one, or from tables.

A cell hits a key if it is orthogonal to the key's rows and not 0. In C, cells are transposed
into bit planes, so that 512 of them are read together.
"""

import numpy as np

from faintly.core.arrays import AnyArray, IntArray, TableArray, WordArray
from faintly.kernels import threads
from faintly.kernels.arguments import arrays
from faintly.kernels.language import in_c
from faintly.kernels.native import call
from faintly.kernels.tables import table_bits
from faintly.primitives import hashing

MOST_ROWS = 8  # of a key
MOST_WORDS = 256  # of a cell; orthogonal.c has an array for them
NIBBLES, SUMS = 8, 16 * 8  # nibbles of a word; 64-bit words of the 16 sums of one's planes
LINE = 8  # 64-bit words of a cache line, where planes begin


def read_hits(cells: WordArray, rows: WordArray, first: int) -> IntArray:
    """Return (2, keys): how many cells hit the first rows of each key, and how many all of them.

    Args:
        cells: (reports, words) little-endian bit vectors.
        rows: (keys, count, words) the rows of each key.
        first: how many of its rows count as the first.
    """
    cells, rows = checked_rows(cells, rows, first)
    keys, count, words = rows.shape

    def read(some: slice, queried: slice, sums: IntArray) -> None:
        mine, some_rows = cells[some], rows[queried]
        scratch = np.empty(SUMS * NIBBLES * words + LINE, dtype=np.uint64)
        sizes = (len(mine), words, some_rows, len(some_rows), count, first)
        call("read_hits", mine, *sizes, scratch, sums[0], sums[1])

    if in_c():
        return threads.read_in_slices(read, len(cells), keys, threads.SLICED_PAIRS, sums=2)
    hits = np.zeros((2, keys), dtype=np.int64)
    some = cells[cells.any(axis=1)]
    for key in range(keys):
        met = np.ones(len(some), dtype=bool)
        for place, row in enumerate(rows[key]):
            folded = np.bitwise_xor.reduce(some & row, axis=1, dtype=np.uint32)
            met &= hashing.parity(folded) == 0
            if place + 1 == first:
                hits[0, key] = np.count_nonzero(met)
        hits[1, key] = np.count_nonzero(met)
    return hits


def checked_rows(cells: AnyArray, rows: AnyArray, first: int) -> list[AnyArray]:
    """Return cells and the rows of keys, of the same words."""
    columns = arrays("cells u32[n,words], rows u32[keys,count,words]", cells, rows)
    _, count, words = rows.shape
    if not (1 <= first <= count <= MOST_ROWS and 1 <= words <= MOST_WORDS):
        raise TypeError("keys must have 1 to 8 rows of 1 to 256 words, the first among them")
    return columns


def fold_characters(tables: TableArray, images: WordArray, weights: IntArray) -> TableArray:
    """Return tables of elements: entry π of a row is Σ_u weights[u]·table[u·2^s + β_u·π].

    Args:
        tables: (rows, 2^(M+s)) of int32 or int64.
        images: (2^M, s): β_u times 1, X, X², …, so that β_u·π is the sum of those at the bits of π.
        weights: (2^M,); their sum times the largest |entry| must fit the tables' integers.
    """
    width = table_bits(tables, "tables", read_only=True)
    images, weights = arrays("images u32[sums,bits], weights i64[sums]", images, weights)
    sums, bits = images.shape
    if tables.shape[1] != sums << bits:
        raise TypeError("tables must have an entry for each sum of rows and element")
    if images.max(initial=0) >= 1 << bits:
        raise IndexError("an image lies outside the field")
    out = np.zeros((len(tables), 1 << bits), dtype=tables.dtype)
    if in_c():
        steps = np.zeros((sums, bits + 1), dtype=np.uint32)
        np.bitwise_xor.accumulate(images, axis=1, out=steps[:, :bits])

        def work(a: int, b: int) -> None:
            sizes = (b - a, bits, sums)
            call(f"fold_characters_{width}", tables[a:b], *sizes, steps, weights, out[a:b])

        threads.parallel(work, len(tables), -(-threads.ENTRIES // tables.shape[1]))
        return out
    elements = np.arange(1 << bits, dtype=np.uint32)
    for u in np.flatnonzero(weights).tolist():
        places = np.zeros_like(elements)
        for bit, power in enumerate(images[u]):
            places ^= power * (elements >> np.uint32(bit) & np.uint32(1))
        out += tables[:, (u << bits) + places.astype(np.int64)] * weights[u].astype(tables.dtype)
    return out
