"""Collections, their epochs, clock and totals, as a running collector holds them in memory.

The fields of a status are those of its JSON; the HTTP models use these classes and descriptions.
"""

import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, cast

from faintly.core import Plan
from faintly.mechanisms import Mechanism
from faintly.wire import report_v1

OPEN: Final = "open"
CLOSED: Final = "closed"
TIMED: Final = "timed"  # opened by the clock, which also closes it
CLOSING: Final = "closing"  # closed in the database; its request ids are not deleted yet
State = Literal["open", "closed"]  # as statuses show it
Retention = Literal["keep", "drop"]
UniverseKind = Literal["indexed", "named", "open"]
HOURS = 48  # for which arrivals are kept, in memory only
TOLERATED_S = 10.0  # corrections of the clock up to this total are not a jump
EPOCHS_AHEAD = 1  # epochs ahead of the current one that take reports: senders' clocks differ
log = logging.getLogger("faintly.collector")


@dataclass(slots=True, eq=False)
class Epoch:
    """One epoch of a collection; its counts are those of the database."""

    id: int
    collection: "Collection"
    number: int
    state: str
    late_s: float = 0.0  # how long earlier processes ran after the clock had ended it
    past_since: float | None = None  # when this process noticed its end, on the monotonic clock
    pending: int = 0  # reports in the inbox
    pending_since: float = 0.0  # when the oldest of them arrived, on the monotonic clock
    sealed: int = 0  # reports counted in the sketch
    last: int = 0  # number of the last segment or sketch
    segments: int = 0
    bytes: int = 0  # of its sealed files
    lock: threading.RLock = field(default_factory=threading.RLock)  # held while it is sealed

    @property
    def is_open(self) -> bool:
        """Return whether it takes reports."""
        return self.state in {OPEN, TIMED}

    @property
    def pending_bytes(self) -> int:
        """Return the bytes of the reports in the inbox."""
        return self.pending * self.collection.record_bytes


