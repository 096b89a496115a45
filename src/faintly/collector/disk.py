"""Files of a data folder: private, complete, and on the disk before anything names them."""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from faintly.collector import problems
from faintly.collector.problems import Problem
from faintly.errors import FolderInUse

LOCK = "collector.lock"
PART = ".part"  # what a file is called until it is complete
PIECE = 1 << 20  # bytes read at a time
CHECKSUM_BYTES = 16
# When every file says that it was changed, the year 2000: a lone report is sealed within seconds,
# and the time of its file would be its own.
CHANGED_S = 946_684_800


@dataclass(frozen=True, slots=True)
class Stored:
    """What a manifest keeps about a file."""

    size: int
    checksum: bytes


class Hashing:
    """A stream for writing that remembers how much passed, and its checksum."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._hash = stream, hashlib.blake2b(digest_size=CHECKSUM_BYTES)
        self._bytes = 0

    def write(self, data: bytes | memoryview) -> int:
        """Write all of it."""
        self._stream.write(data)
        self._hash.update(data)
        self._bytes += len(data)
        return len(data)

    @property
    def stored(self) -> Stored:
        """Return what was written so far."""
        return Stored(self._bytes, self._hash.digest())


def make_folder(path: Path) -> None:
    """Make a folder that only its owner may look into, and its name durable."""
    if not path.is_dir():
        make_folder(path.parent)  # mkdir would let others look into the parents it makes
        path.mkdir(mode=0o700)
        sync_folder(path.parent)


def write_file(path: Path, write: Callable[[Hashing], object]) -> Stored:
    """Create a file by a function that writes it; returns once it is on the disk under its name."""
    part = path.with_name(path.name + PART)
    try:
        make_folder(path.parent)
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as stream:
            hashing = Hashing(stream)
            write(hashing)
            stream.flush()
            os.utime(stream.fileno(), (CHANGED_S, CHANGED_S))
            os.fsync(stream.fileno())
        part.rename(path)
        sync_folder(path.parent)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = f"{path.name} cannot be written: {error.strerror}"
            raise Problem(problems.CANNOT_STORE, reason) from error
        raise
    return hashing.stored


def look(path: Path) -> Stored:
    """Return the size and checksum that a file has now."""
    digest, size = hashlib.blake2b(digest_size=CHECKSUM_BYTES), 0
    with path.open("rb") as stream:
        while piece := stream.read(PIECE):
            digest.update(piece)
            size += len(piece)
    return Stored(size, digest.digest())


def file_problem(path: Path, stored: Stored) -> str | None:
    """Return what is wrong with a file that the manifest names, or None."""
    try:
        found = look(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if found.size != stored.size:
        return f"it has {found.size} bytes instead of {stored.size}"
    return None if found == stored else "it was changed: its checksum differs"


def sync_folder(folder: Path) -> None:
    """Return once the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def copying(folder: Path) -> Iterator[None]:
    """Keep files that the manifest forgets meanwhile, for a copy may still name them."""
    # The folder itself is locked: a file made for this might belong to another user, such as the
    # root who makes backups, and the collector could not open it.
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def discard(folder: Path, path: Path) -> bool:
    """Delete a file that the manifest has forgotten, or leave it; return whether it is gone.

    It is left during a copy, and where it cannot be deleted: what was committed stays committed,
    and the next start deletes what nothing names.
    """
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        finally:
            os.close(handle)
        return True
    return False


@contextmanager
def locked(folder: Path, *, change: bool) -> Iterator[None]:
    """Keep other collectors out meanwhile; a folder that is only read need not be writable."""
    if change or os.access(folder, os.W_OK):
        handle = lock_folder(folder)
    elif (folder / LOCK).exists():
        # A collector may use the same folder by another way, on which it is writable.
        handle = _lock(folder, os.O_RDONLY, fcntl.LOCK_SH)
    else:
        handle = os.open(folder, os.O_RDONLY)  # every collector has a lock
    try:
        yield
    finally:
        os.close(handle)


def lock_folder(folder: Path) -> int:
    """Return a handle that keeps other collectors out until it is closed, by death as well."""
    return _lock(folder, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX)


def _lock(folder: Path, flags: int, kind: int) -> int:
    handle = os.open(folder / LOCK, flags, 0o600)
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise FolderInUse(
            f"{folder} is used by another collector; stop it first, or choose another folder"
        ) from None
    return handle
