"""What is acknowledged is on the disk: the order in which things get there.

A test cannot cut the power. These record what is asked of the system, and in which order; each
has mutants that ask for less.
"""

import os
import stat
from concurrent.futures import Future
from pathlib import Path

import pytest

from faintly import durable
from faintly_collector.storage import disk
from tests.collecting import submit

pytestmark = pytest.mark.usefixtures("synced")


@pytest.fixture
def body(plan, batches_of, body_of):
    return body_of(plan, batches_of(plan, 10, 10)[0])


def careless(database):
    """Return which connections would acknowledge what a power failure may take."""
    found = {}
    for name in ("writer", "reader", "checkpointer"):
        connection = getattr(database, name)
        found[name] = [
            connection.execute(f"PRAGMA {each}").fetchone()[0]
            for each in ("journal_mode", "synchronous")
        ]
    full = 2  # of SQLite: the log is synced at each commit
    return {name for name, seen in found.items() if seen != ["wal", full]}


def test_commits_are_synced(store):
    assert careless(store.database) == set()
    store.database.writer.execute("PRAGMA synchronous = NORMAL")  # the mutant
    assert careless(store.database) == {"writer"}


@pytest.fixture
def events(monkeypatch):
    """Return a list of what reaches the disk: what is done, and to which inode."""
    seen, fsync, rename = [], os.fsync, Path.replace

    def record_fsync(handle):
        fsync(handle)
        found = os.fstat(handle)
        seen.append(("sync folder" if stat.S_ISDIR(found.st_mode) else "sync", found.st_ino))

    def record_rename(path, target):
        seen.append(("rename", path.stat().st_ino))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(Path, "replace", record_rename)
    return seen


class Unsynced:
    """The module os, but for one function that does nothing."""

    def __getattr__(self, name):
        return getattr(os, name) if name != "fsync" else lambda _: None


def sync_nothing(monkeypatch):
    monkeypatch.setattr(durable, "os", Unsynced())


def sync_no_folder(monkeypatch):
    monkeypatch.setattr(durable, "sync_folder", lambda _: None)


def sync_late(monkeypatch):
    rename = Path.replace

    def swapped(path, target):
        made = rename(path, target)
        with target.open("rb") as stream:
            os.fsync(stream.fileno())
        return made

    sync_nothing(monkeypatch)
    monkeypatch.setattr(durable, "sync_folder", sync_folder)
    monkeypatch.setattr(Path, "replace", swapped)


def sync_folder(folder):
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def missing(events, file):
    """Return what a seal should have done before it named a file in the manifest, and did not."""
    done = events[: events.index(("COMMIT", 0))]
    name = file.stat().st_ino
    renamed = done.index(("rename", name))
    folders = [folder.stat().st_ino for folder in (file.parent, file.parent.parent)]
    found = {
        "content": ("sync", name) in done[:renamed],
        "name": ("sync folder", folders[0]) in done[renamed:],
        "folder": ("sync folder", folders[1]) in done,
    }
    return {each for each, there in found.items() if not there}


@pytest.mark.parametrize("retention", ["keep", "drop"])
@pytest.mark.parametrize(
    ("mutant", "lacks"),
    [
        (None, set()),
        (sync_nothing, {"content", "name", "folder"}),
        (sync_no_folder, {"name", "folder"}),
        (sync_late, {"content"}),
    ],
)
def test_a_file_is_on_the_disk_before_the_manifest_names_it(
    store, plan, body, fresh, events, monkeypatch, retention, mutant, lacks
):
    store.registry.create(plan, retention=retention)
    submit(store, plan.digest, 0, fresh(), body)
    if mutant is not None:
        mutant(monkeypatch)
    store.database.writer.set_trace_callback(lambda statement: events.append((statement, 0)))
    events.clear()
    store.seal()
    (file,) = store.folder.glob("segments/*/*" if retention == "keep" else "sketches/*/*")
    assert missing(events, file) == lacks


def test_an_answer_comes_after_its_commit(store, plan, body, fresh):
    store.registry.create(plan)
    seen = []
    store.database.writer.set_trace_callback(seen.append)

    def answer(waiter):
        # By now nothing is left to do: the transaction has ended.
        if not store.database.writer.in_transaction:
            seen.append(waiter.result())

    waiter = Future()
    waiter.add_done_callback(answer)
    store.take(plan.digest, 0, fresh(), body, waiter=waiter)
    store.close()
    assert seen.index("BEGIN IMMEDIATE") < seen.index("COMMIT") < seen.index("counted")


@pytest.mark.parametrize("retention", ["keep", "drop"])
def test_files_do_not_tell_when_they_were_made(store, plan, body, fresh, retention):
    store.registry.create(plan, retention=retention)
    submit(store, plan.digest, 0, fresh(), body)
    store.close()
    files = [path for path in store.folder.glob("s*s/*/*") if path.is_file()]
    assert files
    assert {path.stat().st_mtime for path in files} == {disk.MODIFIED_S}
