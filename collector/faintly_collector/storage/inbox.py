"""The inbox: a queue of submissions, and one thread that commits them in groups.

The thread drains the queue, stores the group in one transaction and answers once that is on the
disk. Groups grow with the load: more submissions queue up during a commit, and after a large one
the thread waits for more. Reports of one epoch that share a commit also share a row, which holds
only their records, so there is no work per report.
"""

import asyncio
import os
import queue
import sqlite3
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from faintly.wire import problems, report_v1
from faintly.wire.problems import Problem
from faintly_collector.storage.collection import Epoch
from faintly_collector.storage.database import COUNT_FILE, ID_BYTES, split_ids

if TYPE_CHECKING:
    from faintly_collector.storage.store import Store

COUNTED, REPLAYED = "counted", "replayed"
REUSED = "this request id was already used with another body"
HASH_BYTES = 8  # tells a retry from another body; a sender gains nothing from a collision
MAX_GROUP_BYTES = 16 << 20  # of bodies per commit: larger groups only add latency
MAX_GROUP = 2048  # submissions per commit
LARGE_GROUP, GATHER_S = 32, 0.01  # after a group this large, wait this long for more submissions

CHOSEN = f"WHERE epoch = ?1 AND id IN (SELECT substr(?2, i, {ID_BYTES}) FROM at)"
FIND_REQUESTS = f"{split_ids(ID_BYTES)} SELECT id, hash FROM requests {CHOSEN}"
FIND_TOKENS = f"{split_ids(ID_BYTES)} SELECT id, used FROM tokens {CHOSEN}"
SPEND_TOKENS = f"{split_ids(ID_BYTES)} UPDATE tokens SET used = 1 {CHOSEN}"
ADD_REQUESTS = f"""{split_ids(ID_BYTES + HASH_BYTES)} INSERT INTO requests SELECT
    ?1, substr(?2, i, {ID_BYTES}), substr(?2, i + {ID_BYTES}, {HASH_BYTES}) FROM at"""
ACKNOWLEDGE = "UPDATE acknowledged SET requests = requests + ? RETURNING requests"
ADD_RECORDS = "INSERT INTO inbox (epoch, reports, checksum, records) VALUES (?, ?, ?, ?)"

Outcome = str | Problem
Waiter = Future[Outcome] | asyncio.Future[Outcome]


@dataclass(slots=True, eq=False)
class Submission:
    """A checked body that waits for its commit."""

    epoch: Epoch
    request: bytes
    body: bytes
    hash: bytes  # of the body
    reports: int
    token: bytes | None  # its hash
    waiter: Waiter  # gets the outcome
    outcome: Outcome = COUNTED


