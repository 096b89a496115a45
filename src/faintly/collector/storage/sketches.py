"""Sketches of epochs: loaded on demand, updated by each seal, written when they are asked for.

Where segments are kept, a sketch file is a cache: it counts all segments up to a number, and later
ones are added when it is loaded. Where they are dropped, the file is the only copy.
"""

import secrets
import threading
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from faintly.collector import problems
from faintly.collector.problems import Problem
from faintly.collector.storage import segments
from faintly.collector.storage.collection import Collection, Epoch
from faintly.collector.storage.database import Database
from faintly.collector.storage.disk import Stored, discard, write_file
from faintly.collector.storage.registry import Registry
from faintly.core import Sketch
from faintly.engine import Aggregator
from faintly.engine.files import load_sketch
from faintly.errors import FaintlyError, FolderDamaged
from faintly.wire import sketch_v1

FOLDER, SUFFIX = "sketches", ".fns"
TAIL = 16  # segments since the last snapshot that make a new one worthwhile


def path_of(folder: Path, epoch: Epoch, number: int) -> Path:
    """Return the path of a sketch."""
    return folder / FOLDER / epoch.collection.folder / (epoch.stem(number) + SUFFIX)


class SketchFile(NamedTuple):
    """A sketch file, and what it counts."""

    path: Path
    mark: str  # names exactly these reports
    reports: int


class Loaded:
    """The sketch of an epoch up to a seal, in memory."""

    def __init__(self, aggregator: Aggregator, number: int) -> None:
        self.aggregator, self.number = aggregator, number


class Sketches:
    """The sketches of a store; memory holds those used most recently."""

    def __init__(self, folder: Path, database: Database, registry: Registry, most: int) -> None:
        self._folder, self._database, self._registry, self._most = folder, database, registry, most
        self._spool = folder / "spool"
        self._lock = threading.Lock()
        # A restored folder may count other reports under the same numbers.
        self._opened = secrets.token_hex(8)
        self._loaded: OrderedDict[int, Loaded] = OrderedDict()

    def is_loaded(self, epoch: Epoch) -> bool:
        """Return whether a sketch is in memory."""
        return epoch.id in self._loaded

    def load(self, epoch: Epoch) -> Loaded:
        """Return the sketch of all sealed reports; the caller holds the epoch's lock."""
        with self._lock:
            loaded = self._loaded.get(epoch.id)
            if loaded is not None:
                self._loaded.move_to_end(epoch.id)
                return loaded
        loaded = self._read(epoch)
        with self._lock:
            self._loaded[epoch.id] = loaded
            while len(self._loaded) > self._most:
                self._loaded.popitem(last=False)
        return loaded

    def evict(self, epoch: Epoch) -> None:
        """Drop a sketch from memory; it is loaded again from the disk."""
        with self._lock:
            self._loaded.pop(epoch.id, None)

    def forget(self, collection: Collection) -> None:
        """Drop everything about a collection from memory."""
        for epoch in collection.epochs.values():
            self.evict(epoch)

    def _read(self, epoch: Epoch) -> Loaded:
        loaded = self._snapshot(epoch) or Loaded(Aggregator(epoch.collection.plan, self._spool), 0)
        if epoch.collection.retention == "drop":
            return loaded
        for number, *stored in self._database.rows(
            "SELECT number, bytes, checksum FROM segments WHERE epoch = ? AND number > ? "
            "ORDER BY number",
            (epoch.id, loaded.number),
        ):
            path = segments.path_of(self._folder, epoch, number)
            records = segments.read(path, epoch, Stored(*stored))
            loaded.aggregator.add(segments.decode(records, epoch.collection))
            loaded.number = number
        return loaded

    def _snapshot(self, epoch: Epoch) -> Loaded | None:
        found = self._database.rows(
            "SELECT number, reports FROM sketches WHERE epoch = ?", (epoch.id,)
        )
        if not found:
            return None
        number, reports = found[0]
        path = path_of(self._folder, epoch, number)
        try:
            sketch = load_sketch(path)
            if sketch.plan.digest != epoch.collection.digest or sketch.count != reports:
                raise FolderDamaged(f"{path} is not the sketch of its epoch; restore a backup")
        except FaintlyError as error:
            if epoch.collection.retention == "keep":
                return None  # it is rebuilt from the segments
            raise FolderDamaged(f"{error}; restore a backup") from None
        return Loaded(Aggregator.resume(sketch, self._spool), number)

    def write(self, epoch: Epoch, sketch: Sketch, number: int) -> Stored:
        """Write a sketch file; returns once it is on the disk."""
        return write_file(
            path_of(self._folder, epoch, number),
            lambda stream: sketch_v1.write_sketch(sketch, stream),  # type: ignore[arg-type]
        )

    def snapshot(self, epoch: Epoch, *, tail: int | None = None) -> None:
        """Write the sketch in memory to a file, if `tail` segments were added since."""
        with epoch.lock:
            loaded = self._loaded.get(epoch.id)
            if loaded is None or epoch.collection.retention == "drop":
                return
            before = self._last_written(epoch)
            if loaded.number - before < (TAIL if tail is None else tail):
                return
            sketch = loaded.aggregator.sketch()
            stored = self.write(epoch, sketch, loaded.number)
            with self._database.transaction() as connection:
                connection.execute(
                    "INSERT OR REPLACE INTO sketches VALUES (?, ?, ?, ?, ?)",
                    (epoch.id, loaded.number, sketch.count, stored.size, stored.checksum),
                )
            if before:
                discard(self._folder, path_of(self._folder, epoch, before))

    def sketch(self, digest: bytes, number: int) -> Sketch:
        """Return the sketch of an epoch's sealed reports."""
        epoch = self._registry.epoch(digest, number)
        with epoch.lock:
            _check_sealed(epoch)
            return self.load(epoch).aggregator.sketch()

    def file(self, digest: bytes, number: int, *, rebuild: bool = False) -> SketchFile:
        """Return the file of all sealed reports of an epoch, which is written if need be.

        A newer file may replace it at any time; who has it open can read on.

        Args:
            digest: names the collection.
            number: names the epoch.
            rebuild: True where the file turned out to be damaged: it is made from the segments.
        """
        epoch = self._registry.epoch(digest, number)
        with epoch.lock:
            _check_sealed(epoch)
            path = path_of(self._folder, epoch, epoch.last)
            written = self._last_written(epoch) == epoch.last
            if written and (rebuild or not path.exists()):
                self._distrust(epoch, path)
                written = False
            if not written:
                self.load(epoch)
                self.snapshot(epoch, tail=1)
            return SketchFile(path, self.mark(epoch), epoch.sealed)

    def _distrust(self, epoch: Epoch, path: Path) -> None:
        """Forget a sketch file that cannot be read, unless it is the only copy."""
        if epoch.collection.retention == "drop":
            raise FolderDamaged(f"{path} cannot be read; restore a backup")
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM sketches WHERE epoch = ?", (epoch.id,))

    def _last_written(self, epoch: Epoch) -> int:
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
