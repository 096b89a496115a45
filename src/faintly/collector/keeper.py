"""The keeper: a thread that seals, closes what the clock has shut, merges, and tidies.

It also looks for credentials that another process added.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Set
from typing import Any

from faintly.collector.counters import Counters
from faintly.collector.credentials import Credentials
from faintly.collector.database import Database
from faintly.collector.limits import Limits
from faintly.collector.merge import Merger
from faintly.collector.registry import CLOSED, CLOSING, Epoch, Registry, is_past
from faintly.collector.seal import Sealer

TICK_S = 0.25  # how often it looks whether anything is due
RETRY_S = 1.0  # how long it waits after something failed
WAL_BYTES = 16 << 20  # size from which on the write-ahead log is moved into the file
PERIODS = 3  # for how long the clock must have said that an epoch is past before it is closed,
LEAST_S, MOST_S = 3600.0, 21_600.0  # but an hour at least, and no more than six


class Keeper:
    """Does what is due, from `start` to `stop`."""

    def __init__(
        self,
        *,
        database: Database,
        registry: Registry,
        sealer: Sealer,
        access: Credentials,
        counters: Counters,
        limits: Limits,
        close: Callable[[Epoch], object],
        merger: Merger,
    ) -> None:
        """Prepare the thread.

        Args:
            database: what to tidy.
            registry: whose epochs to look at.
            sealer: seals them.
            access: credentials to read again.
            counters: what to count failures in.
            limits: when to seal.
            close: closes an epoch that is still past, for good.
            merger: makes few files of the many that a closed epoch may have.
        """
        self._database, self._registry, self._sealer = database, registry, sealer
        self._access, self._counters, self._limits = access, counters, limits
        self._close, self._merger = close, merger
        # Those of an earlier process too: it may have ended before it had merged them.
        self._unmerged = deque(each for each in registry.by_id.values() if each.state == CLOSED)
        self._past: dict[int, float] = {}  # since when, by a clock that never jumps
        self._stopping, self._wake = False, threading.Event()
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is being done, and end."""
        self._stopping = True
        self._wake.set()
        self._thread.join()

    def committed(self, epochs: Set[Epoch]) -> None:
        """Hear that epochs have more reports, and begin at once if one has enough."""
        if self._is_crowded() or any(self._is_full(epoch) for epoch in epochs):
            self._wake.set()

    def attempt(self, work: Callable[..., object], *arguments: Any, **named: Any) -> bool:
        """Do something, and return whether it went well.

        The thread must live on, and what fails here must not keep the rest from being done.
        """
        try:
            work(*arguments, **named)
        except Exception as error:
            self._counters.failed_seals += 1
            self._counters.failed("sealing failed", error)
            return False
        return True

    def _keep(self) -> None:
        while not self._stopping:
            self._wake.wait(TICK_S)
            self._wake.clear()
            if not self._work() and not self._stopping:
                time.sleep(RETRY_S)

    def _work(self) -> bool:
        """Do what is due, and return whether all of it went well."""
        well = self.attempt(self._access.reload)
        for epoch in self._due():
            well &= self.attempt(self._sealer.seal, epoch)
            well &= self.attempt(self._access.reload)  # a seal takes a while
        for epoch in self.ended(time.monotonic()):
            well &= self.attempt(self._close, epoch)
            if epoch.state == CLOSED:  # else it is tried again, or was opened meanwhile
                self._unmerged.append(epoch)
        well &= self.attempt(self._merge_next)
        return self.attempt(self._tidy) and well

    def _merge_next(self) -> None:
        """Make one file of some: sealing and credentials must not wait for all of them.

        What fails is tried again by the next process.
        """
        if self._unmerged:
            epoch = self._unmerged.popleft()
            if self._merger.merge_some(epoch):
                self._unmerged.append(epoch)

    def _is_full(self, epoch: Epoch) -> bool:
        limits = self._limits
        return epoch.pending >= limits.seal_reports or epoch.pending_bytes >= limits.seal_bytes

    def _is_crowded(self) -> bool:
        """Return whether many epochs together fill the inbox, though none has enough by itself."""
        registry = self._registry
        return registry.pending > 0 and registry.pending_bytes >= self._limits.inbox_bytes / 2

    def _due(self) -> list[Epoch]:
        epochs = list(self._registry.by_id.values())
        due = [epoch for epoch in epochs if self._is_due(epoch)]
        if epochs and not due and self._is_crowded():
            due.append(max(epochs, key=lambda epoch: epoch.pending_bytes))
        return due

    def _is_due(self, epoch: Epoch) -> bool:
        old = epoch.pending and time.monotonic() - epoch.since >= self._limits.seal_s
        return bool(old) or self._is_full(epoch)

    def ended(self, now: float) -> list[Epoch]:
        """Return the epochs to close, those whose closing failed among them.

        An epoch that is closed stays closed, so a clock that jumps must not close one that is
        not over. It has to say so all the time for some periods, by a clock that does not jump:
        an epoch that took reports when the clock jumped is over by then. Where periods are long
        six hours are enough, or a process that is started anew every day would never close one.
        """
        epochs = list(self._registry.by_id.values())
        past = [epoch for epoch in epochs if is_past(epoch)]
        self._past = {epoch.id: self._past.get(epoch.id, now) for epoch in past}
        over = [epoch for epoch in past if now - self._past[epoch.id] >= _patience(epoch)]
        return [epoch for epoch in epochs if epoch.state == CLOSING] + over

    def _tidy(self) -> None:
        """Keep the write-ahead log short, and free of reports where none is pending."""
        self._merger.tidy()
        size = self._database.wal_bytes()
        if size and not self._registry.pending:
            self._database.empty_log()
        elif size >= WAL_BYTES:
            self._database.checkpoint()


def _patience(epoch: Epoch) -> float:
    return max(LEAST_S, min(PERIODS * (epoch.collection.period_s or 0.0), MOST_S))
