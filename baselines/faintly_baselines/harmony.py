"""Harmony: every client sends one randomized bit about one random coordinate.

Client  j uniform over the d coordinates; a sign of mean v[j]; randomized response; send (j, sign)
Server  mean[x] = d·(e^ε+1)/(e^ε-1)/n · Σᵢ signᵢ·1[jᵢ = x]
Nguyên, Xiao, Yang, Hui, Shin and Shin 2016 (arXiv:1606.05053), for numeric attributes. It does
not use sparsity: most clients draw a coordinate that they do not hold.
"""

from collections.abc import Sequence
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
    Plan,
    ReportBatch,
    Sketch,
    VectorBatch,
    WordArray,
)
from faintly.mechanisms import parameters as require
from faintly.mechanisms.registry import register
from faintly.mechanisms.request import Calibrated, Request
from faintly.mechanisms.simulation import sums_at
from faintly.primitives import noise
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng
from faintly_baselines import unhashed
from faintly_baselines.unhashed import OneKey, OneKeyForecast, OneKeyLaw

THEOREM = "harmony.proof.md, Theorem 1 (one bit, whose odds stay between two bounds)"
NAMES = ("threshold",)


class HarmonyForecast(OneKeyForecast):
    """The variance where each client answers for one key of d."""

    mechanism: "Harmony"

    def variance(self, mean_square: float) -> float:  # noqa: ARG002
        return self.mechanism.keys / self.mechanism.attenuation**2


class HarmonyLaw(OneKeyLaw):
    """The law of a uniform key and a randomized sign for it."""

    mechanism: "Harmony"

    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every (coordinate, bit)."""
        mechanism = self.mechanism
        truth = np.zeros(mechanism.keys)
        truth[list(outcome)] = values
        plus = (1 + truth * mechanism.attenuation) / 2
        return np.stack([plus, 1 - plus], axis=1).ravel() / mechanism.keys


@register("harmony")
@dataclass(frozen=True, kw_only=True)
class Harmony(OneKey):
    """One bit about one coordinate."""

    forecast = cached_property(HarmonyForecast)
    law = cached_property(HarmonyLaw)

    answers = 2  # signs
    plan: Plan
    threshold: int  # how often the bit is the true one, out of 2^32

    @classmethod
    def calibrate(cls, request: Request) -> Calibrated:
        """Choose the coin of randomized response."""
        require.none_left(request.options, "harmony")
        hashing = unhashed.check(request, "harmony")
        threshold = noise.response_threshold(noise.exact(request.budget.epsilon))
        return Calibrated(parameters={"threshold": threshold}, hashing=hashing)

    @classmethod
    def from_plan(cls, plan: Plan) -> Self:
        given = require.named(plan, NAMES)
        unhashed.check(plan, "harmony")
        return cls(plan=plan, threshold=unhashed.check_response(given["threshold"], "threshold"))

    @property
    def attenuation(self) -> float:
        return 2 * self.threshold / noise.FULL - 1

    def guarantee(self) -> Guarantee:
        """Return ln(T/(2^32-T)), for any change of the vector."""
        ratio = Fraction(self.threshold, noise.FULL - self.threshold)
        return Guarantee(self.plan.unit, Budget.at_least(noise.log_at_least(ratio)), THEOREM)

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:  # noqa: ARG002
        """Return a coordinate and a bit (1 for minus) for each vector.

        Privacy: any change of the whole vector, pure, for any number of items, by Theorem 1.
        """
        keys = uniform_below(np.full(len(vectors), self.keys), rng)
        signs = unhashed.signs_with_mean(unhashed.values_at(vectors, keys, self.keys), rng)
        sent = unhashed.respond(signs, self.threshold, rng)
        return np.stack([keys, sent < 0], axis=1).astype(np.uint32)

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return the sum of the signs that were sent about each id."""
        signs = 1 - 2 * batch.fields[:, 1].astype(np.int64)
        return sums_at(batch.fields[:, 0], signs, ids)

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return n·Var: the second moment d·((e^ε+1)/(e^ε-1))² less the squared mean."""
        return self.forecast.variance(0.0) - np.minimum(means**2, 1.0)
