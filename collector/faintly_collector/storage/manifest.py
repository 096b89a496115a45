"""The manifest: which sealed files the database names, and how that changes.

First a file reaches the disk under its name. Then one transaction adds it, removes those that it
replaces, and deletes the inbox rows it came from. Then memory is updated. A crash before the
transaction leaves a file that the manifest does not name. A crash after it needs no repair.

A start makes the folder match: it deletes what a crash left behind, unnamed files and request ids
of closed epochs. A missing file is damage, and so is a file newer than the manifest, which means
that somebody replaced the database. Then the collector does not start.
"""

import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import NamedTuple, Self

from faintly.durable import Stored
from faintly.errors import InvalidInput
from faintly.wire.problems import CONFLICT, Problem
from faintly_collector.storage.collection import CLOSED, Collection, Epoch
from faintly_collector.storage.database import ID_TABLES, Database, check_folder
from faintly_collector.storage.disk import RESTORE, copying, damaged, discard, file_problem
from faintly_collector.storage.registry import Registry

SEGMENTS, SKETCHES = "segments", "sketches"  # kinds of files, their folders and their tables
SUFFIXES = {SEGMENTS: ".parquet", SKETCHES: ".fns"}
TAKEN_ROWS = "inbox WHERE epoch = ? AND id BETWEEN ? AND ?"
FILE_NAME = re.compile(r"(\d+)-(\d+)\.(parquet|fns)")  # epoch and number,
FOLDER_NAME = re.compile(r"[0-9a-f]{32}-(\d+)")  # below the folder of a collection
NEWER = "the database is older than this file"
PUT_BACK = f"put the database back that belongs to it, or {RESTORE}"
NO_ROWS = (1, 0, 0)  # of the inbox


class File(NamedTuple):
    """A sealed file as the manifest names it."""

    path: Path
    kind: str
    epoch: Epoch
    number: int
    reports: int
    stored: Stored

    @property
    def needed(self) -> bool:
        """Return False for a sketch that can be rebuilt from its segments."""
        return self.kind == SEGMENTS or self.epoch.collection.retention == "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRow:
    """A sealed file."""

    epoch: int
    number: int
    file: str  # relative to the data folder
    reports: int
    bytes: int
    checksum: str


