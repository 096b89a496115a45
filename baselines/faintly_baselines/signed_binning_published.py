"""Signed binning with its authors' published settings, which differ from their paper.

event  b = max(1, ⌊k/4⌋) bins at every ε, Laplace noise of scale 2/ε
user   one bin, clipped at η = √(k·ln n)/2.5; Laplace noise of scale min(2η, 2k)/ε, or, where
       that is at least η (ε ≤ 2), one bit: + with odds ½ + B/(2η)·(e^ε-1)/(e^ε+1), B the
       clipped sum
Server mean[x] = Σᵢ sᵢ(x)·yᵢ[hᵢ(x)] / n, where a bit stands for ±η·(e^ε+1)/(e^ε-1)
The clip is too tight: estimates at user level are too small, at n = 1e5 by
16 to 17.5 % for nearly every k from 3 on, and `relative_bias` says exactly how much. Zhou et al.
2021 (arXiv:2112.03449) give the paper's own settings, which `signed-binning` has.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from faintly import kernels
from faintly.core import (
    Budget,
    Cells,
    EventLevel,
    FloatArray,
    Guarantee,
    IdArray,
    IntArray,
    Layout,
    Plan,
    ReportBatch,
    Sketch,
    UserLevel,
    VectorBatch,
    WordArray,
)
from faintly.core.report import fields_below
from faintly.errors import InvalidPlan, UnsupportedUnit
from faintly.mechanisms import Forecast
from faintly.mechanisms import parameters as require
from faintly.mechanisms.law import SmallCase, rounded_sum_law
from faintly.mechanisms.registry import register
from faintly.mechanisms.request import Calibrated, Request
from faintly.mechanisms.rounding import round_values
from faintly.mechanisms.signed_binning import (
    BinForecast,
    BinLaw,
    BinTables,
    SignedBinning,
    rows,
)
from faintly.primitives import noise
from faintly.primitives.choice import uniform_below
from faintly.primitives.entropy import Rng
from faintly_baselines import unhashed

THEOREM = "signed_binning_published.proof.md, Theorem 1 (one bit, whose odds stay in bounds)"
DIVISOR = 2.5  # of the clip, as published
STEPS = {
    "event": rows.STEPS["event"],
    "laplace": 256,  # a clip on this grid differs from η by under 0.2 % at k = 4
    "response": 2**16,  # a finer grid does not lengthen one bit
}
MAX_CLIP = 2**31  # a choice among twice as many fits 32 bits


class BitTables(BinTables):
    """Tables of bins, or of a single bit."""

    mechanism: "SignedBinningPublished"

    def cells(self, batch: ReportBatch) -> Cells:
        """Return the cell of the bit, of weight +1 or -1, or the cells of the bins."""
        if self.mechanism.response is None:
            return super().cells(batch)
        doubled = batch.fields * np.uint32(2)  # 2 or 0, about a middle of 1
        return Cells(*kernels.linear_cells(batch.hash_seeds, doubled, 1, self.maps))


class BitForecast(BinForecast):
    """Variance and bias of one bit, or of noisy bins."""

    mechanism: "SignedBinningPublished"

    def variance(self, mean_square: float) -> float:
        """Return n·Var at a key nobody holds, of clients with `mean_square` items of value 1."""
        mechanism = self.mechanism
        if mechanism.response is not None:
            return mechanism.bit_value**2
        if mechanism.clip is None:
            return super().variance(mean_square)
        low = math.floor(mean_square)
        few, more = (clipped_moments(items, mechanism.reach)[1] for items in (low, low + 1))
        return mechanism.noise_variance + few + (mean_square - low) * (more - few)

    def variances(self, vectors: VectorBatch, ids: IdArray) -> FloatArray:
        """Return n·Var at each id; the bias of clipped bins is not taken into account."""
        if self.mechanism.clip is None:
            return super().variances(vectors, ids)
        return Forecast.variances(self, vectors, ids)

    def relative_bias(self) -> float:
        """Return 1 - E[min(B², η|B|)]/k for the sum B of k signs.

        Estimates are too small by exactly this share for clients with k items of size 1; with
        fewer items by less.
        """
        if self.mechanism.clip is None:
            return 0.0
        return 1 - clipped_moments(self.plan.sparsity, self.mechanism.reach)[0] / self.plan.sparsity

    def influence(self) -> float:
        bit = self.mechanism.response is not None
        return self.mechanism.bit_value if bit else super().influence()


class BitLaw(BinLaw):
    """The law of the bit, or of noisy bins."""

    mechanism: "SignedBinningPublished"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield few bins on a coarse grid, with up to two items more than planned."""
        options = {"steps": 1 if self.mechanism.response is None else 2}
        yield SmallCase(self.small(sparsity=1, options=options))
        if self.mechanism.response is not None:
            yield SmallCase(self.small(sparsity=2, options=options), (-1.0, 0.0, 0.5, 1.0), 4)

    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every report: bins are independent given the hash."""
        mechanism = self.mechanism
        if mechanism.response is None:
            return super().probabilities(values, outcome)
        assert mechanism.clip is not None
        held = [sign * value for value, (_, sign) in zip(values, outcome, strict=True)]
        span = len(held) * mechanism.steps
        sums = np.arange(-span, span + 1).clip(-mechanism.clip, mechanism.clip)
        mean = float(rounded_sum_law(held, mechanism.steps) @ sums) / mechanism.clip
        plus = (1 + mean * (2 * mechanism.response / noise.FULL - 1)) / 2
        return np.array([1 - plus, plus])


@register("signed-binning-published")
@dataclass(frozen=True, kw_only=True)
class SignedBinningPublished(SignedBinning):
    """Bins as in `SignedBinning`, or a single bit."""

    baseline: ClassVar[bool] = True
    tables = cached_property(BitTables)
    forecast = cached_property(BitForecast)
    law = cached_property(BitLaw)

    response: int | None  # how often the bit is the true one, out of 2^32; None: Laplace noise

    @classmethod
    def calibrate(cls, request: Request) -> Calibrated:
        """Choose bins, clip and noise as the authors' code does."""
        options = dict(request.options)
        steps = options.pop("steps", None)
        require.none_left(options, "signed-binning-published", "steps")
        if isinstance(request.unit, EventLevel):
            return _event(request, steps)
        if isinstance(request.unit, UserLevel):
            return _user(request, steps)
        raise UnsupportedUnit(
            f"signed-binning-published protects event or user, not {request.unit}"
        )

    @classmethod
    def from_plan(cls, plan: Plan) -> Self:
        given: dict[str, Any] = require.named(plan, (*rows.NAMES, "response"))
        response = given.pop("response")
        if response is None:
            rows.checked(replace(plan, parameters=given))
        else:
            unhashed.check_response(response, "response")
            _check_bit(given)
        given["noise"] = tuple(given["noise"])
        return cls(plan=plan, response=response, **given)

    @cached_property
    def layout(self) -> Layout:
        """Return the seed and one bit, or packed bins."""
        if self.response is not None:
            return fields_below(2, 1, self.plan.hashing.seed_bytes)
        return fields_below(2 * self.range + 1, self.bins, self.plan.hashing.seed_bytes)

    @property
    def reach(self) -> float:
        """Return η, the clip in units of the values; without a clip it is infinite."""
        return math.inf if self.clip is None else self.clip / self.steps

    @property
    def bit_value(self) -> float:
        """Return what the bit stands for: η over the mean of a randomized true sign."""
        assert self.response is not None
        return self.reach / (2 * self.response / noise.FULL - 1)

    @property
    def scale(self) -> float:
        if self.response is not None:
            return self.bit_value
        return super().scale

    def guarantee(self) -> Guarantee:
        """Return the loss that the bit's coin, or the noise, proves."""
        if self.response is None:
            return super().guarantee()
        ratio = Fraction(self.response, noise.FULL - self.response)
        return Guarantee(self.plan.unit, Budget.at_least(noise.log_at_least(ratio)), THEOREM)

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        """Return the bit (1 for plus) or the noisy bins of one report per vector.

        Privacy: the plan's unit within its budget, for every seed and any number of items. The
        caller draws `hash_seeds` without looking at the vectors, and from another source than
        `rng`.
        """
        if self.response is None:
            return super().randomize(vectors, hash_seeds, rng)
        assert self.clip is not None
        sums = self._bins(
            vectors, hash_seeds, round_values(vectors.values, self.steps, rng)
        ).ravel()
        clipped = sums.clip(-self.clip, self.clip)
        drawn = uniform_below(np.full(len(vectors), 2 * self.clip), rng)
        signs = np.where(drawn < self.clip + clipped, 1, -1)
        return (unhashed.respond(signs, self.response, rng) > 0).astype(np.uint32)[:, None]

    def _values(self, batch: ReportBatch) -> IntArray:
        if self.response is None:
            return super()._values(batch)
        return 2 * batch.fields.astype(np.int64, order="C") - 1

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:
        """Return n·Var: for the bit, the square of what it stands for, less the squared mean."""
        if self.response is None:
            return super().variance(sketch, ids, means)
        return self.bit_value**2 - np.minimum(means**2, 1.0)


