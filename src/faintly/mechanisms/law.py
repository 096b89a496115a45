"""Exact laws of reports, and cases small enough to enumerate: for the auditor and the tests."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from faintly.core import FloatArray, IdArray, IntArray, Universe, WordArray
from faintly.core.plan import Terms, shared_fields
from faintly.mechanisms.part import Part
from faintly.mechanisms.request import Request

if TYPE_CHECKING:
    from faintly.mechanisms.base import Mechanism


class Law(Part, ABC):
    """The probability of every report, given the outcome of the public hash."""

    @abstractmethod
    def small_cases(self) -> "Iterator[SmallCase]":
        """Yield enumerable cases of this mechanism, with the same unit, epsilon and form."""

    def small(self, **changes: Any) -> "Mechanism":
        """Return the mechanism calibrated for tiny sizes; `changes` are request fields."""
        kind, plan = type(self.mechanism), self.plan
        sizes: dict[str, Any] = {
            "sparsity": 2,
            "clients": 4,  # few clients and a large failure keep the number of reports small
            "failure": 0.5,
            "universe": Universe.indexed(8),
            "decode": plan.decode,
            "family": plan.hashing.family,
        }
        request = Request(**shared_fields(plan, Terms) | sizes | changes)
        made = kind.calibrate(request)
        terms = shared_fields(request, Terms)
        tiny = replace(plan, **terms, parameters=made.parameters, hashing=made.hashing)
        return kind.from_plan(tiny)

    @abstractmethod
    def outcomes(self, items: int) -> Iterator[Any]:
        """Yield every outcome of the public hash over `items` items (small cases only)."""

    @abstractmethod
    def outcome_of(self, seed: int, ids: IdArray) -> Any:
        """Return the outcome of the public hash that a drawn seed gives these items."""

    def report_number(self, fields: WordArray, seed: int) -> IntArray:  # noqa: ARG002
        """Return where `probabilities` has each report: its fields, the last one fastest."""
        numbers = np.zeros(len(fields), dtype=np.int64)
        for column, limit in enumerate(self.mechanism.layout.limits):
            numbers = numbers * limit + fields[:, column]
        return numbers

    @abstractmethod
    def probabilities(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every report, for these item values and this outcome."""


def joint(parts: Iterable[FloatArray]) -> FloatArray:
    """Return the law of several independent parts of a report, the last one fastest."""
    return reduce(lambda left, right: np.outer(left, right).ravel(), parts)


def rounding_law(value: float, steps: int) -> list[tuple[int, float]]:
    """Return what a value becomes on a grid of 1/steps, in steps, each with its chance."""
    low = math.floor(value * steps)
    up = float(Fraction(value) * steps - low)
    return [(low, 1 - up), (low + 1, up)] if up else [(low, 1.0)]


def rounded_sum_law(values: Sequence[float], steps: int) -> FloatArray:
    """Return the law of the sum of values between -1 and 1, each rounded to a grid of 1/steps."""
    total = np.ones(1)
    for value in values:
        one = np.zeros(2 * steps + 1)
        for step, share in rounding_law(value, steps):
            one[step + steps] = share
        total = np.convolve(total, one)
    return total


def kept_law(noise: FloatArray, center: int, reach: int) -> FloatArray:
    """Return the law of noise from its entry `center` on, its tails gathered at ±reach."""
    kept = noise[center - reach : center + reach + 1].copy()
    kept[0] += noise[: center - reach].sum()
    kept[-1] += noise[center + reach + 1 :].sum()
    return kept


@dataclass(frozen=True, slots=True)
class SmallCase:
    """A case small enough to enumerate: a mechanism, the values tried, and how many items."""

    mechanism: "Mechanism"
    grid: tuple[float, ...] = (-1.0, -0.5, 0.0, 0.5, 1.0)
    items: int = 3
    # Where there are too many outcomes to list: one pair, and the classes of outcomes that are
    # equivalent for it, each with its probability.
    pair: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    weighted: tuple[tuple[float, Any], ...] = ()
