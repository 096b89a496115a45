"""Files of a data folder: private, complete, and on the disk before the manifest names them."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from faintly import durable
from faintly.collector import problems
from faintly.collector.problems import Problem
from faintly.durable import HashingWriter, Stored, measure
from faintly.errors import FolderInUse

LOCK = "collector.lock"
# The modification time of every file, in the year 2000: a lone report is sealed within seconds,
# and the real time would reveal when it arrived.
CHANGED_S = 946_684_800


def write_file(path: Path, write: Callable[[HashingWriter], object]) -> Stored:
    """Create a file that `write` fills; returns once it is on the disk under its name."""
    try:
        return durable.write_file(path, write, CHANGED_S)
    except OSError as error:
        reason = f"{path.name} cannot be written: {error.strerror}"
        raise Problem(problems.CANNOT_STORE, reason) from error


def file_problem(path: Path, stored: Stored) -> str | None:
    """Return what is wrong with a file that the manifest names, or None."""
    try:
        found = measure(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if found.size != stored.size:
        return f"it has {found.size} bytes instead of {stored.size}"
    return None if found == stored else "it was changed: its checksum differs"


@contextmanager
def copying(folder: Path) -> Iterator[None]:
    """Keep files that leave the manifest meanwhile: a copy may still name them."""
    # Lock the folder itself: a lock file might belong to another user, such as the root who makes
    # backups, and the collector could not open it.
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def discard(folder: Path, path: Path) -> bool:
    """Delete a file that has left the manifest, and return whether it is gone.

    It stays during a copy, and where deleting fails: the commit stands, and the next start
    deletes unnamed files.
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
    """Keep other collectors out meanwhile; without `change` the folder may be read-only."""
    if change or os.access(folder, os.W_OK):
        handle = lock_folder(folder)
    elif (folder / LOCK).exists():
        # A collector may use the same folder through another mount, where it is writable.
        handle = lock_folder(folder, os.O_RDONLY, fcntl.LOCK_SH)
    else:
        handle = os.open(folder, os.O_RDONLY)  # no lock file, so no collector uses it
    try:
        yield
    finally:
        os.close(handle)


def lock_folder(
    folder: Path, flags: int = os.O_RDWR | os.O_CREAT, kind: int = fcntl.LOCK_EX
) -> int:
    """Return a handle that keeps other collectors out until it is closed or the process dies."""
    handle = os.open(folder / LOCK, flags, 0o600)
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise FolderInUse(
            f"{folder} is used by another collector; stop it first, or choose another folder"
        ) from None
    return handle