def _event(request: Request, steps: int | None) -> Calibrated:
    bins = max(1, request.sparsity // 4)
    if request.decode == "table" or request.family == "linear":
        # The linear family needs a power of two; the next one above costs no accuracy.
        bins = 1 << (bins - 1).bit_length()
    options = {
        "row": "event",
        "bins": min(bins, rows.MAX_BINS),
        "steps": steps or STEPS["event"],
    }
    made = rows.calibrate(replace(request, options=options))
    return Calibrated(parameters={**made.parameters, "response": None}, hashing=made.hashing)


def _user(request: Request, steps: int | None) -> Calibrated:
    k, epsilon = request.sparsity, request.budget.epsilon
    clip = math.sqrt(k * math.log(max(2, request.clients))) / DIVISOR
    # A sum of k values is at most k. Clipped there, that also holds for more items than planned.
    cap = min(clip, float(k))
    fine = steps or STEPS["laplace"]
    options = {"row": "user", "steps": fine, "cap": cap}
    made = rows.calibrate(replace(request, options=options))
    if 2 * cap / epsilon < clip:
        return Calibrated(parameters={**made.parameters, "response": None}, hashing=made.hashing)
    fine = steps or STEPS["response"]
    parameters = {
        "row": "user",
        "bins": 1,
        "steps": fine,
        "clip": math.ceil(clip * fine),
        "range": 1,
        "noise": [],
        "response": noise.response_threshold(noise.exact(epsilon)),
    }
    return Calibrated(parameters=parameters, hashing=made.hashing)


def _check_bit(given: dict[str, Any]) -> None:
    """Refuse parameters that a one-bit response cannot have."""
    fixed = {"row": "user", "bins": 1, "range": 1, "noise": []}
    if any(given[name] != value for name, value in fixed.items()):
        raise InvalidPlan("a one-bit response has row user, one bin, range 1 and no noise")
    require.integer(given["clip"], "clip", 1, MAX_CLIP)
    steps = require.integer(given["steps"], "steps", 1, rows.MAX_STEPS)
    if steps & (steps - 1):
        raise InvalidPlan(f"steps must be a power of two, got {steps}")


def clipped_moments(items: int, reach: float) -> tuple[float, float]:
    """Return E[min(B², η|B|)] and E[min(B², η²)] for the sum B of `items` fair signs."""
    if items == 0:
        return 0.0, 0.0
    middle, spread = items / 2, 20 * math.sqrt(items)  # beyond this the law is below 1e-86
    plus = range(max(0, math.floor(middle - spread)), min(items, math.ceil(middle + spread)) + 1)
    whole = math.lgamma(items + 1) - items * math.log(2)
    law = np.array(
        [math.exp(whole - math.lgamma(one + 1) - math.lgamma(items - one + 1)) for one in plus]
    )
    size = np.abs(2.0 * np.array(plus) - items)
    law /= law.sum()  # lgamma of large numbers is off by parts in 10^10
    return (
        float(law @ np.minimum(size**2, reach * size)),
        float(law @ np.minimum(size**2, reach**2)),
    )
