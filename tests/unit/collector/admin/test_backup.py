"""Backups of a store that goes on meanwhile, restores, and exports."""

import errno
import io
import os
import resource
import shutil
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from faintly.engine import aggregate
from faintly.engine.files import read_reports
from faintly.errors import FolderDamaged, FolderInUse, InvalidInput
from faintly.mechanisms import mechanism_of
from faintly.wire import problems, report_v1
from faintly.wire.problems import Problem
from faintly_collector.admin import backup, fsck
from faintly_collector.admin.export import export
from faintly_collector.storage import database, disk
from faintly_collector.storage.collection import status_of
from faintly_collector.storage.store import Store
from tests.collecting import sketch_of, submit


@pytest.mark.parametrize("retention", ["keep", "drop"])
def test_a_backup_of_a_running_store(
    store, open_store, tmp_path, plan, batches, body_of, fresh, retention
):
    store.registry.create(plan, retention=retention)
    request = fresh()
    submit(store, plan.digest, 0, request, body_of(plan, batches[0]))
    store.seal()
    submit(store, plan.digest, 0, fresh(), body_of(plan, batches[1]))  # stays in the inbox
    backup.backup(store.folder, tmp_path / "copy")
    submit(store, plan.digest, 0, fresh(), body_of(plan, batches[2]))  # after the backup
    assert fsck.check(tmp_path / "copy").findings == []
    backup.restore(tmp_path / "copy", tmp_path / "restored")
    for path in (tmp_path / "restored").rglob("s*s/*/*"):
        assert path.stat().st_mtime == disk.MODIFIED_S
    for path in (tmp_path / "restored").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    again = open_store(tmp_path / "restored")
    assert submit(again, plan.digest, 0, request, body_of(plan, batches[0])) == "replayed"
    again.seal()
    assert sketch_of(again, plan.digest, 0) == aggregate(plan, batches[:2])


