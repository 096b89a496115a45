"""Backups: a copy of a data folder that is a data folder itself.

First a consistent copy of the database is made, while a collector may run; then the files that it
names are copied. Files never change, and those replaced meanwhile stay until the copy is complete;
only if a collection is deleted does the copy start again. The database is renamed into place last,
so an interrupted copy does not look complete. A failed copy leaves nothing behind.
"""

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO

from faintly import durable
from faintly.collector.admin import fsck
from faintly.collector.problems import Problem
from faintly.collector.storage import database as db
from faintly.collector.storage import disk, recovery, segments, sketches
from faintly.collector.storage.database import NAME, is_frozen
from faintly.collector.storage.disk import PART
from faintly.collector.storage.registry import Registry
from faintly.errors import FolderDamaged, InvalidInput

ATTEMPTS = 5  # collections are rarely deleted
PIECE = 1 << 20  # bytes copied at a time


def backup(folder: Path, target: Path) -> int:
    """Copy a folder to an empty or new one; return the bytes of the copy."""
    if not (folder / NAME).is_file():
        raise InvalidInput(f"{folder} is not a data folder: it has no {NAME}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise _not_empty(target)
    made = [path for path in (target, *target.parents) if not path.exists()]
    try:
        disk.make_folder(target)
        _claim(target)
        try:
            with disk.copying(folder):
                return _copy(folder, target)
        except BaseException as error:
            _remove(target)
            if isinstance(error, Problem):  # only the copy is written
                raise _not_written(target, error) from None
            raise
    except BaseException:
        _remove_folders(made)
        raise


def _claim(target: Path) -> None:
    """Claim the target folder: of two concurrent copies only one goes on."""
    try:
        os.close(os.open(target / (NAME + PART), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise _not_empty(target) from None
    # Another copy may have been completed since the folder was found empty.
    if any(path.name != NAME + PART for path in target.iterdir()):
        (target / (NAME + PART)).unlink()
        raise _not_empty(target)


def _not_empty(target: Path) -> InvalidInput:
    return InvalidInput(f"{target} is not empty; choose another folder")


def _remove(target: Path) -> None:
    """Delete the files of a failed copy, so that it can be repeated."""
    for name in (segments.FOLDER, sketches.FOLDER):
        shutil.rmtree(target / name, ignore_errors=True)
    for path in target.glob(f"{NAME}*"):
        with suppress(OSError):  # what made the copy fail may make this fail, too
            path.unlink()


def _remove_folders(made: list[Path]) -> None:
    for path in made:
        with suppress(OSError):  # it is not empty
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
        durable.sync_folder(target)
        return size + (target / NAME).stat().st_size
    raise FolderDamaged(f"files of {folder} are missing; run faintly fsck")


def restore(source: Path, folder: Path) -> int:
    """Check a backup and copy it into an empty folder; return the bytes."""
    damage = [found for found in fsck.check(source).findings if not found.harmless]
    if damage:
        first = damage[0]
        raise FolderDamaged(f"the backup is damaged, first at {first.where}: {first.what}")
    return backup(source, folder)


def _copy_database(folder: Path, target: Path) -> Path:
    path, origin = target / (NAME + PART), folder / NAME
    os.truncate(path, 0)  # an earlier attempt may have filled it
    frozen = is_frozen(origin)
    before = _state(origin)
    with (
        closing(db.connect(origin, timeout=db.BUSY_S)) as source,
        closing(db.connect(path)) as copy,
    ):
        try:
            source.execute("PRAGMA schema_version").fetchall()
        except sqlite3.DatabaseError as error:
            raise db.open_error(origin, error) from None
        failed: sqlite3.DatabaseError | None = None
        try:
            source.backup(copy)
            # Without a log, which would have to be renamed as well.
            copy.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.DatabaseError as error:
            failed = error
    if frozen and (_state(origin) != before or not is_frozen(origin)):
        raise InvalidInput(f"a collector began to use {folder} while it was copied; copy it again")
    # The source was readable before, so an error of the disk concerns the copy.
    if failed is not None and db.is_disk_error(failed):
        raise _not_written(target, failed)
    if failed is not None:
        raise db.damaged(origin, failed)
    return path


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _copy_files(folder: Path, target: Path, copied: Path) -> int:
    """Copy the files that a copied database names, and return their bytes.

    Files of an earlier attempt that it does not name are deleted: they may belong to a deleted
    collection. A missing or damaged sketch that can be rebuilt is left out, in the copied
    database as well.
    """
    with db.Database(target, copied.name) as database:
        named = recovery.named_files(target, database, Registry(database))
        copies = set()
        for path, file in named.items():
            source = folder / path.relative_to(target)
            if _copy_whole(source, path, file):
                copies.add(path)
            else:
                recovery.forget_sketch(database, file.epoch, path)
    for path in recovery.stray_files(target, copies):
        path.unlink()
    recovery.delete_empty(target)
    return sum(named[path].stored.size for path in copies)


def _copy_whole(path: Path, target: Path, file: recovery.ManifestEntry) -> bool:
    """Copy a file, and return whether it matches the manifest; a needed one must."""
    try:
        whole = _copy_file(path, target) == file.stored
    except FileNotFoundError:
        if file.needed:
            raise
        return False
    if file.needed and not whole:
        raise FolderDamaged(f"{path} was changed; run faintly fsck")
    return whole


def _copy_file(path: Path, target: Path) -> disk.Stored:
    with path.open("rb") as stream:

        def copy(out: disk.HashingWriter) -> None:
            while piece := _read(stream, path):
                out.write(piece)

        return disk.write_file(target, copy)


def _read(stream: BinaryIO, path: Path) -> bytes:
    try:
        return stream.read(PIECE)
    except OSError as error:  # write_file would report it as a failed write
        raise FolderDamaged(f"{path} cannot be read: {error.strerror}; run faintly fsck") from None
