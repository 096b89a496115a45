"""Totals of ALP without its reports: like clients are drawn together.

What a report reads at a key depends on the level of the client's own item there, on how many of its
other items reach each column, and on chance. So rounding is drawn as clients do it, clients are
grouped by these numbers, and the answers of each group are one multinomial draw.

At each key this is the exact law of the sum. The dependence between keys of one report is left
out. Unless the client holds both keys their errors are uncorrelated anyway: swapping the rows of
+ and - of a key that is not held is as likely, and changes the sign of its error alone.
"""

import numpy as np

from faintly.core import AnyArray, IdArray, IntArray, VectorBatch
from faintly.mechanisms.simulation import positions
from faintly_baselines.alp.estimate import Shape, gap_law

CLIENTS = 512  # taken together, so that their rows stay in a cache


def draw_totals(
    shape: Shape,
    vectors: VectorBatch,
    levels: AnyArray,
    ids: IdArray,
    source: np.random.Generator,
) -> IntArray:
    """Return the total at each id, in the integers of `gap_law`.

    Args:
        shape: sizes.
        vectors: one per client.
        levels: the level of each row, with the sign of its value.
        ids: keys to ask about.
        source: of what is drawn.
    """
    columns = shape.columns
    reached = [np.flatnonzero(np.abs(levels) > column) for column in range(columns)]
    loads = np.stack([np.diff(np.searchsorted(rows, vectors.offsets)) for rows in reached], axis=1)
    groups, member = np.unique(loads, axis=0, return_inverse=True)
    keys, back = np.unique(ids, return_inverse=True)
    held = _holders(vectors, levels, member.ravel(), keys, (len(groups), columns))
    absent = np.bincount(member.ravel(), minlength=len(groups)) - held.sum(axis=2)
    held[:, :, columns] += absent  # an item of level 0 counts as absent
    totals = np.zeros(len(keys), dtype=np.int64)
    for group, load in enumerate(groups):
        for level in range(-columns, columns + 1):
            others = load - (abs(level) > np.arange(columns))
            alike = held[:, group, level + columns]
            if alike.any():
                gaps, law = gap_law(shape, abs(level), others.tolist())
                drawn = source.multinomial(alike, law / law.sum()) @ gaps
                totals += drawn if level >= 0 else -drawn
    return totals[back]


def _holders(
    vectors: VectorBatch, levels: AnyArray, member: IntArray, keys: IdArray, sizes: tuple[int, int]
) -> IntArray:
    """Return how many clients of each group hold each key at each level."""
    groups, columns = sizes
    shape = (len(keys) + 1, groups, 2 * columns + 1)  # the last one stands for all other keys
    place = positions(keys, vectors.indices)
    where = np.empty(len(place), dtype=np.int64)
    for start in range(0, len(vectors), CLIENTS):
        stop = min(start + CLIENTS, len(vectors))
        part = slice(*vectors.offsets[[start, stop]])
        group = np.repeat(member[start:stop], vectors.lengths[start:stop])
        where[part] = (place[part] * groups + group) * shape[2] + levels[part] + columns
    return np.bincount(where, minlength=int(np.prod(shape))).reshape(shape)[:-1]
