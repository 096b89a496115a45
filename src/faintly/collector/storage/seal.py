"""Sealing: reports leave the inbox for a segment and a sketch, in one transaction.

First the new file reaches the disk under its name. Then one transaction adds it to the manifest
and deletes the inbox rows it came from. Then memory is updated. A crash before the transaction
leaves a file that the manifest does not name, which the next start deletes. A crash after it
needs no repair.

Compaction does the same with the small segments of a closed epoch, which become a few large ones,
shuffled together. Where reports are rare, each seal makes a small file. Large files reveal less
about when a report arrived, and are faster to read. A sketch file counts all segments up to a
number, and the new segment has the next number. So the transaction also names a new sketch file,
of the same integers.
"""

import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from faintly.collector import problems
from faintly.collector.problems import Problem
from faintly.collector.storage import segments, sketches
from faintly.collector.storage.collection import Collection, Counters, Epoch
from faintly.collector.storage.database import Database
from faintly.collector.storage.disk import discard
from faintly.collector.storage.registry import Registry
from faintly.collector.storage.sketches import Sketches
from faintly.core import AnyArray
from faintly.durable import Stored
from faintly.errors import FolderDamaged

MOST_BYTES = 64 << 20  # per segment, which bounds the memory of a seal
MOST_REPORTS = 1 << 20  # per segment; shuffling more would not fit the cache
CHOSEN = "inbox WHERE epoch = ? AND id BETWEEN ? AND ?"
STEPS = ("read", "written", "committed", "done")  # the steps of a seal after which tests crash it
MERGE_STEPS = ("merged", "replaced")  # and those of a compaction


