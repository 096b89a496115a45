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

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from faintly import kernels
from faintly.core import Budget, Guarantee, Plan, ReadingLaw, Sketch, Universe
from faintly.core.arrays import AnyArray, FloatArray, IdArray, IntArray, WordArray
from faintly.core.report import ReportBatch
from faintly.core.vector import SparseVector, VectorBatch
from faintly.mechanisms import ghosts, simulation
from faintly.mechanisms import parameters as require
from faintly.mechanisms.api import Request
from faintly.mechanisms.bit_cells import BitCells
from faintly.mechanisms.law import SmallCase
from faintly.mechanisms.orthogonal import channel as channels
from faintly.mechanisms.orthogonal import law as laws
from faintly.mechanisms.orthogonal import rows as public
from faintly.mechanisms.orthogonal import sizes
from faintly.mechanisms.orthogonal.channel import Channel
from faintly.mechanisms.orthogonal.tables import CellTables
from faintly.mechanisms.registry import register
from faintly.primitives import hashing
from faintly.primitives.entropy import Rng
from faintly.primitives.rounding import bernoulli

THEOREM = "orthogonal.proof.md, Theorem 1 (a new row at most halves what a report can be)"
CONDITIONS = ("every value is between 0 and 1",)
PAIR_COST = 1 / 64  # of a hash, for each word of a key's rows: 0.03 ns on the machine of 2 ns
VALUE_STEPS = 16  # of a client's mean value, when what long vectors lose is worked out


