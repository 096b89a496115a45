"""Rows of (client, item, value), and the way from them to vectors.

true mean of x = Σ over clients of v[x] / clients, absent items counting as 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from faintly.core import (
    AnyArray,
    FloatArray,
    IdArray,
    IntArray,
    Key,
    Plan,
    Tally,
    Universe,
    VectorBatch,
)
from faintly.core.projection import DOMAINS, project_rows
from faintly.data.columns import Source, check_values
from faintly.errors import InvalidData, InvalidVector

OUTSIDE = {
    "nonnegative": "value is negative, and the plan takes values in [0, 1]; correct it, or plan "
    "for signed values",
    "set": "value is not 1, and the plan takes sets; leave the values out, or plan for other ones",
}
MAX_INDEX_DIGITS = 10  # an indexed universe holds at most 2^31 keys


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
    """

    clients: IntArray
    codes: IntArray
    keys: AnyArray | Sequence[Key]
    values: FloatArray
    count: int
    source: Source

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
    ) -> Self:
        """Return the records, or raise `InvalidData` that names the row and the rule.

        Args:
            clients: client number of each row.
            codes: position in `keys` of each row's key.
            keys: the distinct keys.
            values: value of each row; None means 1.0 everywhere, which is a set.
            source: where the rows came from.
            count: number of clients, where some may have no row.
        """
        if not len(clients) and not count:
            raise source.refuse_all("holds no rows; list every client, also those without items")
        weights = np.ones(len(clients)) if values is None else values
        if not len(clients) == len(codes) == len(weights):
            rows = min(len(clients), len(codes), len(weights))
            raise source.refuse_all(
                f"has columns of different lengths, the shortest of {rows} rows; give every row "
                "a client, an item and, if there is a column of them, a value"
            )
        check_values(weights, source)
        total = int(clients.max()) + 1 if count is None else count
        return cls(clients, codes, keys, weights, total, source)

    def __len__(self) -> int:
        return len(self.clients)

    def __repr__(self) -> str:
        return f"Records(<{len(self)} private rows of {self.count} clients>)"


def to_vectors(records: Records, plan: Plan) -> VectorBatch:
    """Return one vector per client, in order of first appearance; zeros are dropped.

    Text such as "17" is an index where the universe is indexed, and text elsewhere.

    Raises:
        InvalidData: a key is outside the plan's universe, a value is none of those that the plan
            takes, or a client holds an item twice, and the records were read strictly.
    """
    if not records.source.strict:
        return projected(records, plan, plan.values)[0]
    check_taken(records.values, plan, records.source)
    return vectors_in(records, plan.universe, plan.salt)


def projected(records: Records, plan: Plan, domain: str = "signed") -> tuple[VectorBatch, Tally]:
    """Return one vector per client as a device would make it, and what they lost together."""
    keys = as_indices(records.keys, plan.universe)
    ids, known = plan.universe.known(keys, plan.salt)
    return project_rows(
        records.clients,
        ids[records.codes],
        known[records.codes],
        records.values,
        count=records.count,
        sparsity=plan.sparsity,
        domain=domain,
    )


def check_taken(values: FloatArray, plan: Plan, source: Source) -> None:
    """Refuse values that a client of this plan would have to change."""
    if plan.values in OUTSIDE:
        source.check(DOMAINS[plan.values](values) != values, OUTSIDE[plan.values])


def vectors_in(records: Records, universe: Universe, salt: bytes = b"") -> VectorBatch:
    """Return what `to_vectors` returns, for data that has a universe and no plan yet."""
    ids = _key_ids(records, universe, salt)[records.codes]
    try:
        return VectorBatch.from_rows(records.clients, ids, records.values, records.count)
    except InvalidVector:
        row = _first_repeat(records.clients, ids)
    raise records.source.refuse(
        row, "this client already holds this item; add up or drop the repeated row"
    )


def with_names(records: Records, names: Sequence[str]) -> Records:
    """Return the records with each integer key replaced by the name at that position."""
    keys = np.asarray(records.keys)
    if keys.dtype.kind not in "iu":
        raise records.source.refuse_all("needs integer items to look names up; drop the names")
    outside = (keys < 0) | (keys >= len(names))
    records.source.check(
        outside[records.codes],
        f"item has no name; names cover 0..{len(names) - 1}: add its name or drop the row",
    )
    named = [names[position] for position in keys.tolist()]
    return Records(
        records.clients, records.codes, named, records.values, records.count, records.source
    )


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
    wanted, back = np.unique(np.asarray(ids, dtype=np.uint64), return_inverse=True)
    if not len(wanted) or not len(vectors):
        return np.zeros(len(back))
    place = np.minimum(np.searchsorted(wanted, vectors.indices), len(wanted) - 1)
    asked = wanted[place] == vectors.indices
    sums = np.bincount(place[asked], weights=vectors.values[asked], minlength=len(wanted))
    return np.asarray(sums[back] / len(vectors), dtype=np.float64)


def _key_ids(records: Records, universe: Universe, salt: bytes) -> IdArray:
    ids, known = universe.known(as_indices(records.keys, universe), salt)
    # Keys are distinct but rows repeat them: point at the first row that holds a refused one.
    records.source.check(~known[records.codes], _key_rule(universe))
    return ids


def as_indices(keys: AnyArray | Sequence[Key], universe: Universe) -> AnyArray | Sequence[Key]:
    """Return keys with text such as "17" as integers, where the universe is indexed."""
    if universe.kind != "indexed" or isinstance(keys, np.ndarray):
        return keys
    return [_index(key) for key in keys]


def _index(key: Key) -> Key:
    """Return text such as "17" as its integer; other keys stay, for the plan to judge."""
    if not isinstance(key, str) or not key.isascii() or not key.isdigit():
        return key
    # One spelling per index: "017" is more likely a code than the number 17.
    return int(key) if len(key) <= MAX_INDEX_DIGITS and str(int(key)) == key else key


def _key_rule(universe: Universe) -> str:
    if universe.kind == "indexed":
        assert universe.size is not None
        return (
            f"item is not an index in 0..{universe.size - 1}; "
            "enlarge the plan's universe or drop the row"
        )
    if universe.kind == "named":
        return "item is not one of the plan's names; add it to the universe or drop the row"
    return "item is neither valid UTF-8 text nor an integer in 0..2^64-1; drop the row"


def _first_repeat(clients: IntArray, ids: IdArray) -> int:
    order = np.lexsort((ids, clients))
    clients, ids = clients[order], ids[order]
    repeated = (clients[1:] == clients[:-1]) & (ids[1:] == ids[:-1])
    if not repeated.any():
        raise InvalidData("the rows cannot be made into vectors")
    return int(order[1:][repeated].min())
