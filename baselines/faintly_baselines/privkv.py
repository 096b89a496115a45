"""PrivKV, one round: presence and sign of one random key, both randomized.

Client  j uniform over the d keys; held: present with odds of ε/2, and a sign of mean v[j] through
        randomized response of ε/2; not held: present with the odds of a lie, and a fair sign
Server  mean[x] = d/(p₁·(2p₂-1))/n · (plus signs about x - minus signs about x)
Ye, Hu, Meng and Zheng 2019, "PrivKV", whose later rounds need the clients again; the mean over all
clients needs one round only. Gu et al. 2020 (see pckv.py) is its successor.
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
from faintly.mechanisms.simulation import means_at, sums_at
from faintly.primitives import noise
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng
from faintly_baselines import unhashed
from faintly_baselines.unhashed import OneKey, OneKeyForecast, OneKeyLaw

THEOREM = "privkv.proof.md, Theorem 1 (presence and sign of one random key)"
NAMES = ("presence", "sign")


class PrivKVForecast(OneKeyForecast):
    """The variance where each client answers for one key of d, and may lie about its presence."""

    mechanism: "PrivKV"

    def variance(self, mean_square: float) -> float:  # noqa: ARG002
        mechanism = self.mechanism
        return mechanism.keys * (1 - mechanism.presence / noise.FULL) / mechanism.attenuation**2

    def variances(self, vectors: VectorBatch, ids: IdArray) -> FloatArray:
        """Return n·Var at keys that some hold, about which signs are sent more often."""
        mechanism = self.mechanism
        lie = 1 - mechanism.presence / noise.FULL
        held = means_at(vectors, np.ones(len(vectors.values)), ids)
        signed = mechanism.keys * (lie + held * (1 - 2 * lie)) / mechanism.attenuation**2
        return signed - means_at(vectors, vectors.values**2, ids)

    def worst_variance(self) -> float:
        """Return n·Var at a key that everyone holds with a tiny value."""
        mechanism = self.mechanism
        return mechanism.keys * mechanism.presence / noise.FULL / mechanism.attenuation**2


class PrivKVLaw(OneKeyLaw):
    """The law of a uniform key with a randomized presence and sign."""

    mechanism: "PrivKV"

    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every (key, answer)."""
        mechanism = self.mechanism
        truth = np.zeros(mechanism.keys)
        truth[list(outcome)] = values
        honest = mechanism.presence / noise.FULL
        present = np.where(truth != 0, honest, 1 - honest)
        plus = (1 + truth * (2 * mechanism.sign / noise.FULL - 1)) / 2
        answers = np.stack([1 - present, present * plus, present * (1 - plus)], axis=1)
        return answers.ravel() / mechanism.keys


@register("privkv")
@dataclass(frozen=True, kw_only=True)
class PrivKV(OneKey):
    """Presence and sign of one random key."""

    forecast = cached_property(PrivKVForecast)
    law = cached_property(PrivKVLaw)

    answers = 3  # absent, plus and minus
    plan: Plan
    presence: int  # p₁: how often presence is reported truthfully, out of 2^32
    sign: int  # p₂: the same for the sign of a held key

    @classmethod
    def calibrate(cls, request: Request) -> Calibrated:
        """Give half of epsilon to presence and half to the sign, as published."""
        require.none_left(request.options, "privkv")
        hashing = unhashed.check(request, "privkv")
        half = noise.response_threshold(noise.exact(request.budget.epsilon / 2))
        return Calibrated(parameters={"presence": half, "sign": half}, hashing=hashing)

    @classmethod
    def from_plan(cls, plan: Plan) -> Self:
        given = require.named(plan, NAMES)
        unhashed.check(plan, "privkv")
        checked = {name: unhashed.check_response(given[name], name) for name in NAMES}
        return cls(plan=plan, **checked)

    @property
    def attenuation(self) -> float:
        return self.presence / noise.FULL * (2 * self.sign / noise.FULL - 1)

    def guarantee(self) -> Guarantee:
        """Return the largest log ratio of an answer's odds over all values, absent included."""
        p, q = Fraction(self.presence, noise.FULL), Fraction(self.sign, noise.FULL)
        signed = (p * q, p * (1 - q), (1 - p) / 2)
        ratio = max(p / (1 - p), max(signed) / min(signed))
        return Guarantee(self.plan.unit, Budget.at_least(noise.log_at_least(ratio)), THEOREM)

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:  # noqa: ARG002
        """Return a key and an answer (0 absent, 1 plus, 2 minus) for each vector.

        Privacy: any change of the whole vector, pure, for any number of items, by Theorem 1.
        """
        keys = uniform_below(np.full(len(vectors), self.keys), rng)
        values = unhashed.values_at(vectors, keys, self.keys)
        signs = unhashed.signs_with_mean(values, rng)
        sent = unhashed.respond(signs, self.sign, rng)  # a fair coin at value 0
        present = (rng.words(len(vectors)) < self.presence) == (values != 0)
        answers = np.where(present, np.where(sent > 0, 1, 2), 0)
        return np.stack([keys, answers], axis=1).astype(np.uint32)

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return plus answers less minus answers about each id."""
        weights = np.array([0, 1, -1])[batch.fields[:, 1]]
        return sums_at(batch.fields[:, 0], weights, ids)

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:
        """Return n·Var: d times the share of answers with a sign, scaled, less the squared mean.

        That share is counted; it is smallest where nobody holds the key.
        """
        least = 1 - self.presence / noise.FULL
        share = np.full(len(means), least)
        if ids is not None and sketch.fields is not None:
            signed = (sketch.fields[:, 1] > 0).astype(np.int64)
            counted = sums_at(sketch.fields[:, 0], signed, ids)
            share = np.maximum(least, counted * self.keys / max(1, sketch.count))
        return self.keys * share / self.attenuation**2 - np.minimum(means**2, 1.0)
