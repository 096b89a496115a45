"""The manifest: which sealed files the database names, and how that changes.

A file reaches the disk under its name first. Then one transaction adds it, removes those that it
replaces, and deletes the inbox rows it came from. Then memory is updated. A crash before the
transaction leaves a file that the manifest does not name, which the next start deletes. A crash
after it needs no repair.
"""

import shutil
import threading
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import NamedTuple

from faintly.collector.problems import CONFLICT, Problem
from faintly.collector.storage.collection import Collection, Epoch
from faintly.collector.storage.database import Database
from faintly.collector.storage.disk import damaged, discard
from faintly.collector.storage.registry import Registry
from faintly.durable import Stored

SEGMENTS, SKETCHES = "segments", "sketches"  # kinds of files, their folders and their tables
SUFFIXES = {SEGMENTS: ".parquet", SKETCHES: ".fns"}
CHOSEN = "inbox WHERE epoch = ? AND id BETWEEN ? AND ?"
NOTHING = (1, 0, 0)  # taken from the inbox


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
        """Return False for a sketch that its segments give again."""
        return self.kind == SEGMENTS or self.epoch.collection.retention == "drop"


class Manifest:
    """The sealed files of a folder."""

    def __init__(self, folder: Path, database: Database, registry: Registry) -> None:
        self.folder, self.database, self.registry = folder, database, registry
        self._unnamed: set[Path] = set()  # files that a running backup kept from being deleted
        self._tidying = threading.Lock()

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
            elif reports:  # earlier programs could name an empty sketch of a deleted epoch
                raise damaged(self.database.path, f"{kind} of an epoch that it does not have")
        return found

    def change(
        self,
        epoch: Epoch,
        added: Sequence[File],
        removed: Sequence[File] = (),
        taken: tuple[int, int, int] = NOTHING,
    ) -> None:
        """Name new files, and delete those that they replace; the caller holds the epoch's lock.

        Args:
            epoch: whose files they are.
            added: new files, which are on the disk.
            removed: files that they replace.
            taken: the inbox rows that the new files count: first and last id, and reports.
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
                # Summed in SQL: fetching rows would give up the GIL for each while commits wait.
                summed = f"SELECT coalesce(sum(reports), 0) FROM {CHOSEN}"
                held = connection.execute(summed, rows).fetchone()[0]
                if held != reports or epoch.id not in self.registry.by_id:
                    words = f"epoch {epoch.number} was deleted while it was sealed"
                    raise Problem(CONFLICT, words)
                connection.execute(f"DELETE FROM {CHOSEN}", rows)
            self.registry.add_pending([(epoch, -reports)])
            self.registry.recount(epoch)
        with self._tidying:
            self._unnamed.update({each.path for each in removed} - {each.path for each in added})
        self.tidy()

    def tidy(self) -> None:
        """Delete the replaced files; those that a backup may still need wait for the next call."""
        with self._tidying:
            self._unnamed = {path for path in self._unnamed if not discard(self.folder, path)}

    def delete(self, collection: Collection) -> None:
        """Delete the files of a collection that was deleted from the database."""
        for kind in SUFFIXES:
            shutil.rmtree(self.folder / kind / collection.folder, ignore_errors=True)
