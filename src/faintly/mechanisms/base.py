"""What a mechanism is; `registry` finds one by name.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from faintly import kernels
from faintly.core import (
    AnyArray,
    Budget,
    Cells,
    FloatArray,
    Guarantee,
    Hashing,
    IdArray,
    IntArray,
    Layout,
    NarrowArray,
    Plan,
    ReadingLaw,
    ReportBatch,
    Sketch,
    SketchShape,
    SparseVector,
    TableArray,
    Unit,
    Universe,
    VectorBatch,
    WordArray,
)
from faintly.core.plan import MAX_SPARSITY, check_budget, check_sizes
from faintly.errors import InvalidVector, TooManyItems
from faintly.mechanisms import simulation
from faintly.primitives import hashing
from faintly.primitives.entropy import Rng
from faintly.primitives.hashing import LinearMaps

TABLE_MEMORY = 2**28  # bytes: 256 MiB of tables are no burden to a small server
READ_AT_ONCE = 2**18  # reports whose cells are in memory while keys are read from them


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
    memory: int = TABLE_MEMORY  # bytes that the tables may take
    options: Mapping[str, Any] = field(default_factory=dict)  # the mechanism's own knobs

    def __post_init__(self) -> None:
        check_budget(self.budget)
        check_sizes(self.unit, self.sparsity, self.clients, self.failure, self.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """A mechanism's answer to a request: its integers and the hash they go with."""

    parameters: dict[str, Any]
    hashing: Hashing


