"""What a mechanism is, and the registry that finds one by name.

A mechanism is a frozen set of public integers with these verbs:

calibrate   choose the integers so that a unit is protected within a budget
guarantee   say what the integers prove, computed from them and nothing else
randomize   turn vectors into report fields: the only privacy step
cells       turn reports into (table, index, weight) for table decoding
read        evaluate keys directly on reports: the same integers as table decoding
variance    n·Var of each estimate
law         the exact law of a report for a given outcome of the public hash, so that
            privacy can be checked by enumeration on small cases
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from faintly.core import (
    Budget,
    Cells,
    FloatArray,
    Guarantee,
    Hashing,
    IdArray,
    IntArray,
    Layout,
    Plan,
    ReportBatch,
    Sketch,
    Unit,
    Universe,
    VectorBatch,
    WordArray,
)
from faintly.core.plan import check_sizes
from faintly.errors import InvalidPlan
from faintly.primitives.entropy import Rng


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a deployer asks a mechanism to calibrate for."""

    unit: Unit
    budget: Budget
    sparsity: int
    clients: int
    universe: Universe
    failure: float = 0.05
    decode: str = "table"
    family: str | None = None  # None: the mechanism's own choice for this decode
    maps: int | None = None
    bits: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # the mechanism's own knobs

    def __post_init__(self) -> None:
        check_sizes(self.unit, self.sparsity, self.clients, self.failure, self.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """A mechanism's answer to a request: its integers and the hash they go with."""

    parameters: dict[str, Any]
    hashing: Hashing


class Mechanism(ABC):
    """Public parameters of one collection; both sides hold the same object."""

    name: ClassVar[str]
    plan: Plan
    layout: Layout
    scale: float  # mean = scale · (integer that `read` or the tables give) / reports

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

    @abstractmethod
    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        """Return the fields of one report per vector; a pure function of its arguments."""

    @abstractmethod
    def map_of(self, batch: ReportBatch) -> IntArray:
        """Return the public map that each report uses; zeros where there are no maps."""

    @abstractmethod
    def cells(self, batch: ReportBatch) -> Cells:
        """Return what the reports add to the tables."""

    @abstractmethod
    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return, for each id, the integer that the tables of these reports would give."""

    @abstractmethod
    def gather(self, transformed: IntArray, ids: IdArray) -> IntArray:
        """Return the integers (maps, ids) that the transformed tables hold for each id."""

    def squares(self, batch: ReportBatch) -> int:  # noqa: ARG002  # for mechanisms that need it
        """Return the sum of squares that `variance` needs; 0 where it needs none."""
        return 0

    @abstractmethod
    def variance(self, sketch: Sketch, means: FloatArray) -> FloatArray:
        """Return n·Var at keys with the given estimated means (0: a key that nobody holds)."""

    @abstractmethod
    def predicted_variance(self, mean_square: float) -> float:
        """Return n·Var at a key nobody holds, before any report is in.

        Args:
            mean_square: mean over clients of the sum of their squared values.
        """

    @abstractmethod
    def outcomes(self, items: int) -> Iterator[Any]:
        """Yield every outcome of the public hash over `items` items (small cases only)."""

    @abstractmethod
    def law(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every report, for these item values and this outcome."""


_REGISTRY: dict[str, type[Mechanism]] = {}


def register(name: str) -> Callable[[type[Mechanism]], type[Mechanism]]:
    """Return a class decorator that makes a mechanism known under `name`."""

    def add(mechanism: type[Mechanism]) -> type[Mechanism]:
        mechanism.name = name
        _REGISTRY[name] = mechanism
        return mechanism

    return add


def mechanism_names() -> list[str]:
    """Return the names of all mechanisms, sorted."""
    return sorted(_REGISTRY)


def mechanism_class(name: str) -> type[Mechanism]:
    """Return the mechanism of that name."""
    if name not in _REGISTRY:
        raise InvalidPlan(f"mechanism must be one of {', '.join(mechanism_names())}, got {name!r}")
    return _REGISTRY[name]


def mechanism_of(plan: Plan) -> Mechanism:
    """Return the plan's mechanism, having checked that its integers keep the plan's promise."""
    mechanism = mechanism_class(plan.mechanism).from_plan(plan)
    proven = mechanism.guarantee().budget
    if not plan.budget.covers(proven):
        raise InvalidPlan(
            f"the plan promises {plan.budget}, but its thresholds only keep {proven}; do not use it"
        )
    return mechanism