@dataclass(slots=True)
class Arrivals:
    """What has arrived for a collection since the process started."""

    requests: int = 0  # counted; each has one report or more
    reports: int = 0
    last_report: int | None = None  # the minute of the last one, in seconds since 1970
    hours: Counter[int] = field(default_factory=Counter)  # reports by hour since 1970
    refusals: Counter[str] = field(default_factory=Counter)  # by code
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count_refusal(self, code: str) -> None:
        """Count a refused request; any thread may call this."""
        with self._lock:
            self.refusals[code] += 1

    def count_stored(self, requests: int, reports: int, minute: int) -> None:
        """Count what was stored; only the committing thread calls this."""
        self.requests += requests
        self.reports += reports
        self.last_report = 60 * minute
        self.hours[minute // 60] += reports

    def last_hours(self, now: int) -> list[int]:
        """Return the reports of each of the last hours, the current one last; drop older ones."""
        for hour in list(self.hours):
            if hour <= now - HOURS:
                del self.hours[hour]
        return [self.hours.get(hour, 0) for hour in range(now - HOURS + 1, now + 1)]


@dataclass(slots=True, eq=False)
class Collection:
    """One plan, and how its reports are kept."""

    id: int
    plan: Plan
    name: str
    retention: Retention  # keep: raw reports stay in segments; drop: only the sketch stays
    tokens: bool
    period_s: float | None
    grace_s: float | None  # how long an epoch takes reports after the clock has ended it
    closed: bool
    mechanism: Mechanism = field(repr=False)
    epochs: dict[int, Epoch] = field(default_factory=dict, repr=False)
    arrivals: Arrivals = field(default_factory=Arrivals, repr=False)
    counter: report_v1.BatchCounter = field(init=False, repr=False)
    record_bytes: int = field(init=False)  # of one report

    def __post_init__(self) -> None:
        self.counter = report_v1.BatchCounter(self.digest, self.mechanism.layout)
        self.record_bytes = self.mechanism.layout.record_bytes

    @property
    def state(self) -> State:
        """Return whether it is open."""
        return CLOSED if self.closed else OPEN

    @property
    def digest(self) -> bytes:
        """Return the 16 bytes that name the plan."""
        return self.plan.digest

    @property
    def folder(self) -> str:
        """Return the name of the folder of its files; names are never reused."""
        return f"{self.digest.hex()}-{self.id}"

    @property
    def settings(self) -> tuple[str, str, bool, float | None, float | None]:
        """Return the settings it was created with, besides the plan."""
        return self.name, self.retention, self.tokens, self.period_s, self.grace_s


class Clock:
    """The time of day, which epochs follow, and a clock that does not jump.

    After a jump, nobody can know which is right: the epochs of both times take reports, and an
    epoch is past only if it is past for both. After a restart only the time of day counts.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def times(self) -> tuple[float, float]:
        """Return the time of day, and what it would be without a jump."""
        return time.time(), self._offset + time.monotonic()

    @property
    def jump_s(self) -> float:
        """Return how far the clock has jumped since the start, or 0."""
        now, steady = self.times()
        return now - steady if abs(now - steady) > TOLERATED_S else 0.0

    def allows(self, collection: Collection, number: int) -> bool:
        """Return whether a report may open an epoch: it is current, next, or in its grace."""
        if collection.period_s is None or collection.grace_s is None or number < 0:
            return False
        period_s = collection.period_s
        earliest, latest = sorted(self.times())
        ends = (number + 1) * period_s
        return earliest < ends + collection.grace_s and number <= latest // period_s + EPOCHS_AHEAD

    def is_past(self, epoch: Epoch) -> bool:
        """Return whether the clock opened an epoch and has since ended it."""
        period_s = epoch.collection.period_s
        if epoch.state != TIMED or period_s is None:
            return False
        return (epoch.number + 1) * period_s <= min(self.times())


def _doc(text: str, **options: Any) -> Any:
    return field(metadata={"description": text}, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStatus:
    """What is stored for one epoch."""

    epoch: int
    state: State
    reports: int = _doc("Counted: sealed, and part of every answer.")
    pending: int = _doc("Stored, and not part of answers until sealed.")
    segments: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionStatus:
    """A collection, its settings and what is stored for it."""

    digest: str
    name: str
    state: State
    retention: Retention
    tokens: bool
    period_s: float | None
    grace_s: float | None = _doc("How long an epoch takes reports after the clock has ended it.")
    mechanism: str
    universe: UniverseKind
    protects: str
    guarantee: str = _doc("What a report promises, in words.")
    record_bytes: int
    reports: int
    pending: int
    bytes: int
    epochs: list[EpochStatus]


def status_of(collection: Collection) -> CollectionStatus:
    """Return the status of a collection and of each of its epochs."""
    rows = [
        EpochStatus(
            epoch=number,
            state=OPEN if epoch.is_open else CLOSED,
            reports=epoch.sealed,
            pending=epoch.pending,
            segments=epoch.segments,
            bytes=epoch.bytes,
        )
        for number, epoch in sorted(collection.epochs.items())
    ]
    plan = collection.plan
    return CollectionStatus(
        digest=collection.digest.hex(),
        name=collection.name,
        state=collection.state,
        retention=collection.retention,
        tokens=collection.tokens,
        period_s=collection.period_s,
        grace_s=collection.grace_s,
        mechanism=plan.mechanism,
        universe=cast(UniverseKind, plan.universe.kind),
        protects=str(plan.unit),
        guarantee=collection.mechanism.guarantee().describe(),
        record_bytes=collection.record_bytes,
        reports=sum(row.reports for row in rows),
        pending=sum(row.pending for row in rows),
        bytes=sum(row.bytes for row in rows),
        epochs=rows,
    )


_counter = partial(_doc, default=0)


@dataclass(slots=True)
class Counters:
    """Totals since the store was opened, as metrics describe them; none is about one sender."""

    commits: int = _counter("Transactions that stored reports.")
    submissions: int = _counter("Requests counted.")
    reports: int = _counter("Reports counted.")
    replays: int = _counter("Requests that had been counted before.")
    refused: int = _counter("Requests refused at their commit.")
    failed_commits: int = _counter("Transactions that failed.")
    seals: int = _counter("Seals.")
    sealed_reports: int = _counter("Reports sealed.")
    seal_seconds: float = _counter("Seconds spent sealing.")
    failed_seals: int = _counter("Seals that failed.")
    last_seal: int | None = None  # its minute, in seconds since 1970
    last_failure: str = ""

    def record_failure(self, what: str, error: Exception) -> None:
        """Record a failure, and log it unless it repeats the last one."""
        text = f"{what}: {type(error).__name__}: {error}"
        if text != self.last_failure:
            log.error(text)
        self.last_failure = text
