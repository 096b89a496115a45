"""Things that happen at the same time, and failures that must stay where they happen."""

import fcntl
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import Future

import pytest

from faintly.engine import aggregate
from faintly.errors import FolderDamaged
from faintly.wire import report_v1
from faintly.wire.problems import CANNOT_STORE, Problem
from faintly_collector.storage import inbox as inboxes
from faintly_collector.storage import maintenance, segments
from faintly_collector.storage.collection import status_of
from faintly_collector.storage.credentials import Credentials, hash_of
from faintly_collector.storage.database import Database
from faintly_collector.storage.store import Store, StoreLimits
from tests.collecting import refused, sketch_of, submit, wait_for


def test_an_epoch_opened_while_another_is_purged_keeps_its_request_ids(
    store, plan, bodies, fresh, monkeypatch
):
    store.registry.create(plan)
    submit(store, plan.digest, 0, fresh(), bodies[0])
    request, purge = fresh(), Database.purge

    def slow(database, epoch):
        if 1 not in store.registry.collection(plan.digest).epochs:
            store.registry.open_epoch(plan.digest, 1)
            assert submit(store, plan.digest, 1, request, bodies[1]) == "counted"
        purge(database, epoch)

    monkeypatch.setattr(Database, "purge", slow)
    store.close_epoch(store.registry.epoch(plan.digest, 0))
    assert submit(store, plan.digest, 1, request, bodies[1]) == "replayed"


@pytest.mark.parametrize("error", [FolderDamaged("changed"), ValueError("a fault"), MemoryError()])
def test_an_epoch_that_cannot_be_sealed_keeps_no_other_waiting(
    open_store, plan, bodies, batches, fresh, monkeypatch, error
):
    monkeypatch.setattr(maintenance, "TICK_S", 0.01)
    monkeypatch.setattr(maintenance, "RETRY_S", 0.01)
    store = open_store(limits=StoreLimits(seal_s=0.0))
    write = segments.write

    def failing(path, epoch, records):
        if epoch.number == 0:
            raise error
        return write(path, epoch, records)

    monkeypatch.setattr(segments, "write", failing)
    store.registry.create(plan, epochs=(0, 1))
    submit(store, plan.digest, 0, fresh(), bodies[0])
    wait_for(lambda: store.counters.failed_seals > 2)
    with Database(store.folder) as database:  # as another process would
        secret = Credentials(database).add("read", "page")
    wait_for(lambda: store.credentials.role_of(hash_of(secret)) == "read")
    submit(store, plan.digest, 1, fresh(), bodies[1])
    wait_for(lambda: status_of(store.registry.collection(plan.digest)).reports == 10)
    store.close()
    monkeypatch.setattr(segments, "write", write)
    store = open_store()
    store.seal()
    for epoch in (0, 1):
        assert sketch_of(store, plan.digest, epoch) == aggregate(plan, [batches[epoch]])


