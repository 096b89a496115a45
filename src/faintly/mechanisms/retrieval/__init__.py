"""Retrieval: randomized response per held item, sent as the solution of a linear system.

Client  answers y(x) = ±1 for each item x it holds, kept with probability N/2^32, and sends
        a uniform i in GF(2)^t with (-1)^<i,a(x)> = s(x)·y(x) for all of them
Server  mean[x] = c/n · Σᵢ sᵢ(x)·(-1)^<i,aᵢ(x)>,  c = 2^32/(2N-2^32)
A key that the client does not hold reads as a fair coin: there are no collisions, and an item
costs one bit. Items whose a(x) lies in the span of those before it are dropped; no item is
cut before that, which is what makes the report pure. retrieval.proof.md has the arguments.

direct  a and s are hashed under the report's seed
table   a(x) = (1, π_j(x)) for one of J public maps: the report is a signed cell of table j,
        or one for each of B public blocks of keys
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from faintly import kernels
from faintly.core import Budget, Cells, Guarantee, Plan, Sketch
from faintly.core.arrays import AnyArray, FloatArray, IdArray, IntArray, WordArray
from faintly.core.report import ReportBatch
from faintly.core.vector import VectorBatch
from faintly.mechanisms.bit_cells import BitCells
from faintly.mechanisms.registry import register
from faintly.mechanisms.retrieval import sizes
from faintly.mechanisms.retrieval.forecast import RetrievalForecast
from faintly.mechanisms.retrieval.law import RetrievalLaw
from faintly.mechanisms.tables import Tables
from faintly.primitives import hashing
from faintly.primitives.entropy import Rng
from faintly.primitives.rounding import bernoulli

THEOREM = "retrieval.proof.md, Theorem 1 (a new item exchanges at most one item of the basis)"


class Equations(NamedTuple):
    """The linear systems of a batch: segment s owns items offsets[s]:offsets[s+1]."""

    offsets: IntArray
    items: IntArray | slice  # the rows of the batch, in the order of the segments
    order: WordArray
    rows: WordArray
    flips: AnyArray  # 1 where s(x) = -1, else 0


class SignedCells(Tables):
    """Tables of the cells of each map and block; a cell's first bit is its sign."""

    mechanism: "Retrieval"

    @property
    def shape(self) -> tuple[int, int]:
        return self.hashing.maps * self.mechanism.blocks, 2 ** (self.mechanism.bits - 1)

    def entries(self, ids: IdArray, j: int) -> WordArray:
        mechanism = self.mechanism
        block, code = mechanism.split(self.codes(ids, j), mechanism.bits - 1)
        rows = block.astype(np.uint32) + np.uint32(j * mechanism.blocks)
        return rows * np.uint32(self.shape[1]) + code

    def cells(self, batch: ReportBatch) -> Cells:
        """Return B signed cells per report, of weight +1 or -1."""
        blocks, size = self.mechanism.blocks, self.shape[1]
        cell = batch.fields[:, :blocks]
        index = cell >> np.uint32(1)
        if blocks > 1:
            index += np.arange(blocks, dtype=np.uint32) * np.uint32(size)
        if self.hashing.maps > 1:
            index += batch.fields[:, -1:] * np.uint32(blocks * size)
        weight = (cell & np.uint32(1)).view(np.int32)
        np.subtract(1, weight * 2, out=weight)
        return Cells(index.ravel(), weight.ravel())


