"""Check everything in a data folder: every page, file, checksum, report and integer.

Nothing is changed without `repair`, which deletes only files that the manifest does not name and
sketches that can be rebuilt from their segments.
"""

import os
import sqlite3
import tempfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from faintly.collector.problems import Problem
from faintly.collector.storage import acknowledged, recovery, segments, sketches
from faintly.collector.storage.collection import Epoch
from faintly.collector.storage.database import NAME, RESTORE, Database, check_folder
from faintly.collector.storage.disk import file_problem, locked
from faintly.collector.storage.registry import Registry
from faintly.core import ReportBatch
from faintly.durable import Stored
from faintly.engine import Aggregator
from faintly.engine.files import load_sketch
from faintly.errors import FaintlyError, FolderDamaged, InvalidInput

REPAIR = "run fsck with --repair: nothing is lost"
UNNAMED = "nothing names this file"
LEFT = "the next start deletes it, or fsck with --repair: nothing is lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong."""

    where: str  # a file in the folder, or a part of the database
    what: str
    advice: str
    repaired: bool = False

    @property
    def harmless(self) -> bool:
        """Return whether it can be repaired without loss, or was."""
        return self.repaired or self.advice in {REPAIR, LEFT}

    @property
    def leftover(self) -> bool:
        """Return whether it is an unused file, such as one that a crash left behind."""
        return self.advice == LEFT and not self.repaired


@dataclass(slots=True, kw_only=True)
class Checked:
    """What was checked, and what was found."""

    collections: int = 0
    segments: int = 0
    sealed: int = 0  # reports in segments and sketches
    pending: int = 0  # reports in the inbox
    findings: list[Finding] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Return whether nothing is wrong after repairs; unused files do not count."""
        return all(finding.repaired or finding.leftover for finding in self.findings)

    @property
    def leftovers(self) -> int:
        """Return the number of unused files."""
        return sum(finding.leftover for finding in self.findings)


def check(folder: Path, *, repair: bool = False) -> Checked:
    """Return what is wrong with a folder that no collector uses.

    The folder may be read-only unless it is to be repaired.
    """
    check_folder(folder)
    checked = Checked()
    with locked(folder, change=repair):
        try:
            with Database(folder) as database:
                _Check(folder, database, checked, repair).everything()
        except FolderDamaged as error:
            what = error.what.removeprefix(f"{folder / NAME} ")
            checked.findings.append(Finding(where=NAME, what=what, advice=error.advice or RESTORE))
        except Problem as problem:  # the disk failed, not the folder
            raise InvalidInput(f"{folder} cannot be checked: {problem}") from None
        except sqlite3.DatabaseError as error:
            checked.findings.append(Finding(where=NAME, what=str(error), advice=RESTORE))
    return checked


class _Check:
    def __init__(self, folder: Path, database: Database, checked: Checked, repair: bool) -> None:
        self.folder, self.database, self.checked, self.repair = folder, database, checked, repair
        self.registry = Registry(database)
        self.named: set[Path] = set()
        # For temporary files: a backup may be read-only.
        places = (each for each in (folder / "spool", folder) if os.access(each, os.W_OK))
        self.spool = next(places, Path(tempfile.gettempdir()))

    def everything(self) -> None:
        for (line,) in self.database.rows("PRAGMA integrity_check"):
            if line != "ok":
                self.report(NAME, line, RESTORE)
        try:
            acknowledged.check(self.folder, self.database)
        except FolderDamaged as error:
            self.report(NAME, error.what, error.advice)
        self.checked.collections = len(self.registry.collections)
        for epoch in self.registry.by_id.values():
            self.pending(epoch)
            self.sealed(epoch)
        stray = recovery.stray_files(self.folder, self.named)
        newer = recovery.newer_files(stray, self.database, self.registry)
        for path in stray:
            if newer:  # then any of them may be needed
                what = recovery.NEWER if path in newer else UNNAMED
                self.report(path, what, recovery.PUT_BACK)
                continue
            if self.repair:
                path.unlink()
            self.report(path, UNNAMED, LEFT, repaired=self.repair)

    def report(self, where: Path | str, what: str, advice: str, *, repaired: bool = False) -> None:
        if isinstance(where, Path):
            where = where.relative_to(self.folder).as_posix()
        made = Finding(where=where, what=what, advice=advice, repaired=repaired)
        self.checked.findings.append(made)

    def pending(self, epoch: Epoch) -> None:
        where = f"{NAME}: inbox of epoch {epoch.number} of {epoch.collection.digest.hex()}"
        keys = self.database.rows("SELECT id FROM inbox WHERE epoch = ?", (epoch.id,))
        for (key,) in keys:
            reports, checksum, records = self.database.rows(
                "SELECT reports, checksum, records FROM inbox WHERE id = ?", (key,)
            )[0]
            self.checked.pending += reports
            width = epoch.collection.record_bytes
            if zlib.crc32(records) != checksum or len(records) != reports * width:
                self.report(where, f"row {key} does not have its checksum or size", RESTORE)
                continue
            try:
                rows = np.frombuffer(records, np.uint8).reshape(-1, width)
                segments.decode(rows, epoch.collection)
            except FolderDamaged as error:
                self.report(where, f"row {key}: {error}", RESTORE)

    def sealed(self, epoch: Epoch) -> None:
        """Count the reports of the segments again, and compare with the stored sketch.

        Where segments are dropped, the sketch is the only copy.
        """
        dropped = epoch.collection.retention == "drop"
        found = self.database.rows(
            "SELECT number, reports, bytes, checksum FROM sketches WHERE epoch = ?", (epoch.id,)
        )
        upto = found[0][0] if found else 0
        rebuilt, whole = Aggregator(epoch.collection.plan, self.spool), not dropped
        for row in segments.rows(self.database, epoch):
            batch = self.segment(epoch, row)
            whole = whole and batch is not None
            if batch is not None and row.number <= upto:
                rebuilt.add(batch)
        for number, reports, *stored in found:
            path = sketches.path_of(self.folder, epoch, number)
            self.named.add(path)
            self.checked.sealed += reports if dropped else 0
            problem = file_problem(path, Stored(*stored))
            try:
                found_sketch = load_sketch(path) if problem is None else None
                if whole and found_sketch is not None and found_sketch != rebuilt.sketch():
                    problem = "the sketch is not that of its segments"
            except FaintlyError as error:
                problem = str(error).removeprefix(f"{path}: ")
            if problem is not None:
                repaired = whole and self.repair
                if repaired:
                    recovery.forget_sketch(self.database, epoch, path)
                self.report(path, problem, REPAIR if whole else RESTORE, repaired=repaired)

    def segment(self, epoch: Epoch, row: segments.Row) -> ReportBatch | None:
        """Return the reports of a segment, or None if it is damaged."""
        path = segments.path_of(self.folder, epoch, row.number)
        self.named.add(path)
        self.checked.segments += 1
        self.checked.sealed += row.reports
        try:
            batch = segments.decode(segments.read(path, epoch, row.stored), epoch.collection)
        except FolderDamaged as error:
            self.report(path, error.what, RESTORE)
            return None
        if len(batch) == row.reports:
            return batch
        self.report(path, f"it has {len(batch)} reports instead of {row.reports}", RESTORE)
        return None
