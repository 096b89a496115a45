"""Retrieval for l1: answers linear in the value, sent as the solution of a linear system.

Client  draws a symbol y(x) for each item, whose law moves linearly with |v[x]|, and sends a
        uniform solution i of <i, a(x)> = y(x) over a small field
Server  mean[x] = scale/n · Σᵢ sᵢ(x)·reading(<iᵢ, aᵢ(x)>)
A held item of value 0 answers like an absent one, so on independent rows the law of a report
is smooth in the whole vector, and a change of L1 norm L costs at most L times the slope.
Rows are hashed under a fresh seed (binary, ternary: independent but for a probability δ) or
the powers of the key's own point (polynomial: always). See retrieval_l1.proof.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from faintly import kernels
from faintly.core import Budget, Guarantee, Plan, Sketch, WithinL1
from faintly.core.arrays import FloatArray, IdArray, IntArray, WordArray
from faintly.core.report import Layout, fields_below
from faintly.core.vector import VectorBatch
from faintly.mechanisms import parameters as require
from faintly.mechanisms.registry import register
from faintly.mechanisms.request import Request
from faintly.mechanisms.retrieval_l1 import forms
from faintly.mechanisms.retrieval_l1.channel import Channel
from faintly.mechanisms.retrieval_l1.forecast import RetrievalL1Forecast
from faintly.mechanisms.retrieval_l1.law import RetrievalL1Law
from faintly.mechanisms.symbols import Symbols
from faintly.primitives import fields, galois, hashing, noise
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng

SOLVE_SYMBOLS = 2**22  # hashed at once when bulk encoding: 4 MiB of rows
READ_SYMBOLS = 2**22  # unpacked at once when reading


@register("retrieval-l1")
@dataclass(frozen=True, kw_only=True)
class RetrievalL1(Symbols):
    """Symbols of a small field that solve the equations of the held items' answers."""

    enforces_sparsity = True  # every form refuses more than k items

    planning = forms
    forecast = cached_property(RetrievalL1Forecast)
    law = cached_property(RetrievalL1Law)
    plan: Plan
    form: str  # binary, ternary or polynomial
    channel: Channel
    symbols: int  # sent in a report

    @classmethod
    def variants(cls, request: Request) -> Iterator[dict[str, Any]]:
        """Yield the forms that may apply; where none does, the default one, which then refuses."""
        if not isinstance(request.unit, WithinL1) or request.decode != "direct":
            yield {}
            return
        if request.budget.delta:
            yield {"form": "binary"}
            yield {"form": "ternary"}
        size = request.universe.size
        if size is not None and size <= 2**galois.MAX_BITS:
            own = forms.point_bits(size)
            yield {"form": "polynomial"}
            if own < forms.USEFUL_BITS:
                yield {"form": "polynomial", "symbol_bits": own}
        elif not request.budget.delta:
            yield {}

    @cached_property
    def layout(self) -> Layout:
        """Return the seed, if any, and the symbols packed into 32-bit fields."""
        if self.pointed:
            return fields_below(self.order, self.symbols, 0)
        limits = [self.order**count for count in fields.word_lengths(self.symbols, self.order)]
        widths = tuple((limit - 1).bit_length() for limit in limits)
        seed_bytes = self.plan.hashing.seed_bytes
        return Layout(seed_bytes=seed_bytes, widths=widths, limits=tuple(limits))

    def guarantee(self) -> Guarantee:
        """Return L times the channel's slope, and how often rows may be dependent."""
        loss = self.channel.slope * noise.exact(require.l1_distance(self.plan.unit))
        k = self.plan.sparsity
        delta = 0 if self.pointed else forms.failure(self.order, k, self.symbols)
        return Guarantee(
            self.plan.unit,
            Budget.at_least(loss, Fraction(delta)),
            forms.THEOREMS[self.form],
            forms.conditions(self.form, k),
        )

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        """Return the symbols of one report per vector.

        Privacy: any change of L1 norm up to the plan's distance, within its budget, by the
        form's theorem. Whether a vector is refused depends on its length alone, never on the
        seed. The caller draws `hash_seeds` freshly, without looking at the vectors, and from
        another source than `rng`.
        """
        self.check_items(vectors.lengths.max(initial=0))
        if self.pointed:
            answers = self.channel.draw(vectors.values, rng).astype(np.uint32)
            free = uniform_below(np.full(len(vectors) * self.symbols, self.order), rng)
            blank = free.reshape(-1, self.symbols).astype(np.uint32)
            points = vectors.indices.astype(np.int64)
            return kernels.add_points(blank, points, answers, vectors.lengths, self.bits)
        seeds = hash_seeds[vectors.owners]
        parts = [np.zeros((0, len(self.layout.widths)), np.uint32)]
        for start, stop in self._parts(vectors.offsets, max(1, SOLVE_SYMBOLS // self.symbols)):
            first, last = int(vectors.offsets[start]), int(vectors.offsets[stop])
            parts.append(self._solved(vectors.slice(start, stop), seeds[first:last], rng))
        return np.concatenate(parts)

    def _solved(self, vectors: VectorBatch, seeds: IdArray, rng: Rng) -> WordArray:
        """Return uniform solutions; rows are taken in the order of the ids."""
        hashed, signs = self.hashed(seeds, vectors.indices)
        answers = self.channel.draw(signs * vectors.values, rng)
        free = uniform_below(np.tile(self.layout.limits, len(vectors)), rng)
        words = free.reshape(len(vectors), -1).astype(np.uint32)
        if self.order == 2:
            return self._solved_bits(vectors.offsets, hashed, answers, words)
        rows = hashing.base_digits(hashed, self.order, self.symbols)
        blank = fields.unpack(words, self.symbols, self.order)
        targets, field = answers.astype(np.uint8), fields.field_of(self.order)
        solved = kernels.solve_field(vectors.offsets, rows, targets, blank, field)
        return fields.pack(solved, self.order)

    def _solved_bits(
        self, offsets: IntArray, rows: WordArray, answers: IntArray, free: WordArray
    ) -> WordArray:
        """Return uniform solutions over GF(2), where whole words are eliminated at once."""
        spare = np.uint32(-self.symbols % 32)  # bits of the last word, below its symbols
        rows[:, -1] = rows[:, -1] >> spare << spare
        free[:, -1] <<= spare
        order = np.zeros(len(rows), dtype=np.uint32)
        solved = kernels.solve_gf2(offsets, order, rows, answers.astype(np.uint8), free)
        solved[:, -1] >>= spare
        return solved

    def hashed(self, seeds: IdArray, ids: IdArray) -> tuple[WordArray, IntArray]:
        """Return the words of each item's row, and its sign."""
        words = -(-self.symbols // hashing.word_digits(self.order))
        hashed = kernels.hash_wide(seeds, ids, words + 1)
        return np.ascontiguousarray(hashed[:, :words]), hashing.to_signs(hashed[:, words])

    def _sums(self, seeds: IdArray, sent: WordArray, ids: IdArray) -> IntArray:
        readings = self.channel.readings
        if self.pointed:
            columns = (seeds, sent, ids, readings)
            return kernels.read_polynomial(*columns, bits=self.bits, hashed=False)
        field = fields.field_of(self.order)
        totals = np.zeros((2, len(ids)), dtype=np.int64)
        size = max(1, READ_SYMBOLS // self.symbols)
        for start in range(0, len(seeds), size):
            part = slice(start, start + size)
            symbols = fields.unpack(sent[part], self.symbols, self.order)
            totals += kernels.read_inner(
                seeds[part], symbols, ids, readings, field=field, family="wide"
            )
        return totals

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:
        """Return n·Var: the second moment of what was read, less mean².

        In the binary form every reading is ±1, so there is nothing to measure.
        """
        channel = self.channel
        moment: FloatArray = np.full(len(means), channel.absent_moment)
        if channel.silent and ids is not None and sketch.count:
            moment = self._moment(sketch, ids)
        least = min(channel.variance_at(0.0), channel.variance_at(1.0))
        return np.maximum(moment - means**2, least)
