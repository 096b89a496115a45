"""The estimator of ALP, and its exact moments.

For each part (+ and -) of a key the server takes m noisy bits, one per column, and the level n in
0..m at which Σ (2·bit - 1) over the first n of them is largest, ties averaged. That is not linear
in the bits, and items share rows, so the mean is biased; `moments` gives it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from faintly.core import FloatArray, IntArray

MAX_COLUMNS = 6  # the joint law of both parts has 4^m entries


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes that the law of an estimate depends on."""

    rows: int  # s
    columns: int  # m
    level: float  # what a value of 1 becomes before it is rounded
    flip: float  # chance that a bit is flipped

    @property
    def reached(self) -> FloatArray:
        """Return the chance that a value of 1 reaches each column."""
        return np.clip(self.level - np.arange(self.columns), 0.0, 1.0)


def levels(columns: int) -> tuple[IntArray, int]:
    """Return the level of each pattern of bits times a factor that makes all levels integers.

    Bit b of a pattern is that of column b.
    """
    whole = math.lcm(*range(1, columns + 2))
    scaled = np.zeros(2**columns, dtype=np.int64)
    for pattern in range(2**columns):
        steps = [2 * (pattern >> column & 1) - 1 for column in range(columns)]
        sums = np.concatenate([[0], np.cumsum(steps, dtype=np.int64)])
        best = np.flatnonzero(sums == sums.max())
        scaled[pattern] = best.sum() * (whole // len(best))
    return scaled, whole


def moments(shape: Shape, value: float, others: float) -> tuple[float, float]:
    """Return mean and mean square of one report's estimate at a key, in units of the values.

    Args:
        shape: sizes.
        value: of the key, in [0, 1].
        others: how many further items of size 1 the client holds.
    """
    scaled, whole = levels(shape.columns)
    gaps = (scaled[:, None] - scaled[None, :]) / (whole * shape.level)  # + part (row) less - part
    own = shape.level * value
    low = math.floor(own)
    mean = square = 0.0
    # Each other item is present in a column as often as a value of 1 reaches it.
    columns = [(float(taken), others) for taken in shape.reached]
    for reached, chance in ((low, 1 - (own - low)), (low + 1, own - low)):
        if chance > 0:
            law = _both_parts(shape, reached, columns)
            mean += chance * float((law * gaps).sum())
            square += chance * float((law * gaps**2).sum())
    return mean, square


def gap_law(shape: Shape, reached: int, loads: Sequence[int]) -> tuple[IntArray, FloatArray]:
    """Return the possible differences of + and -, as integers, and their probabilities.

    Args:
        shape: sizes.
        reached: the level of the + part; that of - is 0.
        loads: how many other items have reached each column.
    """
    scaled, _ = levels(shape.columns)
    law = _both_parts(shape, reached, [(1.0, load) for load in loads])
    gaps, place = np.unique(scaled[:, None] - scaled[None, :], return_inverse=True)
    chances = np.zeros(len(gaps))
    np.add.at(chances, place.ravel(), law.ravel())
    return gaps, chances


def _both_parts(shape: Shape, reached: int, columns: Sequence[tuple[float, float]]) -> FloatArray:
    """Return the joint law of the patterns of + (row) and - (column), where + reached a level.

    `columns` has for each column the chance that another item reaches it, and how many others
    there are.
    """
    law = np.ones((1, 1))
    for column, (taken, others) in enumerate(columns):
        # Later columns are higher bits, so they come first in the product.
        bits = _column(shape, column < reached, taken, others)
        law = np.kron(bits, law).astype(np.float64, copy=False)
    return law


def _column(shape: Shape, own: bool, taken: float, others: float) -> FloatArray:
    """Return the joint law of the noisy bits of + and - in one column."""
    one_clear = (1 - taken / shape.rows) ** others
    both_clear = max(0.0, 1 - 2 * taken / shape.rows) ** others
    same = np.diag([one_clear, 1 - one_clear])
    apart = np.array(
        [
            [both_clear, one_clear - both_clear],
            [one_clear - both_clear, 1 - 2 * one_clear + both_clear],
        ]
    )
    if own:
        same = np.diag([0.0, 1.0])
        apart = np.stack([np.zeros(2), apart.sum(axis=0)])
    noise = np.array([[1 - shape.flip, shape.flip], [shape.flip, 1 - shape.flip]])
    noisy_same = np.diag(noise @ same.diagonal())
    share = 1 / shape.rows
    return share * noisy_same + (1 - share) * noise @ apart @ noise
