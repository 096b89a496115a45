"""fsck finds what is wrong, says what to do, and repairs only what loses nothing."""

import json
import shutil
import sqlite3
import sys
from contextlib import closing

import pytest
from typer.testing import CliRunner

from faintly.cli import app
from faintly.engine import Aggregator, aggregate
from faintly.engine.files import save_sketch
from faintly.errors import FolderInUse, InvalidInput
from faintly.wire import problems
from faintly.wire.problems import Problem
from faintly_collector.admin import fsck
from faintly_collector.storage import disk
from faintly_collector.storage.database import Database
from tests.collecting import sketch_of, submit


@pytest.fixture
def folder_of(open_store, plan, batches, body_of, fresh):
    def fill(retention="keep", sealed=True):
        store = open_store()
        store.registry.create(plan, retention=retention)
        for batch in batches:
            submit(store, plan.digest, 0, fresh(), body_of(plan, batch))
            if sealed:
                store.seal()
        if sealed:
            store.sketches.file(plan.digest, 0)
        else:
            store.sealer.seal = lambda _: 0
        store.close()
        return store.folder

    return fill


def change(path, position=-40):
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def only(folder, **options):
    (finding,) = fsck.check(folder, **options).findings
    return finding


@pytest.mark.parametrize("retention", ["keep", "drop"])
def test_a_sound_folder(folder_of, retention):
    folder = folder_of(retention)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    checked = fsck.check(folder)
    assert checked.sound
    assert (checked.collections, checked.sealed, checked.pending) == (1, 40, 0)
    assert checked.segments == (4 if retention == "keep" else 0)
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {name: after[name] for name in before if name.suffix != ".sqlite"} == {
        name: before[name] for name in before if name.suffix != ".sqlite"
    }


def test_a_changed_segment(folder_of):
    folder = folder_of()
    change(min(folder.glob("segments/*/*")))
    finding = only(folder, repair=True)
    assert finding.where.endswith("0-1.parquet")
    assert "checksum" in finding.what
    assert "restore" in finding.advice
    assert not fsck.check(folder).sound


def test_a_missing_segment(folder_of):
    folder = folder_of()
    min(folder.glob("segments/*/*")).unlink()
    assert "cannot be read" in only(folder).what


def test_a_stray_file_is_deleted_when_asked(folder_of):
    folder = folder_of()
    stray = folder / "segments" / "other.parquet"
    stray.write_bytes(b"x")
    assert "--repair" in only(folder).advice
    assert stray.exists()
    assert fsck.check(folder).sound, "nothing reads it, and the next start deletes it"
    assert only(folder).leftover
    assert only(folder, repair=True).repaired
    assert not stray.exists()
    assert fsck.check(folder).findings == []


@pytest.mark.parametrize("damage", ["changed", "missing", "other"])
def test_a_wrong_sketch_is_dropped_where_segments_are_kept(
    folder_of, open_store, plan, batches, damage
):
    folder = folder_of()
    (sketch,) = folder.glob("sketches/*/*")
    if damage == "changed":
        change(sketch)
    elif damage == "missing":
        sketch.unlink()
    else:
        # A sketch that is sound in itself and in the manifest, and yet of other reports.
        save_sketch(aggregate(plan, [batches[0]] * 3), sketch)
        stored = disk.measure_file(sketch)
        with sqlite3.connect(folder / "collector.sqlite") as connection:
            connection.execute(
                "UPDATE sketches SET bytes = ?, checksum = ?", (stored.size, stored.checksum)
            )
        connection.close()
    finding = only(folder)
    assert "--repair" in finding.advice
    assert not fsck.check(folder).sound, "answers may be wrong until it is repaired"
    if damage == "other":
        assert "not that of its segments" in finding.what
    assert fsck.check(folder, repair=True).sound
    assert fsck.check(folder).findings == []
    assert sketch_of(open_store(), plan.digest, 0) == aggregate(plan, batches)


def test_a_changed_sketch_is_damage_where_reports_are_dropped(folder_of):
    folder = folder_of("drop")
    (sketch,) = folder.glob("sketches/*/*")
    change(sketch)
    assert "restore" in only(folder, repair=True).advice
    assert sketch.exists()


