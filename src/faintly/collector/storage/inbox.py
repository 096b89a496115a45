"""The inbox: a queue of submissions, and one thread that commits them in groups.

The thread drains the queue, stores the group in one transaction and answers once that is on the
disk. More submissions queue up during the commit, so groups grow with the load. Reports of one
epoch that share a commit also share a row: it holds their records and nothing else, and there is
no work per report.
"""

import asyncio
import hashlib
import queue
import sqlite3
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from faintly.collector import problems
from faintly.collector.problems import Problem
from faintly.collector.storage.acknowledged import Acknowledged
from faintly.collector.storage.collection import Epoch
from faintly.collector.storage.database import NAME_BYTES, split_names
from faintly.wire import report_v1

if TYPE_CHECKING:
    from faintly.collector.storage.store import Store

COUNTED, REPLAYED = "counted", "replayed"
REUSED = "this request id came with another body before"
HASH_BYTES = 8  # tells a retry from another body; a sender gains nothing from a collision
GROUP_BYTES = 16 << 20  # of bodies per commit: larger groups only add latency
GROUP = 2048  # submissions per commit

NAMED = f"WHERE epoch = ?1 AND id IN (SELECT substr(?2, i, {NAME_BYTES}) FROM at)"
FIND_REQUESTS = f"{split_names(NAME_BYTES)} SELECT id, hash FROM requests {NAMED}"
FIND_TOKENS = f"{split_names(NAME_BYTES)} SELECT id, used FROM tokens {NAMED}"
SPEND_TOKENS = f"{split_names(NAME_BYTES)} UPDATE tokens SET used = 1 {NAMED}"
ADD_REQUESTS = f"""{split_names(NAME_BYTES + HASH_BYTES)} INSERT INTO requests SELECT
    ?1, substr(?2, i, {NAME_BYTES}), substr(?2, i + {NAME_BYTES}, {HASH_BYTES}) FROM at"""
ADD_RECORDS = "INSERT INTO inbox (epoch, reports, checksum, records) VALUES (?, ?, ?, ?)"

Outcome = str | Problem
Waiter = Future[Outcome] | asyncio.Future[Outcome]


@dataclass(slots=True, eq=False)
class Submission:
    """A checked body that waits for its commit."""

    epoch: Epoch
    request: bytes
    body: bytes
    reports: int
    token: bytes | None  # its hash
    waiter: Waiter  # gets the outcome
    hash: bytes = b""

    def __post_init__(self) -> None:
        self.hash = hashlib.blake2b(self.body, digest_size=HASH_BYTES).digest()


