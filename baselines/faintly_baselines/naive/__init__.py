"""Naive perturbation: every coordinate of a vector is rounded, perturbed and sent.

Client  y[x] = noise(randomized rounding(v[x]·steps)) for each key x, held or not
Server  mean[x] = scale/n · Σᵢ yᵢ[x]
`noise.py` has the three kinds of noise, naive.proof.md the arguments. Baseline of Zhou et al.
2022, who use Gaussian noise and send 4 bytes per key. A report is as long as the universe. Reports
above 65,535 bytes cannot be sent: such a plan is for simulation, which draws the sum over all
clients at once (`NaiveSimulation`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from faintly.core import (
    FloatArray,
    Guarantee,
    IdArray,
    IntArray,
    Layout,
    NarrowArray,
    Plan,
    ReportBatch,
    Sketch,
    Universe,
    UserLevel,
    VectorBatch,
    WithinL1,
    WordArray,
)
from faintly.core.report import fields_below
from faintly.errors import InvalidPlan
from faintly.mechanisms import Mechanism, simulation
from faintly.mechanisms import parameters as require
from faintly.mechanisms.coordinates import FAMILY, CoordinatesLaw, joint_law
from faintly.mechanisms.forecast import Forecast
from faintly.mechanisms.law import SmallCase, rounding_law
from faintly.mechanisms.registry import register
from faintly.mechanisms.request import Calibrated, Request
from faintly.mechanisms.rounding import round_values
from faintly.mechanisms.simulation import Simulation
from faintly.primitives.entropy import Rng
from faintly_baselines.naive.noise import KINDS, Noise, Response
from faintly_baselines.unhashed import largest_variance, simulation_source

NAMES = ("noise", "steps", "range", "spread")
MAX_KEYS = 2**20
DRAWS = 2**20  # noise drawn at once when bulk encoding
SMALL_REPORTS = 2**16  # possible reports of an enumerated case


class NaiveForecast(Forecast):
    """The variance of noise and rounding."""

    mechanism: "Naive"

    def variance(self, mean_square: float) -> float:  # noqa: ARG002
        """Return the variance of the noise, which does not depend on what clients hold."""
        return self.mechanism.noise.variance * self.mechanism.scale**2

    def variances(self, vectors: VectorBatch, ids: IdArray) -> FloatArray:
        """Return noise and rounding; in randomized response, rounding is part of the noise."""
        if isinstance(self.mechanism.noise, Response):
            return super().variances(vectors, ids)
        rounding = simulation.rounding_variance(vectors, self.mechanism.noise.steps)
        return self.variance(0.0) + simulation.means_at(vectors, rounding, ids)

    @property
    def held_excess_moment(self) -> float:
        """Return how much likelier randomized response answers ±1 at a held key, scaled."""
        return self.mechanism.scale if isinstance(self.mechanism.noise, Response) else 0.0

    def worst_variance(self) -> float:
        """Return n·Var half a step off the grid or, of randomized response, at the worst value."""
        mechanism = self.mechanism
        if not isinstance(mechanism.noise, Response):
            return (mechanism.noise.variance + 0.25) * mechanism.scale**2
        return largest_variance(self.variance(0.0), mechanism.scale)

    def influence(self) -> float:
        return self.mechanism.noise.range * self.mechanism.scale


class NaiveLaw(CoordinatesLaw):
    """The law of independent noisy coordinates."""

    mechanism: "Naive"

    def small_cases(self) -> Iterator[SmallCase]:
        """Yield one, two and three keys where reports stay few enough.

        At user level there are as many keys as items are allowed.
        """
        mechanism = self.mechanism
        user = isinstance(self.plan.unit, UserLevel)
        options: dict[str, Any] = {"noise": mechanism.noise.kind}
        if mechanism.noise.kind == "laplace":
            options["steps"] = min(mechanism.noise.steps, 2)
        # With a delta the range must be wide: the tails that it clips distinguish two inputs.
        wide: dict[str, Any] = {"failure": 1e-9} if self.plan.budget.delta else {}
        for keys in (1, 2, 3):
            universe, sparsity = Universe.indexed(keys), keys if user else 1
            if isinstance(self.plan.unit, WithinL1):
                wide["unit"] = WithinL1(min(self.plan.unit.distance, 2.0 * sparsity))
            case = self.small(universe=universe, sparsity=sparsity, options=options, **wide)
            if case.layout.limits[0] ** keys <= SMALL_REPORTS or keys == 1:
                yield SmallCase(case, (-1.0, 0.0, 0.25, 1.0), items=keys)

    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every report: coordinates are independent."""
        return joint_law(self.coordinate_law, self.mechanism.keys, values, outcome)

    def coordinate_law(self, value: float) -> FloatArray:
        """Return the law of a report's integer for a key of this value."""
        noise = self.mechanism.noise
        rounded = rounding_law(value, noise.steps)
        return sum((share * noise.law(step) for step, share in rounded), start=np.zeros(1))


class NaiveSimulation(Simulation):
    """The noise of all clients, drawn as one sum."""

    mechanism: "Naive"

    @property
    def draws_sum(self) -> bool:
        """Return True: a report is as long as the universe."""
        return True

    def totals(
        self,
        vectors: VectorBatch,
        ids: IdArray,
        public: Rng,  # noqa: ARG002  # reports carry no seed
        secret: Rng,
    ) -> IntArray:
        """Return integers with the law of `read`: the noise of all clients is drawn as one sum.

        The limits of a report are ignored: n·d draws exceed them with the plan's failure/10.
        """
        mechanism = self.mechanism
        rounded = mechanism.rounded(vectors, secret)
        source = simulation_source(secret)
        place = vectors.indices.view(np.int64)  # below the size of the universe
        return mechanism.noise.totals(rounded, place, mechanism.keys, len(vectors), source)[ids]