@register("retrieval")
@dataclass(frozen=True, kw_only=True)
class Retrieval(BitCells):
    """Cells of bits that solve the equations of the held items' answers."""

    planning = sizes
    tables = cached_property(SignedCells)
    forecast = cached_property(RetrievalForecast)
    law = cached_property(RetrievalLaw)
    plan: Plan
    keep: int  # N: an answer is kept for words below it
    bits: int  # t: bits of one cell
    blocks: int  # B: cells of a report

    @property
    def shape(self) -> sizes.Shape:
        return sizes.Shape(self.bits, self.blocks, self.plan.hashing.maps)

    @property
    def scale(self) -> float:
        """Return c, which undoes the attenuation of randomized response."""
        return 1 / self.shrink

    @property
    def shrink(self) -> float:
        """Return θ: the mean of an answer to the value 1."""
        return sizes.shrink(self.keep)

    def guarantee(self) -> Guarantee:
        """Return ln(N/(2^32-N)), for every map and any number of items."""
        return Guarantee(self.plan.unit, Budget.at_least(sizes.loss(self.keep)), THEOREM)

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        """Return the cells of one report per vector.

        Privacy: event level, pure, for every seed and any number of items, since all of them
        enter the elimination in an order that the data does not change. The caller draws
        `hash_seeds` without looking at the vectors, and from another source than `rng`.
        """
        answers = self._answers(vectors.values, rng)
        owners = vectors.owners
        made = self.equations(vectors, owners, hash_seeds)
        words = made.rows.shape[1]
        free = rng.words(len(vectors) * self.blocks * words).reshape(-1, words) & self._low_bits
        targets = (answers[made.items] ^ made.flips).astype(np.uint8)
        solved = kernels.solve_gf2(made.offsets, made.order, made.rows, targets, free)
        cells = solved.reshape(len(vectors), self.blocks * words)
        if self.plan.hashing.maps <= 1:
            return cells
        return self.tables.numbered(cells, kernels.pick_maps(hash_seeds, self.plan.hashing.maps))

    def _answers(self, values: FloatArray, rng: Rng) -> AnyArray:
        """Return whether each item answers -1: its rounded value, flipped by the noise."""
        # The sign of v with probability |v|, else a fair coin: mean v, exactly.
        certain = bernoulli(np.abs(values), rng)
        coin = (rng.words(len(values)) & np.uint32(1)).astype(bool)
        negative = np.where(certain, values < 0, coin)
        return negative ^ (rng.words(len(values)) >= self.keep)

    def equations(self, vectors: VectorBatch, owners: IntArray, seeds: IdArray) -> Equations:
        """Return the linear systems of all clients."""
        if self.plan.hashing.linear:
            return self._public_equations(vectors, owners, seeds)
        mine, ids = seeds[owners], vectors.indices
        rows = kernels.hash_words(mine, ids, hashing.EQUATION, len(self._low_bits))
        rows &= self._low_bits
        order = kernels.hash_words(mine, ids, hashing.ORDER, 1)[:, 0]
        flips = kernels.hash_words(mine, ids, hashing.COIN, 1)[:, 0] & 1
        return Equations(vectors.offsets, slice(None), order, rows, flips)

    def _public_equations(
        self, vectors: VectorBatch, owners: IntArray, seeds: IdArray
    ) -> Equations:
        codes, flips = kernels.code_items(seeds, vectors.offsets, vectors.indices, self.tables.maps)
        blocks, codes = self.split(codes, self.bits - 1)
        order = kernels.hash_words(seeds[owners], vectors.indices, hashing.ORDER, 1)[:, 0]
        rows = (codes << np.uint32(1) | np.uint32(1))[:, None]
        if self.blocks == 1:
            return Equations(vectors.offsets, slice(None), order, rows, flips)
        items, count = self._segments(owners, blocks, len(vectors))
        return Equations(
            offsets=np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
            items=items,
            order=order[items],
            rows=rows[items],
            flips=flips[items],
        )

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return Σᵢ sᵢ(x)·(-1)^<i,aᵢ(x)> for each id."""
        if self.plan.hashing.linear:
            return self.tables.read(batch, ids)
        return kernels.read_parity(batch.hash_seeds, batch.fields, ids)

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return n·Var = c² - mean²: every report reads ±c, whatever the client holds.

        The exact term is the mean of v², which is at least mean² and at most 1.
        """
        square = self.scale**2
        return np.maximum(square - means**2, square - 1)
