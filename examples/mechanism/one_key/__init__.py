"""one-key: a whole mechanism in one file, in a separate package.

Client  j uniform over the d keys; a sign of mean v[j], flipped with chance 1 - P; send (j, sign)
Server  mean[x] = d/(2P-1)/n · Σᵢ signᵢ·1[jᵢ = x]

one_key.proof.md has the arguments. pyproject.toml names it to faintly: once this is installed,
`faintly plan` ranks it and every other command takes it. The method is that of `harmony`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

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
    Universe,
    VectorBatch,
    WordArray,
)
from faintly.errors import InvalidPlan
from faintly.mechanisms import Calibrated, Forecast, Mechanism, Request, SmallCase
from faintly.mechanisms import parameters as require
from faintly.mechanisms.coordinates import FAMILY, CoordinatesLaw
from faintly.mechanisms.registry import register
from faintly.mechanisms.simulation import sums_at
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng
from faintly.primitives.noise import FULL, exact, log_at_least, response_threshold
from faintly.primitives.rounding import bernoulli

THEOREM = "one_key.proof.md, Theorem 1 (one bit, whose odds stay between two bounds)"


class OneKeyForecast(Forecast):
    """Variance and influence where each client answers for one key of d."""

    mechanism: "OneKey"

    def variance(self, mean_square: float) -> float:  # noqa: ARG002
        """Return d/(2P-1)²: n·Var at a key nobody holds."""
        return self.mechanism.keys / self.mechanism.mean_sign**2

    def influence(self) -> float:
        """Return the most that one report can read at its key."""
        return self.mechanism.scale


class OneKeyLaw(CoordinatesLaw):
    """The law of a uniform key and a randomized sign for it."""

    mechanism: "OneKey"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield four keys, with up to two items more than planned."""
        yield SmallCase(self.small(sparsity=1, universe=Universe.indexed(4)), items=3)

    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every (key, bit)."""
        mechanism = self.mechanism
        truth = np.zeros(mechanism.keys)
        truth[list(outcome)] = values
        plus = (1 + truth * mechanism.mean_sign) / 2
        return np.stack([plus, 1 - plus], axis=1).ravel() / mechanism.keys


@register("one-key")
@dataclass(frozen=True, kw_only=True)
class OneKey(Mechanism):
    """One randomized sign for one random key."""

    forecast = cached_property(OneKeyForecast)
    law = cached_property(OneKeyLaw)

    plan: Plan
    threshold: int  # how often the sign is the true one, out of 2^32

    @classmethod
    def calibrate(cls, request: Request) -> Calibrated:
        """Choose the coin, rounded toward privacy."""
        require.none_left(request.options, "one-key")
        hashing = require.direct(request, "one-key", FAMILY)
        _check_size(request.universe)
        threshold = response_threshold(exact(request.budget.epsilon))
        return Calibrated(parameters={"threshold": threshold}, hashing=hashing)

    @classmethod
    def from_plan(cls, plan: Plan) -> Self:
        """Return the mechanism a plan describes, checking every parameter."""
        given = require.named(plan, ("threshold",))
        require.direct(plan, "one-key", FAMILY)
        _check_size(plan.universe)
        threshold = require.integer(given["threshold"], "threshold", FULL // 2 + 1, FULL - 1)
        return cls(plan=plan, threshold=threshold)

    @property
    def keys(self) -> int:
        """Return d, the number of keys."""
        return _check_size(self.plan.universe)

    @cached_property
    def layout(self) -> Layout:
        """Return the key and the bit of its sign; there is no seed."""
        widths = (max(1, (self.keys - 1).bit_length()), 1)
        return Layout(seed_bytes=0, widths=widths, limits=(self.keys, 2))

    @property
    def mean_sign(self) -> float:
        """Return 2P-1, the mean of the signs that are sent about a key of value 1."""
        return 2 * self.threshold / FULL - 1

    @property
    def scale(self) -> float:
        """Return d/(2P-1): one client in d reports about a key."""
        return self.keys / self.mean_sign

    def guarantee(self) -> Guarantee:
        """Return ln(T/(2^32-T)), for any change of the vector."""
        ratio = Fraction(self.threshold, FULL - self.threshold)
        return Guarantee(self.plan.unit, Budget.at_least(log_at_least(ratio)), THEOREM)

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:  # noqa: ARG002
        """Return a key and a bit (1 for minus) for each vector.

        Privacy: any change of the whole vector, pure, for any number of items, by Theorem 1.
        """
        keys = uniform_below(np.full(len(vectors), self.keys), rng)
        held = vectors.indices == keys[vectors.owners].astype(np.uint64)
        values = np.zeros(len(vectors))
        values[vectors.owners[held]] = vectors.values[held]
        minus = bernoulli((1 - values) / 2, rng)
        flipped = rng.words(len(vectors)) >= self.threshold
        return np.stack([keys, minus ^ flipped], axis=1).astype(np.uint32)

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return the sum of the signs that were sent about each id."""
        signs = 1 - 2 * batch.fields[:, 1].astype(np.int64)
        return sums_at(batch.fields[:, 0], signs, ids)

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return n·Var: the second moment less the squared mean."""
        return self.forecast.variance(0.0) - np.minimum(means**2, 1.0)


def _check_size(universe: Universe) -> int:
    if universe.size is None:
        raise InvalidPlan("one-key numbers its keys; give a size or a list of names")
    return universe.size