@pytest.mark.parametrize("retention", ["keep", "drop"])
def test_backups_while_reports_come_and_are_sealed(
    open_store, tmp_path, plan, batches, body_of, fresh, retention
):
    store = open_store()
    store.registry.create(plan, retention=retention)
    stop = threading.Event()

    def send():
        for _ in range(60):  # in keep mode each seal makes another file to copy
            if not stop.wait(0.002):
                submit(store, plan.digest, 0, fresh(), body_of(plan, batches[0]))
                store.seal()

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for number in range(2):
            copy = tmp_path / f"copy{number}"
            backup.backup(store.folder, copy)
            assert fsck.check(copy).findings == []
            with Store.open(copy) as again:
                status = status_of(again.registry.collection(plan.digest))
                again.seal()
                total = status.reports + status.pending
                expected = aggregate(plan, [batches[0]] * (total // 10))
                if total:
                    assert sketch_of(again, plan.digest, 0) == expected
    finally:
        stop.set()
        sender.join()


def test_a_damaged_backup_is_not_restored(store, tmp_path, plan, batches, body_of, fresh):
    store.registry.create(plan)
    submit(store, plan.digest, 0, fresh(), body_of(plan, batches[0]))
    store.seal()
    backup.backup(store.folder, tmp_path / "copy")
    (segment,) = (tmp_path / "copy").glob("segments/*/*")
    data = bytearray(segment.read_bytes())
    data[50] ^= 1
    segment.write_bytes(data)
    with pytest.raises(FolderDamaged, match=r"0-1\.parquet"):
        backup.restore(tmp_path / "copy", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_a_backup_during_a_deletion_holds_nothing_of_what_was_deleted(
    open_store, tmp_path, plan, open_plan, batches, batches_of, body_of, fresh, monkeypatch
):
    store, others = open_store(), batches_of(open_plan, 10, 10)
    for each, batch in ((plan, batches[0]), (plan, batches[1]), (open_plan, others[0])):
        store.registry.create(each)
        submit(store, each.digest, 0, fresh(), body_of(each, batch))
        store.seal()
    copy_file, copied = backup.copy_file, []

    def slow(path, target):
        copied.append(copy_file(path, target))
        if len(copied) == 1:
            store.delete(plan.digest)
        return copied[-1]

    monkeypatch.setattr(backup, "copy_file", slow)
    backup.backup(store.folder, tmp_path / "copy")
    assert len(copied) == 2  # one of two files, before there was only the other collection's
    assert fsck.check(tmp_path / "copy").findings == []
    left = [path for path in (tmp_path / "copy").rglob("*") if plan.digest.hex() in path.name]
    assert left == []
    monkeypatch.undo()
    backup.restore(tmp_path / "copy", tmp_path / "restored")
    again = open_store(tmp_path / "restored")
    assert list(again.registry.collections) == [open_plan.digest]
    assert sketch_of(again, open_plan.digest, 0) == aggregate(open_plan, others)


def test_of_two_copies_into_one_folder_one_is_made(
    open_store, tmp_path, plan, batches, body_of, fresh, monkeypatch
):
    store = open_store()
    store.registry.create(plan)
    submit(store, plan.digest, 0, fresh(), body_of(plan, batches[0]))
    store.seal()
    target, copy = tmp_path / "copy", backup.copy_files

    def beside(*given):
        with pytest.raises(InvalidInput, match="not empty"):
            backup.backup(store.folder, target)
        return copy(*given)

    monkeypatch.setattr(backup, "copy_files", beside)
    backup.backup(store.folder, target)
    with pytest.raises(InvalidInput, match="not empty"):
        backup.backup(store.folder, target)
    assert not list(target.glob("part*"))
    assert fsck.check(target).findings == []
    assert fsck.check(target).sealed == 10


def test_a_copy_of_what_began_to_change_is_not_kept(
    open_store, tmp_path, plan, batches, body_of, fresh, monkeypatch
):
    """Where nothing can be written a database is read as if nobody else had it."""
    store = open_store()
    store.registry.create(plan)
    store.close()
    said = iter([1, 2])
    monkeypatch.setattr(database, "immutable_since", lambda _: next(said))
    with pytest.raises(InvalidInput, match="began to use"):
        backup.backup(store.folder, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def damage(path, how):
    if how == "missing":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[-30] ^= 1
        path.write_bytes(data)


@pytest.mark.parametrize("how", ["missing", "changed"])
@pytest.mark.parametrize("where", ["data", "copy"])
def test_a_sketch_that_is_not_needed_does_not_matter(
    open_store, tmp_path, plan, batches, body_of, fresh, how, where
):
    store = open_store()
    store.registry.create(plan)
    submit(store, plan.digest, 0, fresh(), body_of(plan, batches[0]))
    store.seal()
    store.sketches.file(plan.digest, 0)
    store.close()
    if where == "data":
        damage(*store.folder.glob("sketches/*/*"), how)
    backup.backup(store.folder, tmp_path / "copy")
    if where == "data":
        assert fsck.check(tmp_path / "copy").findings == []
    else:
        damage(*(tmp_path / "copy").glob("sketches/*/*"), how)
        (tmp_path / "copy" / "segments" / "stray").write_bytes(b"x")
    backup.restore(tmp_path / "copy", tmp_path / "restored")
    assert fsck.check(tmp_path / "restored").findings == []
    assert sketch_of(open_store(tmp_path / "restored"), plan.digest, 0) == aggregate(
        plan, batches[:1]
    )


def test_a_backup_leaves_nothing_that_stops_a_collector_of_another_user(
    store, tmp_path, plan, batches, body_of, fresh
):
    store.registry.create(plan, retention="drop")
    submit(store, plan.digest, 0, fresh(), body_of(plan, batches[0]))
    store.seal()
    before = set(store.folder.iterdir())
    with disk.copying(store.folder):
        submit(store, plan.digest, 0, fresh(), body_of(plan, batches[1]))
        store.seal()
        assert len(list(store.folder.glob("sketches/*/*"))) == 2  # what the copy may name stays
    assert set(store.folder.iterdir()) == before
    submit(store, plan.digest, 0, fresh(), body_of(plan, batches[2]))
    store.seal()
    assert len(list(store.folder.glob("sketches/*/*"))) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_a_backup_by_root_does_not_stop_the_clean_up(open_store, tmp_path, plan, batches, body_of):
    """The collector of a service's user, whose folder root has copied, still deletes sketches."""
    open_store().close()
    folder = tmp_path / "data"
    backup.backup(folder, tmp_path / "copy")
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from faintly_collector.storage import disk\n"
        "handle = os.open(sys.argv[1], os.O_RDONLY)\n"
        "os.fchdir(handle)\n"  # the folders above are root's
        "os.setuid(65534)\n"
        "disk.discard(Path(), Path('sketches/old'))\n"
    )
    (folder / "sketches" / "old").touch()
    for path in [folder, *folder.rglob("*")]:
        if path.name != "copying.lock":  # what a backup by root makes is root's
            os.chown(path, 65534, 65534)
    command = [sys.executable, "-c", program, folder]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    subprocess.run(command, check=True, env=environment)
    assert not (folder / "sketches" / "old").exists()


def test_only_an_empty_folder_is_written_to(store, tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    (full / "letter").write_text("mine")
    with pytest.raises(InvalidInput, match="not empty"):
        backup.backup(store.folder, full)
    with pytest.raises(InvalidInput, match="is a file"):
        backup.backup(store.folder, full / "letter")
    with pytest.raises(InvalidInput, match="not a data folder"):
        backup.backup(full, tmp_path / "copy")
    assert [path.name for path in full.iterdir()] == ["letter"]


@pytest.fixture
def sealed(open_store, plan, batches, body_of, fresh):
    """A folder with ten reports that no collector uses."""
    store = open_store()
    store.registry.create(plan)
    submit(store, plan.digest, 0, fresh(), body_of(plan, batches[0]))
    store.seal()
    store.sketches.file(plan.digest, 0)
    store.close()
    return store.folder


@contextmanager
def no_file_beyond(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["there", "not/there"])
def test_a_disk_without_room_is_not_damage_and_the_backup_can_be_repeated(sealed, tmp_path, name):
    target = tmp_path / name
    (tmp_path / "there").mkdir()
    # SQLite keeps 32 KiB beside the source even to read it; the copy takes more.
    with no_file_beyond(36 << 10), pytest.raises(InvalidInput, match=f"{name} cannot be made"):
        backup.backup(sealed, target)
    assert not (tmp_path / "not").exists()
    assert list((tmp_path / "there").iterdir()) == []
    backup.backup(sealed, target)
    assert fsck.check(target).findings == []


def test_a_backup_that_fails_removes_only_what_it_made(sealed, tmp_path, monkeypatch):
    copy_file, copy = backup.copy_file, tmp_path / "copy"

    def fail(path, target):
        copy_file(path, target)
        (copy / "letter").write_text("somebody else's")
        raise Problem(problems.CANNOT_STORE, "no room")

    monkeypatch.setattr(backup, "copy_file", fail)
    with pytest.raises(InvalidInput, match=r"copy cannot be made \(no room\)"):
        backup.backup(sealed, copy)
    assert [path.name for path in copy.iterdir()] == ["letter"]


def test_a_source_that_cannot_be_read_is_not_told_of_the_copy(sealed, tmp_path, monkeypatch):
    class Torn(io.BytesIO):
        def read(self, *_):
            raise OSError(errno.EIO, "Input/output error")

    opened = Path.open
    torn = lambda path, *how: Torn() if path.suffix == ".parquet" else opened(path, *how)  # noqa: E731
    monkeypatch.setattr(Path, "open", torn)
    with pytest.raises(FolderDamaged, match=r"data/segments.*cannot be read: Input/output error"):
        backup.backup(sealed, tmp_path / "copy")


@pytest.fixture
def read_only(monkeypatch):
    """Return a function that makes a folder look read-only, which root is not stopped by."""
    access = os.access

    def freeze(folder):
        monkeypatch.setattr(
            os,
            "access",
            lambda path, mode: access(path, mode) and not Path(path).is_relative_to(folder),
        )

    return freeze


def test_a_folder_that_cannot_be_written_is_read_and_left_alone(sealed, tmp_path, plan, read_only):
    copy = tmp_path / "copy"
    backup.backup(sealed, copy)
    before = sorted(copy.rglob("*"))
    read_only(copy)
    assert fsck.check(copy).sealed == 10
    backup.restore(copy, tmp_path / "restored")
    assert export(copy, plan.digest.hex(), None, tmp_path / "out.fnt") == 10
    assert sorted(copy.rglob("*")) == before
    assert fsck.check(tmp_path / "restored").sealed == 10


def test_the_log_of_a_folder_that_cannot_be_written_is_read(
    store, tmp_path, plan, batches, body_of, fresh, read_only
):
    store.registry.create(plan)
    submit(store, plan.digest, 0, fresh(), body_of(plan, batches[0]))
    shutil.copytree(store.folder, tmp_path / "died")  # with what is only in the log yet
    read_only(tmp_path / "died")
    backup.restore(tmp_path / "died", tmp_path / "restored")
    assert fsck.check(tmp_path / "restored").pending == 10


def test_a_running_collector_is_seen_where_its_folder_cannot_be_written(store, read_only):
    read_only(store.folder)
    with pytest.raises(FolderInUse):
        fsck.check(store.folder)


def test_exports_hold_every_sealed_report(store, tmp_path, plan, batches, body_of, fresh):
    store.registry.create(plan, epochs=(0, 7))
    for number, batch in enumerate(batches[:3]):
        submit(store, plan.digest, 7 * (number % 2), fresh(), body_of(plan, batch))
        store.seal()
    submit(store, plan.digest, 0, fresh(), body_of(plan, batches[3]))  # not sealed: not exported
    assert export(store.folder, plan.digest.hex(), None, tmp_path / "all.fnt") == 30
    assert aggregate(plan, read_reports(plan, tmp_path / "all.fnt")) == aggregate(plan, batches[:3])
    assert export(store.folder, plan.digest.hex(), 7, tmp_path / "seven.fnt") == 10
    assert export(store.folder, plan.digest.hex(), None, tmp_path / "all.parquet") == 30
    for name in ("all.fnt", "all.parquet"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    table = pq.ParquetFile(tmp_path / "all.parquet").read()
    layout = mechanism_of(plan).layout
    expected = sorted(
        (7 * (number % 2), bytes(row))
        for number, batch in enumerate(batches[:3])
        for row in report_v1.pack(batch, layout)
    )
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == expected


def test_what_cannot_be_exported(store, tmp_path, plan, open_plan):
    store.registry.create(plan)
    store.registry.create(open_plan, retention="drop")
    target = tmp_path / "out.parquet"
    with pytest.raises(InvalidInput, match="no sealed reports"):
        export(store.folder, plan.digest.hex(), None, target)
    with pytest.raises(InvalidInput, match="drops its reports"):
        export(store.folder, open_plan.digest.hex(), None, target)
    with pytest.raises(InvalidInput, match="no collection"):
        export(store.folder, bytes(16).hex(), None, target)
    with pytest.raises(InvalidInput, match="not a data folder"):
        export(tmp_path, plan.digest.hex(), None, target)
    assert not target.exists()
