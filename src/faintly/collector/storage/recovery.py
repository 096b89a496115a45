"""Recovery at start: makes the folder match its manifest.

A crash leaves at most files that the manifest does not name, and request ids of closed epochs.
Both are deleted. A missing file is damage, and so is a file newer than the manifest: somebody
replaced the database. Then the collector does not start.
"""

import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from faintly.collector.storage import acknowledged, segments, sketches
from faintly.collector.storage.collection import CLOSED, Collection, Epoch
from faintly.collector.storage.database import Database
from faintly.collector.storage.disk import discard
from faintly.collector.storage.registry import Registry
from faintly.durable import Stored
from faintly.errors import FolderDamaged

FILE = re.compile(r"(\d+)-(\d+)\.(parquet|fns)")  # epoch and number,
OWNER = re.compile(r"[0-9a-f]{32}-(\d+)")  # below the folder of a collection
NEWER = "the database is older than this file"
PUT_BACK = "put the database back that belongs to it, or restore a backup into a new folder"
TABLES = ("requests", "tokens")  # their rows are kept only while an epoch is open


def recover(folder: Path, database: Database, registry: Registry) -> None:
    """Delete unnamed files, and check that every named one exists."""
    named = named_files(folder, database, registry)
    for path, file in named.items():
        found = path.stat().st_size if path.is_file() else None
        if found == file.stored.size:
            continue
        if not file.needed:
            forget_sketch(database, file.epoch, path)
            continue
        size = f"has {found} bytes instead of {file.stored.size}"
        raise FolderDamaged(
            f"{path} {'is missing' if found is None else size}; "
            "run faintly fsck, or restore a backup into a new folder"
        )
    stray = stray_files(folder, set(named))
    newer = newer_files(stray, database, registry)
    if newer:
        raise FolderDamaged(f"{newer[0]}: {NEWER}; {PUT_BACK}", NEWER, PUT_BACK)
    acknowledged.check(folder, database)
    # Last: somebody who investigates damage may need the unnamed files.
    for path in stray:
        discard(folder, path)
    delete_empty(folder)
    purge(database, registry)


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file as the manifest names it."""

    epoch: Epoch
    stored: Stored
    needed: bool  # False for a sketch whose segments are kept


def named_files(folder: Path, database: Database, registry: Registry) -> dict[Path, ManifestEntry]:
    """Return the files that the manifest names, by path."""
    named = {}
    for table, path_of in (("segments", segments.path_of), ("sketches", sketches.path_of)):
        for key, number, *stored in database.rows(
            f"SELECT epoch, number, bytes, checksum FROM {table}"
        ):
            epoch = registry.by_id[key]
            needed = table == "segments" or epoch.collection.retention == "drop"
            path = path_of(folder, epoch, number)
            named[path] = ManifestEntry(epoch, Stored(*stored), needed)
    return named


def forget_sketch(database: Database, epoch: Epoch, path: Path) -> None:
    """Drop a sketch file, which can be rebuilt from the segments."""
    with database.transaction() as connection:
        connection.execute("DELETE FROM sketches WHERE epoch = ?", (epoch.id,))
    path.unlink(missing_ok=True)


def stray_files(folder: Path, named: set[Path]) -> list[Path]:
    """Return the files of a folder that the manifest does not name."""
    found = [
        path
        for name in (segments.FOLDER, sketches.FOLDER, "spool")
        for path in (folder / name).rglob("*")
    ]
    return [path for path in found if not path.is_dir() and path not in named]


def newer_files(stray: Iterable[Path], database: Database, registry: Registry) -> list[Path]:
    """Return the unnamed files that a crash with this database cannot explain.

    A new file has the number after the last one, and the next transaction names it. A file with
    a higher number was named by a database that is gone: an old copy was put back, or the log
    was lost. Its reports may exist nowhere else.
    """
    made = database.rows("SELECT seq FROM sqlite_sequence WHERE name = 'collections'")
    latest = made[0][0] if made else 0
    known = {each.folder: each for each in registry.collections.values()}

    def is_newer(path: Path) -> bool:
        file, owner = FILE.fullmatch(path.name), OWNER.fullmatch(path.parent.name)
        if file is None or owner is None:
            return False
        collection = known.get(path.parent.name)
        if collection is None:
            return int(owner[1]) > latest
        epoch = collection.epochs.get(int(file[1]))
        return epoch is None or int(file[2]) > epoch.last + 1

    return [path for path in stray if is_newer(path)]


def delete_empty(folder: Path) -> None:
    """Delete the empty folders of collections."""
    for name in (segments.FOLDER, sketches.FOLDER):
        for path in list((folder / name).glob("*/")):
            with suppress(OSError):  # it is not empty
                path.rmdir()


def delete_files(folder: Path, collection: Collection) -> None:
    """Delete the files of a deleted collection."""
    for name in (segments.FOLDER, sketches.FOLDER):
        shutil.rmtree(folder / name / collection.folder, ignore_errors=True)


def purge(database: Database, registry: Registry) -> None:
    """Delete the request ids and tokens of all epochs that are closed or deleted."""

    def is_kept(key: int) -> bool:
        epoch = registry.by_id.get(key)
        return epoch is not None and epoch.state != CLOSED

    for table in TABLES:
        database.purge(table, is_kept)
