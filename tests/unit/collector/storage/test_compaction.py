"""Small segments of a closed epoch become few, and nothing is lost or counted twice."""

import pyarrow.parquet as pq
import pytest

from faintly.engine import aggregate
from faintly.engine.files import read_reports
from faintly.wire.problems import CANNOT_STORE, Problem
from faintly_collector.admin import fsck
from faintly_collector.admin.export import export
from faintly_collector.storage import seal, segments
from faintly_collector.storage.collection import status_of
from faintly_collector.storage.disk import copying
from tests.collecting import sketch_of, submit


@pytest.fixture
def filled(open_store, plan, batches, body_of, fresh):
    """Return a store with four small segments, and a sketch on the disk."""
    store = open_store()
    store.registry.create(plan)
    for batch in batches:
        submit(store, plan.digest, 0, fresh(), body_of(plan, batch))
        store.seal()
    store.sketches.file(plan.digest, 0)
    store.close()
    store = open_store()
    store.maintenance.stop()
    assert status_of(store.registry.collection(plan.digest)).epochs[0].segments == 4
    assert len(list(store.folder.glob("sketches/*/*"))) == 1
    return store


def close(store, plan):
    """Close the epoch, and merge its segments in place of the maintenance thread."""
    store.close_epoch(store.registry.epoch(plan.digest, 0))
    while store.sealer.compact(store.registry.epoch(plan.digest, 0)):
        pass


def rows(path):
    return pq.ParquetFile(path).read().column("record").to_pylist()


def test_closing_an_epoch_merges_its_segments(filled, open_store, plan, batches):
    store = filled
    before = [row for path in sorted(store.folder.glob("segments/*/*")) for row in rows(path)]
    size = status_of(store.registry.collection(plan.digest)).bytes
    close(store, plan)
    (segment,) = store.manifest.segments(plan.digest)
    assert (segment.number, segment.reports) == (5, 40)
    (file,) = store.folder.glob("segments/*/*")
    assert sorted(rows(file)) == sorted(before)
    assert rows(file) != before  # by chance once in 40! runs, but for equal reports
    status = status_of(store.registry.collection(plan.digest))
    assert (status.epochs[0].segments, status.reports, status.bytes) == (1, 40, file.stat().st_size)
    assert status.bytes < size
    assert sketch_of(store, plan.digest, 0) == aggregate(plan, batches)
    assert [path.name for path in store.folder.glob("sketches/*/*")] == ["0-5.fns"]
    close(store, plan)  # again, which finds nothing to do
    assert [each.number for each in store.manifest.segments(plan.digest)] == [5]
    store.close()
    assert fsck.check(store.folder).findings == []
    again = open_store()
    assert sketch_of(again, plan.digest, 0) == aggregate(plan, batches)
    assert status_of(again.registry.collection(plan.digest)) == status


@pytest.mark.parametrize("step", ["written", "committed"])
def test_a_merge_that_fails_at_any_point_loses_nothing(
    filled, open_store, plan, batches, at_step, step
):
    """The process lives on, so its manifest in memory must match the disk."""
    store = filled

    def fail():
        raise Problem(CANNOT_STORE, "the disk is full")

    at_step(store, step, fail)
    with pytest.raises(Problem, match="the disk is full"):
        close(store, plan)
    assert store.database.rows("SELECT id FROM requests") == []
    assert status_of(store.registry.collection(plan.digest)).reports == 40
    assert sketch_of(store, plan.digest, 0) == aggregate(plan, batches)
    store.close()
    findings = fsck.check(store.folder).findings
    assert {found.what for found in findings} <= {"nothing names this file"}
    again = open_store()
    assert sketch_of(again, plan.digest, 0) == aggregate(plan, batches)
    close(again, plan)
    assert status_of(again.registry.collection(plan.digest)).epochs[0].segments == 1
    assert sketch_of(again, plan.digest, 0) == aggregate(plan, batches)
    again.close()
    assert fsck.check(store.folder).findings == []


def test_large_segments_stay_as_they_are(store, plan, batches_of, body_of, fresh, monkeypatch):
    monkeypatch.setattr(seal, "MAX_REPORTS", 25)
    batches = [batches_of(plan, size, size)[0] for size in (10, 13, 12, 3, 1)]
    store.registry.create(plan)
    for batch in batches:
        submit(store, plan.digest, 0, fresh(), body_of(plan, batch))
        store.seal()
    close(store, plan)
    found = [(each.number, each.reports) for each in store.manifest.segments(plan.digest)]
    assert found == [(2, 13), (5, 1), (6, 25)]
    assert sketch_of(store, plan.digest, 0) == aggregate(plan, batches)


def test_an_export_reads_what_is_merged_meanwhile(filled, tmp_path, plan, batches, monkeypatch):
    store, read = filled, segments.read

    def slow(*arguments):
        monkeypatch.setattr(segments, "read", read)
        close(store, plan)
        assert status_of(store.registry.collection(plan.digest)).epochs[0].segments == 1
        return read(*arguments)

    monkeypatch.setattr(segments, "read", slow)
    assert export(store.folder, plan.digest.hex(), None, tmp_path / "out.fnt") == 40
    found = aggregate(plan, read_reports(plan, tmp_path / "out.fnt"))
    assert found == aggregate(plan, batches)


def test_a_copy_delays_the_deletion_of_what_was_merged(filled, plan):
    store = filled
    with copying(store.folder):
        close(store, plan)
        assert len(list(store.folder.glob("segments/*/*"))) == 5
    store.manifest.delete_replaced()
    assert len(list(store.folder.glob("segments/*/*"))) == 1
    store.close()
    assert fsck.check(store.folder).findings == []


def test_what_waits_to_be_merged_and_is_deleted_leaves_nothing(filled, open_store, plan):
    """A sketch of an epoch that is gone would stop the next start."""
    store = filled
    epoch = store.registry.epoch(plan.digest, 0)
    store.delete(plan.digest)
    store.sealer.compact(epoch)
    assert store.database.rows("SELECT * FROM sketches") == []
    with store.database.transaction() as connection:  # as earlier programs did
        connection.execute("INSERT INTO sketches VALUES (?, 4, 0, 1, x'')", (epoch.id,))
    store.close()
    assert list(open_store().folder.glob("s*s/*/*")) == []
