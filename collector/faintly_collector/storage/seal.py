"""Sealing: reports leave the inbox for a segment and a sketch, in one transaction.

Compaction merges the small segments of a closed epoch into a few large ones, shuffled together.
Large files reveal less about when a report arrived, and are faster to read. A sketch file counts
all segments up to a number, and the merged segment has the next number. So the same transaction
also names a new sketch file, with the same integers.
"""

import time
import zlib

import numpy as np

from faintly.core import AnyArray
from faintly_collector.storage import segments
from faintly_collector.storage.collection import Collection, Counters, Epoch
from faintly_collector.storage.disk import damaged
from faintly_collector.storage.manifest import NO_ROWS, SEGMENTS, SKETCHES, File, Manifest
from faintly_collector.storage.sketches import Sketches

MAX_BYTES = 64 << 20  # per segment, which bounds the memory of a seal
MAX_REPORTS = 1 << 20  # per segment; shuffling more would not fit the cache
MAX_LAG = 16  # segments that a sketch file may lack before a seal brings it up to date
# The oldest rows of an epoch that fit into one segment, but at least one.
OLDEST = """SELECT id, checksum, records FROM inbox WHERE id IN (
    SELECT id FROM (
        SELECT id, reports, sum(reports) OVER (ORDER BY id) AS total
        FROM inbox WHERE epoch = ? AND id <= ? ORDER BY id LIMIT ?)
    WHERE total <= ? OR total = reports) ORDER BY id"""


def max_reports(collection: Collection) -> int:
    """Return the largest number of reports in a segment."""
    return min(MAX_REPORTS, MAX_BYTES // collection.record_bytes)


class Sealer:
    """Moves pending reports into segments or sketches; one seal per epoch at a time."""

    def __init__(self, manifest: Manifest, sketches: Sketches, counters: Counters) -> None:
        self._manifest, self._sketches, self._counters = manifest, sketches, counters

    def seal(self, epoch: Epoch) -> int:
        """Seal everything that is pending now, and return the number of reports."""
        with epoch.lock:
            ((last,),) = self._manifest.database.rows(
                "SELECT max(id) FROM inbox WHERE epoch = ?", (epoch.id,)
            )
            return sum(iter(lambda: self._seal_segment(epoch, last), 0))

    def _seal_segment(self, epoch: Epoch, last: int | None) -> int:
        """Seal what fits into one segment, and return its reports; 0 if nothing is left."""
        started = time.perf_counter()
        records, taken = self.read_oldest(epoch, last)
        if not len(records):
            return 0
        if epoch.collection.retention == "keep":
            added, removed = self._write(epoch, records), []
        else:
            removed, aggregator = self._manifest.files(SKETCHES, epoch), self._sketches.count(epoch)
            aggregator.add(segments.decode(records, epoch.collection))
            added = self._sketches.write(epoch, aggregator.sketch(), epoch.last + 1)
        self._manifest.change(epoch, [added], removed, taken)
        self._sketches.refresh(epoch, MAX_LAG)
        self._counters.seals += 1
        minute = int(time.time() // 60)
        self._counters.last_seal = 60 * minute
        epoch.collection.arrivals.last_hours(minute // 60)  # drops old hours, or they would pile up
        self._counters.sealed_reports += len(records)
        self._counters.seal_seconds += time.perf_counter() - started
        return len(records)

    def read_oldest(self, epoch: Epoch, last: int | None) -> tuple[AnyArray, tuple[int, int, int]]:
        """Return pending reports as rows of bytes, and which rows of the inbox they are."""
        limit, width = max_reports(epoch.collection), epoch.collection.record_bytes
        rows = self._manifest.database.rows(OLDEST, (epoch.id, last, limit, limit))
        if any(zlib.crc32(records) != checksum for _, checksum, records in rows):
            what = f"pending reports of epoch {epoch.number} were changed on the disk"
            raise damaged("inbox", what, "run faintly fsck, or restore a backup")
        joined = np.frombuffer(b"".join([each for _, _, each in rows]), np.uint8).reshape(-1, width)
        return joined, (rows[0][0], rows[-1][0], len(joined)) if rows else NO_ROWS

    def _write(self, epoch: Epoch, records: AnyArray) -> File:
        """Return a new segment for the manifest, once it is on the disk."""
        number = epoch.last + 1
        path = self._manifest.path(SEGMENTS, epoch, number)
        stored = segments.write(path, epoch, segments.shuffle(records))
        return File(path, SEGMENTS, epoch, number, len(records), stored)

    def compact(self, epoch: Epoch) -> bool:
        """Merge one run of small segments, and return whether there was one.

        Queries about the epoch wait, but only for one file. When nothing is left to merge, the
        sketch file is brought up to date.
        """
        with epoch.lock:
            run, before = self._find_run(epoch), self._manifest.files(SKETCHES, epoch)
            if not run:
                self._sketches.refresh(epoch)
                return False
            records = np.concatenate([segments.read(file) for file in run])
            sketch = self._sketches.count(epoch).sketch()
            counted = self._sketches.write(epoch, sketch, epoch.last + 1)
            self._manifest.change(epoch, [self._write(epoch, records), counted], [*run, *before])
            return True

    def _find_run(self, epoch: Epoch) -> list[File]:
        """Return small segments to merge into one file: at least two, or none."""
        limit = max_reports(epoch.collection)
        total, run = 0, []
        for file in self._manifest.files(SEGMENTS, epoch):
            if file.reports <= limit // 2 and total + file.reports <= limit:
                run.append(file)
                total += file.reports
        return run if len(run) > 1 else []