def most_reports(collection: Collection) -> int:
    """Return the largest number of reports in a segment."""
    return min(MOST_REPORTS, MOST_BYTES // collection.record_bytes)


class Sealer:
    """Moves pending reports into segments or sketches; one seal per epoch at a time."""

    def __init__(
        self,
        folder: Path,
        database: Database,
        registry: Registry,
        kept: Sketches,
        counters: Counters,
    ) -> None:
        self._folder, self._database, self._registry = folder, database, registry
        self._sketches, self._counters = kept, counters
        self._unnamed: set[Path] = set()  # files that a running backup kept from being deleted
        self.reached: Callable[[str], object] = lambda _: None  # a hook for tests

    def seal(self, epoch: Epoch) -> int:
        """Seal everything that is pending now, and return the number of reports."""
        sealed = 0
        with epoch.lock:
            end = self._database.rows("SELECT max(id) FROM inbox WHERE epoch = ?", (epoch.id,))
            while (last := end[0][0]) is not None:
                reports = self._seal_some(epoch, last)
                if not reports:
                    break
                sealed += reports
        return sealed

    def _seal_some(self, epoch: Epoch, last: int) -> int:
        started = time.perf_counter()
        rows = self._choose(epoch, last)
        if not rows:
            return 0
        records = self._read(epoch, rows)
        self.reached("read")
        seal = self._drop if epoch.collection.retention == "drop" else self._keep
        seal(epoch, records, rows[0], rows[-1])
        self.reached("done")
        self._counters.seals += 1
        self._counters.sealed_minute = minute = int(time.time() // 60)
        epoch.collection.arrivals.last_hours(minute // 60)  # or the counts would add up for ever
        self._counters.sealed_reports += len(records)
        self._counters.seal_seconds += time.perf_counter() - started
        return len(records)

    def _choose(self, epoch: Epoch, last: int) -> list[int]:
        """Return the ids of the oldest rows that fit into one segment, but at least one."""
        chosen: list[int] = []
        total = 0
        most = most_reports(epoch.collection)
        for key, reports in self._database.rows(
            "SELECT id, reports FROM inbox WHERE epoch = ? AND id <= ? ORDER BY id LIMIT ?",
            (epoch.id, last, most),
        ):
            total += reports
            if chosen and total > most:
                break
            chosen.append(key)
        return chosen

    def _read(self, epoch: Epoch, rows: list[int]) -> AnyArray:
        found = self._database.rows(
            f"SELECT checksum, records FROM {CHOSEN}", (epoch.id, rows[0], rows[-1])
        )
        if any(zlib.crc32(records) != checksum for checksum, records in found):
            raise FolderDamaged(
                f"pending reports of epoch {epoch.number} were changed on the disk; "
                "run faintly fsck, or restore a backup"
            )
        joined = np.frombuffer(b"".join([records for _, records in found]), np.uint8)
        return joined.reshape(-1, epoch.collection.record_bytes)

    def _keep(self, epoch: Epoch, records: AnyArray, first: int, last: int) -> None:
        number = epoch.last + 1
        path, shuffled = segments.path_of(self._folder, epoch, number), segments.shuffle(records)
        stored = segments.write(path, epoch, shuffled)
        self.reached("written")
        row = (epoch.id, number, len(records), stored.size, stored.checksum)
        self._commit(segments.INSERT, row, epoch, (first, last), len(records))
        self.reached("committed")
        self._sketches.refresh(epoch, sketches.TAIL)

    def _drop(self, epoch: Epoch, records: AnyArray, first: int, last: int) -> None:
        aggregator, before = self._sketches.read(epoch), epoch.last
        aggregator.add(segments.decode(records, epoch.collection))
        row = self._sketches.write(epoch, aggregator.sketch(), before + 1)
        self.reached("written")
        self._commit(sketches.INSERT, row, epoch, (first, last), len(records))
        self.reached("committed")
        if before:
            discard(self._folder, sketches.path_of(self._folder, epoch, before))

    def _commit(
        self,
        statement: str,
        row: tuple[object, ...],
        epoch: Epoch,
        ids: tuple[int, int],
        reports: int,
    ) -> None:
        """Add the new file to the manifest and delete its reports from the inbox, atomically."""
        chosen = epoch.id, *ids
        with self._database.write_lock:
            with self._database.transaction() as connection:
                connection.execute(statement, row)
                # Summed in SQL: fetching rows would give up the GIL for each while commits wait.
                held = connection.execute(f"SELECT sum(reports) FROM {CHOSEN}", chosen).fetchone()
                if held[0] != reports:
                    raise Problem(
                        problems.CONFLICT, f"epoch {epoch.number} was deleted while it was sealed"
                    )
                connection.execute(f"DELETE FROM {CHOSEN}", chosen)
            self._registry.add_pending([(epoch, -reports)])
            self._registry.recount(epoch)

    def compact(self, epoch: Epoch) -> None:
        """Merge all small segments of an epoch."""
        while self.compact_some(epoch):
            pass

    def compact_some(self, epoch: Epoch) -> bool:
        """Merge one run of small segments, and return whether there was one.

        Queries about the epoch wait meanwhile, but only for one file. When nothing is left to
        merge, the sketch file is brought up to date.
        """
        with epoch.lock:
            runs = [] if epoch.collection.retention == "drop" else self._runs(epoch)
            if runs:
                self._merge(epoch, runs[0])
            else:
                self._sketches.refresh(epoch)
            return bool(runs)

    def tidy(self) -> None:
        """Delete the merged files that a backup still needed."""
        self._unnamed = {path for path in self._unnamed if not discard(self._folder, path)}

    def _runs(self, epoch: Epoch) -> list[dict[int, Stored]]:
        """Return the runs of segments to merge: two or more each, and no more than fit one file."""
        most = most_reports(epoch.collection)
        runs: list[dict[int, Stored]] = [{}]
        total = 0
        for row in segments.rows(self._database, epoch):
            if row.reports > most // 2:
                continue
            if total + row.reports > most:
                runs.append({})
                total = 0
            runs[-1][row.number] = row.stored
            total += row.reports
        return [run for run in runs if len(run) > 1]

    def _merge(self, epoch: Epoch, run: dict[int, Stored]) -> None:
        paths = {number: segments.path_of(self._folder, epoch, number) for number in run}
        records = np.concatenate(
            [segments.read(paths[number], epoch, stored) for number, stored in run.items()]
        )
        old, number = self._sketches.last_written(epoch), epoch.last + 1
        sketch = self._sketches.write(epoch, self._sketches.read(epoch).sketch(), number)
        path = segments.path_of(self._folder, epoch, number)
        stored = segments.write(path, epoch, segments.shuffle(records))
        self.reached("merged")
        row = (epoch.id, number, len(records), stored.size, stored.checksum)
        with self._database.transaction() as connection:
            connection.executemany(
                "DELETE FROM segments WHERE epoch = ? AND number = ?",
                [(epoch.id, each) for each in run],
            )
            connection.execute(segments.INSERT, row)
            connection.execute(sketches.INSERT, sketch)
        self._registry.recount(epoch)
        self.reached("replaced")
        self._unnamed.update(paths.values())
        if old:
            self._unnamed.add(sketches.path_of(self._folder, epoch, old))
        self.tidy()
