"""What a device and a server call: from a request to a plan, from vectors to estimates.

calibrate   choose the integers so that a unit is protected within a budget
guarantee   say what the integers prove, computed from them and nothing else
randomize   turn vectors into report fields: the only privacy step
read        evaluate keys on reports
variance    n·Var of each estimate
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

from faintly.core import Guarantee, Hashing, Plan, Sketch, SparseVector, VectorBatch
from faintly.core.arrays import FloatArray, IdArray, IntArray, WordArray
from faintly.core.plan import VALUES, Terms, check_budget, check_sizes, check_values
from faintly.core.report import Layout, ReportBatch
from faintly.errors import InvalidPlan, InvalidVector, TooManyItems
from faintly.mechanisms.tables import Tables
from faintly.primitives.entropy import Rng

SHARE = 0.05  # of the clients; few keys of real data are held by more
WITNESSES = (-1.0, 0.5, 1.0)  # for each domain a value that the next one lacks
UNSENT_SEED_BYTES = 8  # determines map, rows and order; a server of public maps needs no seed
TABLE_MEMORY = 2**28  # bytes: 256 MiB of tables fit a small server


@dataclass(frozen=True, kw_only=True)
class CommonRequest(Terms):
    """What a request to the planner and one to a mechanism share."""

    family: str | None = None  # None: the mechanism's own choice for this decode
    maps: int | None = None
    bits: int | None = None
    memory: int = TABLE_MEMORY  # bytes that the tables may take


@dataclass(frozen=True, kw_only=True)
class Request(CommonRequest):
    """What a deployer asks a mechanism to calibrate for."""

    decode: str = "table"
    share: float = SHARE  # largest share of the clients that hold a key of interest
    options: Mapping[str, Any] = field(default_factory=dict)  # the mechanism's own knobs

    def __post_init__(self) -> None:
        check_budget(self.budget)
        check_sizes(self.unit, self.sparsity, self.clients, self.failure, self.decode)
        check_values(self.values)
        check_share(self.share)


def check_share(share: float) -> None:
    """Refuse a number that is not a share of the clients."""
    if not 0 < share <= 1:
        raise InvalidPlan(f"share must be above 0 and at most 1, got {share:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """A mechanism's answer to a request: its integers and the hash they go with."""

    parameters: dict[str, Any]
    hashing: Hashing


class MechanismApi(ABC):
    """Public parameters of one collection; both sides hold the same object."""

    name: ClassVar[str]
    baseline: ClassVar[bool] = False  # for comparison; the planner uses one only by name
    plan: Plan
    layout: Layout
    scale: float  # mean = scale · (integer that `read` or the tables give) / reports
    tables = cached_property(Tables)  # for the engine; override with a subclass where they differ

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
    def seed_bytes(self) -> int:
        """Return the bytes of public randomness that a client draws, sent or not."""
        unsent = UNSENT_SEED_BYTES if self.plan.hashing.family == "linear" else 0
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
        self._check_items(len(vector))

    def _check_items(self, items: int) -> None:
        """Refuse a vector of this many items where the theorem needs at most k."""
        if self.enforces_sparsity and items > self.plan.sparsity:
            raise TooManyItems(
                f"the plan allows at most {self.plan.sparsity} items; choose which to keep"
            )

    @property
    def domain(self) -> str:
        """Return which values are taken: signed, nonnegative or set; see `core.projection`.

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
