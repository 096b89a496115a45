"""Merging: the small segments of a closed epoch become few large ones, shuffled together.

Where reports come thinly, each seal makes a file of a few. Together they tell less about when a
report came, and are quicker to read. First the new file is on the disk under its name; then one
transaction names it in the manifest in place of those it holds; then they are deleted. A crash
leaves files that nothing names, and the next start deletes them.

A sketch says up to which segment it counts, and a merged segment has the next number: the same
transaction forgets the sketch file, and a new one is written afterwards.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from faintly.collector import segments, sketches
from faintly.collector.database import Database
from faintly.collector.disk import Stored, discard
from faintly.collector.registry import Epoch
from faintly.collector.seal import most_reports
from faintly.collector.sketches import Sketches

POINTS = ("written", "committed", "done")  # between the steps of a merge, for tests


class Merger:
    """Merges segments of epochs that take nothing more."""

    def __init__(self, folder: Path, database: Database, kept: Sketches) -> None:
        self._folder, self._database, self._sketches = folder, database, kept
        self._unnamed: set[Path] = set()  # files that a copy kept from being deleted
        self.reached: Callable[[str], object] = lambda _: None  # tests crash here

    def merge(self, epoch: Epoch) -> None:
        """Merge what is small; once merged, nothing is."""
        while self.merge_some(epoch):
            pass

    def merge_some(self, epoch: Epoch) -> bool:
        """Make one file of some small ones, and return whether there were any.

        Questions about the epoch wait meanwhile, but no longer than for one file. When all are
        merged, the sketch goes to the disk.
        """
        with epoch.lock:
            runs = [] if epoch.collection.retention == "drop" else self._runs(epoch)
            if runs:
                self._merge(epoch, runs[0])
        if not runs:
            self._sketches.snapshot(epoch, tail=1)
        return bool(runs)

    def _merge(self, epoch: Epoch, run: dict[int, Stored]) -> None:
        loaded = self._sketches.load(epoch)  # now it counts all of them
        try:
            self._replace(epoch, run)
            loaded.number = epoch.last
            self.reached("done")
        except BaseException:
            self._sketches.let_go(epoch)  # it may not know which segments it counts
            raise

    def tidy(self) -> None:
        """Delete what a copy held when it was merged."""
        self._unnamed = {path for path in self._unnamed if not discard(self._folder, path)}

    def _runs(self, epoch: Epoch) -> list[dict[int, Stored]]:
        """Return which segments to merge with each other: at least two, and no more than fit."""
        most = most_reports(epoch.collection)
        runs: list[dict[int, Stored]] = [{}]
        total = 0
        for number, reports, *stored in self._database.rows(
            "SELECT number, reports, bytes, checksum FROM segments "
            "WHERE epoch = ? AND reports <= ? ORDER BY number",
            (epoch.id, most // 2),
        ):
            if total + reports > most:
                runs.append({})
                total = 0
            runs[-1][number] = Stored(*stored)
            total += reports
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
        """Name the new file in place of those it holds, and return the sketch that went."""
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
