"""Durable writes: when a call returns, the data is on the disk, not only in a cache.

A file is written under another name, synced and renamed: after a crash it is either complete or as
it was before. Syncing its folder then makes the new name durable, too. A checksum shows later
whether the file has changed. Every step is `open_file`, `sync` or `rename`, so that a test can make
each of them fail.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

if sys.platform != "win32":
    import fcntl

PRIVATE = 0o600
BINARY = getattr(os, "O_BINARY", 0)  # Windows only
PART = ".part"  # suffix of a file that is not complete
CHECKSUM_BYTES = 16


def sync(handle: int) -> None:
    """Return once the data of an open file or folder is on the disk."""
    if sys.platform == "darwin":
        # On macOS fsync leaves the data in the drive's own cache.
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    else:
        os.fsync(handle)


def open_file(path: Path, flags: int, mode: int = PRIVATE) -> BinaryIO:
    """Return a stream that writes to a file, opened with these flags."""
    return os.fdopen(os.open(path, os.O_WRONLY | flags | BINARY, mode), "wb")


def rename(part: Path, path: Path) -> None:
    """Rename a complete file to `path`, replacing any file there."""
    part.replace(path)


def sync_folder(folder: Path) -> None:
    """Return once the names in a folder are on the disk; Windows needs no call for that."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        sync(handle)
    finally:
        os.close(handle)


@contextmanager
def _written(path: Path, flags: int, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """Yield a stream to a file, and sync what was written."""
    with open_file(path, flags, mode) as stream:
        yield stream
        stream.flush()
        sync(stream.fileno())


def append(path: Path, data: bytes) -> None:
    """Add bytes to a file that exists; returns once they are on the disk."""
    with _written(path, os.O_APPEND) as stream:
        stream.write(data)


@contextmanager
def replacing(path: Path, part: Path, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """Yield a stream into `part`, which becomes `path` once all of it is on the disk.

    Args:
        path: the file to create or replace.
        part: a temporary name in the same folder. A file that a crash left there is replaced; an
            error leaves none.
        mode: permissions of the file, less the umask.
    """
    try:
        part.unlink(missing_ok=True)
        # O_EXCL: never write through a link that somebody else made.
        with _written(part, os.O_CREAT | os.O_EXCL, mode) as stream:
            yield stream
        rename(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True)
class Stored:
    """Size and checksum of a file."""

    size: int
    checksum: bytes


class HashingWriter:
    """A stream for writing that computes size and checksum."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._hash = stream, hashlib.blake2b(digest_size=CHECKSUM_BYTES)
        self._bytes = 0

    def write(self, data: bytes | memoryview) -> int:
        """Write all of `data`."""
        self._stream.write(data)
        self._hash.update(data)
        self._bytes += len(data)
        return len(data)

    @property
    def stored(self) -> Stored:
        """Return size and checksum of the bytes written so far."""
        return Stored(self._bytes, self._hash.digest())


def make_folder(path: Path) -> None:
    """Create a folder that only its owner may read, and its parents, durably."""
    if not path.is_dir():
        make_folder(path.parent)  # mkdir would give the parents the default mode
        path.mkdir(mode=0o700)
        sync_folder(path.parent)


def write_file(
    path: Path, write: Callable[[HashingWriter], object], changed_s: int | None = None
) -> Stored:
    """Create a private file that `write` fills; returns once it is on the disk under its name.

    Args:
        path: the file to write; its folder is created if needed.
        write: called with the stream.
        changed_s: the modification time to set, in seconds since 1970.
    """
    make_folder(path.parent)
    with replacing(path, path.with_name(path.name + PART)) as stream:
        hashing = HashingWriter(stream)
        write(hashing)
        stream.flush()  # a later write would change the time again
        if changed_s is not None:
            os.utime(stream.fileno(), (changed_s, changed_s))
    sync_folder(path.parent)
    return hashing.stored


def measure(stream: BufferedReader) -> Stored:
    """Return size and checksum of what a stream has left to read."""
    found = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=CHECKSUM_BYTES))
    return Stored(stream.tell(), found.digest())


def measure_file(path: Path) -> Stored:
    """Return the present size and checksum of a file."""
    with path.open("rb") as stream:
        return measure(stream)