@register("naive")
@dataclass(frozen=True, kw_only=True)
class Naive(Mechanism):
    """A noisy integer for each key of the universe."""

    baseline: ClassVar[bool] = True
    forecast = cached_property(NaiveForecast)
    law = cached_property(NaiveLaw)
    simulation = cached_property(NaiveSimulation)

    plan: Plan
    noise: Noise

    @classmethod
    def variants(cls, request: Request) -> Iterator[dict[str, Any]]:
        """Yield every kind of noise that the budget and the unit allow."""
        if request.budget.delta:
            yield {"noise": "gaussian"}
        yield {"noise": "laplace"}
        if not isinstance(request.unit, WithinL1):
            yield {"noise": "response"}

    @classmethod
    def calibrate(cls, request: Request) -> Calibrated:
        """Choose the least noise of the kind that the options name."""
        options = dict(request.options)
        default = "gaussian" if request.budget.delta else "laplace"
        kind = require.one_of(options.pop("noise", default), "noise", KINDS)
        steps = options.pop("steps", None)
        require.none_left(options, "naive", "noise and steps")
        made = KINDS[kind].calibrate(request, _keys(request.universe), steps)
        made.check()
        hashing = require.direct(request, "naive", FAMILY)
        parameters = {
            "noise": kind,
            "steps": made.steps,
            "range": made.range,
            "spread": list(made.spread),
        }
        return Calibrated(parameters=parameters, hashing=hashing)

    @classmethod
    def from_plan(cls, plan: Plan) -> Self:
        given = require.named(plan, NAMES)
        kind = require.one_of(given["noise"], "noise", KINDS)
        require.direct(plan, "naive", FAMILY)
        _keys(plan.universe)
        if not isinstance(given["spread"], list):
            raise InvalidPlan("spread must be a list of integers")
        made = KINDS[kind](given["steps"], given["range"], tuple(given["spread"]))
        made.check()
        return cls(plan=plan, noise=made)

    @property
    def keys(self) -> int:
        """Return d, the number of keys and of integers in a report."""
        return _keys(self.plan.universe)

    @cached_property
    def layout(self) -> Layout:
        """Return one field for each key, and no seed."""
        return fields_below(2 * self.noise.range + 1, self.keys, 0)

    @property
    def scale(self) -> float:
        """Return the value of one unit of the integers in reports."""
        return self.noise.scale

    @property
    def enforces_sparsity(self) -> bool:
        """Return whether k bounds the change: at user level it does."""
        return isinstance(self.plan.unit, UserLevel)

    def guarantee(self) -> Guarantee:
        """Return the budget that the integers of the noise keep for the plan's unit."""
        plan = self.plan
        kept = self.noise.budget(plan.unit, plan.sparsity, plan.budget.epsilon, self.keys)
        conditions = ("no vector has more items than the sparsity",) * self.enforces_sparsity
        return Guarantee(plan.unit, kept, self.noise.theorem, conditions)

    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:  # noqa: ARG002
        """Return one noisy integer for each key and vector.

        Privacy: the plan's unit within its budget; at user level a vector of more than k items
        is refused before any noise is drawn, at the others any number is covered.
        """
        rounded = self.rounded(vectors, rng)
        out = np.empty((len(vectors), self.keys), dtype=np.uint32)
        size = max(1, DRAWS // self.keys)
        for start in range(0, len(vectors), size):
            part, first = vectors.slice(start, start + size), int(vectors.offsets[start])
            exact = np.zeros(len(part) * self.keys, dtype=np.int64)
            place = part.owners * self.keys + part.indices.astype(np.int64)
            exact[place] = rounded[first : first + len(place)]
            sent = self.noise.add(exact, rng) + self.noise.range
            out[start : start + size] = sent.reshape(-1, self.keys)
        return out

    def rounded(self, vectors: VectorBatch, rng: Rng) -> NarrowArray:
        """Return the values in grid steps, of no more items than the theorem allows."""
        self.check_items(vectors.lengths.max(initial=0))
        return round_values(vectors.values, self.noise.steps, rng)

    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return Σᵢ yᵢ[x] for each id."""
        columns = ids.astype(np.int64)
        return batch.fields.sum(axis=0, dtype=np.int64)[columns] - len(batch) * self.noise.range

    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:
        """Return n·Var: the noise and, where the key may be held, the largest rounding.

        The second moment of randomized response is counted in the reports.
        """
        if ids is None:
            return np.full(len(means), self.forecast.variance(0.0))
        if not isinstance(self.noise, Response):
            return np.full(len(means), self.forecast.worst_variance())
        assert sketch.fields is not None
        answered = (sketch.fields[:, ids.astype(np.int64)] != self.noise.range).mean(axis=0)
        square = np.maximum(answered, self.noise.variance) * self.scale**2
        return square - np.minimum(means**2, 1.0)


def _keys(universe: Universe) -> int:
    if universe.size is None or universe.size > MAX_KEYS:
        raise InvalidPlan(
            f"a naive report holds an integer for each key, so at most {MAX_KEYS} keys are allowed"
        )
    return universe.size