@register("orthogonal")
@dataclass(frozen=True, kw_only=True)
class Orthogonal(BitCells):
    """Cells of bits that are orthogonal to the rows asked for."""

    planning = sizes
    tables = cached_property(CellTables)
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
    def _table(self) -> bool:
        return self.plan.decode == "table"

    @property
    def scale(self) -> float:  # type: ignore[override]
        """Return the factor that corrects for items being silent."""
        return self.channel.scale

    def guarantee(self) -> Guarantee:
        """Return the larger of ln g' and -ln(1-τ), for every map and any number of items."""
        return Guarantee(self.plan.unit, Budget.at_least(self.channel.loss()), THEOREM, CONDITIONS)

    def check_vector(self, vector: SparseVector) -> None:
        """Refuse a negative value, which no report can say."""
        require.nonnegative(vector.values)

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        """Return the cells of one report per vector.

        Words of `rng`: one per item to round its value (more where it ties), one per item for
        what it asks, then the free bits of every cell.

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
        blocks, rows = self._rows(vectors.indices[held], chosen[owners])
        place, _ = self._segments(owners, blocks, len(vectors))
        wanted = np.arange(self.channel.most) < asked[held][place][:, None]
        segments = owners * self.blocks + blocks
        each = np.bincount(segments, weights=asked[held], minlength=len(vectors) * self.blocks)
        free = rng.words(len(vectors) * self.blocks * self._words).reshape(-1, self._words)
        equations = rows[place][wanted]
        nothing = np.zeros(len(equations), dtype=np.uint32)
        solved = kernels.solve_gf2(
            np.concatenate([[0], np.cumsum(each)]).astype(np.int64),
            nothing,  # any order gives the same law
            equations,
            nothing.astype(np.uint8),
            free & self._low_bits,
        )
        return self.tables.numbered(solved.reshape(len(vectors), self.blocks * self._words), chosen)

    def _asked_for(self, rng: Rng, count: int) -> IntArray:
        """Return how many rows each item asks for, if it has not been rounded away."""
        words = rng.words(count)
        asked = np.zeros(count, dtype=np.int64)
        below = 0
        for step, more in enumerate(self.channel.speak):
            asked[(words >= below) & (words < below + more)] = self.channel.rows + step
            below += more
        return asked

    def _rows(self, ids: IdArray, maps: AnyArray) -> tuple[IntArray, WordArray]:
        """Return the block of each id in the map beside it, and its rows there."""
        if not self._table:
            count = self.channel.most * self._words
            keys = np.ascontiguousarray(self.tables.maps.fold_key[maps])
            hashed = kernels.hash_words(keys, np.ascontiguousarray(ids), hashing.EQUATION, count)
            rows = hashed.reshape(len(ids), self.channel.most, self._words) & self._low_bits
            return np.zeros(len(ids), dtype=np.int64), rows
        blocks, elements = self.split(self.tables.maps.codes(ids, maps), self._field)
        return blocks, public.table_rows(elements, self.constants, self._field)

    @property
    def _field(self) -> int:
        return self.bits - self.channel.most

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return Σ reading for each id, over cells that are not 0."""
        totals, maps = np.zeros(len(ids), dtype=np.int64), self.tables.map_of(batch)
        cells = self.cell_fields(batch.fields).reshape(len(batch), self.blocks, self._words)
        off, near, at = self.channel.readings
        for j in np.unique(maps).tolist():
            mine = cells[maps == j]
            blocks, rows = self._rows(ids, np.full(len(ids), j))
            for block in np.unique(blocks).tolist():
                asked = np.flatnonzero(blocks == block)
                here = np.ascontiguousarray(mine[:, block])
                first, every = kernels.read_hits(here, rows[asked], self.channel.rows)
                said = np.count_nonzero(here.any(axis=1))
                totals[asked] += off * said + (near - off) * first + (at - near) * every
        return totals

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return n·Var: a share f of holders makes it (1-f)·V0 + f·V1.

        Of values between 0 and 1 it is a bound, since the mean of v² is at least mean².
        """
        share = np.clip(means, 0.0, 1.0)
        square = share if self.plan.values == "set" else share**2
        variance: FloatArray = self.channel.unheld + share * self.held_excess_moment - square
        return variance

    def reading_law(self) -> ReadingLaw:
        """Return the law of a uniform cell, by the client's own free bits."""
        return self.channel.law

    def predicted_variance(self, mean_square: float) -> float:  # noqa: ARG002
        """Return V0, which does not depend on what clients hold."""
        return self.channel.unheld

    @property
    def held_excess_moment(self) -> float:
        return self.channel.held + 1 - self.channel.unheld

    def worst_variance(self) -> float:
        excess = self.held_excess_moment
        most = max(0.0, excess - 1)
        if self.plan.values != "set":
            value = min(1.0, max(0.0, excess / 2))
            most = excess * value - value**2
        return self.channel.unheld + most + self.ghost_variance()

    def ghost_variance(self) -> float:
        plan, distinct = self.plan, self._table and self.plan.universe.size is not None
        exponent = sizes.ghost_exponent(self.channel, plan.sparsity, self.blocks, distinct=distinct)
        return plan.clients / plan.hashing.maps * 2.0 ** min(1000.0, exponent - self.bits)

    def largest_ghost(self) -> float:
        """Return the ghost of two keys that everybody holds and whose rows make those of another.

        Rows that are hashed are so long that there is no such key.
        """
        if not self._table:
            return 0.0
        strength = sizes.ghost_strength(self.channel, self.plan.universe.size)
        variance = self.channel.unheld
        return ghosts.in_errors(strength, self.plan.hashing.maps, self.plan.clients, variance)

    def relative_bias(self) -> float:
        """Return the share of an item's weight that full cells lose among k items."""
        return self._bias_of(self.plan.sparsity)

    def _bias_of(self, items: int, value: float = 1.0) -> float:
        loads = sizes.Loads(self.channel, items, self.blocks, self.bits, value)
        return loads.lost(self.bits)

    def lost(self, vectors: VectorBatch) -> FloatArray:
        """Return what full cells lose; nothing is cut, so long vectors may lose everything."""
        lengths = vectors.lengths
        shares = simulation.sums_of(vectors, np.abs) / np.maximum(1, lengths)
        steps = np.ceil(shares * VALUE_STEPS)
        lost = np.zeros(len(vectors))
        for step in np.unique(steps).tolist():
            mine = steps == step
            bias = partial(self._bias_of, value=step / VALUE_STEPS)
            lost[mine] = simulation.by_length(bias, lengths[mine])
        return lost

    def influence(self) -> float:
        return max(map(abs, self.channel.readings)) * self.scale

    def pair_cost(self) -> float:
        """Return the cost of a few bits: planes of 512 reports are read together."""
        return PAIR_COST * self.channel.most * self._words

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield fewer bits than rows, so that dependent rows and full cells are enumerated."""
        grid, rows = (0.0, 0.5, 1.0), self.channel.most
        options: dict[str, Any] = {"rows": self.channel.rows, "levels": len(self.channel.speak)}
        options["maps"] = 1
        if not self._table:
            yield SmallCase(self.small(bits=2, options=options), grid, items=3)
            yield SmallCase(self.small(bits=3, options=options), grid, items=2)
            return
        four = {"bits": rows + 2, "universe": Universe.indexed(4)}
        yield SmallCase(self.small(**four, options=options | {"blocks": 1}), grid, items=3)
        two = {"bits": rows + 1, "universe": Universe.indexed(4)}
        if self.blocks > 1 and rows < 4:  # a report of two cells is one of 2^(2b)
            yield SmallCase(self.small(**two, options=options | {"blocks": 2}), grid, items=3)

    def outcomes(self, items: int) -> Iterator[tuple[tuple[int, int, int], ...]]:
        """Yield every (block, mask, mask) of items: cells orthogonal to its first rows, and to all.

        In direct mode every map is there, with rows that repeat, depend on each other or are 0.
        """
        yield from itertools.product(list(self._one_outcome()), repeat=items)

    def _one_outcome(self) -> Iterator[tuple[int, int, int]]:
        if not self._table:
            for masks in laws.every_masks(self.channel, self.bits):
                yield 0, *masks
            return
        elements = np.arange(2**self._field, dtype=np.uint32)
        for block in range(self.blocks):
            for rows in public.table_rows(elements, self.constants, self._field):
                yield block, *laws.masks_of(rows, self.channel, self.bits)

    def outcome_of(self, seed: int, ids: IdArray) -> tuple[tuple[int, int, int], ...]:
        """Return block and masks of each id under a seed."""
        chosen = kernels.pick_maps(np.array([seed], dtype=np.uint64), self.plan.hashing.maps)
        blocks, rows = self._rows(ids, np.repeat(chosen, len(ids)))
        return tuple(
            (block, *laws.masks_of(own, self.channel, self.bits))
            for block, own in zip(blocks.tolist(), rows, strict=True)
        )

    def _cell_law(self, held: list[tuple[float, int, int]]) -> FloatArray:
        return laws.cell_law(self.channel, held, self.bits)
