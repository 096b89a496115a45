"""Backups: a copy of a data folder that is a data folder itself.

A collector may be running. The database is copied first, then the files that it names. Files never
change, and replaced ones stay until the backup is complete. The copy starts again only if a
collection is deleted. It is made in a folder inside the target and moved into place at the end, the
database last: an interrupted copy does not look complete, and a failed one leaves nothing behind.
"""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from faintly import durable
from faintly.errors import FolderDamaged, InvalidInput
from faintly.wire.problems import Problem
from faintly_collector.admin import fsck
from faintly_collector.storage import disk
from faintly_collector.storage.database import DATABASE_FILE, Database, check_folder
from faintly_collector.storage.manifest import SUFFIXES, Manifest
from faintly_collector.storage.registry import Registry

ATTEMPTS = 5  # collections are rarely deleted
CHUNK_BYTES = 1 << 20  # bytes copied at a time
FSCK = "run faintly fsck"


def backup(folder: Path, target: Path) -> int:
    """Copy a folder to an empty or new one; return the bytes of the copy."""
    check_folder(folder)
    if target.is_file():
        raise InvalidInput(f"{target} is a file; choose another folder")
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
            advice = "free some disk space, or choose another folder"
            message = f"the copy in {target} cannot be made ({error}); {advice}"
            raise InvalidInput(message) from None
        raise


def restore(source: Path, folder: Path) -> int:
    """Check a backup and copy it into an empty folder; return the bytes."""
    damage = [found for found in fsck.check(source).findings if not found.harmless]
    if damage:
        first = damage[0]
        raise FolderDamaged(f"the backup is damaged, first at {first.where}: {first.what}")
    return backup(source, folder)


def _copy(folder: Path, target: Path) -> int:
    for _ in range(ATTEMPTS):
        with TemporaryDirectory(prefix="part-", dir=target, ignore_cleanup_errors=True) as name:
            part = Path(name)
            if list(target.iterdir()) != [part]:  # also if another copy is being made there
                raise InvalidInput(f"{target} is not empty; choose another folder")
            with Database(folder) as database:
                database.copy(part / DATABASE_FILE)
            try:
                copy_files(folder, part)
            except FileNotFoundError:
                continue
            for path in sorted(part.iterdir(), key=lambda path: path.name == DATABASE_FILE):
                path.rename(target / path.name)
            durable.sync_folder(target)
            return sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    raise disk.damaged(folder, "files are missing", FSCK)


def copy_files(folder: Path, target: Path) -> None:
    """Copy the files that a copied database names.

    A missing or damaged sketch that can be rebuilt is left out, in the copied database as well.
    """
    with Database(target) as database:
        manifest = Manifest(target, database, Registry(database))
        for file in [file for kind in SUFFIXES for file in manifest.files(kind)]:
            origin, intact = folder / file.path.relative_to(target), False
            try:
                intact = copy_file(origin, file.path) == file.stored
            except FileNotFoundError:
                if file.needed:
                    raise
            if file.needed and not intact:
                raise disk.damaged(origin, "it was changed", FSCK)
            if not intact:
                manifest.change(file.epoch, [], [file])


def copy_file(path: Path, target: Path) -> durable.Stored:
    """Copy a file; return its size and checksum."""
    with path.open("rb") as stream:

        def read() -> bytes:
            try:
                return stream.read(CHUNK_BYTES)
            except OSError as error:  # write_file would report it as a failed write
                raise disk.damaged(path, f"cannot be read: {error.strerror}", FSCK) from None

        def copy(out: durable.HashingWriter) -> None:
            while chunk := read():
                out.write(chunk)

        return disk.write_file(target, copy)
