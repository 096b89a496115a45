"""The exact law of the cells of a report, for enumeration: a few bits only."""

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from faintly.core import Universe
from faintly.core.arrays import FloatArray, IdArray
from faintly.core.vector import SparseVector, VectorBatch
from faintly.mechanisms.bit_cells import CellLaw
from faintly.mechanisms.law import SmallCase
from faintly.primitives import hashing

if TYPE_CHECKING:
    from faintly.mechanisms.retrieval import Retrieval


class RetrievalLaw(CellLaw):
    """The law of cells, uniform except for the answers of a basis of the block's items."""

    mechanism: "Retrieval"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield fewer bits than items, so that dependent maps and exchanges are enumerated.

        Signs are among the outcomes, so where there are four items one value is enough.
        """
        held, two = (0.0, 1.0), Universe.indexed(2)
        if not self.plan.hashing.linear:
            yield SmallCase(self.small(sparsity=1, bits=2), items=3)
            yield SmallCase(self.small(sparsity=2, bits=2), held, items=4)
            return
        yield SmallCase(self.small(sparsity=2, bits=2, universe=two, options={"blocks": 1}))
        four = {"sparsity": 2, "bits": 3, "universe": Universe.indexed(4)}
        yield SmallCase(self.small(**four, options={"blocks": 1}), held, items=4)
        if self.mechanism.blocks > 1:
            yield SmallCase(self.small(sparsity=2, bits=2, universe=two, options={"blocks": 2}))

    def outcomes(self, items: int) -> Iterator[tuple[tuple[int, int, int], ...]]:
        """Yield every (block, row, sign) of items, in their order of elimination.

        Rows need not be distinct, so this covers every map, and every order by renaming items.
        """
        mechanism = self.mechanism
        step = 2 if self.plan.hashing.linear else 1  # public rows begin with a 1
        rows = range(step - 1, 2**mechanism.bits, step)
        one = list(itertools.product(range(mechanism.blocks), rows, (1, -1)))
        yield from itertools.product(one, repeat=items)

    def outcome_of(self, seed: int, ids: IdArray) -> tuple[tuple[int, int, int, int], ...]:
        """Return (block, row, sign, rank) of each id under a seed; ranks order the elimination."""
        vectors = VectorBatch.of([SparseVector(ids)])
        made = self.mechanism.equations(vectors, vectors.owners, np.array([seed], dtype=np.uint64))
        blocks = np.repeat(np.arange(self.mechanism.blocks), np.diff(made.offsets))
        found: dict[int, tuple[int, int, int, int]] = {}
        for place, item in enumerate(np.arange(len(ids))[made.items].tolist()):
            sign = -1 if made.flips[place] else 1
            rank = int(made.order[place])
            found[item] = int(blocks[place]), int(made.rows[place, 0]), sign, rank
        return tuple(found[item] for item in range(len(ids)))

    def _cell_law(self, held: list[tuple[float, int, int]]) -> FloatArray:
        """Return P(i) = 2^-t · ∏ (1 + θ·v(x)·s(x)·(-1)^<i,a(x)>) over the greedy basis."""
        signed = tuple((sign * value, row) for value, row, sign in held)
        return _law_of_cell(self.mechanism.shrink, self.mechanism.bits, signed)


@lru_cache(maxsize=2**14)  # enumeration repeats few arguments
def _law_of_cell(shrink: float, bits: int, held: tuple[tuple[float, int], ...]) -> FloatArray:
    """Return the probability of every cell of a block that holds these values in these rows."""
    law = np.full(2**bits, 2.0**-bits)
    basis: list[int] = []
    for value, row in held:
        rest = row
        for known in basis:
            rest = min(rest, rest ^ known)
        if rest:
            basis.append(rest)
            law *= _density(shrink * value, row, bits)
    return law


@lru_cache(maxsize=2**14)
def _density(mean: float, row: int, bits: int) -> FloatArray:
    """Return 1 + mean·(-1)^<i,row> for every i of `bits` bits: the factor of one item."""
    reports = np.arange(2**bits, dtype=np.uint32)
    signs = hashing.to_signs(hashing.parity(reports & np.uint32(row)))
    return np.asarray(1 + mean * signs, dtype=np.float64)
