"""Recovery at start: makes the folder match its manifest.

A crash leaves at most files that the manifest does not name, and request ids of closed epochs.
Both are deleted. A missing file is damage, and so is a file newer than the manifest: somebody
replaced the database. Then the collector does not start.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from faintly.collector.storage.collection import CLOSED
from faintly.collector.storage.database import NAMES
from faintly.collector.storage.disk import damaged, discard
from faintly.collector.storage.manifest import SUFFIXES, Manifest

FILE = re.compile(r"(\d+)-(\d+)\.(parquet|fns)")  # epoch and number,
OWNER = re.compile(r"[0-9a-f]{32}-(\d+)")  # below the folder of a collection
NEWER = "the database is older than this file"
PUT_BACK = "put the database back that belongs to it, or restore a backup into a new folder"


def recover(manifest: Manifest) -> None:
    """Delete unnamed files, and check that every named one exists."""
    named = {file.path: file for kind in SUFFIXES for file in manifest.files(kind)}
    for path, file in named.items():
        found = path.stat().st_size if path.is_file() else None
        if found != file.stored.size and file.needed:
            size = f"it has {found} bytes instead of {file.stored.size}"
            advice = "run faintly fsck, or restore a backup into a new folder"
            raise damaged(path, "it is missing" if found is None else size, advice)
        if found != file.stored.size:
            manifest.change(file.epoch, [], [file])
    unnamed = unnamed_files(manifest, named)
    newer = newer_files(manifest, unnamed)
    if newer:
        raise damaged(newer[0], NEWER, PUT_BACK)
    manifest.database.check_count()
    # Last: somebody who investigates damage may need the unnamed files.
    for path in unnamed:
        discard(manifest.folder, path)
    for path in [path for kind in SUFFIXES for path in (manifest.folder / kind).glob("*/")]:
        with suppress(OSError):  # it is not empty
            path.rmdir()
    for table in NAMES:
        key, after = -1, f"SELECT min(epoch) FROM {table} WHERE epoch > ?"
        while (key := manifest.database.rows(after, (key,))[0][0]) is not None:
            epoch = manifest.registry.by_id.get(key)
            if epoch is None or epoch.state == CLOSED:
                manifest.database.purge(key)


def unnamed_files(manifest: Manifest, named: Iterable[Path]) -> list[Path]:
    """Return the files of a folder that the manifest does not name."""
    found = {path for name in (*SUFFIXES, "spool") for path in (manifest.folder / name).rglob("*")}
    return sorted(path for path in found.difference(named) if not path.is_dir())


def newer_files(manifest: Manifest, unnamed: Iterable[Path]) -> list[Path]:
    """Return the unnamed files that a crash with this database cannot explain.

    A new file has the number after the last one, and the next transaction names it. A file with
    a higher number was named by a database that is gone: an old copy was put back, or the log
    was lost. Its reports may exist nowhere else.
    """
    made = manifest.database.rows("SELECT seq FROM sqlite_sequence WHERE name = 'collections'")
    latest = made[0][0] if made else 0
    known = {each.folder: each for each in manifest.registry.collections.values()}

    def is_newer(path: Path) -> bool:
        file, owner = FILE.fullmatch(path.name), OWNER.fullmatch(path.parent.name)
        if file is None or owner is None:
            return False
        collection = known.get(path.parent.name)
        if collection is None:
            return int(owner[1]) > latest
        epoch = collection.epochs.get(int(file[1]))
        return epoch is None or int(file[2]) > epoch.last + 1

    return [path for path in unnamed if is_newer(path)]
