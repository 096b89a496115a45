"""Backups: a copy of a data folder that is a data folder itself.

First a consistent copy of the database is made, while a collector may run; then the files that it
names are copied. Files never change, and those replaced meanwhile stay until the copy is complete;
only if a collection is deleted does the copy start again. It is made in a folder inside the target
and moved into place at the end, the database last, so an interrupted copy does not look complete.
A failed copy leaves nothing behind.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from faintly import durable
from faintly.collector.admin import fsck
from faintly.collector.problems import Problem
from faintly.collector.storage import database as db
from faintly.collector.storage import disk, recovery
from faintly.collector.storage.database import NAME, check_folder, is_frozen
from faintly.collector.storage.registry import Registry
from faintly.errors import FolderDamaged, InvalidInput

ATTEMPTS = 5  # collections are rarely deleted
PART = "part"  # folder of a copy that is not complete
PIECE = 1 << 20  # bytes copied at a time


def backup(folder: Path, target: Path) -> int:
    """Copy a folder to an empty or new one; return the bytes of the copy."""
    check_folder(folder)
    if target.exists() and not target.is_dir():
        raise _not_empty(target)
    made = [path for path in (target, *target.parents) if not path.exists()]
    try:
        durable.make_folder(target)
        with disk.copying(folder):
            return _copy(folder, target)
    except BaseException as error:
        for path in made:
            with suppress(OSError):  # it is not empty
                path.rmdir()
        if isinstance(error, Problem):  # only the copy is written
            raise _not_written(target, error) from None
        raise


def _copy(folder: Path, target: Path) -> int:
    for _ in range(ATTEMPTS):
        with _part_of(target) as part:
            try:
                _copy_database(folder, part)
                size = _copy_files(folder, part)
            except FileNotFoundError:
                continue
            for path in sorted(part.iterdir(), key=lambda path: path.name == NAME):
                path.rename(target / path.name)
            durable.sync_folder(target)
            return size + (target / NAME).stat().st_size
    raise FolderDamaged(f"files of {folder} are missing; run faintly fsck")


@contextmanager
def _part_of(target: Path) -> Iterator[Path]:
    """Yield a new folder in an empty one: of two concurrent copies only one goes on."""
    part = target / PART
    try:
        part.mkdir(mode=0o700)
    except FileExistsError:
        raise _not_empty(target) from None
    try:
        if list(target.iterdir()) != [part]:
            raise _not_empty(target)
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _not_empty(target: Path) -> InvalidInput:
    return InvalidInput(f"{target} is not empty; choose another folder")


def _not_written(target: Path, error: Exception) -> InvalidInput:
    return InvalidInput(
        f"the copy in {target} cannot be made ({error}); make room, or choose another folder"
    )


def restore(source: Path, folder: Path) -> int:
    """Check a backup and copy it into an empty folder; return the bytes."""
    damage = [found for found in fsck.check(source).findings if not found.harmless]
    if damage:
        first = damage[0]
        raise FolderDamaged(f"the backup is damaged, first at {first.where}: {first.what}")
    return backup(source, folder)


def _copy_database(folder: Path, target: Path) -> None:
    path, origin = target / NAME, folder / NAME
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
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
        raise _not_written(target.parent, failed)
    if failed is not None:
        raise db.damaged(origin, failed)


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _copy_files(folder: Path, target: Path) -> int:
    """Copy the files that a copied database names, and return their bytes.

    A missing or damaged sketch that can be rebuilt is left out, in the copied database as well.
    """
    size = 0
    with db.Database(target) as database:
        for path, file in recovery.named_files(target, database, Registry(database)).items():
            origin, whole = folder / path.relative_to(target), False
            try:
                whole = _copy_file(origin, path) == file.stored
            except FileNotFoundError:
                if file.needed:
                    raise
            if whole:
                size += file.stored.size
            elif file.needed:
                raise FolderDamaged(f"{origin} was changed; run faintly fsck")
            else:
                recovery.forget_sketch(database, file.epoch, path)
    recovery.delete_empty(target)
    return size


def _copy_file(path: Path, target: Path) -> durable.Stored:
    with path.open("rb") as stream:

        def read() -> bytes:
            try:
                return stream.read(PIECE)
            except OSError as error:  # write_file would report it as a failed write
                what = f"{path} cannot be read: {error.strerror}"
                raise FolderDamaged(f"{what}; run faintly fsck") from None

        def copy(out: durable.HashingWriter) -> None:
            while piece := read():
                out.write(piece)

        return disk.write_file(target, copy)
