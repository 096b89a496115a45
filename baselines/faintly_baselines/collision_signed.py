"""The collision mechanism for values with a sign: (x, +) and (x, -) hash to slots of their own.

Client  x becomes the token (x, sign v) with chance |v|; at most k tokens hit slots out of t
Server  mean[x] = Σᵢ (1[slotᵢ = h(x, +)] - 1[slotᵢ = h(x, -)]) / (n·c),  c = Q/2^32 - 1/t
S. Wang et al., "Hiding numerical vectors in local private and shuffled messages" (IJCAI 2021) and
arXiv:2304.04410; slots and chances are those of `collision`. At a large ε it is the most accurate
of the published methods where few clients hold a key; collision_signed.proof.md has the arguments.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from faintly import kernels
from faintly.core import (
    FloatArray,
    IdArray,
    IntArray,
    ReportBatch,
    Sketch,
    SparseVector,
    VectorBatch,
    WordArray,
)
from faintly.errors import InvalidPlan
from faintly.mechanisms import Forecast
from faintly.mechanisms.base import Mechanism
from faintly.mechanisms.law import SmallCase
from faintly.mechanisms.registry import register
from faintly.mechanisms.tokens import Tokens
from faintly.primitives import hashing
from faintly.primitives.entropy import Rng
from faintly_baselines.collision import Collision, CollisionLaw
from faintly_baselines.coverage import CoverageForecast
from faintly_baselines.unhashed import largest_variance


class CollisionSignedForecast(CoverageForecast):
    """The variance of two coins for each key, one for each sign."""

    mechanism: "CollisionSigned"

    def variance(self, mean_square: float) -> float:  # noqa: ARG002
        """Return n·Var at a key nobody holds: that of two coins, one for each sign."""
        return 2 * self.mechanism.coins[0]

    def variances(self, vectors: VectorBatch, ids: IdArray) -> FloatArray:
        """Return n·Var at keys that some hold, whose slots are named more often."""
        return Forecast.variances(self, vectors, ids)

    @property
    def held_excess_moment(self) -> float:
        """Return how much likelier a report names a slot of a held key, scaled."""
        return (1 - 2 / self.mechanism.slots) / self.mechanism.gain

    def worst_variance(self) -> float:
        return largest_variance(self.variance(0.0), self.held_excess_moment)

    def influence(self) -> float:
        return 1 / self.mechanism.gain


class CollisionSignedLaw(CollisionLaw):
    """The law of slots, of which each item has one for each sign."""

    mechanism: "CollisionSigned"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield few slots, with up to two items more than planned for one, and one for two."""
        one = self.small(sparsity=1, options={"slots": 2})
        yield SmallCase(one, (-1.0, 0.0, 0.5, 1.0), 3)
        two = self.small(sparsity=2, options={"slots": 3})
        yield SmallCase(two, (-1.0, 0.0, 1.0), 3)

    def outcomes(self, items: int) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yield both slots of every item."""
        one = list(itertools.product(range(self.mechanism.slots), repeat=2))
        yield from itertools.product(one, repeat=items)

    def outcome_of(self, seed: int, ids: IdArray) -> tuple[tuple[int, int], ...]:
        """Return both slots of each id under a seed."""
        words = self.mechanism.words(np.full(len(ids), seed, dtype=np.uint64), ids)
        both = hashing.scale_to(words, self.mechanism.slots)
        return tuple((plus, minus) for plus, minus in both.tolist())

    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every slot, over all roundings and choices of k tokens."""
        law = np.zeros(self.mechanism.slots)
        for kept in itertools.product((False, True), repeat=len(values)):
            chance, starts = 1.0, []
            for token, value, both in zip(kept, values, outcome, strict=True):
                chance *= abs(value) if token else 1 - abs(value)
                if token:
                    starts.append(both[int(value < 0)])
            if chance:
                law += chance * self._arcs_law(starts)
        return law


@register("collision-signed")
@dataclass(frozen=True, kw_only=True)
class CollisionSigned(Collision):
    """Two slots for an item, one for each sign."""

    forecast = cached_property(CollisionSignedForecast)
    law = cached_property(CollisionSignedLaw)

    theorem = "collision_signed.proof.md, Theorem 1 (at most k slots are hit)"
    conditions = ()

    def __post_init__(self) -> None:
        if self.arc != 1:
            raise InvalidPlan(f"{self.name} hits single slots; arc must be 1, got {self.arc}")

    def check_vector(self, vector: SparseVector) -> None:
        """Take any values."""
        Mechanism.check_vector(self, vector)

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        """Return one slot per vector; of more than k tokens a uniform choice of k is kept.

        Privacy: any change of the whole vector, pure, for every seed and any number of items. The
        caller draws `hash_seeds` without looking at the vectors, and from another source than
        `rng`.
        """
        return self._report(vectors, hash_seeds, rng)

    def _token_starts(self, hash_seeds: IdArray, kept: Tokens) -> IntArray:
        words = self.words(hash_seeds[kept.owners], kept.ids)
        return hashing.scale_to(np.where(kept.negative, words[:, 1], words[:, 0]), self.slots)

    def words(self, seeds: IdArray, ids: IdArray) -> WordArray:
        """Return the words that give the slots of (x, +) and (x, -), one row for each id."""
        return kernels.hash_words(seeds, ids, hashing.PROJECTION, 2)

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return t times the reports in the slot of (x, +), less those in the slot of (x, -)."""
        plus, minus = self._counts(batch.hash_seeds, batch.fields, ids)
        return self.slots * (plus - minus)

    def _counts(self, seeds: IdArray, fields: WordArray, ids: IdArray) -> tuple[IntArray, IntArray]:
        """Return for each id how many reports name its slot of + and its slot of -."""
        sent = fields[:, 0]
        zero = np.zeros_like(sent)
        one = zero + np.uint32(1)
        plus, minus = (
            kernels.read_slots(seeds, np.stack([word, one, sent, zero]), ids, self.slots)[1]
            for word in (zero, one)
        )
        return plus, minus

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:
        """Return n·Var: the share of reports that name either slot, scaled, less the squared mean.

        That share is counted; it is smallest where nobody holds the key.
        """
        square = np.full(len(means), self.forecast.variance(0.0))
        if ids is not None and sketch.hash_seeds is not None and sketch.fields is not None:
            hits = sum(self._counts(sketch.hash_seeds, sketch.fields, ids))
            square = np.maximum(square, hits / max(1, sketch.count) / self.gain**2)
        return square - np.minimum(means**2, 1.0)