class Manifest:
    """The sealed files of a folder."""

    def __init__(self, folder: Path, database: Database, registry: Registry) -> None:
        self.folder, self.database, self.registry = folder, database, registry
        self._replaced: set[Path] = set()  # files that a running backup kept from being deleted
        self._replaced_lock = threading.Lock()

    @classmethod
    @contextmanager
    def open(
        cls, folder: Path, lock: Callable[[Path], AbstractContextManager[None]] = copying
    ) -> Iterator[Self]:
        """Yield a folder's manifest; a collector may be using it, unless another lock is given."""
        check_folder(folder)
        try:
            with lock(folder), Database(folder) as database:
                yield cls(folder, database, Registry(database))
        except Problem as problem:  # the disk failed, or there is no such collection
            raise InvalidInput(f"{folder}: {problem}") from None

    def path(self, kind: str, epoch: Epoch, number: int) -> Path:
        """Return where a file belongs."""
        name = f"{epoch.number}-{number}{SUFFIXES[kind]}"
        return self.folder / kind / epoch.collection.folder / name

    def files(self, kind: str, epoch: Epoch | None = None, after: int = 0) -> list[File]:
        """Return the files of all epochs or of one, with numbers beyond `after`, in order."""
        chosen = "" if epoch is None else f"AND epoch = {epoch.id}"
        found = []
        for key, number, reports, *stored in self.database.rows(
            f"SELECT epoch, number, reports, bytes, checksum FROM {kind} "
            f"WHERE number > ? {chosen} ORDER BY epoch, number",
            (after,),
        ):
            owner = epoch or self.registry.by_id.get(key)
            if owner is not None:
                path = self.path(kind, owner, number)
                found.append(File(path, kind, owner, number, reports, Stored(*stored)))
            elif reports:  # earlier versions could name an empty sketch of a deleted epoch
                raise damaged(self.database.path, f"{kind} of an epoch that it does not have")
        return found

    def segments(self, digest: bytes) -> list[SegmentRow]:
        """Return the sealed files of a collection, as HTTP lists them."""
        return [
            SegmentRow(
                epoch=epoch.number,
                number=file.number,
                file=str(file.path.relative_to(self.folder)),
                reports=file.reports,
                bytes=file.stored.size,
                checksum=file.stored.checksum.hex(),
            )
            for epoch in list(self.registry.collection(digest).epochs.values())
            for file in self.files(SEGMENTS, epoch)
        ]

    def change(
        self,
        epoch: Epoch,
        added: Sequence[File],
        removed: Sequence[File] = (),
        taken: tuple[int, int, int] = NO_ROWS,
    ) -> None:
        """Name new files, and delete those that they replace; the caller holds the epoch's lock.

        Added files are on the disk. They count the inbox rows `taken`: first id, last id, reports.
        """
        *rows, reports = epoch.id, *taken
        with self.database.write_lock:
            with self.database.transaction() as connection:
                for file in removed:
                    connection.execute(
                        f"DELETE FROM {file.kind} WHERE epoch = ? AND number = ?",
                        (epoch.id, file.number),
                    )
                for file in added:
                    row = epoch.id, file.number, file.reports, *astuple(file.stored)
                    connection.execute(f"INSERT INTO {file.kind} VALUES (?, ?, ?, ?, ?)", row)
                # Summed in SQL: fetching would release the GIL for each row while commits wait.
                summed = f"SELECT coalesce(sum(reports), 0) FROM {TAKEN_ROWS}"
                held = connection.execute(summed, rows).fetchone()[0]
                if held != reports or epoch.id not in self.registry.by_id:
                    message = f"epoch {epoch.number} was deleted while it was sealed"
                    raise Problem(CONFLICT, message)
                connection.execute(f"DELETE FROM {TAKEN_ROWS}", rows)
            self.registry.add_pending([(epoch, -reports)])
            self.registry.recount(epoch)
        with self._replaced_lock:
            self._replaced.update({each.path for each in removed} - {each.path for each in added})
        self.delete_replaced()

    def delete_replaced(self) -> None:
        """Delete the replaced files; those that a backup may still need wait for the next call."""
        with self._replaced_lock:
            self._replaced = {path for path in self._replaced if not discard(self.folder, path)}

    def delete(self, collection: Collection) -> None:
        """Delete the files of a collection that was deleted from the database."""
        for kind in SUFFIXES:
            shutil.rmtree(self.folder / kind / collection.folder, ignore_errors=True)

    def recover(self) -> None:
        """Delete unnamed files, and check that every named one exists."""
        named = {file.path: file for kind in SUFFIXES for file in self.files(kind)}
        for path, file in named.items():
            problem = file_problem(path, file.stored, quick=True)
            if problem is not None and file.needed:
                raise damaged(path, problem, f"run faintly fsck, or {RESTORE}")
            if problem is not None:
                self.change(file.epoch, [], [file])
        unnamed = self.unnamed_files(named)
        newer = self.newer_files(unnamed)
        if newer:
            raise damaged(newer[0], NEWER, PUT_BACK)
        self.database.check_count()
        # Last: an investigation of damage may need the unnamed files.
        for path in unnamed:
            discard(self.folder, path)
        for path in [path for kind in SUFFIXES for path in (self.folder / kind).glob("*/")]:
            with suppress(OSError):  # it is not empty
                path.rmdir()
        for table in ID_TABLES:
            key, after = -1, f"SELECT min(epoch) FROM {table} WHERE epoch > ?"
            while (key := self.database.rows(after, (key,))[0][0]) is not None:
                epoch = self.registry.by_id.get(key)
                if epoch is None or epoch.state == CLOSED:
                    self.database.purge(key)

    def unnamed_files(self, named: Iterable[Path]) -> list[Path]:
        """Return the files of a folder that the manifest does not name."""
        found = {path for name in (*SUFFIXES, "spool") for path in (self.folder / name).rglob("*")}
        return sorted(path for path in found.difference(named) if not path.is_dir())

    def newer_files(self, unnamed: Iterable[Path]) -> list[Path]:
        """Return the unnamed files that a crash with this database cannot explain.

        A new file has the next number. One with a higher number was named by a database that is
        gone: an old copy was put back, or the log was lost. Its reports may exist nowhere else.
        """
        made = self.database.rows("SELECT seq FROM sqlite_sequence WHERE name = 'collections'")
        latest = made[0][0] if made else 0
        known = {each.folder: each for each in self.registry.collections.values()}

        def is_newer(path: Path) -> bool:
            file, owner = FILE_NAME.fullmatch(path.name), FOLDER_NAME.fullmatch(path.parent.name)
            collection = known.get(path.parent.name)
            if file is None or owner is None:
                return False
            if collection is None:
                return int(owner[1]) > latest
            epoch = collection.epochs.get(int(file[1]))
            return epoch is None or int(file[2]) > epoch.last + 1

        return [path for path in unnamed if is_newer(path)]
