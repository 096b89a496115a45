"""Discrete Gaussian noise on every coordinate: for l1 changes too long for single answers.

Client  y[x] = randomized rounding(v[x]·steps) + Z[x] for each key x of a small universe, kept
        within ±range; P(Z = z) is proportional to e^(-z²/(2·variance))
Server  mean[x] = Σᵢ yᵢ[x] / (n·steps)
A change of L1 norm L whose coordinates move by at most 2 has a squared length of at most 2L (L²
for L below 2), so n·Var grows like L and not like L². δ is computed from the integers, for any
number of items; gaussian.proof.md has the arguments. The report is as long as the universe.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from faintly.core import Budget, Guarantee, Plan, Sketch, Universe, VectorBatch, WithinL1
from faintly.core.arrays import FloatArray, IdArray, IntArray, WordArray
from faintly.core.report import Layout, ReportBatch, fields_below
from faintly.errors import BoundDoesNotApply, InvalidPlan
from faintly.mechanisms import parameters as require
from faintly.mechanisms import simulation
from faintly.mechanisms.base import Mechanism
from faintly.mechanisms.coordinates import FAMILY, CoordinatesLaw, joint_law
from faintly.mechanisms.forecast import Forecast
from faintly.mechanisms.law import SmallCase, kept_law, rounding_law
from faintly.mechanisms.registry import register
from faintly.mechanisms.request import Calibrated, Request
from faintly.primitives import gaussian
from faintly.primitives.entropy import Rng
from faintly.primitives.rounding import round_unbiased

THEOREM = "gaussian.proof.md, Theorem 1 (the continuous Gaussian, rounded at random)"
NAMES = ("steps", "variance", "range")
MAX_KEYS = 4096  # a report has one integer of about ten bits for each: 5 KiB
MAX_STEPS = 2**8
MAX_RANGE = 2**31 - 1
DRAWS = 2**20  # noise drawn at once when bulk encoding
LEAST_DELTA = "0.00001"
SMALL_REPORTS = 2**20  # possible reports of an enumerated case


class GaussianForecast(Forecast):
    """The variance of noise and rounding, the same at every key."""

    mechanism: "Gaussian"

    def pair_covariance(self) -> float:
        """Return 0: every coordinate has noise of its own."""
        return 0.0

    def variance(self, mean_square: float) -> float:  # noqa: ARG002
        return self.mechanism.variance_steps / self.mechanism.steps**2

    def variances(self, vectors: VectorBatch, ids: IdArray) -> FloatArray:
        """Return noise and rounding."""
        rounding = simulation.rounding_variance(vectors, self.mechanism.steps)
        return self.variance(0.0) + simulation.means_at(vectors, rounding, ids)

    def worst_variance(self) -> float:
        """Return noise and rounding of a value half a step off the grid."""
        return (self.mechanism.variance_steps + 0.25) / self.mechanism.steps**2

    def influence(self) -> float:
        return self.mechanism.range / self.mechanism.steps


class GaussianLaw(CoordinatesLaw):
    """The law of independent noisy coordinates."""

    mechanism: "Gaussian"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield one key, and two keys where reports of two stay few enough."""
        reach = require.l1_distance(self.plan.unit)
        step = min(1.0, reach) / 2
        # The range must be wide: the tails that it clips are what distinguishes two inputs.
        wide: dict[str, Any] = {"failure": 1e-9, "sparsity": 1}
        one = {"unit": WithinL1(min(2.0, reach)), "universe": Universe.indexed(1)}
        fine = (-1.0, -0.5, 0.0, step, 0.5, 1 - step, 1.0)
        yield SmallCase(self.small(**wide | one), fine, items=1)
        two = {"unit": WithinL1(min(4.0, reach)), "universe": Universe.indexed(2), "sparsity": 2}
        if (case := self.small(**wide | two)).layout.limits[0] ** 2 < SMALL_REPORTS:
            yield SmallCase(case, (-1.0, 1 - step, 1.0), items=2)

    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every report: coordinates are independent."""
        return joint_law(self.coordinate_law, self.mechanism.keys, values, outcome)

    def coordinate_law(self, value: float) -> FloatArray:
        """Return the law of a report's integer for a key of this value."""
        reach, steps = self.mechanism.range, self.mechanism.steps
        far = reach + steps + math.ceil(40 * math.sqrt(self.mechanism.variance_steps))
        shape = gaussian.law(self.mechanism.variance_steps, far)
        out = np.zeros(2 * reach + 1)
        for shift, share in rounding_law(value, steps):
            out += share * kept_law(shape, far - shift, reach)
        return out


