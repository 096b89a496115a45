"""The three kinds of noise of `naive`, each on one coordinate: integers in, integers out.

gaussian  the analytic Gaussian of Balle and Wang, made discrete; needs a delta
laplace   discrete Laplace noise
response  a value rounded to -1, 0 or 1 is kept with chance T/2^32, else one of the other two

A unit is a distance in the L1 norm: 2 for one coordinate, 2k for everything that a person with
at most k items holds. `totals` draws sums over many clients directly, with numpy's
generator: that is for simulation, never for a client.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from faintly.core import (
    AnyArray,
    Budget,
    EventLevel,
    FloatArray,
    IntArray,
    Unit,
    UserLevel,
    WithinL1,
)
from faintly.errors import BoundDoesNotApply, InvalidPlan, UnsupportedUnit
from faintly.mechanisms import gaussian as analytic
from faintly.mechanisms import parameters as require
from faintly.mechanisms.law import kept_law
from faintly.mechanisms.request import Request
from faintly.primitives import gaussian, noise
from faintly.primitives.entropy import Rng
from faintly.primitives.noise import FULL

LAPLACE_STEPS = 4  # rounding adds at most 1/64 to a variance that is 8 at epsilon 1
L1_STEPS = 64  # a step costs ρ-1 > ln ρ there: 4 steps would have 1.73 times the noise at ε = 3·L
MAX_STEPS = 2**8
MAX_RANGE = 2**31 - 1
MAX_THRESHOLDS = 40


def distance(unit: Unit, sparsity: int) -> float:
    """Return the L1 norm of the largest change that a unit hides."""
    if isinstance(unit, WithinL1):
        return unit.distance
    return 2.0 if isinstance(unit, EventLevel) else 2.0 * sparsity


@dataclass(frozen=True, slots=True)
class Noise(ABC):
    """The integers of one kind of noise; `spread` has the parameters of its law."""

    kind: ClassVar[str]
    theorem: ClassVar[str]
    steps: int  # grid steps per unit
    range: int  # largest integer of a report, in grid steps
    spread: tuple[int, ...]

    @classmethod
    @abstractmethod
    def calibrate(cls, request: Request, keys: int, steps: Any) -> Self:
        """Return the least noise that keeps the budget."""

    @abstractmethod
    def check(self) -> None:
        """Refuse integers that this kind cannot have."""

    @abstractmethod
    def budget(self, unit: Unit, sparsity: int, epsilon: float, keys: int) -> Budget:
        """Return the budget that the integers keep for a unit."""

    @abstractmethod
    def add(self, exact: IntArray, rng: Rng) -> IntArray:
        """Return each integer with noise, within ±range."""

    @abstractmethod
    def law(self, exact: int) -> FloatArray:
        """Return the probabilities of the answers -range..range to one integer."""

    @abstractmethod
    def totals(
        self, exact: AnyArray, place: IntArray, keys: int, clients: int, source: np.random.Generator
    ) -> IntArray:
        """Return the sum over clients of what `add` gives for each key.

        Args:
            exact: the integers that are not 0, of all clients.
            place: the key of each of them.
            keys: number of keys.
            clients: number of clients.
            source: of simulated noise.
        """

    @property
    @abstractmethod
    def variance(self) -> float:
        """Return the variance of the answer to the integer 0, in squared steps."""

    @property
    def scale(self) -> float:
        """Return the value of one unit of an answer."""
        return 1 / self.steps


class Additive(Noise):
    """Noise that is added, and kept within ±range."""

    __slots__ = ()

    @abstractmethod
    def draw(self, count: int, rng: Rng) -> IntArray:
        """Return `count` draws."""

    @abstractmethod
    def sums(self, keys: int, clients: int, source: np.random.Generator) -> IntArray:
        """Return for each key the sum of one draw per client."""

    @abstractmethod
    def noise_law(self, reach: int) -> FloatArray:
        """Return the probabilities of the noise -reach..reach."""

    def add(self, exact: IntArray, rng: Rng) -> IntArray:
        """Return the sums, within ±range, which is post-processing."""
        return (exact + self.draw(len(exact), rng)).clip(-self.range, self.range)

    def totals(
        self, exact: AnyArray, place: IntArray, keys: int, clients: int, source: np.random.Generator
    ) -> IntArray:
        """Return the sums without the limits of the range, which calibration makes negligible."""
        held = np.bincount(place, exact, keys).astype(np.int64)
        return held + self.sums(keys, clients, source)

    def law(self, exact: int) -> FloatArray:
        """Return the law of the sum, with its tails at ±range."""
        far = self.range + abs(exact) + math.ceil(40 * math.sqrt(self.variance)) + 1
        kept = kept_law(self.noise_law(far), far - exact, self.range)
        return kept / math.fsum(kept)

    def _check_steps(self) -> None:
        require.integer(self.steps, "steps", 1, MAX_STEPS)
        if self.steps & (self.steps - 1):
            raise InvalidPlan(f"steps must be a power of two, got {self.steps}")
        require.integer(self.range, "range", 1, MAX_RANGE)


class Gaussian(Additive):
    """Discrete Gaussian noise: `spread` is its variance; theorem and delta of `gaussian`."""

    __slots__ = ()
    kind = "gaussian"
    theorem = "naive.proof.md, Theorem 1 (the analytic Gaussian at distance 2, 2k or L)"

    @classmethod
    def calibrate(cls, request: Request, keys: int, steps: Any) -> Self:
        """Choose the coarsest grid and the least variance that keep the budget."""
        if steps is not None:
            raise InvalidPlan("Gaussian noise chooses its own steps; leave them out")
        if request.budget.delta == 0:
            raise BoundDoesNotApply(
                "Gaussian noise needs delta above 0; give --delta (for example "
                f"{analytic.LEAST_DELTA}), or use noise laplace or response"
            )
        reach = distance(request.unit, request.sparsity)
        own, variance = analytic.least_noise(request, reach, keys)
        tail = math.sqrt(2 * variance * math.log(20 * request.clients * keys / request.failure))
        return cls(own, own + math.ceil(tail), (variance,))

    def check(self) -> None:
        """Refuse a variance that Lemma 2 or the sampler does not cover."""
        self._check_steps()
        if len(self.spread) != 1:
            raise InvalidPlan("the spread of Gaussian noise is its variance, one integer")
        require.integer(self.spread[0], "variance", gaussian.SMOOTHED + 1, gaussian.MAX_VARIANCE)

    def budget(self, unit: Unit, sparsity: int, epsilon: float, keys: int) -> Budget:
        """Return epsilon with the delta that the variance keeps there."""
        reach, (variance,) = distance(unit, sparsity), self.spread
        analytic.check_rounding(epsilon, reach, self.steps, variance)
        delta = analytic.kept_delta(epsilon, reach, self.steps, variance, keys)
        return Budget(epsilon, delta)

    @property
    def variance(self) -> float:
        return float(self.spread[0])

    def draw(self, count: int, rng: Rng) -> IntArray:
        return gaussian.draw(self.spread[0], count, rng)

    def noise_law(self, reach: int) -> FloatArray:
        return gaussian.law(self.spread[0], reach)

    def sums(self, keys: int, clients: int, source: np.random.Generator) -> IntArray:
        """Return rounded normal draws of the variance n·V.

        A sum of discrete Gaussians of variance V ≥ 3 is one of variance n·V within 10n·e^-29, and
        that is a rounded normal draw within a relative 1/(24·n·V) about its middle.
        """
        spread = math.sqrt(max(0.0, clients * self.variance - 1 / 12))  # rounding adds 1/12
        return np.rint(source.normal(0, spread, keys)).astype(np.int64)


class Laplace(Additive):
    """Discrete Laplace noise: `spread` holds the thresholds of its coins."""

    __slots__ = ()
    kind = "laplace"
    theorem = "naive.proof.md, Theorem 2 (the change of all coordinates, in steps)"

    @classmethod
    def calibrate(cls, request: Request, keys: int, steps: Any) -> Self:
        """Choose thresholds by the ratio that one step may cost."""
        inside = isinstance(request.unit, WithinL1)
        if steps is None:
            steps = L1_STEPS if inside else LAPLACE_STEPS
        require.integer(steps, "steps", 1, MAX_STEPS)
        epsilon = noise.exact(request.budget.epsilon)
        change = noise.exact(distance(request.unit, request.sparsity)) * steps
        # Within a grid cell an l1 change costs ρ-1 a step, and not ln ρ.
        bound = 1 / (1 + epsilon / change) if inside else noise.exp_at_least(-epsilon / change)
        thresholds = noise.laplace_thresholds(bound)
        tail = math.log(10 * request.clients * keys / request.failure) / -math.log(float(bound))
        return cls(steps, steps + math.ceil(tail), tuple(thresholds))

    def check(self) -> None:
        """Refuse invalid thresholds, and those whose draws would take very long."""
        self._check_steps()
        if not 1 <= len(self.spread) <= MAX_THRESHOLDS:
            raise InvalidPlan(f"the spread must be a list of 1 to {MAX_THRESHOLDS} thresholds")
        for place, one in enumerate(self.spread):
            last = place == len(self.spread) - 1
            require.integer(one, f"threshold {place}", 1, FULL // 2 if last else FULL - 1)

    def budget(self, unit: Unit, sparsity: int, epsilon: float, keys: int) -> Budget:  # noqa: ARG002
        """Return the loss of one step times the steps of a change."""
        ratio = noise.step_ratio(list(self.spread))
        each = ratio - 1 if isinstance(unit, WithinL1) else noise.log_at_least(ratio)
        return Budget.at_least(each * noise.exact(distance(unit, sparsity)) * self.steps)

    @property
    def variance(self) -> float:
        return noise.laplace_variance(list(self.spread))

    def draw(self, count: int, rng: Rng) -> IntArray:
        return noise.laplace(list(self.spread), count, rng)

    def noise_law(self, reach: int) -> FloatArray:
        return noise.laplace_law(tuple(self.spread), reach)

    def sums(self, keys: int, clients: int, source: np.random.Generator) -> IntArray:
        """Return differences of two sums of geometrics, each digit a binomial: exact in law."""
        total = np.zeros(keys, dtype=np.int64)
        if clients == 0:
            return total
        for sign in (1, -1):
            for digit, one in enumerate(self.spread[:-1]):
                total += (sign << digit) * source.binomial(clients, one / FULL, keys)
            carried = source.negative_binomial(clients, 1 - self.spread[-1] / FULL, keys)
            total += (sign << (len(self.spread) - 1)) * carried
        return total


class Response(Noise):
    """Randomized response over -1, 0 and 1: `spread` is the threshold of keeping a value."""

    __slots__ = ()
    kind = "response"
    theorem = "naive.proof.md, Theorem 3 (every coordinate that changes costs the same)"

    @classmethod
    def calibrate(cls, request: Request, keys: int, steps: Any) -> Self:  # noqa: ARG003
        """Choose the threshold by the loss of one coordinate."""
        if isinstance(request.unit, WithinL1):
            raise UnsupportedUnit("noise response protects event and user; use gaussian or laplace")
        if steps not in (None, 1):
            raise InvalidPlan(f"randomized response has one step, got {steps!r}")
        each = noise.exact(request.budget.epsilon) / _changed(request.unit, request.sparsity)
        return cls(1, 1, (noise.response_threshold(each, outcomes=3),))

    def check(self) -> None:
        """Refuse a threshold at which another value is as likely as the true one."""
        if (self.steps, self.range, len(self.spread)) != (1, 1, 1):
            raise InvalidPlan("randomized response has one step, range 1 and one threshold")
        require.integer(self.spread[0], "keep", FULL // 3 + 1, FULL - 1)

    def budget(self, unit: Unit, sparsity: int, epsilon: float, keys: int) -> Budget:  # noqa: ARG002
        """Return ln(p/q) times the number of coordinates that can change."""
        if isinstance(unit, WithinL1):
            raise InvalidPlan("noise response protects event and user")
        each = noise.log_at_least(Fraction(2 * self.spread[0], FULL - self.spread[0]))
        return Budget.at_least(each * _changed(unit, sparsity))

    @property
    def chances(self) -> tuple[float, float]:
        """Return p and q: that a value is kept, and that it turns into a given other one."""
        kept = self.spread[0] / FULL
        return kept, (1 - kept) / 2

    @property
    def scale(self) -> float:
        """Return 1/(p-q), which undoes the attenuation."""
        kept, other = self.chances
        return 1 / (kept - other)

    @property
    def variance(self) -> float:
        """Return 2q: how often the answer to the value 0 is another one."""
        return 2 * self.chances[1]

    def add(self, exact: IntArray, rng: Rng) -> IntArray:
        lost = rng.words(len(exact)) >= self.spread[0]
        step = 1 + (rng.words(len(exact)) & np.uint32(1)).astype(np.int64)
        return (exact + 1 + np.where(lost, step, 0)) % 3 - 1

    def law(self, exact: int) -> FloatArray:
        kept, other = self.chances
        law = np.full(3, other)
        law[exact + 1] = kept
        return law

    def totals(
        self, exact: AnyArray, place: IntArray, keys: int, clients: int, source: np.random.Generator
    ) -> IntArray:
        """Return the sums by counting how often each value gives each answer: exact in law."""
        plus, minus = (np.bincount(place[exact == one], minlength=keys) for one in (1, -1))
        totals = np.zeros(keys, dtype=np.int64)
        for value, count in ((1, plus), (-1, minus), (0, clients - plus - minus)):
            answers = source.multinomial(count, self.law(value))
            totals += answers[:, 2] - answers[:, 0]
        return totals


def _changed(unit: Unit, sparsity: int) -> int:
    """Return how many coordinates can change; at user level two people may share no key."""
    return 2 * sparsity if isinstance(unit, UserLevel) else 1


KINDS: dict[str, type[Noise]] = {one.kind: one for one in (Gaussian, Laplace, Response)}
