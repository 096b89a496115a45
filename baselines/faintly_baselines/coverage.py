"""Coverage: each item of a set covers an arc of a ring of slots, and one slot is reported.

Client  x covers `arc` slots from h(x) on; each covered slot is sent with chance Q/2^32, and the
        other slots share the rest equally
Server  mean[x] = Σᵢ (1[slotᵢ in the arc of x] - arc/t) / (n·c),  c = arc·(Q/2^32 - 1/t)
With Q/2^32 = e^ε/Ω and Ω = k·arc·e^ε + t - k·arc every slot has a chance between 1/Ω and e^ε/Ω,
since at most k·arc slots are covered. `collision` and `wheel` are the two published cases for sets;
`collision_signed` has values with a sign.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from faintly import kernels
from faintly.core import (
    Budget,
    FloatArray,
    Guarantee,
    IdArray,
    IntArray,
    Layout,
    Plan,
    ReportBatch,
    Sketch,
    SparseVector,
    VectorBatch,
    WordArray,
)
from faintly.core.report import fields_below
from faintly.errors import BoundDoesNotApply, InvalidPlan, InvalidVector
from faintly.mechanisms import parameters as require
from faintly.mechanisms.base import Mechanism
from faintly.mechanisms.forecast import Forecast
from faintly.mechanisms.law import Law
from faintly.mechanisms.request import Calibrated, Request
from faintly.mechanisms.simulation import BLOCK, means_at, sums_of
from faintly.mechanisms.tokens import Tokens, draw_tokens
from faintly.primitives import hashing, noise
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng
from faintly_baselines.rings import Rings

FAMILY = "prf"
NAMES = ("slots", "arc", "weight")
MAX_SLOTS = 2**24
SETS = (0.0, 1.0)  # the values of small cases


class CoverageForecast(Forecast):
    """The variance of a coin for each key: whether the reported slot is in its arc."""

    mechanism: "Coverage"

    def variance(self, mean_square: float) -> float:  # noqa: ARG002
        return self.mechanism.coins[0]

    def variances(self, vectors: VectorBatch, ids: IdArray) -> FloatArray:
        """Return n·Var at items that some hold: the mean over all clients' coins."""
        mechanism = self.mechanism
        k, (absent, held) = self.plan.sparsity, mechanism.shares
        kept = np.repeat(k / np.maximum(vectors.lengths, k), vectors.lengths)
        share = absent + kept * (held - absent)
        more = (share * (1 - share) - absent * (1 - absent)) / mechanism.gain**2
        return mechanism.coins[0] + means_at(vectors, more, ids)

    def worst_variance(self) -> float:
        """Return n·Var at an item that nobody, or everyone, holds."""
        return max(self.mechanism.coins)

    def lost(self, vectors: VectorBatch) -> FloatArray:
        """Return what is lost by a cut to k tokens."""
        return self.cut(sums_of(vectors, np.abs))

    def influence(self) -> float:
        return (1 - self.mechanism.shares[0]) / self.mechanism.gain


