"""Sketches of epochs, as files that readers map.

Where segments are kept, a sketch file is a cache: it counts all segments up to a number, and is
brought up to date when somebody asks. Where they are dropped, the file is the only copy.
"""

import secrets
from pathlib import Path
from typing import NamedTuple

from faintly.collector import problems
from faintly.collector.problems import Problem
from faintly.collector.storage import segments
from faintly.collector.storage.collection import Epoch
from faintly.collector.storage.database import Database
from faintly.collector.storage.disk import discard, write_file
from faintly.collector.storage.registry import Registry
from faintly.core import Sketch
from faintly.engine import Aggregator
from faintly.engine.files import load_sketch
from faintly.errors import FaintlyError, FolderDamaged
from faintly.wire import sketch_v1

FOLDER, SUFFIX = "sketches", ".fns"
Row = tuple[int, int, int, int, bytes]  # of the manifest: epoch, number, reports, size, checksum
TAIL = 16  # segments that a file may lack before a seal brings it up to date
INSERT = "INSERT OR REPLACE INTO sketches VALUES (?, ?, ?, ?, ?)"


def path_of(folder: Path, epoch: Epoch, number: int) -> Path:
    """Return the path of a sketch."""
    return folder / FOLDER / epoch.collection.folder / (epoch.stem(number) + SUFFIX)


class SketchFile(NamedTuple):
    """A sketch file, and what it counts."""

    path: Path
    mark: str  # names exactly these reports
    reports: int


class Sketches:
    """The sketches of a store."""

    def __init__(self, folder: Path, database: Database, registry: Registry) -> None:
        self._folder, self._database, self._registry = folder, database, registry
        # A restored folder may count other reports under the same numbers.
        self._opened = secrets.token_hex(8)

    def read(self, epoch: Epoch) -> Aggregator:
        """Return the sketch of all sealed reports; the caller holds the epoch's lock."""
        aggregator, last = self._stored(epoch)
        if epoch.collection.retention == "keep":
            for row in segments.rows(self._database, epoch, after=last):
                path = segments.path_of(self._folder, epoch, row.number)
                records = segments.read(path, epoch, row.stored)
                aggregator.add(segments.decode(records, epoch.collection))
        return aggregator

    def _stored(self, epoch: Epoch) -> tuple[Aggregator, int]:
        """Return what the file counts, and up to which segment."""
        spool = self._folder / "spool"
        for number, reports in self._database.rows(
            "SELECT number, reports FROM sketches WHERE epoch = ?", (epoch.id,)
        ):
            path = path_of(self._folder, epoch, number)
            try:
                sketch = load_sketch(path)
                if (sketch.plan.digest, sketch.count) == (epoch.collection.digest, reports):
                    return Aggregator.resume(sketch, spool), number
                what = f"{path} is not the sketch of its epoch"
            except FaintlyError as error:
                what = str(error)
            if epoch.collection.retention == "drop":
                raise FolderDamaged(f"{what}; restore a backup")
        return Aggregator(epoch.collection.plan, spool), 0  # made anew from the segments

    def write(self, epoch: Epoch, sketch: Sketch, number: int) -> Row:
        """Write a sketch file, and return its row of the manifest once it is on the disk."""
        stored = write_file(
            path_of(self._folder, epoch, number),
            lambda stream: sketch_v1.write_sketch(sketch, stream),  # type: ignore[arg-type]
        )
        return epoch.id, number, sketch.count, stored.size, stored.checksum

    def refresh(self, epoch: Epoch, tail: int = 1) -> None:
        """Bring the file up to date where so many segments are missing from it."""
        with epoch.lock:
            before = self.last_written(epoch)
            if epoch.collection.retention == "drop" or epoch.last - before < tail:
                return
            row = self.write(epoch, self.read(epoch).sketch(), epoch.last)
            with self._database.transaction() as connection:
                connection.execute(INSERT, row)
            if before:
                discard(self._folder, path_of(self._folder, epoch, before))

    def sketch(self, digest: bytes, number: int) -> Sketch:
        """Return the sketch of an epoch's sealed reports."""
        epoch = self._registry.epoch(digest, number)
        with epoch.lock:
            _check_sealed(epoch)
            return self.read(epoch).sketch()

    def file(self, digest: bytes, number: int, *, rebuild: bool = False) -> SketchFile:
        """Return the file of all sealed reports of an epoch, which is written if need be.

        A newer file may replace it at any time; who has it open can read on. To `rebuild` one that
        turned out to be damaged, it is made from the segments.
        """
        epoch = self._registry.epoch(digest, number)
        with epoch.lock:
            _check_sealed(epoch)
            path = path_of(self._folder, epoch, epoch.last)
            if self.last_written(epoch) == epoch.last and (rebuild or not path.exists()):
                self._distrust(epoch, path)
            self.refresh(epoch)
            return SketchFile(path, self.mark(epoch), epoch.sealed)

    def _distrust(self, epoch: Epoch, path: Path) -> None:
        """Forget a sketch file that cannot be read, unless it is the only copy."""
        if epoch.collection.retention == "drop":
            raise FolderDamaged(f"{path} cannot be read; restore a backup")
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM sketches WHERE epoch = ?", (epoch.id,))

    def last_written(self, epoch: Epoch) -> int:
        """Return the number of the last segment that the sketch file counts, 0 without a file."""
        found = self._database.rows("SELECT number FROM sketches WHERE epoch = ?", (epoch.id,))
        return int(found[0][0]) if found else 0

    def mark(self, epoch: Epoch) -> str:
        """Return a name for what is sealed of an epoch now; every seal changes it."""
        return f"{self._opened}.{epoch.id}.{epoch.last}.{epoch.sealed}"


def _check_sealed(epoch: Epoch) -> None:
    """Refuse an epoch without sealed reports; it may have been deleted while the caller waited."""
    if not epoch.sealed:
        raise Problem(problems.NO_REPORTS, "no reports were sealed yet")