class Inbox:
    """Stores submissions in the order of arrival."""

    def __init__(self, store: "Store") -> None:
        """Start the thread of a store, whose other parts already exist."""
        self._database, self._registry = store.database, store.registry
        self._counters = store.counters
        self._count_file = os.open(store.folder / COUNT_FILE, os.O_WRONLY | os.O_CREAT, 0o600)
        self._write_count(self._database.count_requests())
        self._queue: queue.SimpleQueue[Submission | None] = queue.SimpleQueue()
        self.closed = False  # True once the thread has ended
        self.failed_at: float | None = None  # when a commit failed; None after the next success
        self._thread = threading.Thread(target=self._run, name="inbox", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Return about how many submissions are queued."""
        return self._queue.qsize()

    def submit(self, submission: Submission) -> None:
        """Queue a submission for the next commit."""
        self._queue.put(submission)
        if self.closed:
            self._refuse_queued()

    def close(self) -> None:
        """Commit what is queued and stop; later submissions are refused."""
        self._queue.put(None)
        self._thread.join()
        self.closed = True
        self._refuse_queued()
        os.close(self._count_file)

    def _refuse_queued(self) -> None:
        late = []
        with suppress(queue.Empty):
            while each := self._queue.get_nowait():
                late.append(each)
        _deliver(late, Problem(problems.STOPPING))

    def _run(self) -> None:
        group: list[Submission] = []
        for first in iter(self._queue.get, None):
            if len(group) >= LARGE_GROUP:
                time.sleep(GATHER_S)
            group, size, closing = [first], len(first.body), False
            with suppress(queue.Empty):
                while not closing and len(group) < MAX_GROUP and size < MAX_GROUP_BYTES:
                    each = self._queue.get_nowait()
                    if each is None:
                        closing = True
                    else:
                        group.append(each)
                        size += len(each.body)
            self._store(group)
            if closing:  # what was queued later is refused, or senders could delay the end for ever
                return

    def _store(self, group: Sequence[Submission]) -> None:
        failed = None
        try:
            self._commit(group)
        except Exception as error:  # the thread must survive, and every sender be answered
            self.failed_at = time.monotonic()
            self._counters.failed_commits += 1
            self._counters.record_failure("a commit failed", error)
            why = "the reports could not be stored: the disk is full or failed"
            failed = Problem(problems.CANNOT_STORE, why)
        _deliver(group, failed)

    def _commit(self, group: Sequence[Submission]) -> None:
        """Store a group, and set the outcome of each."""
        by_epoch: dict[Epoch, list[Submission]] = defaultdict(list)
        for each in group:
            by_epoch[each.epoch].append(each)
        stored: dict[Epoch, tuple[int, int]] = {}
        with self._database.write_lock:
            with self._database.transaction() as connection:
                for epoch, part in by_epoch.items():
                    if counted := _store_epoch(connection, epoch, part):
                        stored[epoch] = len(counted), sum([each.reports for each in counted])
                if stored:
                    requests = sum(count for count, _ in stored.values())
                    ((total,),) = connection.execute(ACKNOWLEDGE, (requests,))
            self._registry.add_pending((each, reports) for each, (_, reports) in stored.items())
        if stored:  # a replay succeeds even on a full disk
            self.failed_at = None
            self._write_count(total)
        self._count(group, stored)

    def _write_count(self, requests: int) -> None:
        """Write how many requests are on the disk, before they are answered.

        Without a sync: after a power failure it may lag behind the database, but is never ahead.
        """
        with suppress(OSError):  # the reports are stored; a count that lags only detects less
            os.pwrite(self._count_file, b"%020d\n" % requests, 0)

    def _count(self, group: Sequence[Submission], stored: dict[Epoch, tuple[int, int]]) -> None:
        minute = int(time.time() // 60)  # a more precise time could point to a person
        counters = self._counters
        counters.commits += 1
        for epoch, (requests, reports) in stored.items():
            counters.submissions += requests
            counters.reports += reports
            epoch.collection.arrivals.count_stored(requests, reports, minute)
        for each in group:
            if each.outcome is REPLAYED:
                counters.replays += 1
            elif isinstance(each.outcome, Problem):
                counters.refused += 1
                each.epoch.collection.arrivals.count_refusal(each.outcome.kind.code)


def _deliver(group: Sequence[Submission], instead: Problem | None = None) -> None:
    """Deliver outcomes, or one problem to all; wakes each event loop once for all its requests."""
    loops: dict[asyncio.AbstractEventLoop, list[Submission]] = defaultdict(list)
    for each in group:
        if instead is not None:
            each.outcome = instead
        if isinstance(each.waiter, asyncio.Future):
            loops[each.waiter.get_loop()].append(each)
        elif each.waiter.set_running_or_notify_cancel():
            each.waiter.set_result(each.outcome)
    for loop, part in loops.items():
        with suppress(RuntimeError):  # the loop has ended, and so have its connections
            loop.call_soon_threadsafe(_resolve, part)


def _resolve(group: Sequence[Submission]) -> None:
    for each in group:
        if not each.waiter.done():  # its sender disconnected
            each.waiter.set_result(each.outcome)


def _store_epoch(
    connection: sqlite3.Connection, epoch: Epoch, group: Sequence[Submission]
) -> list[Submission]:
    """Store and return what counts; set the outcome of each, as if they had come one by one."""
    ids = b"".join([each.request for each in group])
    stored: dict[bytes, bytes] = dict(connection.execute(FIND_REQUESTS, (epoch.id, ids)))
    ids = b"".join([each.token for each in group if each.token is not None])
    used: dict[bytes | None, int] = {None: 0}
    used |= connection.execute(FIND_TOKENS, (epoch.id, ids)) if ids else ()
    counted: list[Submission] = []
    is_open = epoch.is_open
    for each in group:
        before = stored.get(each.request)
        if before is not None:
            same = before == each.hash
            each.outcome = REPLAYED if same else Problem(problems.REQUEST_REUSED, REUSED)
        elif not is_open:
            each.outcome = Problem(problems.CLOSED, f"epoch {epoch.number} is closed")
        elif each.token not in used:
            each.outcome = Problem(problems.TOKEN_UNKNOWN, "the token is not one of this epoch")
        elif used[each.token]:
            each.outcome = Problem(problems.TOKEN_USED, "the token was used before")
        else:
            counted.append(each)
            stored[each.request] = each.hash
            used[each.token] = each.token is not None
    if counted:
        # Sorted: each page is visited once, and the order of arrival is lost.
        rows = b"".join(sorted([each.request + each.hash for each in counted]))
        connection.execute(ADD_REQUESTS, (epoch.id, rows))
        records = b"".join([report_v1.records_of(each.body) for each in counted])
        reports = sum([each.reports for each in counted])
        connection.execute(ADD_RECORDS, (epoch.id, reports, zlib.crc32(records), records))
        spent = b"".join([each.token for each in counted if each.token is not None])
        if spent:
            connection.execute(SPEND_TOKENS, (epoch.id, spent))
    return counted