class Mechanism(ABC):
    """Public parameters of one collection; both sides hold the same object."""

    name: ClassVar[str]
    baseline: ClassVar[bool] = False  # shown beside ours; the planner takes one only by name
    plan: Plan
    layout: Layout
    scale: float  # mean = scale · (integer that `read` or the tables give) / reports

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

    @abstractmethod
    def randomize(self, vectors: VectorBatch, hash_seeds: IdArray, rng: Rng) -> WordArray:
        """Return the fields of one report per vector; a pure function of its arguments."""

    @property
    def seed_bytes(self) -> int:
        """Return the bytes of public randomness a client draws; not all of it need be sent."""
        return self.layout.seed_bytes

    @property
    def enforces_sparsity(self) -> bool:
        """Return whether `randomize` raises `TooManyItems` above the plan's sparsity k.

        Only then are two vectors at most 2k items apart, and only then has a report about
        events or an l1 distance a bounded cost at user level in a client's ledger.
        """
        return False

    def check_vector(self, vector: SparseVector) -> None:
        """Refuse a vector that the theorem does not cover, before anything is paid for."""
        if self.enforces_sparsity and len(vector) > self.plan.sparsity:
            raise TooManyItems(
                f"the plan allows at most {self.plan.sparsity} items; choose which to keep"
            )

    @property
    def domain(self) -> str:
        """Return which values are taken: signed, nonnegative or set; see `core.projection`.

        Whatever a client holds is projected onto it, so `check_vector` must refuse no value of
        the domain that it shows here.
        """
        for domain, value in (("signed", -1.0), ("nonnegative", 0.5)):
            try:
                self.check_vector(SparseVector([0], [value]))
            except InvalidVector:
                continue
            return domain
        return "set"

    @cached_property
    def maps(self) -> LinearMaps:
        """Return the public maps of the linear family."""
        return LinearMaps(self.plan.hashing, self.plan.salt, self.plan.universe.size)

    @property
    def table_shape(self) -> tuple[int, int]:
        """Return rows and columns of the tables of table decoding."""
        return self.plan.hashing.maps, 2**self.plan.hashing.bits

    @property
    def sketch_shape(self) -> SketchShape:
        """Return what a sketch of this plan holds."""
        tables = self.table_shape if self.plan.decode == "table" else None
        return SketchShape(tables, self.layout.limits)

    def empty_sketch(self) -> Sketch:
        """Return the sketch of no reports."""
        return Sketch.empty(self.plan, self.sketch_shape)

    def map_of(self, batch: ReportBatch) -> IntArray:
        """Return the public map that each report uses; zeros where there are no maps."""
        if self.plan.hashing.maps <= 1:  # as in the families without maps
            return np.zeros(len(batch), dtype=np.int64)
        return kernels.pick_maps(batch.hash_seeds, self.plan.hashing.maps)

    def cells(self, batch: ReportBatch) -> Cells:  # noqa: ARG002  # for mechanisms with tables
        """Return what the reports add to the tables."""
        raise TypeError(f"{self.name} decodes directly; it has no cells")

    @abstractmethod
    def read(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return, for each id, the integer that the tables of these reports would give."""

    def simulated_totals(
        self, vectors: VectorBatch, ids: IdArray, public: Rng, secret: Rng
    ) -> IntArray:
        """Return integers with the law of `read` over one report of each vector.

        By default the reports are made and read; see `draws_sum`.

        Args:
            vectors: one per client, empty ones included.
            ids: keys to ask about.
            public: source of the seeds that reports carry.
            secret: source of the noise; must not share a generator with `public`.
        """
        return simulation.totals(self, vectors, ids, public, secret)

    @property
    def draws_sum(self) -> bool:
        """Return whether `simulated_totals` draws the sum of all reports, and makes none."""
        return False

    def gather(self, transformed: TableArray, ids: IdArray) -> IntArray:
        """Return (2, ids): sum and largest, over the maps, of what transformed tables hold."""
        return kernels.gather(transformed, ids, self.maps, self.table_shape[0] // self.maps.maps)

    def read_cells(self, batch: ReportBatch, ids: IdArray) -> IntArray:
        """Return what `gather` over all maps would give, from the cells of the reports."""
        bits = np.uint32(self.table_shape[1].bit_length() - 1)
        low, totals = np.uint32(self.table_shape[1] - 1), np.zeros(len(ids), dtype=np.int64)
        asked = list(self._asked(ids, bits))
        for start in range(0, len(batch), READ_AT_ONCE):
            cells = self.cells(batch.take(slice(start, start + READ_AT_ONCE)))
            rows = _by_row(cells, bits, self.table_shape[0])
            for row, keys, codes, signs in asked:
                index, weight = rows[row]
                totals[keys] += signs * kernels.read_cells(index & low, weight, codes)
        return totals

    def _asked(
        self, ids: IdArray, bits: np.uint32
    ) -> Iterator[tuple[int, AnyArray, WordArray, IntArray]]:
        """Yield for each table which of the ids it holds, their codes there and their signs."""
        for j in range(self.maps.maps):
            entries, signs = self.entries(ids, j), hashing.to_signs(self.flips(ids, j))
            rows = entries >> bits
            for row in np.unique(rows).tolist():
                keys = np.flatnonzero(rows == row)
                yield row, keys, entries[keys] & np.uint32((1 << int(bits)) - 1), signs[keys]

    def entries(self, ids: IdArray, j: int) -> WordArray:
        """Return the entry of the transformed tables, numbered together, that map j has for ids."""
        return self.codes(ids, j) + np.uint32(j * self.table_shape[1])

    def codes(self, ids: IdArray, j: int) -> WordArray:
        """Return the code of each id in the public map j."""
        maps = self.maps
        if maps.bijective:
            return kernels.map_codes(ids, maps.factor[j], maps.offset[j], maps.bits)
        folded = kernels.hash_ids(int(maps.fold_key[j]), ids, hashing.FOLD)
        return folded & np.uint32(2**maps.bits - 1)

    def flips(self, ids: IdArray, j: int) -> WordArray:
        """Return words whose lowest bit says where the public sign of map j is -1."""
        return kernels.hash_ids(int(self.maps.mask_key[j]), ids, hashing.MASK)

    def squares(self, batch: ReportBatch) -> int:  # noqa: ARG002  # for mechanisms that need it
        """Return the sum of squares that `variance` needs; 0 where it needs none."""
        return 0

    @abstractmethod
    def variance(self, sketch: Sketch, ids: IdArray | None, means: FloatArray) -> FloatArray:
        """Return n·Var at keys with the given ids and estimated means.

        Without ids, the answer is for keys that nobody holds.
        """

    def reading_law(self) -> ReadingLaw | None:
        """Return the law of what one report reads at a key that nobody holds, if it is exact.

        None where it depends on what people hold: then the normal law has to do.
        """
        return None

    def pair_covariance(self) -> float | None:
        """Return n·Cov of the estimates at two keys, for each unit of the mean of v·v' there.

        None where it is not known, and any correlation has to be reckoned with.
        """
        return None

    @abstractmethod
    def predicted_variance(self, mean_square: float) -> float:
        """Return n·Var at a key nobody holds, before any report is in.

        Args:
            mean_square: mean over clients of the sum of their squared values.
        """

    def predicted_variances(self, vectors: VectorBatch, ids: IdArray) -> FloatArray:
        """Return the n·Var to expect at each id from these very vectors, to judge simulations by.

        The vectors are one per client, empty ones included, of at most k items each.
        """
        louder = self.louder
        more = simulation.by_value(lambda v: louder * np.abs(v) - v**2, vectors)
        quiet = self.predicted_variance(simulation.mean_square(vectors))
        return quiet + simulation.means_at(vectors, more, ids)

    @property
    def louder(self) -> float:
        """Return what a value of 1 adds to the second moment of a report at its key."""
        return 0.0

    def worst_variance(self) -> float:
        """Return the largest n·Var over all inputs of at most k items."""
        return self.predicted_variance(self.plan.sparsity)

    def largest_ghost(self) -> float:
        """Return how far, in standard errors, one key is off at most where people are all alike."""
        return 0.0

    def relative_bias(self) -> float:
        """Return a bound on the bias at a key, relative to its mean, for clients with k items."""
        return 0.0

    def lost(self, vectors: VectorBatch) -> FloatArray:
        """Return the share of its values that each client's report leaves out, over all hashes.

        Unlike `relative_bias` it answers for vectors of more than k items as well. By default
        items are cut to k where more would be refused. Elsewhere the items that `relative_bias`
        counts among so many are lost, and never more than a cut to k would lose.
        """
        if self.enforces_sparsity:
            return self.cut(vectors.lengths)
        dropped = simulation.by_length(self._bias_of, vectors.lengths)
        return np.minimum(dropped, self.cut(vectors.lengths))

    def cut(self, items: AnyArray) -> FloatArray:
        """Return the share that a client of so many items loses if a uniform choice of k stays."""
        kept: FloatArray = self.plan.sparsity / np.maximum(items, self.plan.sparsity)
        return 1 - kept * (1 - self.relative_bias())

    def _bias_of(self, items: int) -> float:
        """Return the relative bias of this very mechanism among so many items."""
        plan = replace(self.plan, sparsity=min(max(items, self.plan.sparsity), MAX_SPARSITY))
        return replace(self, plan=plan).relative_bias()  # type: ignore[type-var]  # a dataclass

    @abstractmethod
    def influence(self) -> float:
        """Return how far one lying client can move any estimate, times the number of reports."""

    @abstractmethod
    def miniatures(self) -> "Iterator[Miniature]":
        """Yield cases of this mechanism that can be enumerated: same unit, epsilon and form."""

    def small(self, **changes: Any) -> "Mechanism":
        """Return this mechanism calibrated anew for tiny sizes; `changes` are request fields."""
        plan = self.plan
        fields: dict[str, Any] = {
            "unit": plan.unit,
            "budget": plan.budget,
            "sparsity": 2,
            "clients": 4,  # few clients and a large failure keep what a report can say small
            "failure": 0.5,
            "universe": Universe.indexed(8),
            "decode": plan.decode,
            "family": plan.hashing.family,
        }
        request = Request(**fields | changes)
        made = type(self).calibrate(request)
        return type(self).from_plan(
            replace(
                plan,
                unit=request.unit,
                sparsity=request.sparsity,
                clients=request.clients,
                failure=request.failure,
                universe=request.universe,
                parameters=made.parameters,
                hashing=made.hashing,
            )
        )

    @abstractmethod
    def outcomes(self, items: int) -> Iterator[Any]:
        """Yield every outcome of the public hash over `items` items (small cases only)."""

    @abstractmethod
    def outcome_of(self, seed: int, ids: IdArray) -> Any:
        """Return the outcome of the public hash that a drawn seed gives these items."""

    def report_number(self, fields: WordArray, seed: int) -> IntArray:  # noqa: ARG002
        """Return the place of each report in `law`: by default its fields, the last one fastest."""
        numbers = np.zeros(len(fields), dtype=np.int64)
        for column, limit in enumerate(self.layout.limits):
            numbers = numbers * limit + fields[:, column]
        return numbers

    @abstractmethod
    def law(self, values: Sequence[float], outcome: Any) -> FloatArray:
        """Return the probability of every report, for these item values and this outcome."""


def _by_row(cells: Cells, bits: np.uint32, rows: int) -> list[tuple[WordArray, NarrowArray]]:
    """Return the cells of each table."""
    if rows == 1:
        return [(cells.index, cells.weight)]
    owners = (cells.index >> bits).astype(np.uint16 if rows <= 2**16 else np.uint32)
    order = np.argsort(owners, kind="stable")  # of 16 bits, by radix
    ends = np.cumsum(np.bincount(owners, minlength=rows))[:-1]
    index, weight = cells.index[order], cells.weight[order]
    return list(zip(np.split(index, ends), np.split(weight, ends), strict=True))


@dataclass(frozen=True, slots=True)
class Miniature:
    """A case small enough to enumerate: a mechanism, the values tried, and how many items."""

    mechanism: Mechanism
    grid: tuple[float, ...] = (-1.0, -0.5, 0.0, 0.5, 1.0)
    items: int = 3
    # Where all outcomes are too many to list: one pair, and classes of like outcomes that
    # matter for it, each with its probability.
    pair: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    weighted: tuple[tuple[float, Any], ...] = ()
