"""The projection of any data onto what a plan takes, so that every vector gives a report.

If a vector were refused, the missing report would reveal something about it to the server. So
nothing here raises because of the data: keys that the plan does not have are left out, values move
to the nearest one that the mechanism takes, what is not a number counts as absent, and repeated
keys are added up. A tally counts these changes and stays where the data is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from faintly.core.arguments import listed
from faintly.core.arrays import AnyArray, FloatArray, IdArray, IntArray
from faintly.core.plan import Plan
from faintly.core.vector import SparseVector, VectorBatch

# What values a mechanism takes, and how any other becomes the nearest of them.
DOMAINS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "signed": lambda values: values.clip(-1.0, 1.0),
    "nonnegative": lambda values: values.clip(0.0, 1.0),
    "set": lambda values: np.rint(values.clip(0.0, 1.0)),
}


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of what the projection changed.

    Privacy: these numbers depend on the data; they stay where the data is.
    """

    unknown: int = 0  # keys that the plan's universe does not have, left out
    absent: int = 0  # values that are not numbers, left out
    repeated: int = 0  # further mentions of a key, added to the first
    clipped: int = 0  # values moved to the nearest that the mechanism takes
    beyond: int = 0  # items beyond the plan's sparsity; a mechanism may cut some

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def project(plan: Plan, items: Any, domain: str = "signed") -> tuple[SparseVector, Tally]:
    """Return one client's vector, and a tally of what was changed."""
    keys, values = _listed(items)
    ids, known = plan.universe.known(keys, plan.salt)
    clients = np.zeros(len(ids), dtype=np.int64)
    batch, tally = project_rows(
        clients, ids, known, values, count=1, sparsity=plan.sparsity, domain=domain
    )
    return SparseVector(batch.indices, batch.values), tally


def project_rows(
    clients: IntArray,
    ids: IdArray,
    known: AnyArray,
    values: FloatArray,
    *,
    count: int,
    sparsity: int,
    domain: str = "signed",
) -> tuple[VectorBatch, Tally]:
    """Return one vector per client from rows of client, id and value, and a tally.

    `known` is True where the plan has a row's key; a value that is not a number is NaN. Clients
    without a row are empty vectors.
    """
    absent = known & np.isnan(values)
    kept = known & ~absent
    clients, ids, sums = _added_up(clients[kept], ids[kept], values[kept])
    undefined = np.isnan(sums)  # a sum of +∞ and -∞
    sums[undefined] = 0.0
    taken = DOMAINS[domain](sums)
    batch = VectorBatch.from_rows(clients, ids, taken, count)
    return batch, Tally(
        unknown=int((~known).sum()),
        absent=int(absent.sum() + undefined.sum()),
        repeated=int(kept.sum()) - len(ids),
        clipped=int((taken != sums).sum()),
        beyond=int(np.maximum(batch.lengths - sparsity, 0).sum()),
    )


def number_of(value: object) -> float:
    """Return a value as a float, or NaN if it is not a number; text never is."""
    if not isinstance(value, Real | Decimal | np.bool_):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf  # type: ignore[operator]  # all reals compare
    except (ArithmeticError, TypeError, ValueError):
        return np.nan


def _listed(items: Any) -> tuple[Sequence[Any] | AnyArray, FloatArray]:
    if isinstance(items, SparseVector):
        return items.indices, items.values
    if isinstance(items, Mapping):
        return list(items), np.array([number_of(value) for value in items.values()], dtype=float)
    several = isinstance(items, Iterable) and not isinstance(items, str | bytes)
    keys = listed(items, "items") if several else [items]
    return keys, np.ones(len(keys))


def _added_up(
    clients: IntArray, ids: IdArray, values: FloatArray
) -> tuple[IntArray, IdArray, FloatArray]:
    """Return each client's ids once, with the sum of their values."""
    order = np.lexsort((ids, clients))
    clients, ids, values = clients[order], ids[order], values[order]
    first = np.ones(len(ids), dtype=bool)
    first[1:] = (clients[1:] != clients[:-1]) | (ids[1:] != ids[:-1])
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.add.reduceat(values, np.flatnonzero(first)) if len(values) else values
    return clients[first], ids[first], sums
