"""A file is replaced as a whole, or not at all, and is on the disk when a call returns."""

import os
import stat

import pytest

from faintly import durable


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "file"
    made.write_bytes(b"before")
    return made


def test_the_new_file_takes_the_name_at_the_end(path):
    part = path.with_name("part")
    with durable.replacing(path, part) as stream:
        stream.write(b"after")
        stream.flush()
        assert path.read_bytes() == b"before"
        assert part.read_bytes() == b"after"
    assert path.read_bytes() == b"after"
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("fault", [OSError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(path, fault):
    def write_half():
        with durable.replacing(path, path.with_name("part")) as stream:
            stream.write(b"half")
            raise fault

    with pytest.raises(fault):
        write_half()
    assert path.read_bytes() == b"before"
    assert list(path.parent.iterdir()) == [path]


def test_the_leftover_of_a_crash_is_overwritten(path):
    part = path.with_name("part")
    part.write_bytes(b"a longer leftover")
    with durable.replacing(path, part) as stream:
        stream.write(b"after")
    assert path.read_bytes() == b"after"


def test_a_planted_link_is_not_followed(path):
    part, victim = path.with_name("part"), path.with_name("victim")
    victim.write_bytes(b"safe")
    part.symlink_to(victim)
    with durable.replacing(path, part) as stream:
        stream.write(b"after")
    assert victim.read_bytes() == b"safe"
    assert not path.is_symlink()


def test_the_umask_limits_the_mode(path):
    before = os.umask(0o027)
    try:
        with durable.replacing(path, path.with_name("part"), 0o666):
            pass
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.fixture
def steps(monkeypatch):
    """Return a list of what is synced, with the bytes that a file then has, and of renames."""
    seen, sync, rename = [], durable.sync, durable.rename

    def record_sync(handle):
        sync(handle)
        found = os.fstat(handle)
        seen.append("folder" if stat.S_ISDIR(found.st_mode) else found.st_size)

    monkeypatch.setattr(durable, "sync", record_sync)
    monkeypatch.setattr(durable, "rename", lambda *names: seen.append("rename") or rename(*names))
    return seen


def test_bytes_are_synced_before_the_name(path, steps):
    with durable.replacing(path, path.with_name("part")) as stream:
        stream.write(b"after")
    assert steps == [5, "rename"]
    steps.clear()
    durable.write_file(path, lambda stream: stream.write(b"at last"))
    assert steps == [7, "rename", "folder"]


def test_appended_bytes_are_synced(path, steps):
    durable.append(path, b" and after")
    assert steps == [16]
    assert path.read_bytes() == b"before and after"
    with pytest.raises(FileNotFoundError):
        durable.append(path.with_name("another"), b"")
