"""Arcs on rings of slots, one ring for each client: how much they cover, and which slots."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from faintly.core import AnyArray, IntArray, NarrowArray


@dataclass(frozen=True, slots=True)
class Rings:
    """The arcs of several clients, sorted around each one's ring.

    For each arc it has the slots that the arc covers before the next one begins, and the uncovered
    slots between the two. So the rank of a covered or uncovered slot gives its position.
    """

    sizes: IntArray  # arcs of each client
    starts: NarrowArray  # of all arcs, client by client
    covered: NarrowArray  # slots of each arc that lie before the next one
    left: NarrowArray  # slots between each arc and the next one

    @classmethod
    def of(cls, sizes: IntArray, starts: IntArray, arc: int, slots: int) -> Self:
        """Return arcs of `arc` slots each, which begin at the starts, grouped by client."""
        shift = slots * np.repeat(np.arange(len(sizes)), sizes)
        starts = np.sort(starts + shift) - shift
        held = sizes[sizes > 0]
        last = np.cumsum(held) - 1
        following = np.append(starts[1:], 0)
        following[last] = starts[last + 1 - held] + slots
        steps = (following - starts).astype(np.int32)
        covered = np.minimum(steps, np.int32(arc))
        return cls(sizes, starts.astype(np.int32), covered, steps - covered)

    def reach(self) -> IntArray:
        """Return how many slots are covered on each ring."""
        ends = np.concatenate([[0], np.cumsum(self.covered)])
        return np.diff(ends[np.concatenate([[0], np.cumsum(self.sizes)])])

    def find(self, hit: AnyArray, rank: IntArray) -> IntArray:
        """Return one slot of each ring, before reduction modulo its size.

        Args:
            hit: whether it is a covered slot.
            rank: its place among those, counted from the first arc; on an empty ring, itself.
        """
        lengths = np.where(np.repeat(hit, self.sizes), self.covered, self.left)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        some = np.flatnonzero(self.sizes)
        wanted = (ends[np.cumsum(self.sizes) - self.sizes] + rank)[some]
        place = np.searchsorted(ends, wanted, side="right") - 1
        slots = rank.copy()
        slots[some] = self.starts[place] + wanted - ends[place]
        slots[some] += np.where(hit[some], 0, self.covered[place])
        return slots
