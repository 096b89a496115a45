"""The files of a ledger: read, append, replace, lock. A write returns once it is durable."""

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faintly import durable

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_POLL_S = 0.005  # between attempts to lock; a report takes a few milliseconds


class Disk:
    """Files of one folder; tests substitute a disk that crashes or is full."""

    def read(self, path: Path) -> bytes | None:
        """Return the bytes of a file, or None where there is none.

        A file with two names is an error: replacing one of them would leave two files.
        """
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_nlink > 1:
                    raise OSError(errno.EMLINK, "it has a second name; remove that hard link")
                return file.read()
        except FileNotFoundError:
            return None

    def append(self, path: Path, data: bytes) -> None:
        """Add bytes to a file; returns once they are on the disk."""
        durable.append(path, data)

    def replace(self, path: Path, data: bytes) -> None:
        """Make a file hold `data`: all of it or, after a crash, what was there before."""
        durable.write_file(path, lambda stream: stream.write(data))

    def remove(self, path: Path) -> None:
        """Delete a file, if it is there."""
        path.unlink(missing_ok=True)
        self.sync_folder(path.parent)

    def sync_folder(self, folder: Path) -> None:
        """Return once the names in a folder are on the disk."""
        durable.sync_folder(folder)

    @contextmanager
    def lock(self, path: Path, wait_s: float) -> Iterator[None]:
        """Hold the lock file `path`; raises `TimeoutError` if another process holds it too long.

        The system releases it when a process dies, so a crash leaves no ledger locked. The
        lock has a file of its own, because the ledger's file gets replaced.
        """
        handle = os.open(path, os.O_RDWR | os.O_CREAT | durable.BINARY, durable.PRIVATE)
        try:
            give_up = time.monotonic() + wait_s
            while not _try_lock(handle):
                if time.monotonic() >= give_up:
                    raise TimeoutError(f"still locked after {wait_s:g} s")
                time.sleep(_POLL_S)
            try:
                yield
            finally:
                _unlock(handle)
        finally:
            os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            # flock, not lockf, which would let two ledgers of one process in.
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _unlock(handle: int) -> None:
    if sys.platform == "win32":
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(handle, fcntl.LOCK_UN)