def test_a_collection_is_closed_even_if_it_cannot_be_sealed(
    open_store, plan, bodies, fresh, monkeypatch
):
    store = open_store()
    store.registry.create(plan, epochs=(0, 1))
    for epoch in (0, 1):
        submit(store, plan.digest, epoch, fresh(), bodies[epoch])

    def fail(*_):
        raise Problem(CANNOT_STORE, "the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(segments, "write", fail)
        assert refused(store.close_collection, plan.digest) == "CANNOT_STORE"
    for epoch in (0, 1):
        assert refused(submit, store, plan.digest, epoch, fresh(), bodies[2]) == "CLOSED"
    store.close()
    store = open_store()
    assert refused(submit, store, plan.digest, 1, fresh(), bodies[2]) == "CLOSED"
    assert store.seal() + status_of(store.registry.collection(plan.digest)).reports >= 20
    assert status_of(store.registry.collection(plan.digest)).reports == 20


def test_what_waited_for_a_deleted_collection_leaves_nothing(open_store, plan, bodies, fresh):
    store = open_store()
    old = store.registry.create(plan, period_s=3600.0, epochs=())
    store.delete(plan.digest)
    new = store.registry.create(plan, period_s=3600.0, epochs=(7,))
    assert refused(store.registry.forget, old) == "UNKNOWN_COLLECTION"
    assert refused(store.registry.close_collection, old) == "UNKNOWN_COLLECTION"
    now = int(time.time() // 3600)
    assert refused(store.registry.epoch_for, old, now) == "CLOSED"
    assert store.registry.collection(plan.digest) is new
    assert not new.closed
    assert submit(store, plan.digest, 7, fresh(), bodies[0]) == "counted"
    store.close()
    assert list(open_store().registry.collection(plan.digest).epochs) == [7]


@pytest.mark.parametrize("retention", ["keep", "drop"])
def test_a_collection_created_while_its_predecessor_is_deleted_keeps_its_files(
    open_store, plan, batches, bodies, fresh, monkeypatch, retention
):
    store = open_store()
    store.registry.create(plan, retention=retention)
    submit(store, plan.digest, 0, fresh(), bodies[0])
    store.seal()
    delete = store.manifest.delete

    def slow(collection):
        store.registry.create(plan, retention=retention)
        submit(store, plan.digest, 0, fresh(), bodies[1])
        store.seal()
        delete(collection)

    with monkeypatch.context() as patched:
        patched.setattr(store.manifest, "delete", slow)
        store.delete(plan.digest)
    assert len([path for path in store.folder.glob("s*s/*/*") if path.is_file()]) == 1
    store.close()
    assert sketch_of(open_store(), plan.digest, 0) == aggregate(plan, batches[1:2])


def test_the_clock_opens_no_epoch_during_a_deletion(open_store, plan, bodies, fresh, monkeypatch):
    store = open_store()
    now = int(time.time() // 3600)
    collection = store.registry.create(plan, period_s=3600.0, epochs=(7,))
    submit(store, plan.digest, 7, fresh(), bodies[0])
    forget = store.registry.forget

    def late(collection):
        assert refused(store.registry.epoch_for, collection, now) == "CLOSED"
        forget(collection)

    monkeypatch.setattr(store.registry, "forget", late)
    store.delete(plan.digest)
    assert [epoch.state for epoch in collection.epochs.values()] == ["closed"]
    assert not store.registry.by_id
    assert store.database.rows("SELECT * FROM epochs") == []
    for epoch in collection.epochs.values():  # nobody keeps a lock
        thread = threading.Thread(target=epoch.lock.acquire, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()


def test_an_epoch_deleted_while_it_is_sealed_is_not_named(open_store, plan, bodies, fresh, at_step):
    store = open_store()
    collection = store.registry.create(plan)
    submit(store, plan.digest, 0, fresh(), bodies[0])
    at_step(store, "written", lambda: store.registry.forget(collection))
    assert refused(store.seal) == "CONFLICT"
    store.close()
    assert open_store().registry.collections == {}


def test_a_query_that_waited_for_a_deleted_epoch(store, plan, bodies, fresh, monkeypatch):
    epochs = store.registry.create(plan).epochs
    submit(store, plan.digest, 0, fresh(), bodies[0])
    store.seal()
    found = [epochs[0]]
    store.delete(plan.digest)
    monkeypatch.setattr(store.registry, "sealed_epochs", lambda *_: found)  # looked up before
    monkeypatch.setattr(store.registry, "epoch", lambda *_: found[0])
    assert refused(store.sketches.file, plan.digest, 0) == "NO_REPORTS"


def test_a_submission_that_comes_while_the_store_closes_is_answered(
    open_store, plan, bodies, fresh, monkeypatch
):
    store = open_store()
    store.registry.create(plan)
    monkeypatch.setattr(Store, "check_capacity", lambda *_: None)  # it was looked at just before
    store.close()
    waiter = Future()
    store.take(plan.digest, 0, fresh(), bodies[0], waiter=waiter)
    assert waiter.result(0).kind.code == "STOPPING"


def test_what_is_queued_after_the_end_does_not_delay_it(open_store, plan, bodies, fresh):
    store = open_store()
    store.registry.create(plan)
    sent = [Future() for _ in range(3)]
    closing = threading.Thread(target=store.close)
    with store.database.write_lock:
        store.take(plan.digest, 0, fresh(), bodies[0], waiter=sent[0])
        wait_for(lambda: store.inbox.waiting == 0)  # it waits for the lock
        store.take(plan.digest, 0, fresh(), bodies[0], waiter=sent[1])
        closing.start()
        wait_for(lambda: store.inbox.waiting == 2)  # a submission, and the end
        store.take(plan.digest, 0, fresh(), bodies[0], waiter=sent[2])
    closing.join()
    found = [waiter.result(0) for waiter in sent]
    assert found[:2] == [inboxes.COUNTED] * 2
    assert found[2].kind.code == "STOPPING"


def test_many_that_come_while_the_store_closes_are_answered(open_store, plan, bodies, fresh):
    store = open_store()
    store.registry.create(plan)
    sent, codes = [], set()
    closing = threading.Thread(target=store.close)
    while closing.ident is None or closing.is_alive():
        try:
            waiter = Future()
            store.take(plan.digest, 0, fresh(), bodies[0], waiter=waiter)
            sent.append(waiter)
        except Problem as problem:
            codes.add(problem.kind.code)
        if len(sent) == 20 and closing.ident is None:
            closing.start()
    assert codes <= {"STOPPING", "BUSY"}
    counted = sum(waiter.result(0) == inboxes.COUNTED for waiter in sent)
    assert status_of(open_store().registry.collection(plan.digest)).reports == 10 * counted


def test_a_missing_database_does_not_cost_the_sealed_files(open_store, plan, bodies, fresh):
    store = open_store()
    store.registry.create(plan)
    submit(store, plan.digest, 0, fresh(), bodies[0])
    store.close()
    database = store.folder / "collector.sqlite"
    kept = database.read_bytes()
    for change in (database.unlink, lambda: database.write_bytes(b"")):
        change()
        with pytest.raises(FolderDamaged, match="older than this file"):
            open_store()
    assert len(list(store.folder.glob("segments/*/*"))) == 1
    database.write_bytes(kept)
    assert status_of(open_store().registry.collection(plan.digest)).reports == 10


def test_damage_stops_a_start_before_anything_is_deleted(open_store, plan, bodies, fresh):
    store = open_store()
    store.registry.create(plan)
    submit(store, plan.digest, 0, fresh(), bodies[0])
    store.close()
    (file,) = store.folder.glob("segments/*/*")
    moved = file.with_name("moved.parquet")
    file.rename(moved)
    with pytest.raises(FolderDamaged):
        open_store()
    assert moved.exists()


@pytest.mark.parametrize("retention", ["keep", "drop"])
def test_sealed_reports_are_overwritten_in_the_database(
    open_store, plan, batches_of, body_of, fresh, retention
):
    store = open_store()
    store.registry.create(plan, retention=retention)
    body = body_of(plan, batches_of(plan, 8000, 8000)[0])
    record = bytes(report_v1.records_of(body))[9000:9100]
    submit(store, plan.digest, 0, fresh(), body)
    files = [store.folder / "collector.sqlite", store.folder / "collector.sqlite-wal"]
    assert any(record in file.read_bytes() for file in files)
    store.seal()
    wait_for(lambda: not any(record in file.read_bytes() for file in files))


def test_a_second_database_of_a_process_takes_no_locks_away(store):
    with Database(store.folder):
        pass
    # SQLite keeps a shared lock here, by which others see that the folder is in use.
    program = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'r+b')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)\n"
    )
    command = [sys.executable, "-c", program, store.folder / "collector.sqlite"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "BlockingIOError" in tried.stderr


def full(database):
    """Let a database not grow any more."""
    pages = database.writer.execute("PRAGMA page_count").fetchone()[0]
    database.writer.execute(f"PRAGMA max_page_count = {pages}")


def test_control_calls_on_a_full_disk_raise_problems(store, plan, open_plan, bodies, fresh):
    store.registry.create(plan, tokens=True, period_s=3600.0)
    store.issue_tokens(plan.digest, 0, 1000)
    full(store.database)

    def issue():
        for _ in range(10):
            store.issue_tokens(plan.digest, 0, 10_000)

    def fill():
        for number in range(1, 10_000):
            store.registry.open_epoch(plan.digest, number)

    def label():
        for number in range(1, 10_000):
            store.credentials.add("read", f"{number:0100}")

    assert refused(issue) == "CANNOT_STORE"
    assert refused(fill) == "CANNOT_STORE"
    assert refused(label) == "CANNOT_STORE"
    assert status_of(store.registry.collection(plan.digest)).pending == 0


def test_a_seal_on_a_full_disk_is_a_problem(store, plan, bodies, fresh, monkeypatch):
    store.registry.create(plan)
    submit(store, plan.digest, 0, fresh(), bodies[0])

    def fail(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        assert refused(store.seal) == "CANNOT_STORE"
    assert store.seal() == 10


def test_a_file_that_cannot_be_deleted_does_not_undo_a_seal(
    store, plan, bodies, fresh, monkeypatch
):
    store.registry.create(plan, retention="drop")
    for body in bodies[:2]:
        submit(store, plan.digest, 0, fresh(), body)
        store.seal()
    submit(store, plan.digest, 0, fresh(), bodies[2])

    def fail(*_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", fail)
        assert store.seal() == 10
    assert status_of(store.registry.collection(plan.digest)).reports == 30


def test_a_restored_folder_has_other_versions(open_store, tmp_path, plan, bodies, fresh):
    store = open_store()
    store.registry.create(plan)
    store.close()
    shutil.copytree(store.folder, tmp_path / "copy")
    versions = set()
    for folder, body in zip((store.folder, tmp_path / "copy"), bodies, strict=False):
        opened = open_store(folder)
        submit(opened, plan.digest, 0, fresh(), body)
        opened.seal()
        versions.add(opened.sketches.version(opened.registry.epoch(plan.digest, 0)))
    assert len(versions) == 2


def test_a_plan_whose_reports_cannot_be_sent_is_refused(store, plan, monkeypatch):
    monkeypatch.setattr(report_v1, "MAX_RECORD_BYTES", 1)
    assert refused(store.registry.create, plan) == "BAD_PLAN"
    assert list(store.registry.collections.values()) == []
