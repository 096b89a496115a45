"""A disk that is full or read-only is told as such, and never as damage to what is sound."""

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks import samples
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1
from faintly_collector.storage.store import Store, StoreLimits
from tests.collecting import submit

PLAN = samples.one_cell_plan(1000, 64)
DIGEST = PLAN.digest.hex()


@pytest.fixture
def data(tmp_path) -> Path:
    """A folder with sealed reports that no collector uses."""
    with Store.open(tmp_path / "data") as store:
        store.registry.create(PLAN)
        send(store, request=1)
    return tmp_path / "data"


def send(store: Store, request: int) -> None:
    (batch,) = samples.batches(PLAN, 10, 10)
    body = report_v1.encode_batch(batch, mechanism_of(PLAN).layout)
    submit(store, PLAN.digest, 0, bytes([request]) * 16, body)


def remount(place: Path, how: str) -> None:
    command = ["mount", "-o", f"remount,{how}", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a disk can be mounted here, but not made read-only")


def test_a_backup_to_a_full_disk_can_be_made_again(data, small_disk, faintly):
    filler = small_disk / "filler"
    # Less than the database takes is left.
    filler.write_bytes(bytes(shutil.disk_usage(small_disk).free - (40 << 10)))
    for folder in (small_disk / "copy", small_disk / "new" / "copy"):
        told = faintly("backup", data, folder, status=1).err
        assert "InvalidInput: the copy in" in told
        assert str(folder) in told
        assert "fsck" not in told
        assert [path.name for path in small_disk.iterdir()] == ["filler"]
    filler.unlink()
    faintly("backup", data, small_disk / "copy")
    assert faintly("fsck", small_disk / "copy", "--json").json["sealed"] == 10


@pytest.mark.long
def test_a_backup_on_read_only_media(data, small_disk, tmp_path, faintly):
    copy = small_disk / "copy"
    faintly("backup", data, copy)
    remount(small_disk, "ro")
    assert faintly("fsck", copy, "--json").json["sealed"] == 10
    assert faintly("restore", copy, tmp_path / "new", "--json").json["bytes"]
    assert faintly("fsck", tmp_path / "new", "--json").json["sealed"] == 10
    faintly("backup", copy, tmp_path / "again")
    assert "10 reports" in faintly("export", copy, "--digest", DIGEST, "-o", "out.fnt").out
    assert faintly("credential", "list", "--data", copy, "--json").json == {"credentials": []}
    writing = (
        ("backup", data, small_disk / "more"),
        ("fsck", copy, "--repair"),
        ("serve", "--data", copy),
        ("credential", "add", "me", "--data", copy, "--role", "read"),
    )
    for command in writing:
        told = faintly(*command, status=1).err
        assert "read-only" in told.lower() or "readonly" in told
        assert "restore" not in told


def test_a_log_on_read_only_media_is_read_or_refused(data, small_disk, tmp_path, faintly):
    """What a collector acknowledged before it died may be in the log alone."""
    with Store.open(data, StoreLimits(seal_s=3600)) as store:
        send(store, request=2)
        shutil.copytree(data, small_disk / "died")
        shutil.copytree(data, small_disk / "torn")
    (small_disk / "torn" / "collector.sqlite-shm").unlink()
    remount(small_disk, "ro")
    assert faintly("fsck", small_disk / "died", "--json").json["pending"] == 10
    faintly("restore", small_disk / "died", tmp_path / "new")
    assert faintly("fsck", tmp_path / "new", "--json").json["pending"] == 10
    torn = small_disk / "torn"
    for command in (("fsck", torn), ("restore", torn, tmp_path / "none")):
        assert "copy its folder to a writable place" in faintly(*command, status=1).err
    assert not (tmp_path / "none").exists()
