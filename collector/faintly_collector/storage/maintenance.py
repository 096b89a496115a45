"""The maintenance thread: seals, closes past epochs, compacts, and empties the write-ahead log.

It also reloads credentials, which another process may change.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from faintly_collector.storage.collection import CLOSED, CLOSING, Epoch

if TYPE_CHECKING:
    from faintly_collector.storage.store import Store

TICK_S = 0.25  # how often it checks for work
RETRY_S = 1.0  # pause after a failure
WAL_BYTES = 16 << 20  # size at which the write-ahead log is moved into the file
SAVE_S = 60.0  # how often it stores how long epochs have been past


class Maintenance:
    """Runs from `start` to `stop`."""

    def __init__(self, store: "Store") -> None:
        """Prepare the thread of a store, whose other parts already exist."""
        self._store, self._registry, self._limits = store, store.registry, store.limits
        # Including those of an earlier process, which may have stopped before compacting them.
        self.uncompacted = deque(
            each for each in self._registry.by_id.values() if each.state == CLOSED
        )
        self._saved, self._stopping = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)
        self.start = self._thread.start

    def stop(self) -> None:
        """Finish the current task and end the thread."""
        self._stopping.set()
        self._thread.join()

    def attempt(self, work: Callable[..., object], *arguments: Any, **named: Any) -> bool:
        """Call `work`, and return whether it succeeded.

        The thread must survive, and one failure must not stop the other tasks.
        """
        try:
            work(*arguments, **named)
        except Exception as error:
            self._store.counters.failed_seals += 1
            self._store.counters.record_failure("sealing failed", error)
            return False
        return True

    def _run(self) -> None:
        while not self._stopping.wait(TICK_S):
            if not self.run_once():
                self._stopping.wait(RETRY_S)

    def run_once(self) -> bool:
        """Do everything that is due, and return whether all of it succeeded."""
        succeeded = self.attempt(self._store.credentials.reload)
        for epoch in self._find_due():
            succeeded &= self.attempt(self._store.sealer.seal, epoch)
            succeeded &= self.attempt(self._store.credentials.reload)  # a seal takes a while
        for epoch in self.find_ended(time.monotonic()):
            succeeded &= self.attempt(self._store.close_epoch, epoch, only_past=True)
        succeeded &= self.attempt(self.compact_next)
        return self.attempt(self._shorten_log) and succeeded

    def compact_next(self) -> None:
        """Merge only one run of segments: sealing and credentials must not wait for all.

        After a failure, the next process tries again.
        """
        if self.uncompacted:
            epoch = self.uncompacted.popleft()
            if self._store.sealer.compact(epoch):
                self.uncompacted.append(epoch)

    def _find_due(self) -> list[Epoch]:
        """Return the epochs to seal: those with many or old pending reports.

        If there are none, but all together fill half of the inbox, the one with the most.
        """
        limits, registry, now = self._limits, self._registry, time.monotonic()
        pending = [epoch for epoch in list(registry.by_id.values()) if epoch.pending]
        due = [
            epoch
            for epoch in pending
            if epoch.pending >= limits.seal_reports
            or epoch.pending_bytes >= limits.seal_bytes
            or now - epoch.pending_since >= limits.seal_s
        ]
        if pending and not due and registry.pending_bytes >= limits.inbox_bytes / 2:
            due = [max(pending, key=lambda epoch: epoch.pending_bytes)]
        return due

    def find_ended(self, now: float) -> list[Epoch]:
        """Return the epochs to close, including those whose closing failed.

        A closed epoch cannot be reopened, so a wrong clock must not close a current one. So grace
        counts only uninterrupted time in which a collector ran and its clock called it past.
        """
        epochs = list(self._registry.by_id.values())
        late: dict[Epoch, float] = {}
        for epoch in epochs:
            if self._registry.clock.is_past(epoch):
                epoch.past_since = now if epoch.past_since is None else epoch.past_since
                late[epoch] = epoch.late_s + now - epoch.past_since
            elif epoch.past_since is not None or epoch.late_s:
                epoch.past_since, epoch.late_s = None, 0.0
                late[epoch] = 0.0
        if 0.0 in late.values() or (late and now - self._saved >= SAVE_S):
            self._saved = now
            self.attempt(self._save, [(passed, epoch.id) for epoch, passed in late.items()])
        over = [each for each, passed in late.items() if passed >= (each.collection.grace_s or 0)]
        return [epoch for epoch in epochs if epoch.state == CLOSING] + over

    def _save(self, late: list[tuple[float, int]]) -> None:
        """Store how long epochs, given by id, have been past."""
        with self._store.database.transaction() as connection:
            connection.executemany("UPDATE epochs SET late_s = ? WHERE id = ?", late)

    def _shorten_log(self) -> None:
        """Keep the write-ahead log short, and empty it when no report is pending."""
        self._store.manifest.delete_replaced()
        size, idle = self._store.database.wal_bytes(), not self._registry.pending
        if size and (idle or size >= WAL_BYTES):
            self._store.database.checkpoint(truncate=idle)
