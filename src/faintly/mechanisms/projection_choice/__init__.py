"""Projection choice: score many random projections of k tokens, and report one of the best.

Client  tokens (x, sign v[x]) with chance |v[x]|, padded with dummies to exactly k;
        X[g,j] = Σ σ·s_g(x) over tokens with h_g(x) = j;  slots (g, j, ±) score ±X[g,j];
        send one of the N best with chance T/2^32, else one of the others
Server  mean[x] = Σᵢ ±ᵢ·s_g(x)·1[h_g(x) = j] / (n·c), for the slot (g, j, ±) of report i
The N best are always N, so every slot's chance stays between two bounds, whatever the vector:
any change of it is hidden. Padding makes one constant c right for every vector of at most k
items. projection_choice.proof.md has the arguments.

dense     one bin: the second moment is 1/c² whatever people hold; linear or prf hashing
bins      several: less noise at items that few hold, for large epsilon; linear by table, or prf
unsigned  values in [0, 1]: slots (g, j) score their number of tokens; linear by table, or prf
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from faintly import kernels
from faintly.core import Budget, Guarantee, Plan, ReadingLaw, Sketch
from faintly.core.arrays import AnyArray, FloatArray, IdArray, IntArray, WordArray
from faintly.core.report import Layout, ReportBatch, fields_below
from faintly.core.vector import SparseVector, VectorBatch
from faintly.mechanisms import ghosts, simulation
from faintly.mechanisms import parameters as require
from faintly.mechanisms.api import Request
from faintly.mechanisms.base import Planned
from faintly.mechanisms.law import SmallCase
from faintly.mechanisms.projection_choice import bin_tables, client, constants
from faintly.mechanisms.projection_choice import law as laws
from faintly.mechanisms.projection_choice import plan as planning
from faintly.mechanisms.projection_choice.constants import Odds, Shape
from faintly.mechanisms.registry import register
from faintly.mechanisms.tokens import Tokens, draw_tokens
from faintly.primitives import hashing, noise
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng
from faintly.primitives.hashing import LinearBins

THEOREM = "projection_choice.proof.md, Theorem 1 (the best slots are always equally many)"
BLOCK = 2**18  # scores or random words of one block of clients: they stay in the cache
READ = 2**20  # reports looked at a time: those of a sketch may be more than memory holds
# Of 1 over the number of rows: measured 0.02 to 0.19, for epsilon 0.5 to 4 and 4 to 64 tokens.
DEPENDENCE = 0.25
BINS_FROM = 2.0  # epsilon from which bins can beat one bin where few people hold an item


@register("projection-choice")
@dataclass(frozen=True, kw_only=True)
class ProjectionChoice(Planned):
    """Public parameters of one collection; both sides hold the same object."""

    planning = planning
    tables = cached_property(bin_tables.tables_of)
    plan: Plan
    form: str
    groups: int
    bins: int
    top: int  # N: how many slots count as the best
    threshold: int  # T: their chance together, out of 2^32
    tokens: int  # k: what every client is padded or cut to
    rounding: str

    @classmethod
    def variants(cls, request: Request) -> Iterator[dict[str, Any]]:
        """Yield few and many groups, and the forms with bins where they can be better."""
        yield {"groups": 64}
        yield {"groups": 256}
        table = request.decode == "table"
        if request.family not in (None, "linear" if table else "prf"):
            return
        many = request.sparsity > 1 and request.budget.epsilon < BINS_FROM
        # With a share of all clients one bin is best, and without negative values unsigned is.
        rare = request.share < 1 and request.values == "signed"
        if not many and (rare or not table):
            yield {"form": "bins"}
        if request.values != "signed":
            yield {"form": "unsigned"}

    @cached_property
    def shape(self) -> Shape:
        """Return the sizes that scores depend on."""
        return Shape(self.tokens, self.groups, self.bins, self.form != "unsigned")

    @property
    def _linear(self) -> bool:
        return self.plan.hashing.family == "linear"

    @property
    def _cell(self) -> bool:
        return self.plan.decode == "table"

    @cached_property
    def layout(self) -> Layout:  # type: ignore[override]  # a value in every instance
        """Return sign, cell and map in table mode, else the seed and the slot.

        A cell is a row, with bins a row and a bin; without signs there is none to send.
        """
        if not self._cell:
            return fields_below(self.shape.slots, 1, self.plan.hashing.seed_bytes)
        return self.tables.layout((1,) * self.shape.signed + (self.plan.hashing.bits,))

    @cached_property
    def _odds(self) -> Odds:
        return Odds(self.top, self.threshold / noise.FULL)

    @cached_property
    def attenuation(self) -> float:
        """Return c: the mean of an unscaled report at an item of value 1."""
        return constants.attenuation(self.shape, self._odds)

    @cached_property
    def scale(self) -> float:  # type: ignore[override]
        """Return 1/c; unsigned reports are counted b times, to stay whole."""
        return 1 / (self.attenuation * (1 if self.shape.signed else self.bins))

    def guarantee(self) -> Guarantee:
        """Return ln(T·(M-N)/(N·(2^32-T))), for every hash and any number of items."""
        ratio = planning.likelihood_ratio(self.shape, self.top, self.threshold)
        conditions = () if self.shape.signed else ("every value is at least 0",)
        return Guarantee(
            self.plan.unit, Budget.at_least(noise.log_at_least(ratio)), THEOREM, conditions
        )

    def check_vector(self, vector: SparseVector) -> None:
        """Refuse a negative value in the unsigned form, which has no report for it."""
        if not self.shape.signed:
            require.nonnegative(vector.values)

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        """Return the slot of one report per vector, or the cell that it stands for.

        The order in which words of `rng` are used is in `tokens` and in `client`; clients
        are taken in blocks, each of which passes through all stages.

        Privacy: any change of the whole vector, pure, for every seed and any number of items,
        by Theorem 1. The caller draws `hash_seeds` without looking at the vectors, and from
        another source than `rng`; dummies never come from a seed.
        """
        if not self.shape.signed:
            require.nonnegative(vectors.values)
        words = -(-self.tokens // client.WORD_BITS) if self.form == "dense" else self.tokens
        each = self.groups * max(words, 2)
        size = max(1, BLOCK // each)
        slots = [
            self._slots(vectors.slice(start, start + size), hash_seeds[start : start + size], rng)
            for start in range(0, len(vectors), size)
        ]
        chosen = np.concatenate([np.zeros(0, dtype=np.int64), *slots])
        return self._fields(chosen, hash_seeds)

    def _slots(self, vectors: VectorBatch, seeds: IdArray, rng: Rng) -> IntArray:
        tokens = draw_tokens(vectors, self.tokens, self.rounding, rng)
        if self.form != "dense":
            hits = self._hits(seeds, tokens, rng)
            return client.choose_hit(hits, self.shape, self.top, self.threshold, rng)
        sums = self._projections(seeds, tokens)
        sums += client.dense_dummies(tokens.counts, self.groups, self.tokens, rng)
        # Differences of two scores still fit, and narrow numbers are compared fastest.
        narrow = sums.astype(np.int16 if self.tokens < 2**14 else np.int32)
        return client.choose(narrow, self.shape.signed, self.top, self.threshold, rng)

    def _projections(self, seeds: IdArray, tokens: Tokens) -> IntArray:
        """Return the sum of signs of each client's tokens in each group of one bin."""
        offsets = np.concatenate([[0], np.cumsum(tokens.counts)])
        if not self._linear:
            return kernels.project_prf(seeds, offsets, tokens.ids, tokens.negative, self.groups)
        codes, flips = kernels.code_items(seeds, offsets, tokens.ids, self.tables.maps)
        flips ^= tokens.negative
        bits = self.plan.hashing.bits
        return kernels.project_linear(seeds, offsets, codes, flips, groups=self.groups, bits=bits)

    def rows(self, seeds: IdArray, groups: AnyArray) -> WordArray:
        """Return the row of the linear family that each group of a report has."""
        return hashing.mix(seeds, groups, hashing.GROUP) & np.uint32(self.linear_bins.rows - 1)

    @cached_property
    def linear_bins(self) -> LinearBins:
        """Return the bins of the linear family; the dense form has one."""
        return LinearBins(self.plan.hashing.bits, self.bins, self.shape.signed)

    def _hits(self, seeds: IdArray, tokens: Tokens, rng: Rng) -> WordArray:
        """Return the place that every token and dummy of a client hits, in every group."""
        held = self._places(seeds, tokens)
        held ^= (tokens.negative[:, None] & self.shape.signed).astype(np.uint32)
        place = np.arange(self.tokens) < tokens.counts[:, None]
        hits = np.empty((*place.shape, self.groups), dtype=np.uint32)
        dummies = (int(np.count_nonzero(~place)), self.groups)
        made = uniform_below(np.full(math.prod(dummies), self.shape.places), rng).reshape(dummies)
        hits[place], hits[~place] = held, made
        hits += np.arange(self.groups, dtype=np.uint32) * np.uint32(self.shape.places)
        return hits.reshape(len(hits), -1)

    def _places(self, seeds: IdArray, tokens: Tokens) -> WordArray:
        """Return bin (and sign, as the lowest bit) of each token (row) in each group (column)."""
        if self._linear:
            offsets = np.concatenate([[0], np.cumsum(tokens.counts)])
            codes, flips = kernels.code_items(seeds, offsets, tokens.ids, self.tables.maps)
            return kernels.place_codes(
                seeds, offsets, codes, flips, groups=self.groups, bins=self.linear_bins
            )
        words = kernels.hash_words(
            seeds[tokens.owners], tokens.ids, hashing.PROJECTION, self.groups
        )
        where = hashing.scale_to(words, self.bins).astype(np.uint32)
        return np.uint32(2) * where + (words & np.uint32(1)) if self.shape.signed else where

    def _fields(self, slots: IntArray, seeds: IdArray) -> WordArray:
        if not self._cell:
            return slots.astype(np.uint32)[:, None]
        # The server needs nothing but the cell: whatever else the seed reveals stays on the device.
        groups, where = np.divmod(slots >> self.shape.signed, self.bins)
        cell = self.rows(seeds, groups) * np.uint32(self.bins) + where
        columns = [slots & 1, cell] if self.shape.signed else [cell]
        fields = np.stack([column.astype(np.uint32) for column in columns], axis=1)
        return self.tables.numbered(fields, kernels.pick_maps(seeds, self.plan.hashing.maps))

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return Σᵢ ±ᵢ·s_g(x)·1[h_g(x) = j] for each id; unsigned, b times the hits less n."""
        if not self._linear:
            totals, hits = self._read_slots(batch.hash_seeds, batch.fields[:, 0], ids)
            return totals if self.shape.signed else self.bins * hits - len(batch)
        return self.tables.read(batch, ids)

    def _read_slots(
        self, seeds: IdArray, slots: WordArray, ids: IdArray
    ) -> tuple[IntArray, IntArray]:
        cells = slots >> np.uint32(self.shape.signed)
        minus = slots & np.uint32(self.shape.signed)
        group, where = np.divmod(cells, np.uint32(self.bins))
        if self.form == "dense":
            # Thirty-two groups share a word; with bins each group has its own.
            word, bit = np.divmod(group, np.uint32(client.WORD_BITS))
        else:
            word, bit = group, np.zeros_like(group)
        described = np.stack([word, np.uint32(1) << bit, where, minus])
        return kernels.read_slots(seeds, described, ids, self.bins)

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:
        """Return n·Var: the second moment of a report at each id, less the squared mean.

        The dense one is 1/c², whatever people hold. With bins it follows from how often the bin
        of an item is reported, least where nobody holds it: without signs that follows from the
        mean, else the reports are read again. The exact term subtracted is the mean of v², at
        least mean² and at most 1.
        """
        square = np.minimum(means**2, 1.0)
        if self.form == "dense":
            return 1 / self.attenuation**2 - square
        if not self.shape.signed:
            hit = 1 / self.bins + np.clip(means, 0.0, 1.0) * self.attenuation
            return hit * (1 - hit) / self.attenuation**2
        if ids is None:
            return 1 / self.bins / self.attenuation**2 - square
        if self._cell:
            assert sketch.tables is not None
            transformed = self.tables.transform(sketch.tables)
            return self.tables.variance(transformed, sketch, ids, means)
        hits = np.zeros(len(ids), dtype=np.int64)
        for batch in sketch.batches(READ):
            hits += self._read_slots(batch.hash_seeds, batch.fields[:, 0], ids)[1]
        return self.variance_of_hits(hits, sketch.count, means)

    def variance_of_hits(self, hits: IntArray, count: int, means: FloatArray) -> FloatArray:
        """Return n·Var at keys whose bins are named so often by this many reports."""
        hit = np.maximum(1 / self.bins, hits / max(1, count))
        return hit / self.attenuation**2 - np.minimum(means**2, 1.0)

    def reading_law(self) -> ReadingLaw:
        """Return a fair sign in a bin of b that the item has, or whether its bin is the one."""
        if self.shape.signed:
            return ReadingLaw.rare(1 / self.bins)
        return ReadingLaw((-1, self.bins - 1), (1 - 1 / self.bins, 1 / self.bins))

    def pair_covariance(self) -> float | None:
        """Return the chance that two tokens agree in the chosen group, scaled, less v·v'.

        Known in the dense form; the sign of a report cancels from the product of two readings.
        """
        if self.form != "dense" or self.tokens < 2:
            return None
        return constants.pair_agreement(self.shape, self._odds) / self.attenuation**2 - 1

    def predicted_variance(self, mean_square: float) -> float:  # noqa: ARG002
        return constants.unheld_variance(self.shape, self._odds)

    @property
    def held_excess_moment(self) -> float:
        """Return how much more often a held item is hit, squared scale included; 0 without bins.

        With signed bins it is a bound.
        """
        held = constants.held_variance(self.shape, self._odds)
        return held + 1 - constants.unheld_variance(self.shape, self._odds)

    def worst_variance(self) -> float:
        return constants.worst_variance(self.shape, self._odds) + self.ghost_variance()

    def ghost_variance(self) -> float:
        """Return n·κ/(J·2^D), which it is where everybody holds the same k items."""
        if not self._linear:
            return 0.0
        plan, sizes = self.plan, (self.shape, self.top, self.plan.universe.size)
        return planning.ghost_variance(*sizes, plan.clients, plan.hashing)

    def largest_ghost(self) -> float:
        """Return what the XOR of several tokens reads, if everybody holds them."""
        if not self._linear:
            return 0.0
        plan, variance = self.plan, constants.unheld_variance(self.shape, self._odds)
        shared = plan.universe.size is None
        strength = constants.ghost_strength(self.shape, self.top, shared=shared)
        return ghosts.in_errors(strength, plan.hashing.maps, plan.clients, variance)

    def relative_bias(self) -> float:
        """Return what means lose because a row puts tokens into bins that are not independent.

        Two of them are, as far as scores go: they meet with chance 1/b over all rows.
        """
        if not self._linear or self.form == "dense" or self.tokens < 3:
            return 0.0
        return DEPENDENCE / self.linear_bins.rows

    def lost(self, vectors: VectorBatch) -> FloatArray:
        """Return what is cut of more than k tokens, which an item becomes with the chance |v|."""
        return self.cut(simulation.sums_of(vectors, np.abs))

    def influence(self) -> float:
        most = 1.0 if self.shape.signed else 1 - 1 / self.bins
        return most / self.attenuation

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield two groups and few bins, with up to two items more than planned."""
        grid = (-1.0, -0.5, 0.0, 1.0) if self.shape.signed else (0.0, 0.25, 0.5, 1.0)
        options: dict[str, Any] = {"form": self.form, "rounding": self.rounding}
        sizes = {"groups": 2} if self.form == "dense" else {"groups": 1, "bins": 2}
        # Rows of 16 bits keep the groups of a cell apart, see report_number.
        bits = 16 if self._linear else None
        yield SmallCase(self.small(sparsity=1, bits=bits, options=options | sizes), grid, 3)
        few = (-1.0, 0.0, 0.5) if self.shape.signed else (0.0, 0.5, 1.0)
        sizes["groups"] = 1
        yield SmallCase(self.small(sparsity=2, bits=bits, options=options | sizes), few, 4)

    def outcomes(self, items: int) -> Iterator[tuple[int, ...]]:
        """Yield every pattern (places in all groups) of every item."""
        patterns = range(self.shape.places**self.groups)
        yield from itertools.product(patterns, repeat=items)

    def outcome_of(self, seed: int, ids: IdArray) -> tuple[int, ...]:
        seeds, ones = np.full(len(ids), seed, dtype=np.uint64), np.ones(len(ids), dtype=np.int64)
        alone = Tokens(np.arange(len(ids)), ids, ones == 0, ones)
        if self.form == "dense":
            place = (1 - self._projections(seeds, alone)) // 2
        else:
            place = self._places(seeds, alone).astype(np.int64)
        weights = self.shape.places ** np.arange(self.groups)
        return tuple((place @ weights).tolist())

    def report_number(self, fields: WordArray, seed: int) -> IntArray:
        """Return the slot of each report; of a cell, the first group whose row it has."""
        if not self._cell:
            return fields[:, 0].astype(np.int64)
        rows = self.rows(np.array([seed], np.uint64), np.arange(self.groups, dtype=np.uint64))
        signed = self.shape.signed
        row, where = np.divmod(fields[:, int(signed)], np.uint32(self.bins))
        place = np.argmax(rows[None, :] == row[:, None], axis=1) * self.bins + where
        return 2 * place + fields[:, 0] if signed else place

    def law(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every slot; a cell is a function of seed and slot."""
        choice = laws.Choice(self.shape, self.top, self.threshold)
        return laws.slot_law(choice, values, outcome, self.rounding)
