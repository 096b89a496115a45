"""Durable writes: when a call returns, the data is on the disk, not only in a cache.

A file is written under another name, synced and renamed: after a crash there is all of it or what
was there before. Syncing its folder then makes the new name durable, too.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

if sys.platform != "win32":
    import fcntl

PRIVATE = 0o600
BINARY = getattr(os, "O_BINARY", 0)  # Windows only


def sync(handle: int) -> None:
    """Return once the data of an open file or folder is on the disk."""
    if sys.platform == "darwin":
        # On macOS fsync leaves the data in the drive's own cache.
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    else:
        os.fsync(handle)


def sync_folder(folder: Path, sync_handle: Callable[[int], None] = sync) -> None:
    """Return once the names in a folder are on the disk; Windows needs no call for that."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        sync_handle(handle)
    finally:
        os.close(handle)


@contextmanager
def replacing(path: Path, part: Path, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """Yield a stream into `part`, which becomes `path` once all of it is on the disk.

    Args:
        path: the file to create or replace.
        part: a temporary name in the same folder. A file that a crash left there is overwritten;
            an error leaves none.
        mode: permissions of the file, less the umask.
    """
    try:
        part.unlink(missing_ok=True)
        # O_EXCL: never write through a link that somebody else made.
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, mode)
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            sync(stream.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
