"""The two kernels of table decoding, against the memory traffic that they need."""

import numpy as np

from benchmarks import comparison, samples
from benchmarks.comparison import LANGUAGE
from benchmarks.measure import PROCESSOR, WALL, Effort, compare, one_core
from benchmarks.result import Row, cost
from faintly import kernels
from faintly.core import NarrowArray, TableArray, WordArray

CELLS = 2**20  # per call: more than branch predictors and caches remember
IN_CACHE, OUT_OF_CACHE = 2.0, 1.3  # targets


def scatter(effort: Effort, bits: tuple[int, ...] = (14, 20, 22, 24)) -> list[Row]:
    """Return how adding cells compares with a bare random read-modify-write."""
    with one_core():
        return [_scatter(effort, width) for width in bits]


def _scatter(effort: Effort, bits: int) -> Row:
    index, weight = _cells(bits, CELLS)
    tables = np.zeros((1, 2**bits), dtype=np.int32)
    pair = compare(
        lambda: kernels.scatter_add(tables, index, weight, 0),
        lambda: comparison.bare_add(tables, index, weight),
        effort,
    )
    # The key that programs read is the one of tables that no longer fit the inner caches.
    return cost(
        "scatter_vs_rmw" if bits == 20 else f"scatter_vs_rmw_{bits}",
        f"add cells to 2^{bits} entries, against a bare add in {LANGUAGE}",
        pair,
        at_most=IN_CACHE if bits < 20 else OUT_OF_CACHE,
        per=CELLS,
        unit="ns/cell",
        note="ours checks every index and the mass first",
    )


def _cells(bits: int, count: int) -> tuple[WordArray, NarrowArray]:
    draw = samples.generator()
    index = draw.integers(0, 2**bits, count, dtype=np.uint32)
    return index, draw.choice(np.array([-1, 1], dtype=np.int32), count)


def transform(effort: Effort, bits: int = 20) -> list[Row]:
    """Return how a transform compares with a copy of the same table."""
    filled = np.zeros((1, 2**bits), dtype=np.int32)  # as one report for each entry leaves it
    index, weight = _cells(bits, 2**bits)
    kernels.scatter_add(filled, index, weight, 0)
    heavy: TableArray = samples.generator().integers(-100, 101, (1, 2**bits), dtype=np.int32)
    with one_core():
        rows = [
            _transform(effort, filled, "wht_vs_copy", at_most=2.5),
            _transform(effort, filled, "wht_vs_copyto", fresh=False),
            _transform(effort, heavy, "wht_heavy_vs_copy", what="heavy entries of int32"),
            _transform(effort, filled.astype(np.int64), "wht_vs_copy_64", what="int64"),
        ]
    four = np.repeat(filled, 4, axis=0)  # threads share rows, of which an open universe has four
    rows.append(
        _transform(
            effort, four, "wht_vs_copy_all_cores", what="int32 four times", where="all cores"
        )
    )
    return rows


def _transform(
    effort: Effort,
    source: TableArray,
    name: str,
    *,
    what: str = "int32",
    fresh: bool = True,
    at_most: float | None = None,
    where: str = "one core",
) -> Row:
    work, target = source.copy(), source.copy()
    pair = compare(
        lambda: kernels.walsh_hadamard(work),
        samples.copier(source) if fresh else lambda: np.copyto(target, source),
        effort,
        before=lambda: np.copyto(work, source),
        clock=PROCESSOR if where == "one core" else WALL,
    )
    bits = source.shape[1].bit_length() - 1
    against = "ndarray.copy" if fresh else "np.copyto into memory at hand"
    what = f"transform 2^{bits} {what} in place, {where}, against {against}"
    return cost(name, what, pair, at_most=at_most)