class CoverageLaw(Law):
    """The law of slots, likelier where the kept items cover them."""

    mechanism: "Coverage"

    def outcomes(self, items: int) -> Iterator[tuple[Any, ...]]:
        """Yield every first slot of every item's arc."""
        yield from itertools.product(range(self.mechanism.slots), repeat=items)

    def outcome_of(self, seed: int, ids: IdArray) -> tuple[Any, ...]:
        """Return the first slot of each id's arc under a seed."""
        return tuple(self.mechanism.starts(np.full(len(ids), seed, dtype=np.uint64), ids).tolist())

    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every slot, over all choices of k items to keep."""
        return self._arcs_law(
            [start for start, value in zip(outcome, values, strict=True) if value]
        )

    def _arcs_law(self, starts: Sequence[int]) -> FloatArray:
        ring = self.mechanism
        sizes = self.plan.sparsity, ring.slots, ring.arc, ring.weight
        return _law_of_arcs(tuple(sorted(starts)), *sizes)


@lru_cache(maxsize=4096)  # enumeration asks for the same arcs under outcome after outcome
def _law_of_arcs(
    starts: tuple[int, ...], sparsity: int, slots: int, arc: int, weight: int
) -> FloatArray:
    """Return the probability of every slot where `sparsity` of these arcs are kept."""
    kept = list(itertools.combinations(starts, min(len(starts), sparsity)))
    law = np.zeros(slots)
    for chosen in kept:
        covered = np.zeros(slots, dtype=bool)
        for start in chosen:
            covered[(start + np.arange(arc)) % slots] = True
        reach = int(covered.sum())
        left = (noise.FULL - reach * weight) / (slots - reach)
        law += np.where(covered, weight, left) / noise.FULL / len(kept)
    return law


@dataclass(frozen=True, kw_only=True)
class Coverage(Mechanism):
    """A ring of slots, on which each item of a set covers an arc."""

    baseline: ClassVar[bool] = True
    forecast = cached_property(CoverageForecast)
    law = cached_property(CoverageLaw)

    theorem: ClassVar[str]
    conditions: ClassVar[tuple[str, ...]] = ("every value is 0 or 1",)

    plan: Plan
    slots: int  # t
    arc: int  # slots that an item covers
    weight: int  # Q: the chance of a covered slot, out of 2^32

    @classmethod
    def sized(cls, request: Request, slots: int, arc: int) -> Calibrated:
        """Return the parameters for these slots and this arc."""
        chance = weight(request.sparsity, request.budget.epsilon, slots, arc)
        parameters = {"slots": slots, "arc": arc, "weight": chance}
        hashing = require.direct(request, cls.name, FAMILY)
        return Calibrated(parameters=parameters, hashing=hashing)

    @classmethod
    def from_plan(cls, plan: Plan) -> Self:
        given = require.named(plan, NAMES)
        require.direct(plan, cls.name, FAMILY)
        slots = require.integer(given["slots"], "slots", 2, MAX_SLOTS)
        arc = require.integer(given["arc"], "arc", 1, slots - 1)
        weight = require.integer(given["weight"], "weight", 1, noise.FULL - 1)
        most = plan.sparsity * arc
        if most >= slots or most * weight >= noise.FULL or slots * weight <= noise.FULL:
            raise InvalidPlan(
                f"{cls.name} needs more slots than k items cover, and covered ones must be likelier"
            )
        return cls(plan=plan, slots=slots, arc=arc, weight=weight)

    @cached_property
    def layout(self) -> Layout:
        """Return the seed and one slot."""
        return fields_below(self.slots, 1, self.plan.hashing.seed_bytes)

    @property
    def shares(self) -> tuple[float, float]:
        """Return how often a report lies in the arc of an absent item, and of a held one."""
        return self.arc / self.slots, self.arc * self.weight / noise.FULL

    @property
    def gain(self) -> float:
        """Return how much more often a report lies in the arc of a held item."""
        return self.shares[1] - self.shares[0]

    @property
    def scale(self) -> float:
        """Return 1/(t·c): hits count t times, to stay integers."""
        return 1 / (self.slots * self.gain)

    def guarantee(self) -> Guarantee:
        """Return the log of a covered slot's chance over the smallest chance of another."""
        most = self.plan.sparsity * self.arc
        left = Fraction(noise.FULL - most * self.weight, self.slots - most)
        loss = noise.log_at_least(self.weight / left)
        return Guarantee(self.plan.unit, Budget.at_least(loss), self.theorem, self.conditions)

    def check_vector(self, vector: SparseVector) -> None:
        """Refuse a value other than 1: a set has no others."""
        _check_set(vector.values)

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        """Return one slot per set; of more than k items a uniform choice of k is kept.

        Privacy: any change of the whole set, pure, for every seed and any number of items. The
        caller draws `hash_seeds` without looking at the sets, and from another source than `rng`.
        """
        _check_set(vectors.values)
        return self._report(vectors, hash_seeds, rng)

    def _report(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        kept = draw_tokens(vectors, self.plan.sparsity, "independent", rng)
        rings = list(self._rings(hash_seeds, kept))
        reach = np.concatenate([ring.reach() for ring in rings])
        words = rng.words(len(vectors)).astype(np.int64)
        hit = words < reach * self.weight
        rank = uniform_below(self.slots - reach, rng)
        rank[hit] = words[hit] // self.weight
        ends = np.cumsum([len(ring.sizes) for ring in rings])[:-1]
        parts = zip(rings, np.split(hit, ends), np.split(rank, ends), strict=True)
        slots = np.concatenate([ring.find(covered, place) for ring, covered, place in parts])
        return (slots % self.slots).astype(np.uint32)[:, None]

    def _rings(self, hash_seeds: IdArray, kept: Tokens) -> Iterator[Rings]:
        """Yield the arcs of the clients, block by block."""
        offsets = np.concatenate([[0], np.cumsum(kept.counts)])
        size = max(1, BLOCK // self.plan.sparsity)
        for start in range(0, max(1, len(kept.counts)), size):
            counts = kept.counts[start : start + size]
            rows = slice(offsets[start], offsets[start + len(counts)])
            part = Tokens(kept.owners[rows], kept.ids[rows], kept.negative[rows], counts)
            yield Rings.of(counts, self._token_starts(hash_seeds, part), self.arc, self.slots)

    def _token_starts(self, hash_seeds: IdArray, kept: Tokens) -> IntArray:
        return self.starts(hash_seeds[kept.owners], kept.ids)

    def starts(self, seeds: IdArray, ids: IdArray) -> IntArray:
        """Return the first slot of the arc of each id, under the seed beside it."""
        words = kernels.hash_words(seeds, ids, hashing.PROJECTION, 1)[:, 0]
        return hashing.scale_to(words, self.slots)

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return t times the reports in the arc of each id, less the number that chance gives."""
        return self.slots * self._hits(batch, ids) - self.arc * len(batch)

    def _hits(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        sent = batch.fields[:, 0]
        if self.arc == 1:
            zero = np.zeros_like(sent)
            described = np.stack([zero, zero + np.uint32(1), sent, zero])
            return kernels.read_slots(batch.hash_seeds, described, ids, self.slots)[1]
        hits = np.zeros(len(ids), dtype=np.int64)
        for position, item in enumerate(ids):
            starts = self.starts(batch.hash_seeds, np.full(len(batch), item))
            hits[position] = np.count_nonzero((sent - starts) % self.slots < self.arc)
        return hits

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return n·Var: that of one coin for holders of the item, and of another for all others."""
        absent, held = self.coins
        share = np.clip(means, 0.0, 1.0)
        return absent + share * (held - absent)

    @property
    def coins(self) -> tuple[float, float]:
        """Return n·Var at an item that nobody holds, and at one that everyone holds."""
        absent, held = (share * (1 - share) / self.gain**2 for share in self.shares)
        return absent, held


def best_ring(sparsity: int, epsilon: float) -> float:
    """Return the t of least n·Var for arcs of one slot; in general, 1 over the share of an arc.

    n·Var at an absent item is (t-1)·Ω²/((e^ε-1)²·(t-k)²); with s = t - k its derivative vanishes
    where s² - s·k·e^ε = 2(k-1)·k·e^ε.
    """
    grown = sparsity * math.exp(epsilon)
    return sparsity + (grown + math.sqrt(grown**2 + 8 * (sparsity - 1) * grown)) / 2


def covered_total(sparsity: int, epsilon: float, slots: int) -> float:
    """Return Ω = k·e^ε + t - k: the sum of all weights where all k items hit different slots."""
    return sparsity * math.expm1(epsilon) + slots


def weight(sparsity: int, epsilon: float, slots: int, arc: int) -> int:
    """Return Q = ⌊2^32·e^ε/Ω⌋: rounding down keeps epsilon."""
    grown, most = noise.growth_at_most(epsilon), sparsity * arc
    if most >= slots:
        raise InvalidPlan(f"{sparsity} arcs of {arc} cover all of {slots} slots; use more slots")
    made = int(noise.FULL * grown / (most * grown + slots - most))
    if made * slots <= noise.FULL:
        raise BoundDoesNotApply(
            f"epsilon {epsilon:g} is too small for 32-bit thresholds over {slots} slots; "
            "use a larger epsilon"
        )
    return made


def _check_set(values: FloatArray) -> None:
    if (values != 1).any():
        position = int(np.argmax(values != 1))
        raise InvalidVector(f"value at position {position} is not 1; a set has no other values")
