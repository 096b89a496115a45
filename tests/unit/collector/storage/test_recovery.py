"""What a crash or a failing disk leaves behind, and what a start makes of it."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import textwrap
from concurrent.futures import Future
from pathlib import Path

import pytest

from faintly.engine import aggregate
from faintly.errors import FolderDamaged
from faintly_collector.admin import fsck
from faintly_collector.storage.collection import status_of
from faintly_collector.storage.database import COUNT_FILE
from faintly_collector.storage.manifest import NEWER
from faintly_collector.storage.store import Store
from tests.collecting import sketch_of, submit, wait_for

CRASH = Path(__file__).with_name("crash_points.py")


@pytest.fixture
def filled(open_store, plan, batches, body_of, fresh):
    """Return a maker of a closed store's folder, with two segments."""

    def fill(retention="keep"):
        store = open_store()
        store.registry.create(plan, retention=retention)
        for number, batch in enumerate(batches):
            submit(store, plan.digest, 0, fresh(), body_of(plan, batch))
            if number == 1:
                store.seal()
        store.seal()
        store.sketches.file(plan.digest, 0)
        store.close()
        return store.folder

    return fill


def run(program, *arguments):
    """Run a program that uses a store, and return what it did."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )


def test_a_crash_at_any_step_loses_nothing_and_counts_nothing_twice(tmp_path):
    done = subprocess.run(
        [sys.executable, CRASH, tmp_path],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = dict(line.split() for line in done.stdout.splitlines())
    # Two commits, a file, a manifest, a snapshot, and for a merge a file, a manifest and two
    # files to delete: fewer steps would mean that the hooks are blind.
    assert int(steps["keep"]) >= 30
    assert int(steps["drop"]) >= 15


SUBMIT = """
import os, sys
from pathlib import Path
from faintly_collector.storage.store import StoreLimits, Store
from faintly.core import Plan
from tests.collecting import submit
store = Store.open(Path(sys.argv[1]), StoreLimits(seal_s=1e9))
plan = Plan.from_json(Path(sys.argv[2]).read_text())
body = Path(sys.argv[3]).read_bytes()
store.registry.create(plan)
for number in range(5):
    submit(store, plan.digest, 0, bytes([number]) * 16, body)
os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def _killed(tmp_path_factory, plan, batches_of, body_of):
    place = tmp_path_factory.mktemp("killed")
    (place / "plan").write_text(plan.to_json())
    (place / "body").write_bytes(body_of(plan, batches_of(plan, 40, 10)[0]))
    done = run(SUBMIT, place / "data", place / "plan", place / "body")
    assert done.returncode == -signal.SIGKILL, done.stderr
    return place / "data"


@pytest.fixture
def killed(_killed, tmp_path):
    """Return a folder whose store died with five bodies in the log and none in the file."""
    return Path(shutil.copytree(_killed, tmp_path / "data"))


def test_what_was_acknowledged_survives_a_kill(killed, open_store, plan, batches, body_of):
    store = open_store()
    assert status_of(store.registry.collection(plan.digest)).pending == 50
    body = body_of(plan, batches[0])
    assert submit(store, plan.digest, 0, bytes(16), body) == "replayed"
    store.seal()
    assert sketch_of(store, plan.digest, 0) == aggregate(plan, batches[:1] * 5)


@pytest.mark.parametrize("cut", [1, 100, 4000, 9000])
def test_a_torn_log_loses_only_its_end(killed, open_store, plan, batches, body_of, cut):
    """A page that was never completed was never acknowledged, except here, where a test cut it."""
    log = killed / "collector.sqlite-wal"
    os.truncate(log, log.stat().st_size - cut)
    with log.open("ab") as stream:
        stream.write(b"\xa5" * 50)
    with pytest.raises(FolderDamaged, match="acknowledged requests are missing"):
        open_store()
    (killed / COUNT_FILE).unlink()
    store = open_store()
    pending = status_of(store.registry.collection(plan.digest)).pending
    assert pending in {0, 10, 20, 30, 40}
    body = body_of(plan, batches[0])
    answers = [submit(store, plan.digest, 0, bytes([number]) * 16, body) for number in range(5)]
    assert answers == ["replayed"] * (pending // 10) + ["counted"] * (5 - pending // 10)
    store.seal()
    assert sketch_of(store, plan.digest, 0) == aggregate(plan, batches[:1] * 5)
    store.close()
    assert fsck.check(killed).findings == []


def damage(log):
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)


