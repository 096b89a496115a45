"""Sketches of epochs, as files that readers map.

If segments are kept, a sketch file is a cache: it counts all segments up to a number, and a query
brings it up to date. If they are dropped, the file is the only copy.
"""

import secrets
from functools import partial
from pathlib import Path
from typing import NamedTuple

from faintly.core import Sketch
from faintly.engine import Aggregator
from faintly.engine.files import load_sketch
from faintly.errors import FaintlyError
from faintly.wire import sketch_v1
from faintly.wire.problems import NO_REPORTS, Problem
from faintly_collector.storage import segments
from faintly_collector.storage.collection import Epoch
from faintly_collector.storage.disk import damaged, write_file
from faintly_collector.storage.manifest import SEGMENTS, SKETCHES, File, Manifest


class SketchFile(NamedTuple):
    """A sketch file, and what it counts."""

    path: Path
    version: str  # names exactly these reports
    reports: int


class Sketches:
    """The sketches of a store."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        # A restored folder may count other reports under the same numbers, hence a random part.
        self._nonce = secrets.token_hex(8)

    def count(self, epoch: Epoch) -> Aggregator:
        """Count all sealed reports into a sketch; the caller holds the epoch's lock."""
        collection, spool = epoch.collection, self._manifest.folder / "spool"
        aggregator, last = Aggregator(collection.plan, spool), 0
        for file in self._manifest.files(SKETCHES, epoch):
            try:
                sketch = load(file.path, collection.digest, file.reports)
                aggregator, last = Aggregator.resume(sketch, spool), file.number
            except FaintlyError as error:
                if file.needed:  # otherwise it is rebuilt from the segments
                    raise damaged(file.path, str(error)) from None
        for file in self._manifest.files(SEGMENTS, epoch, after=last):
            aggregator.add(segments.decode(segments.read(file), collection))
        return aggregator

    def write(self, epoch: Epoch, sketch: Sketch, number: int) -> File:
        """Return a new sketch file for the manifest, once it is on the disk."""
        path = self._manifest.path(SKETCHES, epoch, number)
        stored = write_file(path, partial(sketch_v1.write_sketch, sketch))
        return File(path, SKETCHES, epoch, number, sketch.count, stored)

    def refresh(self, epoch: Epoch, lag: int = 1) -> None:
        """Bring the file up to date if it lacks at least `lag` segments."""
        with epoch.lock:
            before = self._manifest.files(SKETCHES, epoch)
            last = before[0].number if before else 0
            if epoch.collection.retention == "keep" and epoch.last - last >= lag:
                file = self.write(epoch, self.count(epoch).sketch(), epoch.last)
                self._manifest.change(epoch, [file], before)

    def file(self, digest: bytes, number: int, *, rebuild: bool = False) -> SketchFile:
        """Return the file of all sealed reports of an epoch, and write it if needed.

        A newer file may replace it at any time; a reader that has it open can continue. With
        `rebuild`, a file that turned out to be damaged is rebuilt from the segments.
        """
        epoch = self._manifest.registry.epoch(digest, number)
        with epoch.lock:
            if not epoch.sealed:  # it may have been deleted while the caller waited
                raise Problem(NO_REPORTS)
            path = self._manifest.path(SKETCHES, epoch, epoch.last)
            lost = rebuild or not path.exists()
            if lost and epoch.collection.retention == "drop":
                raise damaged(path, "cannot be read")
            self.refresh(epoch, lag=0 if lost else 1)
            return SketchFile(path, self.version(epoch), epoch.sealed)

    def version(self, epoch: Epoch) -> str:
        """Return a name for what is sealed of an epoch now; every seal changes it."""
        return f"{self._nonce}.{epoch.id}.{epoch.last}.{epoch.sealed}"


def load(path: Path, digest: bytes, reports: int) -> Sketch:
    """Return a sketch, mapped, if it is of these many reports under this plan's digest."""
    sketch = load_sketch(path)
    if (sketch.plan.digest, sketch.count) != (digest, reports):
        raise damaged(path, "it is not the sketch of its epoch")
    return sketch
