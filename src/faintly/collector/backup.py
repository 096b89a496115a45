"""Backups: a copy of a data folder that is a data folder itself.

The database is copied as of one moment while a collector goes on, then the files that this copy
names. They never change, and what the collector replaces meanwhile stays until the copy is made;
only if a whole collection is deleted does the copy begin again. The database gets its name last,
so a copy that was interrupted is not taken for a whole one. One that fails leaves nothing behind.
"""

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO

from faintly.collector import fsck, segments, sketches
from faintly.collector.database import (
    BUSY_S,
    NAME,
    Database,
    connect,
    damaged,
    is_frozen,
    is_of_disk,
    not_opened,
)
from faintly.collector.disk import (
    PART,
    Hashing,
    Stored,
    copying,
    make_folder,
    sync_folder,
    write_file,
)
from faintly.collector.problems import Problem
from faintly.collector.recovery import (
    Named,
    delete_empty,
    forget_sketch,
    named_files,
    stray_files,
)
from faintly.collector.registry import Registry
from faintly.errors import FolderDamaged, InvalidInput

ATTEMPTS = 5  # collections are not deleted all the time
PIECE = 1 << 20  # bytes copied at a time


def backup(folder: Path, target: Path) -> int:
    """Copy a folder to one that is empty or not there; return the bytes of the copy."""
    if not (folder / NAME).is_file():
        raise InvalidInput(f"{folder} is not a data folder: it has no {NAME}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise _not_empty(target)
    made = [path for path in (target, *target.parents) if not path.exists()]
    try:
        make_folder(target)
        _claim(target)
        try:
            with copying(folder):
                return _copy(folder, target)
        except BaseException as error:
            _remove(target)
            if isinstance(error, Problem):  # only the copy is written to
                raise _not_written(target, error) from None
            raise
    except BaseException:
        _remove_folders(made)
        raise


def _claim(target: Path) -> None:
    """Make a folder ours: of two that make a copy there at the same time one does."""
    try:
        os.close(os.open(target / (NAME + PART), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise _not_empty(target) from None
    if any(path.name != NAME + PART for path in target.iterdir()):  # it was made meanwhile
        (target / (NAME + PART)).unlink()
        raise _not_empty(target)


def _not_empty(target: Path) -> InvalidInput:
    return InvalidInput(f"{target} is not empty; choose another folder")


def _remove(target: Path) -> None:
    """Delete what a copy that failed has made, so that it can be made again."""
    for name in (segments.FOLDER, sketches.FOLDER):
        shutil.rmtree(target / name, ignore_errors=True)
    for path in target.glob(f"{NAME}*"):
        with suppress(OSError):  # what made the copy fail may be in the way of this as well
            path.unlink()


def _remove_folders(made: list[Path]) -> None:
    for path in made:
        with suppress(OSError):  # or somebody has put something there
            path.rmdir()


def _not_written(target: Path, error: Exception) -> InvalidInput:
    return InvalidInput(
        f"the copy in {target} cannot be made ({error}); make room, or choose another folder"
    )


def _copy(folder: Path, target: Path) -> int:
    for _ in range(ATTEMPTS):
        copied = _copy_database(folder, target)
        try:
            size = _copy_files(folder, target, copied)
        except FileNotFoundError:
            continue
        copied.rename(target / NAME)
        sync_folder(target)
        return size + (target / NAME).stat().st_size
    raise FolderDamaged(f"files of {folder} are missing; run faintly fsck")


def restore(source: Path, folder: Path) -> int:
    """Copy a backup into an empty folder, having checked all of it; return the bytes."""
    damage = [found for found in fsck.check(source).findings if not found.harmless]
    if damage:
        first = damage[0]
        raise FolderDamaged(f"the backup is damaged, first at {first.where}: {first.what}")
    return backup(source, folder)


def _copy_database(folder: Path, target: Path) -> Path:
    path, origin = target / (NAME + PART), folder / NAME
    os.truncate(path, 0)  # of what an earlier attempt made
    frozen = is_frozen(origin)
    before = _state(origin)
    with closing(connect(origin, timeout=BUSY_S)) as source, closing(connect(path)) as copy:
        try:
            source.execute("PRAGMA schema_version").fetchall()
        except sqlite3.DatabaseError as error:
            raise not_opened(origin, error) from None
        failed: sqlite3.DatabaseError | None = None
        try:
            source.backup(copy)
            # One file: a log beside it would have to be renamed as well.
            copy.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.DatabaseError as error:
            failed = error
    if frozen and (_state(origin) != before or not is_frozen(origin)):
        raise InvalidInput(f"a collector began to use {folder} while it was copied; copy it again")
    # The source could be read before, so want of a disk is that of the copy.
    if failed is not None and is_of_disk(failed):
        raise _not_written(target, failed)
    if failed is not None:
        raise damaged(origin, failed)
    return path


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _copy_files(folder: Path, target: Path, copied: Path) -> int:
    """Copy the files that a copied database names, and return their bytes.

    What an earlier attempt copied and this database does not name is deleted: it may be of a
    collection that was deleted meanwhile. A sketch that can be built again is left out, in the
    copied database as well, where its file is missing or changed.
    """
    with Database(target, copied.name) as database:
        named = named_files(target, database, Registry(database))
        copies = set()
        for path, file in named.items():
            source = folder / path.relative_to(target)
            if _copy_whole(source, path, file):
                copies.add(path)
            else:
                forget_sketch(database, file.epoch, path)
    for path in stray_files(target, copies):
        path.unlink()
    delete_empty(target)
    return sum(named[path].stored.size for path in copies)


def _copy_whole(path: Path, target: Path, file: Named) -> bool:
    """Copy a file, and return whether it is what its manifest says; it must be if it is needed."""
    try:
        whole = _copy_file(path, target) == file.stored
    except FileNotFoundError:
        if file.needed:
            raise
        return False
    if file.needed and not whole:
        raise FolderDamaged(f"{path} was changed; run faintly fsck")
    return whole


def _copy_file(path: Path, target: Path) -> Stored:
    with path.open("rb") as stream:

        def copy(out: Hashing) -> None:
            while piece := _read(stream, path):
                out.write(piece)

        return write_file(target, copy)


def _read(stream: BinaryIO, path: Path) -> bytes:
    try:
        return stream.read(PIECE)
    except OSError as error:  # whoever writes would take it for its own
        raise FolderDamaged(f"{path} cannot be read: {error.strerror}; run faintly fsck") from None