class Inbox:
    """Stores submissions in the order of arrival."""

    def __init__(self, store: "Store", acknowledged: Acknowledged) -> None:
        """Start the thread of a store, whose other parts exist already."""
        self._database, self._registry, self._counters = (
            store.database,
            store.registry,
            store.counters,
        )
        self._acknowledged, self._committed = acknowledged, store.maintenance.committed
        self._waiting: queue.SimpleQueue[Submission | None] = queue.SimpleQueue()
        self._closed = False  # True once the thread has ended
        self._thread = threading.Thread(target=self._run, name="inbox", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Return about how many submissions are queued."""
        return self._waiting.qsize()

    def submit(self, submission: Submission) -> None:
        """Queue a submission for the next commit."""
        self._waiting.put(submission)
        if self._closed:
            self._refuse()

    def close(self) -> None:
        """Commit what is queued and stop; later submissions are refused."""
        self._waiting.put(None)
        self._thread.join()
        self._closed = True
        self._refuse()
        self._acknowledged.close()

    def _refuse(self) -> None:
        late = []
        with suppress(queue.Empty):
            while True:
                late.append(self._waiting.get_nowait())
        taken = [each for each in late if each is not None]
        problem = problems.stopping()
        self._answer(taken, [problem] * len(taken))

    def _run(self) -> None:
        while (group := self._take())[-1] is not None:
            self._store(group)
        self._store(group[:-1])

    def _take(self) -> list[Submission | None]:
        """Return all queued submissions, at least one; None at the end means stop."""
        group = [self._waiting.get()]
        size = 0
        try:
            while group[-1] is not None and len(group) < GROUP and size < GROUP_BYTES:
                size += len(group[-1].body)
                group.append(self._waiting.get_nowait())
        except queue.Empty:
            pass
        return group

    def _store(self, group: Iterable[Submission | None]) -> None:
        taken = [each for each in group if each is not None]
        if not taken:
            return
        outcomes: Sequence[Outcome]
        try:
            outcomes = self._commit(taken)
        except Exception as error:  # the thread must survive, and every sender be answered
            self._counters.failed_commits += 1
            self._counters.failed("a commit failed", error)
            why = "the disk is full or failed"
            problem = Problem(problems.CANNOT_STORE, f"the reports could not be stored: {why}")
            outcomes = [problem] * len(taken)
        self._answer(taken, outcomes)

    def _answer(self, taken: Sequence[Submission], outcomes: Sequence[Outcome]) -> None:
        """Pass outcomes on; an event loop is woken once for all of its requests."""
        loops = defaultdict(list)
        for each, outcome in zip(taken, outcomes, strict=True):
            if isinstance(each.waiter, asyncio.Future):
                loops[each.waiter.get_loop()].append((each.waiter, outcome))
            elif each.waiter.set_running_or_notify_cancel():
                each.waiter.set_result(outcome)
        for loop, pairs in loops.items():
            with suppress(RuntimeError):  # the loop has ended, and every sender is gone
                loop.call_soon_threadsafe(_resolve, pairs)

    def _commit(self, group: Sequence[Submission]) -> Sequence[Outcome]:
        with self._database.write_lock:
            with self._database.transaction() as connection:
                outcomes = _decide(connection, group)
                counted = [
                    each
                    for each, outcome in zip(group, outcomes, strict=True)
                    if outcome is COUNTED
                ]
                total = self._acknowledged.requests + len(counted)
                if counted:
                    _insert(connection, counted)
                    connection.execute("UPDATE acknowledged SET requests = ?", (total,))
            self._registry.add_pending((each.epoch, each.reports) for each in counted)
        self._acknowledged.write(total)
        self._count(counted, group, outcomes)
        self._committed({each.epoch for each in counted})
        return outcomes

    def _count(
        self,
        counted: Sequence[Submission],
        group: Sequence[Submission],
        outcomes: Sequence[Outcome],
    ) -> None:
        minute = int(time.time() // 60)  # a closer time would be about a person
        for each in counted:
            arrivals = each.epoch.collection.arrivals
            arrivals.requests += 1
            arrivals.reports += each.reports
            arrivals.last_minute = minute
            arrivals.hours[minute // 60] += each.reports
        refused = 0
        for each, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, Problem):
                refused += 1
                each.epoch.collection.arrivals.refuse(outcome.kind.code)
        counters = self._counters
        counters.commits += 1
        counters.submissions += len(counted)
        counters.reports += sum(each.reports for each in counted)
        counters.replays += len(group) - len(counted) - refused
        counters.refused += refused


def _resolve(pairs: Sequence[tuple[asyncio.Future[Outcome], Outcome]]) -> None:
    for waiter, outcome in pairs:
        if not waiter.done():  # its sender disconnected
            waiter.set_result(outcome)


def _decide(connection: sqlite3.Connection, group: Sequence[Submission]) -> list[Outcome]:
    """Return the outcome of each submission; earlier ones of the same group count as stored."""
    stored: dict[tuple[int, bytes], bytes] = {}
    used: dict[tuple[int, bytes], bool] = {}
    for epoch, mine in _by_epoch(group).items():
        names = [each.request for each in mine]
        for name, hashed in _find(connection, FIND_REQUESTS, epoch, names):
            stored[epoch, name] = hashed
        names = [each.token for each in mine if each.token is not None]
        for name, spent in _find(connection, FIND_TOKENS, epoch, names):
            used[epoch, name] = spent
    outcomes: list[Outcome] = []
    for each in group:
        key = each.epoch.id, each.request
        before = stored.get(key)
        outcome: Outcome
        if before is not None:
            same = before == each.hash
            outcome = REPLAYED if same else Problem(problems.REQUEST_REUSED, REUSED)
        elif not each.epoch.takes:
            outcome = Problem(problems.CLOSED, f"epoch {each.epoch.number} is closed")
        else:
            outcome = COUNTED if each.token is None else _spend(used, each.epoch.id, each.token)
            if outcome is COUNTED:
                stored[key] = each.hash
        outcomes.append(outcome)
    return outcomes


def _by_epoch(group: Sequence[Submission]) -> dict[int, list[Submission]]:
    made: dict[int, list[Submission]] = defaultdict(list)
    for each in group:
        made[each.epoch.id].append(each)
    return made


def _find(
    connection: sqlite3.Connection, statement: str, epoch: int, names: Sequence[bytes]
) -> Iterable[tuple[bytes, Any]]:
    if not names:
        return ()
    return connection.execute(statement, (epoch, b"".join(names)))


def _spend(used: dict[tuple[int, bytes], bool], epoch: int, token: bytes) -> Outcome:
    key = epoch, token
    if key not in used:
        return Problem(problems.TOKEN_UNKNOWN, "the token is not one of this epoch")
    if used[key]:
        return Problem(problems.TOKEN_USED, "the token was used before")
    used[key] = True
    return COUNTED


def _insert(connection: sqlite3.Connection, counted: Sequence[Submission]) -> None:
    for epoch, mine in _by_epoch(counted).items():
        # Sorted: each page is visited once, and the order of arrival is lost.
        rows = b"".join(sorted([each.request + each.hash for each in mine]))
        connection.execute(ADD_REQUESTS, (epoch, rows))
        records = b"".join([report_v1.records_of(each.body) for each in mine])
        reports = sum(each.reports for each in mine)
        connection.execute(ADD_RECORDS, (epoch, reports, zlib.crc32(records), records))
        spent = b"".join([each.token for each in mine if each.token is not None])
        if spent:
            connection.execute(SPEND_TOKENS, (epoch, spent))
