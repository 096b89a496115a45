"""Orthogonal: sets at event level. Each held item speaks or is silent; a report shows which spoke.

Client  each item (kept with chance v) asks with chance τ that its m public rows be orthogonal to
        the report, or m + 1 of them; the report is a uniform i orthogonal to all rows asked for
Server  reading = 2^m - 1 if i is orthogonal to the rows of x, else -1, and 0 if i = 0;
        mean[x] = Σ reading / (n·τ·(2^m - 1))
There is no order, no basis and no sign: the equations always have a solution, so nothing is ever
dropped and any number of items is hidden. orthogonal.proof.md has the arguments.

direct  rows of t bits, hashed by the key of one of J public maps
table   rows (e_l, β_l·π_j(x)) for one of J public maps: the report is a cell of table j, or one
        for each of B public blocks of keys
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from faintly import kernels
from faintly.core import Budget, Guarantee, Plan, Sketch
from faintly.core.arrays import AnyArray, FloatArray, IdArray, IntArray, WordArray
from faintly.core.report import ReportBatch
from faintly.core.vector import SparseVector, VectorBatch
from faintly.mechanisms import parameters as require
from faintly.mechanisms.bit_cells import BitCells
from faintly.mechanisms.orthogonal import channel as channels
from faintly.mechanisms.orthogonal import sizes
from faintly.mechanisms.orthogonal.channel import Channel
from faintly.mechanisms.orthogonal.forecast import OrthogonalForecast
from faintly.mechanisms.orthogonal.law import OrthogonalLaw
from faintly.mechanisms.orthogonal.rows import table_rows
from faintly.mechanisms.orthogonal.tables import CellTables
from faintly.mechanisms.registry import register
from faintly.mechanisms.request import Request
from faintly.primitives import hashing
from faintly.primitives.entropy import Rng
from faintly.primitives.rounding import bernoulli

THEOREM = "orthogonal.proof.md, Theorem 1 (a new row at most halves what a report can be)"
CONDITIONS = ("every value is between 0 and 1",)


@register("orthogonal")
@dataclass(frozen=True, kw_only=True)
class Orthogonal(BitCells):
    """Cells of bits that are orthogonal to the rows asked for."""

    planning = sizes
    tables = cached_property(CellTables)
    forecast = cached_property(OrthogonalForecast)
    law = cached_property(OrthogonalLaw)
    plan: Plan
    channel: Channel
    bits: int  # t or b: of one cell
    blocks: int  # B: cells of a report
    constants: tuple[int, ...]  # β; none where rows are hashed

    @classmethod
    def variants(cls, request: Request) -> Iterator[dict[str, Any]]:
        """Yield channels of ever fewer rows: less variance costs more bits."""
        sizes.check_values(request.values)
        for one in channels.best(request.budget.epsilon, request.share):
            yield {"rows": one.rows, "levels": len(one.speak)}

    @property
    def table(self) -> bool:
        """Return whether reports are decoded by tables."""
        return self.plan.decode == "table"

    @property
    def scale(self) -> float:
        """Return the factor that corrects for items being silent."""
        return self.channel.scale

    def guarantee(self) -> Guarantee:
        """Return the larger of ln g' and -ln(1-τ), for every map and any number of items."""
        return Guarantee(self.plan.unit, Budget.at_least(self.channel.loss()), THEOREM, CONDITIONS)

    def check_vector(self, vector: SparseVector) -> None:
        """Refuse a negative value, which no report can express."""
        require.nonnegative(vector.values)

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        """Return the cells of one report per vector.

        Words of `rng`: one per item to round its value (more where it ties), one per item for
        the rows that it asks for, then the free bits of every cell.

        Privacy: event level, pure, for every map and any number of items, by Theorem 1. The caller
        draws `hash_seeds` without looking at the vectors, and from another source than `rng`.
        """
        require.nonnegative(vectors.values)
        asked = np.where(
            bernoulli(vectors.values, rng), self._asked_for(rng, len(vectors.values)), 0
        )
        chosen = kernels.pick_maps(hash_seeds, self.plan.hashing.maps)
        held = np.flatnonzero(asked)
        owners = vectors.owners[held]
        blocks, rows = self.rows(vectors.indices[held], chosen[owners])
        place, _ = self._segments(owners, blocks, len(vectors))
        wanted = np.arange(self.channel.most) < asked[held][place][:, None]
        segments = owners * self.blocks + blocks
        each = np.bincount(segments, weights=asked[held], minlength=len(vectors) * self.blocks)
        free = rng.words(len(vectors) * self.blocks * self.words).reshape(-1, self.words)
        equations = rows[place][wanted]
        nothing = np.zeros(len(equations), dtype=np.uint32)
        solved = kernels.solve_gf2(
            np.concatenate([[0], np.cumsum(each)]).astype(np.int64),
            nothing,  # any order gives the same law
            equations,
            nothing.astype(np.uint8),
            free & self._low_bits,
        )
        return self.tables.numbered(solved.reshape(len(vectors), self.blocks * self.words), chosen)

    def _asked_for(self, rng: Rng, count: int) -> IntArray:
        """Return how many rows each item asks for, if it has not been rounded away."""
        words = rng.words(count)
        asked = np.zeros(count, dtype=np.int64)
        below = 0
        for step, more in enumerate(self.channel.speak):
            asked[(words >= below) & (words < below + more)] = self.channel.rows + step
            below += more
        return asked

    def rows(self, ids: IdArray, maps: AnyArray) -> tuple[IntArray, WordArray]:
        """Return the block of each id in the map beside it, and its rows there."""
        if not self.table:
            count = self.channel.most * self.words
            keys = np.ascontiguousarray(self.tables.maps.fold_key[maps])
            hashed = kernels.hash_words(keys, np.ascontiguousarray(ids), hashing.EQUATION, count)
            rows = hashed.reshape(len(ids), self.channel.most, self.words) & self._low_bits
            return np.zeros(len(ids), dtype=np.int64), rows
        blocks, elements = self.split(self.tables.maps.codes(ids, maps), self.field)
        return blocks, table_rows(elements, self.constants, self.field)

    @property
    def field(self) -> int:
        """Return the bits of an element of the field that rows are made of."""
        return self.bits - self.channel.most

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return Σ reading for each id, over cells that are not 0."""
        totals, maps = np.zeros(len(ids), dtype=np.int64), self.tables.map_of(batch)
        cells = self.cell_fields(batch.fields).reshape(len(batch), self.blocks, self.words)
        off, near, at = self.channel.readings
        for j in np.unique(maps).tolist():
            mine = cells[maps == j]
            blocks, rows = self.rows(ids, np.full(len(ids), j))
            for block in np.unique(blocks).tolist():
                inside = np.flatnonzero(blocks == block)
                here = np.ascontiguousarray(mine[:, block])
                first, every = kernels.read_hits(here, rows[inside], self.channel.rows)
                nonzero = np.count_nonzero(here.any(axis=1))
                totals[inside] += off * nonzero + (near - off) * first + (at - near) * every
        return totals

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return n·Var: a share f of holders makes it (1-f)·V0 + f·V1.

        For values between 0 and 1 it is a bound, since the mean of v² is at least mean².
        """
        share = np.clip(means, 0.0, 1.0)
        square = share if self.plan.values == "set" else share**2
        variance: FloatArray = (
            self.channel.unheld + share * self.forecast.held_excess_moment - square
        )
        return variance
