"""Sketches: mergeable integer state of a server.

Table mode keeps J tables of 2^D integers and forgets the reports; direct mode keeps
the reports' columns. Either way merging is associative and commutative, and the same
reports give the same integers whatever the order, the threads or the machines.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from faintly.core.arguments import instance, path_of
from faintly.core.arrays import IdArray, IntArray, NarrowArray, TableArray, WordArray
from faintly.core.plan import Plan
from faintly.core.report import ReportBatch
from faintly.errors import InvalidInput

MOST_REPORTS = 2**62  # limit on the reports of a sketch


@dataclass(frozen=True, slots=True)
class Cells:
    """What reports become on the server: weight[i] is to be added at entry index[i].

    Entries of all tables are numbered together: table·2^bits + position in the table.
    """

    index: WordArray
    weight: NarrowArray


@dataclass(frozen=True, slots=True)
class SketchShape:
    """What a sketch of a plan holds: tables of these rows and columns, or report columns."""

    tables: tuple[int, int] | None  # None in direct mode
    limits: tuple[int, ...]  # what each field of a report stays below


class SketchEngine(NamedTuple):
    """The functions that write, read and merge sketches."""

    save: Callable[["Sketch", Path], None]
    load: Callable[[Path], "Sketch"]
    merge: Callable[["Sketch", "Sketch"], "Sketch"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sketch:
    """Everything a server needs to answer: counts, a second moment, and tables or columns."""

    engine: ClassVar[SketchEngine]  # set by `faintly.engine`, which has files and threads

    plan: Plan
    reports: IntArray  # reports counted in each map; one entry where there are no maps
    squares: int  # sum of the squared report values, for mechanisms whose variance needs it
    mass: int = 0  # sum of |weights| in the tables: no entry of them or their transform is larger
    tables: TableArray | None = None  # (rows, 2^bits) in table mode, of `table_type(mass)`
    hash_seeds: IdArray | None = None  # direct mode: the reports themselves, sorted
    fields: WordArray | None = None

    @classmethod
    def empty(cls, plan: Plan, shape: SketchShape) -> Self:
        """Return the sketch of no reports."""
        reports = np.zeros(max(1, plan.hashing.maps), dtype=np.int64)
        if shape.tables is not None:
            return cls(plan, reports, 0, tables=np.zeros(shape.tables, table_type(0)))
        return cls(
            plan,
            reports,
            0,
            hash_seeds=np.zeros(0, dtype=np.uint64),
            fields=np.zeros((0, len(shape.limits)), dtype=np.uint32),
        )

    def save(self, path: str | Path) -> None:
        """Write the sketch to a file, atomically."""
        self.engine.save(self, path_of(path))

    @classmethod
    def load(cls, path: str | Path) -> "Sketch":
        """Return the sketch in a file, checked from end to end."""
        return cls.engine.load(path_of(path))

    def __repr__(self) -> str:
        return f"Sketch({self.count:,} reports of {self.plan!r})"

    @property
    def count(self) -> int:
        """Return the number of reports counted."""
        return int(self.reports.sum())

    def batches(self, size: int) -> Iterator[ReportBatch]:
        """Yield the reports of a direct sketch, at most `size` at a time."""
        assert self.hash_seeds is not None and self.fields is not None
        every = ReportBatch(self.plan.digest, self.hash_seeds, self.fields)
        for start in range(0, len(every), size):
            yield every.take(slice(start, start + size))

    def merge(self, other: "Sketch") -> "Sketch":
        """Return the sketch of both sets of reports together."""
        instance(other, Sketch, "the other", "as aggregate returns it")
        return self.engine.merge(self, other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sketch):
            return NotImplemented
        return (
            self.plan.digest == other.plan.digest
            and (self.squares, self.mass) == (other.squares, other.mass)
            and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("reports", "tables", "hash_seeds", "fields")
            )
        )


def table_type(mass: int) -> type[np.signedinteger[Any]]:
    """Return the narrowest integer type for tables of this mass, and for their transform."""
    if mass >= 2**63:
        raise InvalidInput("together the tables hold more than 64 bits can count; keep them apart")
    return np.int32 if mass < 2**31 else np.int64


def sorted_columns(seeds: IdArray, fields: WordArray) -> tuple[IdArray, WordArray]:
    """Return the reports sorted, so that nothing shows the order of their arrival."""
    order = np.argsort(seeds)
    sorted_seeds = seeds[order]
    # Seeds seldom repeat, or are all zero: only rows that share one are sorted by their fields.
    same = sorted_seeds[1:] == sorted_seeds[:-1]
    tied = np.nonzero(np.append(same, False) | np.insert(same, 0, False))[0]
    rows = order[tied]
    order[tied] = rows[np.lexsort((*fields[rows].T[::-1], seeds[rows]))]
    return sorted_seeds, fields[order]


def in_order(seeds: IdArray, fields: WordArray) -> bool:
    """Return whether reports are in the order of `sorted_columns`."""
    if (seeds[1:] < seeds[:-1]).any():
        return False
    tied = np.nonzero(seeds[1:] == seeds[:-1])[0]
    for column in fields.T:
        before, after = column[tied], column[tied + 1]
        if (after < before).any():
            return False
        tied = tied[after == before]
    return True
