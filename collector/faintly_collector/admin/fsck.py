"""Check everything in a data folder: every page, file, checksum, report and integer.

Nothing is changed without `repair`, which deletes only files that the manifest does not name and
sketches that can be rebuilt from their segments.
"""

import os
import tempfile
import zlib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from faintly.engine import Aggregator
from faintly.engine.files import load_sketch
from faintly.errors import FaintlyError, FolderDamaged
from faintly_collector.storage import segments
from faintly_collector.storage.collection import Epoch
from faintly_collector.storage.database import DATABASE_FILE
from faintly_collector.storage.disk import RESTORE, file_problem, locked
from faintly_collector.storage.manifest import NEWER, PUT_BACK, SEGMENTS, SKETCHES, Manifest

REPAIR = "run fsck with --repair: nothing is lost"
UNNAMED = "nothing names this file"
LEFTOVER = "the next start deletes it, or fsck with --repair: nothing is lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong."""

    where: str  # a file in the folder, or a part of the database
    what: str
    advice: str
    repaired: bool = False

    @property
    def harmless(self) -> bool:
        """Return whether it was, or can be, repaired without loss."""
        return self.repaired or self.advice in {REPAIR, LEFTOVER}

    @property
    def leftover(self) -> bool:
        """Return whether it is an unused file, such as one that a crash left behind."""
        return self.advice == LEFTOVER and not self.repaired


@dataclass(slots=True, kw_only=True)
class CheckResult:
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


def check(folder: Path, *, repair: bool = False) -> CheckResult:
    """Return what is wrong with a folder that no collector uses.

    The folder may be read-only unless it is to be repaired.
    """
    result = CheckResult()
    try:
        with Manifest.open(folder, partial(locked, change=repair)) as manifest:
            _Check(manifest, result, repair).run()
    except FolderDamaged as error:
        result.findings.append(Finding(where=DATABASE_FILE, what=error.what, advice=error.advice))
    return result


class _Check:
    def __init__(self, manifest: Manifest, result: CheckResult, repair: bool) -> None:
        self.manifest, self.result, self.repair = manifest, result, repair
        self.folder, self.database = manifest.folder, manifest.database
        # For temporary files: a backup may be read-only.
        places = (each for each in (self.folder / "spool", self.folder) if os.access(each, os.W_OK))
        self.spool = next(places, Path(tempfile.gettempdir()))

    def run(self) -> None:
        for (line,) in self.database.rows("PRAGMA integrity_check"):
            if line != "ok":
                self.report(DATABASE_FILE, line)
        lost = False
        try:
            self.database.check_count()
        except FolderDamaged as error:
            self.report(DATABASE_FILE, error.what, error.advice)
            lost = True
        self.result.collections = len(self.manifest.registry.collections)
        named: set[Path] = set()
        for epoch in self.manifest.registry.by_id.values():
            self.check_pending(epoch)
            named |= self.check_sealed(epoch)
        unnamed = self.manifest.unnamed_files(named)
        newer = self.manifest.newer_files(unnamed)
        for path in unnamed:
            if newer or lost:  # any of them may be needed
                self.report(path, NEWER if path in newer else UNNAMED, PUT_BACK)
                continue
            self.report(path, UNNAMED, LEFTOVER)
            if self.repair:
                path.unlink()

    def report(self, where: Path | str, what: str, advice: str = RESTORE) -> None:
        if isinstance(where, Path):
            where = where.relative_to(self.folder).as_posix()
        repaired = self.repair and advice in {REPAIR, LEFTOVER}
        made = Finding(where=where, what=what, advice=advice, repaired=repaired)
        self.result.findings.append(made)

    def check_pending(self, epoch: Epoch) -> None:
        where = f"{DATABASE_FILE}: inbox of epoch {epoch.number} of {epoch.collection.digest.hex()}"
        width = epoch.collection.record_bytes
        keys = self.database.rows("SELECT id FROM inbox WHERE epoch = ?", (epoch.id,))
        for (key,) in keys:
            ((reports, checksum, records),) = self.database.rows(
                "SELECT reports, checksum, records FROM inbox WHERE id = ?", (key,)
            )
            self.result.pending += reports
            if zlib.crc32(records) != checksum or len(records) != reports * width:
                self.report(where, f"row {key} does not have its checksum or size")
                continue
            try:
                rows = np.frombuffer(records, np.uint8).reshape(-1, width)
                segments.decode(rows, epoch.collection)
            except FolderDamaged as error:
                self.report(where, f"row {key}: {error.what}")

    def check_sealed(self, epoch: Epoch) -> set[Path]:
        """Count the reports of the segments again, and compare with the stored sketch.

        Where segments are dropped, the sketch is the only copy. Returns the files it has read.
        """
        segment_files = self.manifest.files(SEGMENTS, epoch)
        sketch_files = self.manifest.files(SKETCHES, epoch)
        rebuilt, intact = Aggregator(epoch.collection.plan, self.spool), True
        for file in segment_files:
            self.result.segments += 1
            self.result.sealed += file.reports
            try:
                batch = segments.decode(segments.read(file), epoch.collection)
            except FolderDamaged as error:
                self.report(file.path, error.what)
                intact = False
                continue
            if sketch_files and file.number <= sketch_files[0].number:
                rebuilt.add(batch)
        for file in sketch_files:
            self.result.sealed += file.reports if file.needed else 0
            rebuildable = intact and not file.needed
            problem = file_problem(file.path, file.stored)
            try:
                if problem is None and load_sketch(file.path) != rebuilt.sketch() and rebuildable:
                    problem = "the sketch is not that of its segments"
            except FaintlyError as error:
                problem = str(error).removeprefix(f"{file.path}: ")
            if problem is not None:
                self.report(file.path, problem, REPAIR if rebuildable else RESTORE)
                if rebuildable and self.repair:
                    self.manifest.change(epoch, [], [file])
        return {file.path for file in segment_files + sketch_files}