@register("gaussian")
@dataclass(frozen=True, kw_only=True)
class Gaussian(Mechanism):
    """A noisy integer for each key; the noise is discrete Gaussian."""

    forecast = cached_property(GaussianForecast)
    law = cached_property(GaussianLaw)

    plan: Plan
    steps: int  # grid steps per unit
    variance_steps: int  # of the noise, in squared grid steps
    range: int  # largest integer of a report, in grid steps

    @classmethod
    def calibrate(cls, request: Request) -> Calibrated:
        """Choose the coarsest grid and the least variance that keep the budget."""
        require.protects(request, WithinL1, "gaussian")
        require.none_left(request.options, "gaussian")
        hashing = require.direct(request, "gaussian", FAMILY)
        if request.budget.delta == 0:
            raise BoundDoesNotApply(
                "Gaussian noise needs delta above 0; give --delta (for example "
                f"{LEAST_DELTA}), or use retrieval-l1 with form polynomial, which is pure"
            )
        keys = _keys(request.universe)
        steps, variance = least_noise(request, require.l1_distance(request.unit), keys)
        tail = math.sqrt(2 * variance * math.log(20 * request.clients * keys / request.failure))
        parameters = {"steps": steps, "variance": variance, "range": steps + math.ceil(tail)}
        return Calibrated(parameters=parameters, hashing=hashing)

    @classmethod
    def from_plan(cls, plan: Plan) -> Self:
        given = require.named(plan, NAMES)
        require.protects(plan, WithinL1, "gaussian")
        require.direct(plan, "gaussian", FAMILY)
        if plan.budget.delta == 0:
            raise InvalidPlan("gaussian needs delta above 0")
        _keys(plan.universe)
        least, most = gaussian.SMOOTHED + 1, gaussian.MAX_VARIANCE
        return cls(
            plan=plan,
            steps=require.power_of_two(given["steps"], "steps", MAX_STEPS),
            variance_steps=require.integer(given["variance"], "variance", least, most),
            range=require.integer(given["range"], "range", 1, MAX_RANGE),
        )

    @property
    def keys(self) -> int:
        """Return d, the number of keys and of integers in a report."""
        return _keys(self.plan.universe)

    @cached_property
    def layout(self) -> Layout:
        return fields_below(2 * self.range + 1, self.keys, 0)

    @property
    def scale(self) -> float:
        return 1 / self.steps

    def guarantee(self) -> Guarantee:
        """Return the plan's epsilon with the delta that the variance keeps there."""
        epsilon, reach = self.plan.budget.epsilon, require.l1_distance(self.plan.unit)
        check_rounding(epsilon, reach, self.steps, self.variance_steps)
        delta = kept_delta(epsilon, reach, self.steps, self.variance_steps, self.keys)
        return Guarantee(self.plan.unit, Budget(epsilon, delta), THEOREM)

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:  # noqa: ARG002
        """Return one noisy integer for each key and vector.

        Privacy: any change of L1 norm up to the plan's distance, within its budget, for any
        number of items.
        """
        rounded = round_unbiased(vectors.values, self.steps, rng)
        out = np.empty((len(vectors), self.keys), dtype=np.uint32)
        size = max(1, DRAWS // self.keys)
        for start in range(0, len(vectors), size):
            part = vectors.slice(start, start + size)
            noisy = gaussian.draw(self.variance_steps, len(part) * self.keys, rng)
            first = int(vectors.offsets[start])
            place = part.owners * self.keys + part.indices.astype(np.int64)
            noisy[place] += rounded[first : first + len(place)]
            kept = noisy.clip(-self.range, self.range) + self.range
            out[start : start + size] = kept.reshape(-1, self.keys)
        return out

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        columns = ids.astype(np.int64)
        return batch.fields.sum(axis=0, dtype=np.int64)[columns] - len(batch) * self.range

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return n·Var: the noise and, where the key may be held, the largest rounding."""
        known = self.forecast.variance(0.0) if ids is None else self.forecast.worst_variance()
        return np.full(len(means), known)


def _keys(universe: Universe) -> int:
    if universe.size is None or universe.size > MAX_KEYS:
        raise InvalidPlan(
            f"a Gaussian report holds one integer for each key, so at most {MAX_KEYS} keys are "
            "allowed; use retrieval-l1, projection-choice or a smaller universe"
        )
    return universe.size


def _largest_move(reach: float, steps: int) -> int:
    """Return how many steps a coordinate can move: two units at most, and no more than L."""
    return math.ceil(min(2.0, reach) * steps)


def _square(reach: float, steps: int) -> float:
    """Return the largest squared length, in steps, of a change of L1 norm `reach`."""
    return reach * steps * _largest_move(reach, steps)


def kept_delta(epsilon: float, reach: float, steps: int, variance: int, keys: int) -> float:
    """Return the delta of Theorem 1 for changes of L1 norm `reach`."""
    return gaussian.delta_at(epsilon, _square(reach, steps), variance, keys)


def _rounds_freely(epsilon: float, reach: float, steps: int, variance: int) -> bool:
    rate = gaussian.growth(epsilon, _square(reach, steps), variance)
    # The rate is a float, but Lemma 3 needs the exact one, so both sides of it are checked.
    most = _largest_move(reach, steps)
    return all(gaussian.rounding_is_free(rate * near, most) for near in (1 - 1e-6, 1 + 1e-6))


def check_rounding(epsilon: float, reach: float, steps: int, variance: int) -> None:
    """Refuse a grid on which rounding is not free, so that Theorem 1 does not apply."""
    if not _rounds_freely(epsilon, reach, steps, variance):
        raise BoundDoesNotApply(
            f"a grid of {steps} steps is too coarse for Gaussian noise of this size; "
            f"use {2 * steps} steps"
        )


def least_noise(request: Request, reach: float, keys: int) -> tuple[int, int]:
    """Return steps and variance: the coarsest grid whose rounding is free at the least noise."""
    epsilon, delta = request.budget.epsilon, request.budget.delta
    steps = 1
    while steps <= MAX_STEPS:
        variance = _least_variance(epsilon, delta, reach, steps, keys)
        if variance is None:
            break
        if _rounds_freely(epsilon, reach, steps, variance):
            return steps, variance
        steps *= 2
    raise BoundDoesNotApply(
        "Gaussian noise for this budget does not fit 32-bit draws; use a larger epsilon or delta, "
        "or retrieval-l1"
    )


def _least_variance(
    epsilon: float, delta: float, reach: float, steps: int, keys: int
) -> int | None:
    low, high = gaussian.SMOOTHED, gaussian.MAX_VARIANCE  # delta fails at low, holds at high
    if kept_delta(epsilon, reach, steps, high, keys) > delta:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if kept_delta(epsilon, reach, steps, middle, keys) > delta:
            low = middle
        else:
            high = middle
    return high
