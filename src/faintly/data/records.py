"""Rows of (client, item, value), and their conversion to vectors.

true mean of x = Σ over clients of v[x] / clients, absent items counting as 0.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from faintly.core import Key, Plan, Tally, Universe, VectorBatch
from faintly.core.arrays import AnyArray, FloatArray, IdArray, IntArray
from faintly.core.projection import DOMAINS, project_rows
from faintly.data.columns import Source, check_values
from faintly.data.naming import DUPLICATES

OUTSIDE = {
    "nonnegative": "value is negative, and the plan takes values in [0, 1]; correct it, or plan "
    "for signed values",
    "set": "value is not 1, and the plan takes sets; leave values out, or plan for other values",
}
REPEATED = (
    "this client already holds this item; count such rows once or sum them up (duplicates, or "
    "--duplicates), or drop the row"
)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Records:
    """Columns of client-item-value rows, checked once; client labels are not kept.

    Privacy: holds raw data of many clients, for bulk encoding and simulation.

    Attributes:
        clients: client number of each row, 0..count-1 in order of first appearance.
        codes: position in `keys` of each row's key.
        keys: the distinct keys.
        values: value of each row, in [-1, 1] where the source is strict.
        count: number of clients, those without a row included.
        source: where the rows came from, for errors.
        duplicates: what to do with rows that repeat an item of their client.
    """

    clients: IntArray
    codes: IntArray
    keys: AnyArray | Sequence[Key]
    values: FloatArray
    count: int
    source: Source
    duplicates: str = DUPLICATES[0]

    @classmethod
    def checked(
        cls,
        clients: IntArray,
        codes: IntArray,
        keys: AnyArray | Sequence[Key],
        values: FloatArray | None,
        *,
        source: Source,
        count: int | None = None,
        duplicates: str = DUPLICATES[0],
    ) -> Self:
        """Return the records, or raise `InvalidData` that names the row and the rule.

        See the class for the arguments. Without values every row counts as 1.0, which is a set.
        """
        if not len(clients) and not count:
            raise source.refuse_all(
                "holds no rows; list every client, including those without items"
            )
        # A view of one number takes no memory per row.
        weights = np.broadcast_to(1.0, len(clients)) if values is None else values
        if not len(clients) == len(codes) == len(weights):
            rows = min(len(clients), len(codes), len(weights))
            raise source.refuse_all(
                f"has columns of different lengths, the shortest of {rows} rows; give every row "
                "a client, an item and, if there is a column of them, a value"
            )
        check_values(weights, source)
        total = int(clients.max()) + 1 if count is None else count
        return cls(clients, codes, keys, weights, total, source, duplicates)

    def __len__(self) -> int:
        return len(self.clients)

    def __repr__(self) -> str:
        return f"Records(<{len(self)} private rows of {self.count} clients>)"


def to_vectors(records: Records, plan: Plan) -> VectorBatch:
    """Return one vector per client, in order of first appearance; zeros are dropped.

    Text such as "17" is an index where the universe is indexed, and text elsewhere.

    Raises:
        InvalidData: a key is outside the plan's universe, the plan does not take a
            value, or a client holds an item twice, and the records were read strictly.
    """
    if not records.source.strict:
        return projected(records, plan, plan.values)[0]
    check_taken(records.values, plan, records.source)
    return vectors_in(records, plan.universe, plan.salt)


def projected(records: Records, plan: Plan, domain: str = "signed") -> tuple[VectorBatch, Tally]:
    """Return one vector per client as a device would make it, and one tally for all."""
    keys = as_indices(records.keys, plan.universe)
    ids, known = plan.universe.known(keys, plan.salt)
    rows: slice | IntArray = slice(None)
    if records.duplicates == "once":
        places, order, _ = _sorted_places(records, ids)
        rows = order[np.diff(places, prepend=-1) > 0]  # the first row of each client's item
    codes = records.codes[rows]
    return project_rows(
        records.clients[rows],
        ids[codes],
        known[codes],
        records.values[rows],
        count=records.count,
        sparsity=plan.sparsity,
        domain=domain,
    )


def check_taken(values: FloatArray, plan: Plan, source: Source) -> None:
    """Refuse values that a client of this plan would have to change."""
    if plan.values in OUTSIDE:
        source.check(DOMAINS[plan.values](values) != values, OUTSIDE[plan.values])


def vectors_in(records: Records, universe: Universe, salt: bytes = b"") -> VectorBatch:
    """Return the same as `to_vectors`, for data with a universe but no plan yet."""
    keys = as_indices(records.keys, universe)
    key_ids, known = universe.known(keys, salt)
    if not known.all():
        # Several rows may hold a key: name the first row that holds a refused one.
        row = int(np.argmin(known[records.codes]))
        text = isinstance(keys[records.codes[row]], str | bytes)
        raise records.source.refuse(row, _key_rule(universe, text))
    places, order, ids = _sorted_places(records, key_ids)
    values = records.values[order]
    repeated = places[1:] == places[:-1]
    if repeated.any():
        if records.duplicates == "refuse":
            raise records.source.refuse(int(order[1:][repeated].min()), REPEATED)
        starts = np.flatnonzero(np.concatenate([[True], ~repeated]))
        places = places[starts]
        if records.duplicates == "once":
            values = values[starts]
        else:
            values = np.add.reduceat(values, starts).clip(-1.0, 1.0)
    del order, repeated
    held = values != 0
    if not held.all():
        places, values = places[held], values[held]
    clients, ranks = np.divmod(places, max(1, len(ids)))
    ends = np.cumsum(np.bincount(clients, minlength=records.count))
    return VectorBatch(np.concatenate([[0], ends]).astype(np.int64), ids[ranks], values)


def _sorted_places(records: Records, key_ids: IdArray) -> tuple[IntArray, IntArray, IdArray]:
    """Return a number for each row, ascending by client and id; the rows' order; distinct ids.

    One number for both takes less memory than sorting by two columns, and less time.
    """
    ids, ranks = np.unique(key_ids, return_inverse=True)
    places = records.clients * len(ids)
    places += ranks[records.codes]
    order = np.argsort(places, kind="stable")
    return places[order], order, ids


def repeated_rows(records: Records) -> int:
    """Return how many rows repeat an item of their client."""
    places, _, _ = _sorted_places(records, np.arange(len(records.keys), dtype=np.uint64))
    return int((places[1:] == places[:-1]).sum())


def cut(
    vectors: VectorBatch, sparsity: int, generator: np.random.Generator
) -> tuple[VectorBatch, int]:
    """Return each client's uniform random `sparsity` items, and how many items were dropped.

    For simulation only, where every mechanism must face the same data. What a real
    client does above its sparsity is the mechanism's business, and the number dropped
    would be private there.
    """
    over = vectors.lengths > sparsity
    rows = np.flatnonzero(np.repeat(over, vectors.lengths))
    # A random order within each client, of which the first `sparsity` stay.
    lengths = vectors.lengths[over]
    owners = np.repeat(np.arange(len(lengths)), lengths)
    shuffled = rows[np.lexsort((generator.random(len(rows)), owners))]
    rank = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    dropped = shuffled[rank >= sparsity]
    kept = np.ones(len(vectors.indices), dtype=bool)
    kept[dropped] = False
    offsets = np.concatenate([[0], np.cumsum(np.minimum(vectors.lengths, sparsity))])
    batch = VectorBatch(offsets.astype(np.int64), vectors.indices[kept], vectors.values[kept])
    return batch, len(dropped)


def true_means(vectors: VectorBatch, ids: IdArray) -> FloatArray:
    """Return the exact mean of each id over all clients of the batch, for judging estimates."""
    distinct, back = np.unique(np.asarray(ids, dtype=np.uint64), return_inverse=True)
    if not len(distinct) or not len(vectors):
        return np.zeros(len(back))
    place = np.minimum(np.searchsorted(distinct, vectors.indices), len(distinct) - 1)
    found = distinct[place] == vectors.indices
    sums = np.bincount(place[found], weights=vectors.values[found], minlength=len(distinct))
    return np.asarray(sums[back] / len(vectors), dtype=np.float64)


def as_indices(keys: AnyArray | Sequence[Key], universe: Universe) -> AnyArray | Sequence[Key]:
    """Return keys with text such as "17" as integers, where the universe is indexed."""
    if universe.kind != "indexed" or isinstance(keys, np.ndarray):
        return keys
    # One spelling per index: "017" is more likely a code than the number 17.
    index = re.compile(r"0|[1-9][0-9]{0,9}")  # an indexed universe holds at most 2^31 keys
    return [int(key) if isinstance(key, str) and index.fullmatch(key) else key for key in keys]


def _key_rule(universe: Universe, text: bool) -> str:
    if universe.kind == "indexed":
        assert universe.size is not None
        last = universe.size - 1
        if not text:
            return f"item is not an index in 0..{last}; enlarge the plan's universe or drop the row"
        return (
            f"item is text, and the plan's keys are the numbers 0..{last}; plan with the universe "
            "open, or with a list of names"
        )
    if universe.kind == "named":
        return "item is not one of the plan's names; add it to the universe or drop the row"
    return "item is neither valid UTF-8 text nor an integer in 0..2^64-1; drop the row"
