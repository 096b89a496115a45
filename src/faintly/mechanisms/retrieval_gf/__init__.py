"""Retrieval over GF(q): held items answer a channel, all others exactly uniform noise.

Client  draws a symbol y(x) for each item, and sends a uniform solution i of <i, a(x)> = y(x)
Server  mean[x] = scale/n · Σᵢ sᵢ(x)·reading(<iᵢ, aᵢ(x)>)
Rows a(x) are hashed (span-safe, full) or (1, γ, γ², …) for a point γ(x) (polynomial: i is then
a polynomial and <i, a(x)> its value at γ). Values are first rounded to -1, 0 or 1, which the
guarantee does not depend on: it needs the channel's integers alone. See retrieval_gf.proof.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from faintly import kernels
from faintly.core import Budget, Guarantee, Plan, Sketch, VectorBatch
from faintly.core.arrays import FloatArray, IdArray, IntArray, WordArray
from faintly.core.report import Layout, fields_below
from faintly.mechanisms.registry import register
from faintly.mechanisms.request import Request
from faintly.mechanisms.retrieval_gf import forms
from faintly.mechanisms.retrieval_gf.channel import Channel
from faintly.mechanisms.retrieval_gf.forecast import RetrievalGfForecast
from faintly.mechanisms.retrieval_gf.law import RetrievalGfLaw
from faintly.mechanisms.symbols import Symbols
from faintly.primitives import hashing
from faintly.primitives.entropy import Rng
from faintly.primitives.fields import field_of
from faintly.primitives.rounding import bernoulli

SOLVE_WORDS = 2**18  # hashed at once when bulk encoding: 1 MiB of rows, which fit a cache


@register("retrieval-gf")
@dataclass(frozen=True, kw_only=True)
class RetrievalGf(Symbols):
    """Symbols of GF(q) that solve the equations of the held items' answers."""

    planning = forms
    forecast = cached_property(RetrievalGfForecast)
    law = cached_property(RetrievalGfLaw)
    plan: Plan
    form: str  # span-safe, polynomial or full
    symbols: int  # sent in a report
    seed_size: int  # bytes of the seed; 0 where every key has its own point
    channel: Channel

    @classmethod
    def variants(cls, request: Request) -> Iterator[dict[str, Any]]:  # noqa: ARG003
        """Yield the pure forms; the full one must be asked for by name."""
        for bits in (2, 3, 4):
            yield {"form": "span-safe", "symbol_bits": bits}
        yield {"form": "polynomial"}
        for bits in (8, 12, 16):
            yield {"form": "polynomial", "symbol_bits": bits, "seed_bytes": forms.SHORT_SEED}

    @cached_property
    def layout(self) -> Layout:
        return fields_below(self.order, self.symbols, self.seed_size)

    @property
    def enforces_sparsity(self) -> bool:
        return self.form != "span-safe"

    def guarantee(self) -> Guarantee:
        """Return the loss that the integer weights prove; see the proof note for each form."""
        pure = self.form != "full"
        one, k = self.form != "span-safe", self.plan.sparsity
        loss = self.channel.one_factor_loss() if one else self.channel.any_span_loss()
        delta = 0 if pure else forms.failure(self.bits, k, self.symbols)
        return Guarantee(
            self.plan.unit,
            Budget.at_least(loss, Fraction(delta)),
            forms.THEOREMS[self.form],
            forms.conditions(self.form, k, loss),
        )

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        """Return the symbols of one report per vector.

        Privacy: any one item within the plan's budget, by the form's theorem. Whether a vector
        is refused depends on its length alone, never on the seed. The caller draws
        `hash_seeds` without looking at the vectors, and from another source than `rng`.
        """
        self.check_items(vectors.lengths.max(initial=0))
        owners = vectors.owners
        seeds = hash_seeds[owners]
        held = bernoulli(np.abs(vectors.values), rng) * np.sign(vectors.values).astype(np.int64)
        if self.pointed:
            return self._interpolated(vectors, seeds, held, rng)
        answers = self.channel.draw(self.signs(seeds, vectors.indices) * held, rng)
        free = forms.payload(len(vectors), self.symbols, self.bits, rng)
        solved = self._solved(vectors, seeds, answers, free)
        return np.ascontiguousarray(hashing.unpack_symbols(solved, self.symbols, self.bits))

    def _solved(
        self, vectors: VectorBatch, seeds: IdArray, answers: WordArray, free: WordArray
    ) -> WordArray:
        """Return uniform solutions, computed for few enough clients at a time.

        A vector's ids ascend, so ties in the order of elimination are broken by id.
        """
        offsets, ids, out = vectors.offsets, vectors.indices, np.empty_like(free)
        for start, stop in self._parts(offsets, max(1, SOLVE_WORDS // free.shape[1])):
            part = slice(int(offsets[start]), int(offsets[stop]))
            out[start:stop] = kernels.solve_words(
                offsets[start : stop + 1] - offsets[start],
                self.hash(seeds[part], ids[part], hashing.ORDER, 1)[:, 0],
                self.hash(seeds[part], ids[part], hashing.SYMBOL, free.shape[1]),
                answers[part].astype(np.uint8),
                free[start:stop],
                field=field_of(self.order),
                size=self.symbols,
            )
        return out

    def _interpolated(
        self, vectors: VectorBatch, seeds: IdArray, held: IntArray, rng: Rng
    ) -> WordArray:
        """Return uniform polynomials through the answers at the items' points."""
        points, signs = self.points(seeds, vectors.indices)
        # Items that share a point are one bin, which changes like a single item.
        where = vectors.owners * self.order + points
        distinct, bins = np.unique(where, return_inverse=True)
        content = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(content, bins, signs * held)
        answers = self.channel.draw(content.clip(-1, 1), rng)
        drawn = forms.payload(len(vectors), self.symbols, self.bits, rng)
        free = hashing.unpack_symbols(drawn, self.symbols, self.bits)
        counts = np.bincount(distinct // self.order, minlength=len(vectors))
        return kernels.add_points(free, distinct % self.order, answers, counts, self.bits)

    def points(self, seeds: IdArray, ids: IdArray) -> tuple[IntArray, IntArray]:
        """Return the point and the sign of each id, under the seed beside it."""
        if self.seed_size == 0:
            return ids.astype(np.int64), np.ones(len(ids), dtype=np.int64)
        points, signs = hashing.points(seeds, ids, self.bits)
        return points.astype(np.int64), signs

    def hash(self, seeds: IdArray, ids: IdArray, tag: int, count: int) -> WordArray:
        """Return hashed words for each id, under the seed beside it."""
        return kernels.hash_words(seeds, ids, tag, count, self.plan.hashing.family)

    def signs(self, seeds: IdArray, ids: IdArray) -> IntArray:
        """Return the sign of each id, under the seed beside it."""
        if self.plan.hashing.family == "prf":
            return hashing.to_signs(kernels.hash_each(seeds, ids, hashing.SIGN))
        return hashing.places(seeds, ids, 1, self.plan.hashing.family).signs

    def _sums(self, seeds: IdArray, sent: WordArray, ids: IdArray) -> IntArray:
        columns = (seeds, sent, ids, self.channel.counted)
        if self.pointed:
            return kernels.read_polynomial(*columns, bits=self.bits, hashed=self.seed_size > 0)
        field, family = field_of(self.order), self.plan.hashing.family
        return kernels.read_inner(*columns, field=field, family=family)

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:
        """Return n·Var: the second moment of what was read, less mean²."""
        if ids is None or not sketch.count:
            alone = np.full(len(means), self.forecast.variance(self.plan.sparsity))
        else:
            alone = np.maximum(self._moment(sketch, ids) - means**2, self.channel.absent_moment)
        return alone + self.shared_seeds(sketch.count)

    def shared_seeds(self, reports: int) -> float:
        """Return the n·Var from keys that share a point under a seed, if all hold the same k.

        Many clients draw the same short seed, and their collisions add up.
        """
        if not self.pointed or not self.seed_size:
            return 0.0
        return reports * self.plan.sparsity * self.collision / 256**self.seed_size

    @property
    def collision(self) -> float:
        """Return how often two keys share a row or a point."""
        if self.pointed:
            return 1 / self.order if self.seed_size else 0.0
        return float(self.order) ** -self.symbols
