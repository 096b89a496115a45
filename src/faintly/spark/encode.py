"""Raw data on a cluster to reports: local privacy at the edge of the warehouse.

Rows of client, key and value become rows of the client's place, its own secret, id and value; from
then on no client is named. Sorted by place, each client's rows stand together, in an order that is
random for everybody without the job key. See `keys` for what a client's noise is drawn from.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from faintly.client.bulk import randomize
from faintly.core import AnyArray, Plan, VectorBatch
from faintly.core.arguments import instance
from faintly.core.projection import DOMAINS, project_rows
from faintly.errors import InvalidData, InvalidInput
from faintly.mechanisms import Mechanism, mechanism_of
from faintly.spark.aggregate import RECORD, Batches
from faintly.spark.keys import check_key, order_of, secret_of, streams
from faintly.wire import report_v1

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

PLACED = "place binary, secret binary, id long, value double"


def encode(
    rows: "DataFrame",
    plan: Plan,
    key: bytes,
    *,
    client: str = "client",
    item: str = "key",
    value: str | None = None,
    strict: bool = True,
    partitions: int | None = None,
) -> "DataFrame":
    """Return one report for each client, in random order: a column of records.

    Args:
        rows: a client, a key and perhaps a value in each. A client without items has one row,
            whose key is missing.
        plan: the collection.
        key: the secret job key, as `new_key` returns it.
        client: column that identifies clients; it never reaches a report or a file of ours.
        item: column of keys.
        value: column of values; without one, vectors are sets.
        strict: refuse keys that the plan does not have and values that it does not take, or leave
            them out and clip them, as a device does.
        partitions: of the result; by default as many as Spark's shuffles have.

    Privacy: the plan's unit within its budget, for each client once: another run with the same key
    repeats the reports of all clients whose data is the same. Anybody with the key and a report can
    remove the noise. Destroy the key once the job is done.
    """
    instance(plan, Plan, "plan", "as make_plan returns it")
    check_key(key)
    named = rows[value].cast("double") if value else rows[item].isNotNull().cast("double")
    kind = dict(rows.dtypes).get(client)
    if kind is None:
        raise InvalidInput(f"there is no column {client}; name the column of clients")
    who = rows[client] if kind == "binary" else rows[client].cast("string").cast("binary")
    chosen = rows.select(who.alias("client"), rows[item].alias("key"), named.alias("value"))

    def placed(parts: Batches) -> Batches:
        mechanism = mechanism_of(plan)
        for part in parts:
            yield _placed(part, mechanism, key, strict)

    def encoded(parts: Batches) -> Batches:
        import pyarrow as pa

        mechanism = mechanism_of(plan)
        for whole in _whole_clients(parts):
            records = _records(whole, mechanism)
            column = pa.array([record.tobytes() for record in records], pa.binary())
            yield pa.RecordBatch.from_arrays([column], [RECORD])

    spread = chosen.mapInArrow(placed, PLACED)
    spread = spread.repartition(partitions, "place") if partitions else spread.repartition("place")
    # All columns, so that repeated keys of a client are added up in one order.
    ordered = spread.sortWithinPartitions("place", "id", "value")
    return ordered.mapInArrow(encoded, f"{RECORD} binary")


def _placed(
    part: "pa.RecordBatch", mechanism: Mechanism, key: bytes, strict: bool
) -> "pa.RecordBatch":
    import pyarrow as pa

    plan = mechanism.plan
    clients, keys, values = part.columns
    if clients.null_count:
        raise InvalidData("a row has no client; give every row one")
    held = keys.is_valid().to_numpy(zero_copy_only=False)
    ids, known = plan.universe.known(keys.drop_null().to_pylist(), plan.salt)
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
    if strict:
        _check(known, numbers[held], plan)
    wide = np.zeros(len(held), dtype=np.int64)
    wide[held] = ids.view(np.int64)
    unknown = np.ones(len(held), dtype=bool)
    unknown[held] = ~known
    who = [bytes(client) for client in clients.to_pylist()]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([order_of(key, plan.digest, each) for each in who], pa.binary()),
            pa.array([secret_of(key, plan.digest, each) for each in who], pa.binary()),
            pa.array(wide, mask=unknown),
            pa.array(numbers),
        ],
        ["place", "secret", "id", "value"],
    )


def _check(known: AnyArray, values: AnyArray, plan: Plan) -> None:
    if not known.all():
        raise InvalidData(
            "a row has a key that the plan does not have; drop it, or turn strict off"
        )
    if not (DOMAINS[plan.values](values) == values).all():
        raise InvalidData(
            f"a row has a value that the plan ({plan.values}) does not take; correct it, or turn "
            "strict off"
        )


def _whole_clients(parts: Batches) -> Iterator["pa.Table"]:
    """Yield sorted rows in tables, each client's in one of them."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    for part in parts:
        if not len(part):
            continue
        table = pa.Table.from_batches([*waiting, part])
        places = table.column("place")
        last = places[len(table) - 1]
        start = len(table) - 1
        while start and places[start - 1] == last:
            start -= 1
        if start:
            yield table.slice(0, start)
        waiting = table.slice(start).to_batches()
    if waiting:
        yield pa.Table.from_batches(waiting)


def _records(rows: "pa.Table", mechanism: Mechanism) -> AnyArray:
    """Return the report of each client of the rows, in their order."""
    plan = mechanism.plan
    places = np.array(rows.column("place").to_pylist(), dtype=object)
    first = np.ones(len(places), dtype=bool)
    first[1:] = places[1:] != places[:-1]
    ids = rows.column("id")
    known = ids.is_valid().to_numpy(zero_copy_only=False)
    vectors, _ = project_rows(
        np.cumsum(first) - 1,
        ids.fill_null(0).to_numpy().astype(np.int64).view(np.uint64),
        known,
        rows.column("value").to_numpy().astype(np.float64),
        count=int(first.sum()),
        sparsity=plan.sparsity,
        domain=mechanism.domain,
    )
    secrets = rows.column("secret").take(np.flatnonzero(first)).to_pylist()
    made = [_record(vectors.slice(i, i + 1), secrets[i], mechanism) for i in range(len(vectors))]
    return np.concatenate(made)


def _record(vector: VectorBatch, secret: bytes, mechanism: Mechanism) -> AnyArray:
    public, noise = streams(secret, mechanism.plan.digest, vector)
    report = randomize(mechanism.plan, mechanism, vector, public, noise)
    return report_v1.pack(report, mechanism.layout)