@pytest.mark.parametrize("spoil", [Path.unlink, damage])
def test_a_log_that_is_lost_after_a_kill_is_noticed(killed, open_store, plan, spoil):
    log = killed / "collector.sqlite-wal"
    whole = log.read_bytes()
    spoil(log)
    (finding,) = fsck.check(killed).findings
    assert finding.where == "collector.sqlite"
    assert finding.what.startswith("acknowledged requests are missing (")
    assert "collector.sqlite-wal back" in finding.advice
    assert not finding.harmless
    with pytest.raises(FolderDamaged, match=r"delete collector\.count"):
        open_store()
    log.write_bytes(whole)
    assert fsck.check(killed).findings == []
    assert status_of(open_store().registry.collection(plan.digest)).pending == 50


def test_the_count_of_requests_lags_behind_the_database_but_never_leads(
    killed, open_store, plan, batches, body_of
):
    count = killed / COUNT_FILE
    assert int(count.read_bytes()) == 5
    count.write_bytes(b"%020d\n" % 3)  # as after a power failure
    store = open_store()
    assert int(count.read_bytes()) == 5
    body = body_of(plan, batches[0])
    assert submit(store, plan.digest, 0, bytes(16), body) == "replayed"
    assert int(count.read_bytes()) == 5
    submit(store, plan.digest, 0, b"another request.", body)
    assert int(count.read_bytes()) == 6
    store.delete(plan.digest)
    store.close()
    assert fsck.check(killed).findings == []


def test_files_without_a_name_are_deleted(filled, open_store, plan, batches):
    folder = filled()
    (segment, *_) = sorted(folder.glob("segments/*/*.parquet"))
    stray = [
        segment.with_name("0-3.parquet"),
        segment.with_name("0-3.parquet.part"),
        folder / "sketches" / "0-1.fns",
        folder / "spool" / "leftover",
    ]
    for path in stray:
        path.write_bytes(segment.read_bytes()[:100])
    left = folder / "segments" / "of-a-collection-that-was-deleted"
    left.mkdir()
    store = open_store()
    assert not [path for path in stray if path.exists()]
    assert not left.exists()
    assert sketch_of(store, plan.digest, 0) == aggregate(plan, batches)


def seal_more(open_store, plan, batches, body_of, fresh, epoch):
    store = open_store()
    store.registry.create(plan)
    store.registry.open_epoch(plan.digest, epoch)
    for batch in batches[:2]:
        submit(store, plan.digest, epoch, fresh(), body_of(plan, batch))
        store.seal()
    store.close()


@pytest.mark.parametrize("what", ["segments", "an epoch", "a collection"])
def test_files_that_the_database_cannot_know_yet_stop_the_start(
    filled, open_store, plan, open_plan, batches, batches_of, body_of, fresh, what
):
    """An old copy of the database was put back: what it does not name is nowhere else."""
    folder = filled()
    database = folder / "collector.sqlite"
    old = database.read_bytes()
    owner = open_plan if what == "a collection" else plan
    more = batches_of(owner, 20, 10)
    seal_more(open_store, owner, more, body_of, fresh, epoch=int(what == "an epoch"))
    new, files = database.read_bytes(), sorted(folder.glob("*/*/*"))
    database.write_bytes(old)
    with pytest.raises(FolderDamaged, match="older than this file; put the database back"):
        open_store()
    for repair in (False, True):
        checked = fsck.check(folder, repair=repair)
        assert not checked.sound
        newer = [found for found in checked.findings if found.what == NEWER]
        assert newer
        assert not any(found.harmless for found in newer)
    assert [path for path in files if path.suffix == ".parquet" and not path.exists()] == []
    database.write_bytes(new)
    assert status_of(open_store().registry.collection(owner.digest)).reports >= 20


def test_a_missing_or_short_segment_stops_the_start(filled, open_store):
    folder = filled()
    segment = min(folder.glob("segments/*/*.parquet"))
    kept = segment.read_bytes()
    segment.write_bytes(kept[:-1])
    with pytest.raises(FolderDamaged, match=r"0-1\.parquet: it has .* bytes instead of .*fsck"):
        open_store()
    segment.unlink()
    with pytest.raises(FolderDamaged, match=r"0-1\.parquet: cannot be read: No such file"):
        open_store()
    segment.write_bytes(kept)
    open_store()  # the refusals have left the folder as it was, and unlocked


