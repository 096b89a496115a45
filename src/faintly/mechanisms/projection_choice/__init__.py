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

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from faintly import kernels
from faintly.core import Budget, Guarantee, Plan, Sketch
from faintly.core.arrays import AnyArray, FloatArray, IdArray, IntArray, WordArray
from faintly.core.report import Layout, ReportBatch, fields_below
from faintly.core.vector import SparseVector, VectorBatch
from faintly.mechanisms import parameters as require
from faintly.mechanisms.base import Planned
from faintly.mechanisms.projection_choice import bin_tables, client, constants
from faintly.mechanisms.projection_choice import plan as planning
from faintly.mechanisms.projection_choice.constants import Odds, Shape
from faintly.mechanisms.projection_choice.forecast import ChoiceForecast
from faintly.mechanisms.projection_choice.law import ChoiceLaw
from faintly.mechanisms.registry import register
from faintly.mechanisms.request import Request
from faintly.mechanisms.tokens import Tokens, draw_tokens
from faintly.primitives import hashing, noise
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng
from faintly.primitives.hashing import LinearBins

THEOREM = "projection_choice.proof.md, Theorem 1 (the best slots are always equally many)"
BLOCK = 2**18  # scores or random words of one block of clients: they stay in the cache
READ = 2**20  # reports read at a time: those of a sketch may be more than memory holds
BINS_FROM = 2.0  # epsilon from which bins can beat one bin where few people hold an item


@register("projection-choice")
@dataclass(frozen=True, kw_only=True)
class ProjectionChoice(Planned):
    """One slot of many, more likely where random projections of the tokens are large."""

    planning = planning
    tables = cached_property(bin_tables.tables_of)
    forecast = cached_property(ChoiceForecast)
    law = cached_property(ChoiceLaw)
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
    def cell(self) -> bool:
        """Return whether a report is the cell of a table."""
        return self.plan.decode == "table"

    @cached_property
    def layout(self) -> Layout:
        """Return sign, cell and map in table mode, else the seed and the slot.

        A cell is a row, with bins a row and a bin; without signs there is none to send.
        """
        if not self.cell:
            return fields_below(self.shape.slots, 1, self.plan.hashing.seed_bytes)
        return self.tables.layout((1,) * self.shape.signed + (self.plan.hashing.bits,))

    @cached_property
    def odds(self) -> Odds:
        """Return how likely the best slots are."""
        return Odds(self.top, self.threshold / noise.FULL)

    @cached_property
    def attenuation(self) -> float:
        """Return c: the mean of an unscaled report at an item of value 1."""
        return constants.attenuation(self.shape, self.odds)

    @cached_property
    def scale(self) -> float:
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
        sums = self.projections(seeds, tokens)
        sums += client.dense_dummies(tokens.counts, self.groups, self.tokens, rng)
        # Differences of two scores still fit, and narrow numbers are compared fastest.
        narrow = sums.astype(np.int16 if self.tokens < 2**14 else np.int32)
        return client.choose(narrow, self.shape.signed, self.top, self.threshold, rng)

    def projections(self, seeds: IdArray, tokens: Tokens) -> IntArray:
        """Return the sum of signs of each client's tokens in each group of one bin."""
        offsets = np.concatenate([[0], np.cumsum(tokens.counts)])
        if not self.plan.hashing.linear:
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
        held = self.places(seeds, tokens)
        held ^= (tokens.negative[:, None] & self.shape.signed).astype(np.uint32)
        place = np.arange(self.tokens) < tokens.counts[:, None]
        hits = np.empty((*place.shape, self.groups), dtype=np.uint32)
        dummies = (int(np.count_nonzero(~place)), self.groups)
        made = uniform_below(np.full(math.prod(dummies), self.shape.places), rng).reshape(dummies)
        hits[place], hits[~place] = held, made
        hits += np.arange(self.groups, dtype=np.uint32) * np.uint32(self.shape.places)
        return hits.reshape(len(hits), -1)

    def places(self, seeds: IdArray, tokens: Tokens) -> WordArray:
        """Return bin (and sign, as the lowest bit) of each token (row) in each group (column)."""
        if self.plan.hashing.linear:
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
        if not self.cell:
            return slots.astype(np.uint32)[:, None]
        # The server needs nothing but the cell: whatever else the seed reveals stays on the device.
        groups, where = np.divmod(slots >> self.shape.signed, self.bins)
        cell = self.rows(seeds, groups) * np.uint32(self.bins) + where
        columns = [slots & 1, cell] if self.shape.signed else [cell]
        fields = np.stack([column.astype(np.uint32) for column in columns], axis=1)
        return self.tables.numbered(fields, kernels.pick_maps(seeds, self.plan.hashing.maps))

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return Σᵢ ±ᵢ·s_g(x)·1[h_g(x) = j] for each id; unsigned, b times the hits less n."""
        if not self.plan.hashing.linear:
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
        if self.cell:
            assert sketch.tables is not None
            transformed = self.tables.transform(sketch.tables)
            return self.tables.variance(transformed, sketch, ids, means)
        hits = np.zeros(len(ids), dtype=np.int64)
        for batch in sketch.batches(READ):
            hits += self._read_slots(batch.hash_seeds, batch.fields[:, 0], ids)[1]
        return self.variance_of_hits(hits, sketch.count, means)

    def variance_of_hits(self, hits: IntArray, count: int, means: FloatArray) -> FloatArray:
        """Return n·Var at keys, given how many of `count` reports name their bins."""
        hit = np.maximum(1 / self.bins, hits / max(1, count))
        return hit / self.attenuation**2 - np.minimum(means**2, 1.0)
