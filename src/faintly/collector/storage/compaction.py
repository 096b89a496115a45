"""Compaction: the small segments of a closed epoch become a few large ones, shuffled together.

Where reports are rare, each seal makes a small file. Large files reveal less about when a report
arrived, and are faster to read. First the new file reaches the disk under its name. Then one
transaction puts it in place of the old ones in the manifest. Then the old files are deleted. A
crash leaves files that the manifest does not name, which the next start deletes.

A sketch file counts all segments up to a number, and the new segment has the next number. So the
same transaction drops the sketch file, and a new one is written afterwards.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from faintly.collector.storage import segments, sketches
from faintly.collector.storage.collection import Epoch
from faintly.collector.storage.database import Database
from faintly.collector.storage.disk import Stored, discard
from faintly.collector.storage.seal import most_reports
from faintly.collector.storage.sketches import Sketches

STEPS = ("written", "committed", "done")  # the steps after which tests crash it


class Compactor:
    """Merges the segments of closed epochs."""

    def __init__(self, folder: Path, database: Database, kept: Sketches) -> None:
        self._folder, self._database, self._sketches = folder, database, kept
        self._unnamed: set[Path] = set()  # files that a running backup kept from being deleted
        self.reached: Callable[[str], object] = lambda _: None  # a hook for tests

    def compact(self, epoch: Epoch) -> None:
        """Merge all small segments of an epoch."""
        while self.compact_some(epoch):
            pass

    def compact_some(self, epoch: Epoch) -> bool:
        """Merge one run of small segments, and return whether there was one.

        Queries about the epoch wait meanwhile, but only for one file. When nothing is left to
        merge, the sketch is written to the disk.
        """
        with epoch.lock:
            runs = [] if epoch.collection.retention == "drop" else self._runs(epoch)
            if runs:
                self._merge_run(epoch, runs[0])
        if not runs:
            self._sketches.snapshot(epoch, tail=1)
        return bool(runs)

    def _merge_run(self, epoch: Epoch, run: dict[int, Stored]) -> None:
        loaded = self._sketches.load(epoch)  # before its segments are renumbered
        try:
            self._replace(epoch, run)
            loaded.number = epoch.last
            self.reached("done")
        except BaseException:
            self._sketches.evict(epoch)  # its segment number may be wrong now
            raise

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

    def _replace(self, epoch: Epoch, run: dict[int, Stored]) -> None:
        paths = {number: segments.path_of(self._folder, epoch, number) for number in run}
        records = np.concatenate(
            [segments.read(paths[number], epoch, stored) for number, stored in run.items()]
        )
        number = epoch.last + 1
        path = segments.path_of(self._folder, epoch, number)
        stored = segments.write(path, epoch, segments.shuffle(records))
        self.reached("written")
        row = (epoch.id, number, len(records), stored.size, stored.checksum)
        old = self._commit(epoch, run, row)
        epoch.last, epoch.segments = number, epoch.segments + 1 - len(run)
        epoch.bytes += stored.size - sum(each.size for each in run.values())
        self.reached("committed")
        self._unnamed.update(old, paths.values())
        self.tidy()

    def _commit(self, epoch: Epoch, run: dict[int, Stored], row: tuple[object, ...]) -> list[Path]:
        """Replace the old segments in the manifest, and return the sketch files dropped."""
        with self._database.transaction() as connection:
            forgotten = connection.execute(
                "DELETE FROM sketches WHERE epoch = ? RETURNING number", (epoch.id,)
            ).fetchall()
            connection.executemany(
                "DELETE FROM segments WHERE epoch = ? AND number = ?",
                [(epoch.id, number) for number in run],
            )
            connection.execute("INSERT INTO segments VALUES (?, ?, ?, ?, ?)", row)
        return [sketches.path_of(self._folder, epoch, number) for (number,) in forgotten]