def test_a_changed_segment_is_not_counted(filled, open_store, plan):
    folder = filled()
    for sketch in folder.glob("sketches/*/*"):
        sketch.unlink()
    segment = min(folder.glob("segments/*/*.parquet"))
    data = bytearray(segment.read_bytes())
    data[60] ^= 1
    segment.write_bytes(data)
    store = open_store()
    with pytest.raises(FolderDamaged, match="checksum differs"):
        sketch_of(store, plan.digest, 0)


@pytest.mark.parametrize("damage", ["missing", "short", "changed"])
def test_a_sketch_is_rebuilt_where_segments_are_kept(filled, open_store, plan, batches, damage):
    _damage_sketch(filled(), damage)
    store = open_store()
    assert sketch_of(store, plan.digest, 0) == aggregate(plan, batches)
    store.close()
    assert sketch_of(open_store(), plan.digest, 0) == aggregate(plan, batches)


@pytest.mark.parametrize("damage", ["missing", "short", "changed"])
def test_a_sketch_is_needed_where_reports_are_dropped(filled, open_store, plan, damage):
    _damage_sketch(filled("drop"), damage)
    with pytest.raises(FolderDamaged, match=r"\.fns"):  # at once, or when it is read
        sketch_of(open_store(), plan.digest, 0)


def _damage_sketch(folder, damage):
    (sketch,) = folder.glob("sketches/*/*.fns")
    data = bytearray(sketch.read_bytes())
    if damage == "missing":
        sketch.unlink()
    elif damage == "short":
        sketch.write_bytes(data[:-5])
    else:
        data[-30] ^= 1
        sketch.write_bytes(data)


def test_a_damaged_database_stops_the_start(filled, open_store):
    folder = filled()
    (folder / "collector.sqlite").write_bytes(b"not a database, but long enough to be one" * 100)
    with pytest.raises(FolderDamaged, match=r"collector\.sqlite: cannot be read"):
        open_store()


@pytest.mark.parametrize("version", [1, 99])
def test_a_folder_of_another_version_is_left_alone(filled, open_store, version):
    import sqlite3

    folder = filled()
    with sqlite3.connect(folder / "collector.sqlite") as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    with pytest.raises(FolderDamaged, match=f"version {version}, and this program knows"):
        open_store()


def test_changed_pending_reports_are_not_sealed(store, plan, batches, body_of, fresh):
    store.registry.create(plan)
    submit(store, plan.digest, 0, fresh(), body_of(plan, batches[0]))
    with store.database.transaction() as connection:
        connection.execute("UPDATE inbox SET records = zeroblob(length(records))")
    with pytest.raises(FolderDamaged, match="changed on the disk"):
        store.seal()
    assert status_of(store.registry.collection(plan.digest)).pending == 10


FULL = """
import os, resource, signal, sys
from pathlib import Path
from faintly_collector.admin import fsck
from faintly.wire.problems import Problem
from faintly_collector.storage.collection import status_of
from faintly_collector.storage.store import StoreLimits, Store
from faintly.core import Plan
from faintly.engine import aggregate, decode
from tests.collecting import sketch_of, submit
import pyarrow.parquet

folder, plan = Path(sys.argv[1]), Plan.from_json(Path(sys.argv[2]).read_text())
body = Path(sys.argv[3]).read_bytes()
make_full, make_room = {
    "limit": (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, -1)),
              lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))),
    "disk": (lambda: None, lambda: (folder.parent / "ballast").unlink()),
}[sys.argv[4]]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store.open(folder, StoreLimits(seal_s=1e9))
store.registry.create(plan)
make_full()
counted, refused = [], []
for number in range(400):
    request = number.to_bytes(16, "little")
    try:
        submit(store, plan.digest, 0, request, body)
        counted.append(request)
    except Problem as problem:
        assert problem.kind.code == "CANNOT_STORE", problem.kind.code
        refused.append(request)
        if len(refused) == 5:
            break
assert counted and len(refused) == 5, (len(counted), len(refused))
reports = len(decode(plan, body))
assert status_of(store.registry.collection(plan.digest)).pending == reports * len(counted)
try:
    store.seal()
except Exception as error:
    print("seal failed:", type(error).__name__)
status = status_of(store.registry.collection(plan.digest))
assert status.pending + status.reports == reports * len(counted), status
make_room()
for request in refused:
    assert submit(store, plan.digest, 0, request, body) == "counted"
assert submit(store, plan.digest, 0, counted[0], body) == "replayed"
store.seal()
everything = aggregate(plan, [decode(plan, body)] * (len(counted) + 5))
assert sketch_of(store, plan.digest, 0) == everything
store.close()
store = Store.open(folder)
assert sketch_of(store, plan.digest, 0) == everything
store.close()
assert fsck.check(folder).findings == []
print("survived", len(counted))
"""


