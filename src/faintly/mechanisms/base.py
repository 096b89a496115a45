"""What a mechanism is: a frozen set of public integers, with what each of its callers needs.

device and server   calibrate   choose the integers so that a unit is protected within a budget
                    guarantee   say what the integers prove, computed from them and nothing else
                    randomize   turn vectors into report fields: the only privacy step
                    read        evaluate keys on reports
                    variance    n·Var of each estimate
engine              tables      the cells of reports, whose transform holds all sums at once
planner, engine     forecast    variance, bias and loss before there are reports
auditor             law         the exact probability of every report, in small cases
evaluation          simulation  the integers of many reports at once

The last four are parts: objects of their own, made when they are first used.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

from faintly.core import Guarantee, Plan, Sketch, SparseVector, VectorBatch
from faintly.core.arrays import FloatArray, IdArray, IntArray, WordArray
from faintly.core.plan import VALUES
from faintly.core.report import Layout, ReportBatch
from faintly.errors import InvalidVector, TooManyItems
from faintly.mechanisms.forecast import Forecast
from faintly.mechanisms.law import Law
from faintly.mechanisms.request import Calibrated, Request
from faintly.mechanisms.simulation import Simulation
from faintly.mechanisms.tables import Tables
from faintly.primitives.entropy import Rng

WITNESSES = (-1.0, 0.5, 1.0)  # for each domain a value that the next one lacks
UNSENT_SEED_BYTES = 8  # determines map, rows and order; a server of public maps needs no seed


class Mechanism(ABC):
    """Public parameters of one collection; both sides hold the same object."""

    name: ClassVar[str]
    baseline: ClassVar[bool] = False  # for comparison; the planner uses one only by name
    plan: Plan

    tables = cached_property(Tables)
    simulation = cached_property(Simulation)

    @property
    @abstractmethod
    def forecast(self) -> Forecast:
        """Return what the planner and the engine predict of reports."""

    @property
    @abstractmethod
    def law(self) -> Law:
        """Return what the auditor enumerates."""

    @classmethod
    def variants(cls, request: Request) -> Iterator[dict[str, Any]]:  # noqa: ARG003
        """Yield the options worth comparing for a request; the planner ranks them all."""
        yield {}

    @classmethod
    @abstractmethod
    def calibrate(cls, request: Request) -> Calibrated:
        """Return integers that protect the unit within the budget, or raise with the rule."""

    @classmethod
    @abstractmethod
    def from_plan(cls, plan: Plan) -> Self:
        """Return the mechanism that a plan describes, checking every parameter."""

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Return what the integers prove for the plan's unit."""

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """Return the fields of a report in bits."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """Return the factor of mean = scale · (what `read` or the tables give) / reports."""

    @property
    def seed_bytes(self) -> int:
        """Return the bytes of public randomness that a client draws, sent or not."""
        unsent = UNSENT_SEED_BYTES if self.plan.hashing.linear else 0
        return self.layout.seed_bytes or unsent

    @property
    def enforces_sparsity(self) -> bool:
        """Return whether `randomize` raises `TooManyItems` above the plan's sparsity k.

        Only then are two vectors at most 2k items apart, so that a report about events or an
        l1 distance has a bounded cost at user level in a client's ledger.
        """
        return False

    def check_vector(self, vector: SparseVector) -> None:
        """Refuse a vector that the theorem does not cover, before anything is charged."""
        self.check_items(len(vector))

    def check_items(self, items: int) -> None:
        """Refuse a vector of this many items where the theorem needs at most k."""
        if self.enforces_sparsity and items > self.plan.sparsity:
            raise TooManyItems(
                f"the plan allows at most {self.plan.sparsity} items; choose which to keep"
            )

    @property
    def domain(self) -> str:
        """Return the values that are taken: signed, nonnegative or set; see `core.projection`.

        It is the widest domain, within the plan's values, that `check_vector` takes. Clients
        project their data onto it, so `check_vector` must refuse no value of it.
        """
        first = VALUES.index(self.plan.values)
        for domain, value in zip(VALUES[first:], WITNESSES[first:], strict=True):
            try:
                self.check_vector(SparseVector([0], [value]))
            except InvalidVector:
                continue
            return domain
        return VALUES[-1]

    @abstractmethod
    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        """Return the fields of one report per vector; a pure function of its arguments."""

    @abstractmethod
    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return, for each id, the integer that the tables of these reports would give."""

    @abstractmethod
    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:
        """Return n·Var at keys with the given ids and estimated means.

        Without ids, the answer is for keys that nobody holds.
        """


class Planning(Protocol):
    """A module that calibrates one mechanism, and checks the parameters of plans."""

    def calibrate(self, request: Request) -> Calibrated:
        """Return integers that protect the unit within the budget, or raise with the rule."""

    def checked(self, plan: Plan) -> dict[str, Any]:
        """Return the mechanism's fields, or refuse parameters that break a rule."""


class Planned(Mechanism):
    """A mechanism whose integers are found and checked in a module of their own."""

    planning: Planning

    @classmethod
    def calibrate(cls, request: Request) -> Calibrated:
        return cls.planning.calibrate(request)

    @classmethod
    def from_plan(cls, plan: Plan) -> Self:
        return cls(plan=plan, **cls.planning.checked(plan))  # type: ignore[call-arg]  # dataclasses