def test_changed_pending_reports(folder_of):
    folder = folder_of(sealed=False)
    assert fsck.check(folder).pending == 40
    with sqlite3.connect(folder / "collector.sqlite") as connection:
        connection.execute("UPDATE inbox SET records = zeroblob(length(records)) WHERE id = 2")
    connection.close()
    assert "row 2" in only(folder).what


def test_a_damaged_database(folder_of):
    folder = folder_of()
    path = folder / "collector.sqlite"
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)  # every page but the first
    path.write_bytes(data)
    checked = fsck.check(folder)
    assert not checked.sound
    assert checked.findings[0].where == "collector.sqlite"


def said(folder, *options):
    done = CliRunner().invoke(app, ["fsck", str(folder), *options])
    return done.exit_code, done.stdout.splitlines()


def test_what_a_crash_left_over_is_told_as_sound(folder_of):
    folder = folder_of()
    (folder / "segments" / "0-9.parquet.part").write_bytes(b"x")
    counts = "1 collection, 40 sealed reports, 0 pending"
    status, lines = said(folder)
    assert status == 0
    assert lines == [
        f"segments/0-9.parquet.part: nothing names this file ({fsck.LEFTOVER})",
        f"{counts}: sound, with 1 leftover file",
    ]
    status, (line,) = said(folder, "--json")
    assert status == 0
    assert json.loads(line)["sound"]
    assert said(folder, "--repair")[1][-1] == f"{counts}: sound"
    min(folder.glob("segments/*/*")).unlink()
    assert said(folder)[0] == 1


def spoil_page(folder):
    path = folder / "collector.sqlite"
    path.write_bytes(b"x" * path.stat().st_size)


def spoil_version(folder):
    with closing(sqlite3.connect(folder / "collector.sqlite")) as connection:
        connection.execute("PRAGMA user_version = 99")


RESTORE = "(restore a backup into a new folder)"


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (
            spoil_page,
            f"collector.sqlite: cannot be read (file is not a database) {RESTORE}",
        ),
        (
            spoil_version,
            "has version 99, and this program knows 3 (use the program that wrote it)",
        ),
        (
            lambda folder: change(min(folder.glob("segments/*/*"))),
            f"/0-1.parquet: it was changed: its checksum differs {RESTORE}",
        ),
        (
            lambda folder: min(folder.glob("segments/*/*")).unlink(),
            f"/0-1.parquet: cannot be read: No such file or directory {RESTORE}",
        ),
    ],
)
def test_a_finding_is_told_with_its_place_and_advice_once(folder_of, spoil, line):
    folder = folder_of()
    spoil(folder)
    status, lines = said(folder)
    assert status == 1
    assert lines[0].endswith(line)
    assert str(folder) not in lines[0]


def test_a_disk_that_fails_is_not_a_finding(folder_of, monkeypatch):
    folder = folder_of()

    def fail(*_):
        raise Problem(problems.CANNOT_STORE, "no room")

    monkeypatch.setattr(Database, "rows", fail)
    with pytest.raises(InvalidInput, match="data: no room"):
        fsck.check(folder)


def test_reports_too_many_for_memory_need_no_folder_of_their_own(
    open_store, direct_plan, batches_of, body_of, fresh, monkeypatch
):
    """A backup has none, and may be on read-only media."""
    store = open_store()
    store.registry.create(direct_plan)
    for batch in batches_of(direct_plan, 30, 10):
        submit(store, direct_plan.digest, 0, fresh(), body_of(direct_plan, batch))
        store.seal()
    store.close()
    shutil.rmtree(store.folder / "spool")
    monkeypatch.setattr(sys.modules[Aggregator.__module__], "KEPT", 10)
    assert fsck.check(store.folder).findings == []


def test_not_a_folder_or_in_use(tmp_path, store):
    with pytest.raises(InvalidInput, match="not a data folder"):
        fsck.check(tmp_path)
    assert not (tmp_path / "collector.sqlite").exists()
    with pytest.raises(FolderInUse):
        fsck.check(store.folder)
