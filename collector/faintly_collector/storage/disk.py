"""Files of a data folder: private, complete, and on the disk before the manifest names them."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from faintly import durable
from faintly.durable import HashingWriter, Stored, measure_file
from faintly.errors import FolderDamaged, FolderInUse
from faintly.wire.problems import CANNOT_STORE, Problem

LOCK = "collector.lock"
# The modification time of every file, in the year 2000: a lone report is sealed within seconds,
# and the real time would reveal when it arrived.
MODIFIED_S = 946_684_800
RESTORE = "restore a backup into a new folder"


def damaged(place: Path | str, what: str, advice: str = RESTORE) -> FolderDamaged:
    """Return the error for a part of a folder that is not what it should be."""
    return FolderDamaged(f"{place}: {what}; {advice}", what, advice)


def write_file(path: Path, write: Callable[[HashingWriter], object]) -> Stored:
    """Create a file that `write` fills; returns once it is on the disk under its name."""
    try:
        return durable.write_file(path, write, MODIFIED_S)
    except OSError as error:
        reason = f"{path.name} cannot be written: {error.strerror}"
        raise Problem(CANNOT_STORE, reason) from error


def file_problem(path: Path, stored: Stored, *, quick: bool = False) -> str | None:
    """Return what is wrong with a file that the manifest names; `quick` checks only its size."""
    try:
        found = Stored(path.stat().st_size, stored.checksum) if quick else measure_file(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if found.size != stored.size:
        return f"it has {found.size} bytes instead of {stored.size}"
    return None if found == stored else "it was changed: its checksum differs"


@contextmanager
def _flocked(path: Path, kind: int, flags: int = os.O_RDONLY) -> Iterator[None]:
    """Hold a lock on a file or folder; it is also released when the process ends."""
    handle = os.open(path, flags, 0o600)
    try:
        fcntl.flock(handle, kind)
        yield
    finally:
        os.close(handle)


def copying(folder: Path) -> AbstractContextManager[None]:
    """Keep files that leave the manifest during a copy: the copy may still name them."""
    # Lock the folder itself: a lock file might belong to another user, such as root, who makes
    # backups, and the collector could not open it.
    return _flocked(folder, fcntl.LOCK_SH)


def discard(folder: Path, path: Path) -> bool:
    """Delete a file that has left the manifest, and return whether it is gone.

    It stays during a copy, or if deleting fails; the next start deletes unnamed files.
    """
    with suppress(OSError), _flocked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
        path.unlink(missing_ok=True)
        return True
    return False


@contextmanager
def locked(folder: Path, *, change: bool = True) -> Iterator[None]:
    """Lock the folder against other collectors; without `change` it may be read-only."""
    path, kind, flags = folder / LOCK, fcntl.LOCK_EX, os.O_RDWR | os.O_CREAT
    if not change and not os.access(folder, os.W_OK):
        # A collector may use the folder by another, writable mount; without a lock file, none does.
        path, kind, flags = path if path.exists() else folder, fcntl.LOCK_SH, os.O_RDONLY
    with ExitStack() as held:
        try:
            held.enter_context(_flocked(path, kind | fcntl.LOCK_NB, flags))
        except BlockingIOError:
            raise FolderInUse(
                f"{folder} is used by another collector; stop it first, or choose another folder"
            ) from None
        yield
