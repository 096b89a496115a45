"""Segments, shuffling, snapshots, and a seal that fails half-way."""

import sqlite3

import numpy as np
import pyarrow.parquet as pq
import pytest

from faintly.engine import aggregate
from faintly.wire import report_v1
from faintly_collector.storage import seal, segments
from faintly_collector.storage.collection import status_of
from tests.collecting import sketch_of, submit


class Crash(Exception):
    pass


@pytest.mark.parametrize("retention", ["keep", "drop"])
@pytest.mark.parametrize("step", ["read", "written", "committed", "done"])
def test_a_seal_that_fails_at_any_point_counts_once(
    store, plan, batches, body_of, fresh, monkeypatch, at_step, retention, step
):
    """The process lives on, so its counts in memory must match the disk."""
    store.registry.create(plan, retention=retention)
    for batch in batches[:2]:
        submit(store, plan.digest, 0, fresh(), body_of(plan, batch))
        store.seal()
    submit(store, plan.digest, 0, fresh(), body_of(plan, batches[2]))

    def crash():
        raise Crash

    at_step(store, step, crash)
    with pytest.raises(Crash):
        store.seal()
    monkeypatch.undo()
    status = status_of(store.registry.collection(plan.digest))
    assert status.reports + status.pending == 30
    assert store.registry.pending == status.pending
    submit(store, plan.digest, 0, fresh(), body_of(plan, batches[3]))
    store.seal()
    assert sketch_of(store, plan.digest, 0) == aggregate(plan, batches)
    assert (
        status_of(store.registry.collection(plan.digest)).reports,
        store.registry.pending_bytes,
    ) == (40, 0)


def test_a_failed_commit_of_a_seal_leaves_the_counts(store, plan, batches, body_of, fresh):
    store.registry.create(plan)
    submit(store, plan.digest, 0, fresh(), body_of(plan, batches[0]))
    with store.database.transaction() as connection:
        connection.execute(
            "CREATE TRIGGER refuse BEFORE DELETE ON inbox BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    with pytest.raises(sqlite3.IntegrityError, match=r"^no$"):
        store.seal()
    status = status_of(store.registry.collection(plan.digest))
    assert (status.reports, status.pending) == (0, 10)
    with store.database.transaction() as connection:
        connection.execute("DROP TRIGGER refuse")
    assert store.seal() == 10
    assert sketch_of(store, plan.digest, 0) == aggregate(plan, batches[:1])


def test_a_segment_holds_the_reports_and_nothing_else(store, plan, batches, body_of, fresh):
    collection = store.registry.create(plan, epochs=(4,))
    for batch in batches:
        submit(store, plan.digest, 4, fresh(), body_of(plan, batch))
    store.seal()
    (segment,) = store.manifest.segments(plan.digest)
    path = store.folder / segment.file
    assert (segment.epoch, segment.number, segment.reports) == (4, 1, 40)
    assert segment.bytes == path.stat().st_size
    table = pq.ParquetFile(path).read()
    assert table.column_names == ["record"]
    assert table.schema.metadata == {
        b"faintly.plan": plan.digest.hex().encode(),
        b"faintly.epoch": b"4",
        b"faintly.version": b"1",
    }
    layout = collection.mechanism.layout
    sent = [bytes(row) for batch in batches for row in report_v1.pack(batch, layout)]
    found = table.column("record").to_pylist()
    assert sorted(found) == sorted(sent)
    assert found != sent
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    assert column.compression == "UNCOMPRESSED"
    assert not column.is_stats_set


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 1000, 40_000])
def test_shuffling_keeps_every_row(rows):
    records = np.arange(3 * rows, dtype=np.uint8).reshape(rows, 3)
    assert sorted(segments.shuffle(records).tolist()) == sorted(records.tolist())


def test_every_order_is_as_likely():
    """Chi-square over the 24 orders of 4 rows; above 84 by chance once in 10^8 runs.

    An order that keeps pairs of neighbours together, as a sort by half the bits might,
    is its mutant.
    """
    rows = np.arange(4, dtype=np.uint8).reshape(4, 1)

    def spread(shuffle):
        counts = {}
        for _ in range(4800):
            order = shuffle(rows).tobytes()
            counts[order] = counts.get(order, 0) + 1
        seen = sum((count - 200) ** 2 / 200 for count in counts.values())
        return seen + 200 * (24 - len(counts))

    def in_pairs(rows):
        pairs = segments.shuffle(np.arange(2, dtype=np.uint8)[:, None])
        return rows.reshape(2, 2)[pairs[:, 0]].reshape(4, 1)

    assert spread(segments.shuffle) < 84
    assert spread(in_pairs) > 84


def test_much_that_is_pending_makes_several_segments(
    store, plan, batches, body_of, fresh, monkeypatch
):
    monkeypatch.setattr(seal, "MAX_REPORTS", 15)
    store.registry.create(plan)
    for batch in batches:
        submit(store, plan.digest, 0, fresh(), body_of(plan, batch))
    assert store.seal() == 40
    assert [segment.reports for segment in store.manifest.segments(plan.digest)] == [10] * 4
    assert sketch_of(store, plan.digest, 0) == aggregate(plan, batches)


def test_a_snapshot_shortens_the_next_start(open_store, plan, batches, body_of, fresh, monkeypatch):
    monkeypatch.setattr(seal, "MAX_LAG", 2)
    store = open_store()
    store.registry.create(plan)
    for batch in batches[:3]:
        submit(store, plan.digest, 0, fresh(), body_of(plan, batch))
        store.seal()
    store.close()
    files = [path.name for path in (store.folder / "sketches").rglob("*.fns")]
    assert files == ["0-2.fns"]
    read = []
    original = segments.read
    monkeypatch.setattr(
        segments, "read", lambda file: read.append(file.path.name) or original(file)
    )
    again = open_store()
    assert sketch_of(again, plan.digest, 0) == aggregate(plan, batches[:3])
    assert read == ["0-3.parquet"]


def test_epochs_side_by_side(store, plan, batches, body_of, fresh):
    store.registry.create(plan, epochs=range(4))
    for _ in range(2):
        for epoch, batch in enumerate(batches):
            submit(store, plan.digest, epoch, fresh(), body_of(plan, batch))
        store.seal()
    for epoch, batch in enumerate(batches):
        assert sketch_of(store, plan.digest, epoch) == aggregate(plan, [batch] * 2)