def fill_up(tmp_path, folder, plan, body, how):
    (tmp_path / "plan").write_text(plan.to_json())
    (tmp_path / "body").write_bytes(body)
    done = run(FULL, folder, tmp_path / "plan", tmp_path / "body", how)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "survived" in done.stdout
    return done.stdout


def test_files_that_cannot_grow_refuse_and_go_on(tmp_path, plan, batches_of, body_of):
    body = body_of(plan, batches_of(plan, 1000, 1000)[0])
    fill_up(tmp_path, tmp_path / "data", plan, body, "limit")


def test_a_full_disk_refuses_and_goes_on(tmp_path, plan, batches_of, body_of):
    disk = tmp_path / "disk"
    disk.mkdir()
    command = shutil.which("mount")
    if (
        command is None
        or subprocess.run(
            [command, "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk],
            check=False,
            capture_output=True,
        ).returncode
    ):
        pytest.skip("cannot mount a small disk here; another test limits the size of files")
    try:
        (disk / "ballast").write_bytes(bytes(3 << 20))
        body = body_of(plan, batches_of(plan, 5000, 5000)[0])
        told = fill_up(tmp_path, disk / "data", plan, body, "disk")
        assert "seal failed" in told
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_sender_that_is_gone_does_not_stop_the_inbox(store, plan, batches, body_of, fresh):
    store.registry.create(plan)
    loop = asyncio.new_event_loop()
    ended, cancelled = loop.create_future(), Future()
    loop.close()
    cancelled.cancel()
    for waiter in (ended, cancelled):
        store.take(plan.digest, 0, fresh(), body_of(plan, batches[0]), waiter=waiter)
    assert submit(store, plan.digest, 0, fresh(), body_of(plan, batches[1])) == "counted"
    assert store.counters.submissions == 3


def test_the_sealer_tries_again(open_store, plan, batches, body_of, fresh, monkeypatch):
    from faintly_collector.storage import maintenance, segments
    from faintly_collector.storage.store import StoreLimits

    monkeypatch.setattr(maintenance, "RETRY_S", 0.01)
    failures, write = [], segments.write

    def failing(*arguments):
        if len(failures) < 2:
            failures.append(1)
            raise OSError(28, "No space left on device")
        return write(*arguments)

    monkeypatch.setattr(segments, "write", failing)
    store = open_store(limits=StoreLimits(seal_s=0.0))
    store.registry.create(plan)
    submit(store, plan.digest, 0, fresh(), body_of(plan, batches[0]))
    collection = store.registry.collection(plan.digest)
    wait_for(lambda: status_of(collection).reports >= 10)
    assert store.counters.failed_seals == 2
    assert sketch_of(store, plan.digest, 0) == aggregate(plan, batches[:1])


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no list of open files here")
def test_a_failed_start_leaves_nothing_open(tmp_path):
    folder = tmp_path / "data"
    Store.open(folder).close()
    (folder / "collector.sqlite").write_bytes(b"x" * 5000)
    for _ in range(3):
        with pytest.raises(FolderDamaged):
            Store.open(folder)
    opened = [path.resolve() for path in Path("/proc/self/fd").iterdir()]
    assert not [path for path in opened if path.is_relative_to(folder.resolve())]


def test_a_folder_that_an_earlier_program_wrote_is_opened(tmp_path, open_store, batches_of):
    """Its collections keep, keep for direct decoding, and drop; one batch of ten is pending."""
    folder = tmp_path / "data"
    with tarfile.open(Path(__file__).with_name("folder_v3.tar.xz")) as archive:
        archive.extractall(folder, filter="data")
    checked = fsck.check(folder)
    assert checked.findings == []
    assert (checked.collections, checked.sealed, checked.pending) == (3, 90, 10)
    store = open_store()
    assert store.credentials.labels() == [("dashboard", "read")]
    plans = [each.plan for each in store.registry.collections.values()]
    for plan in plans:
        batches = batches_of(plan, 40, 10)
        assert sketch_of(store, plan.digest, 0) == aggregate(plan, batches[:3])
    store.seal()
    assert sketch_of(store, plans[0].digest, 1) == aggregate(
        plans[0], batches_of(plans[0], 40, 10)[3:]
    )
    assert [len(store.manifest.segments(plan.digest)) for plan in plans] == [2, 3, 0]
