"""The collections of a folder and their epochs, in memory, to check submissions against.

The database holds the same, and is changed first.
"""

import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from faintly.collector import problems
from faintly.collector.problems import Problem
from faintly.collector.storage.database import Database
from faintly.core import Plan
from faintly.core.epochs import MAX_EPOCH
from faintly.errors import FaintlyError, FolderDamaged
from faintly.mechanisms import Mechanism, mechanism_of
from faintly.wire import report_v1

OPEN: Final = "open"
CLOSED: Final = "closed"
TIMED: Final = "timed"  # opened by the clock, which also closes it
CLOSING: Final = "closing"  # closed in the database; its request ids are not deleted yet
TAKING = {OPEN, TIMED}
Retention = Literal["keep", "drop"]
RETENTIONS = get_args(Retention)
NEAR = 1  # epochs before and after the current one that also accept reports: clocks differ


@dataclass(slots=True, eq=False)
class Epoch:
    """One epoch of a collection; its counts are those of the database."""

    id: int
    collection: "Collection"
    number: int
    state: str
    pending: int = 0  # reports in the inbox
    since: float = 0.0  # when the oldest of them arrived, on the monotonic clock
    sealed: int = 0  # reports counted in the sketch
    last: int = 0  # number of the last segment or sketch
    segments: int = 0
    bytes: int = 0  # of its sealed files
    lock: threading.RLock = field(default_factory=threading.RLock)  # held while it is sealed

    @property
    def pending_bytes(self) -> int:
        """Return the bytes of the reports in the inbox."""
        return self.pending * self.collection.record_bytes

    def stem(self, number: int) -> str:
        """Return the name of a file of this epoch, without its suffix."""
        return f"{self.number}-{number}"


@dataclass(slots=True, eq=False)
class Collection:
    """One plan, and how its reports are kept."""

    id: int
    plan: Plan
    name: str
    retention: Retention  # keep: raw reports stay in segments; drop: only the sketch stays
    tokens: bool
    period_s: float | None
    closed: bool
    mechanism: Mechanism = field(repr=False)
    epochs: dict[int, Epoch] = field(default_factory=dict, repr=False)
    counter: report_v1.BatchCounter = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.counter = report_v1.BatchCounter(self.digest, self.mechanism.layout)

    @property
    def digest(self) -> bytes:
        """Return the 16 bytes that name the plan."""
        return self.plan.digest

    @property
    def folder(self) -> str:
        """Return the name of the folder of its files; names are never reused."""
        return f"{self.digest.hex()}-{self.id}"

    @property
    def record_bytes(self) -> int:
        """Return the bytes of one report."""
        return self.mechanism.layout.record_bytes

    @property
    def settings(self) -> tuple[str, str, bool, float | None]:
        """Return the settings it was created with, besides the plan."""
        return self.name, self.retention, self.tokens, self.period_s


class Registry:
    """All collections, by digest."""

    def __init__(self, database: Database) -> None:
        """Read everything from the database."""
        self._database = database
        self._lock = threading.Lock()  # one change at a time
        self.collections: dict[bytes, Collection] = {}
        by_id: dict[int, Collection] = {}
        rows = "SELECT id, digest, plan, name, retention, tokens, period_s, closed FROM collections"
        for key, digest, text, name, retention, tokens, period_s, closed in database.rows(rows):
            plan, mechanism = _read_plan(digest, text)
            by_id[key] = self.collections[digest] = Collection(
                key, plan, name, retention, bool(tokens), period_s, bool(closed), mechanism
            )
        self.by_id: dict[int, Epoch] = {}
        self.pending = self.pending_bytes = 0  # of all epochs
        try:
            for key, owner, number, state in database.rows(
                "SELECT id, collection, number, state FROM epochs ORDER BY collection, number"
            ):
                self._add(Epoch(key, by_id[owner], number, state))
            self._count()
        except KeyError:
            raise FolderDamaged(f"{database.path} refers to rows that it does not have") from None

    def _count(self) -> None:
        """Read how much each epoch has sealed and pending."""
        for key, reports in self._database.rows(
            "SELECT epoch, sum(reports) FROM inbox GROUP BY epoch"
        ):
            self.add_pending([(self.by_id[key], reports)])
        for key, last, count, reports, size in self._database.rows(
            "SELECT epoch, max(number), count(*), sum(reports), sum(bytes) "
            "FROM segments GROUP BY epoch"
        ):
            epoch = self.by_id[key]
            epoch.last, epoch.segments, epoch.sealed, epoch.bytes = last, count, reports, size
        for key, last, reports, size in self._database.rows(
            "SELECT epoch, number, reports, bytes FROM sketches"
        ):
            epoch = self.by_id[key]
            if epoch.collection.retention == "drop":
                epoch.last, epoch.sealed, epoch.bytes = last, reports, size

    def add_pending(self, changes: Iterable[tuple[Epoch, int]]) -> None:
        """Add to the pending reports of epochs, or subtract; the caller holds the write lock."""
        now = time.monotonic()
        for epoch, reports in changes:
            if not epoch.pending or reports < 0:
                epoch.since = now  # what is left after a seal arrived during it
            epoch.pending += reports
            self.pending += reports
            self.pending_bytes += reports * epoch.collection.record_bytes

    def collection(self, digest: bytes) -> Collection:
        """Return the collection of a plan's digest."""
        try:
            return self.collections[digest]
        except KeyError:
            raise Problem(
                problems.UNKNOWN_COLLECTION, f"there is no collection {digest.hex()}"
            ) from None

    def epoch(self, digest: bytes, number: int) -> Epoch:
        """Return an epoch, whatever its state."""
        try:
            return self.collection(digest).epochs[number]
        except KeyError:
            raise Problem(problems.UNKNOWN_EPOCH, f"there is no epoch {number}") from None

    def sealed(self, digest: bytes, number: int | None = None) -> list[Epoch]:
        """Return the epochs that have sealed reports, in order; only one if it is named."""
        if number is None:
            every = [each for _, each in sorted(self.collection(digest).epochs.items())]
        else:
            every = [self.epoch(digest, number)]
        found = [each for each in every if each.sealed]
        if not found:
            raise Problem(problems.NO_REPORTS, "no reports were sealed yet")
        return found

    def latest(self, digest: bytes) -> int:
        """Return the latest epoch that has sealed reports."""
        return self.sealed(digest)[-1].number

    def create(
        self,
        plan: Plan,
        *,
        name: str = "",
        retention: Retention = "keep",
        tokens: bool = False,
        epochs: Sequence[int] = (0,),
        period_s: float | None = None,
    ) -> Collection:
        """Return a new collection, or the existing one of the same plan and settings."""
        mechanism = _check_plan(plan)
        if retention not in RETENTIONS:
            raise Problem(problems.BAD_REQUEST, "retention must be keep or drop")
        if retention == "drop" and plan.decode == "direct":
            raise Problem(
                problems.BAD_REQUEST,
                "direct decoding needs the raw reports; use retention keep",
            )
        if period_s is not None and not 1 <= period_s < 2**40:
            raise Problem(problems.BAD_REQUEST, "period_s must be at least one second")
        epochs = sorted(set(epochs))
        for number in epochs:
            _check_epoch(number)
        wanted = name, retention, tokens, period_s
        with self._lock:
            before = self.collections.get(plan.digest)
            if before is not None:
                if before.settings != wanted or not set(epochs) <= set(before.epochs):
                    raise Problem(
                        problems.CONFLICT, "this plan already has a collection with other settings"
                    )
                return before
            made = Collection(0, plan, *wanted, False, mechanism)
            with self._database.transaction() as connection:
                made.id = connection.execute(
                    "INSERT INTO collections "
                    "(digest, plan, name, retention, tokens, period_s, closed) "
                    "VALUES (?, ?, ?, ?, ?, ?, 0) RETURNING id",
                    (plan.digest, plan.canonical, *wanted),
                ).fetchone()[0]
                opened = [_insert(connection, made, number, OPEN) for number in epochs]
            for epoch in opened:
                self._add(epoch)
            self.collections[plan.digest] = made
            return made

    def open_epoch(self, digest: bytes, number: int) -> None:
        """Open an epoch; a closed one cannot be reopened."""
        _check_epoch(number)
        with self._lock:
            collection = self.collection(digest)
            if collection.closed:
                raise Problem(problems.CONFLICT, "the collection is closed")
            epoch = collection.epochs.get(number)
            if epoch is None:
                self._open(collection, number, OPEN)
            elif epoch.state == TIMED:
                self._set_state(epoch, OPEN, OPEN)
            elif epoch.state != OPEN:
                # Its request ids are deleted, so a retry would be counted twice.
                raise Problem(problems.CONFLICT, f"epoch {number} was closed; open another one")

    def _open(self, collection: Collection, number: int, state: str) -> Epoch:
        with self._database.write_lock:
            with self._database.transaction() as connection:
                epoch = _insert(connection, collection, number, state)
            self._add(epoch)
        return epoch

    def _add(self, epoch: Epoch) -> None:
        self.by_id[epoch.id] = epoch.collection.epochs[epoch.number] = epoch

    def accepting(self, collection: Collection, number: int) -> Epoch:
        """Return the epoch of a submission, or raise `Problem`.

        A closing epoch is returned too: a retry may still find its request id.
        """
        epoch = self._taking(collection, number)
        if epoch is None and collection.tokens:
            # Issuing a token opens its epoch, so this token was never issued.
            raise Problem(problems.TOKEN_UNKNOWN, f"no token of epoch {number} was issued")
        return epoch or self._open_by_clock(collection, number)

    def issuing(self, collection: Collection, number: int) -> Epoch:
        """Return the epoch to issue tokens for, or raise `Problem`.

        Where epochs follow the clock, the current one and its neighbours are opened on demand.
        """
        epoch = self._taking(collection, number) or self._open_by_clock(collection, number)
        if epoch.state == CLOSING:
            raise Problem(problems.CLOSED, f"epoch {number} is closed")
        return epoch

    def _taking(self, collection: Collection, number: int) -> Epoch | None:
        """Return an epoch that accepts reports, or None if the clock allows to open it."""
        epoch = collection.epochs.get(number)
        if epoch is not None and epoch.state in {OPEN, CLOSING}:
            return epoch
        if epoch is not None and epoch.state == CLOSED:
            raise Problem(problems.CLOSED, f"epoch {number} is closed")
        if collection.closed:
            raise Problem(problems.CLOSED, "the collection is closed")
        if collection.period_s is not None:
            now = _present(collection)
            if abs(number - now) <= NEAR and number >= 0:
                return epoch
            if epoch is not None and number < now:
                raise Problem(problems.CLOSED, f"epoch {number} is over")
        raise Problem(problems.UNKNOWN_EPOCH, f"epoch {number} does not take reports")

    def _open_by_clock(self, collection: Collection, number: int) -> Epoch:
        with self._lock:
            self._check_there(collection)
            if collection.closed:
                raise Problem(problems.CLOSED, "the collection is closed")
            return collection.epochs.get(number) or self._open(collection, number, TIMED)

    def close_epoch(self, epoch: Epoch, *, only_past: bool = False) -> bool:
        """Close an epoch, after the commits that have already begun.

        With `only_past`, an epoch that is no longer past stays open, and False is returned:
        somebody opened it or changed the clock meanwhile.
        """
        with self._lock:
            if only_past and epoch.state in TAKING and not is_past(epoch):
                return False
            if epoch.state in TAKING:
                self._set_state(epoch, CLOSED, CLOSING)
            return True

    def _set_state(self, epoch: Epoch, stored: str, state: str) -> None:
        with self._database.write_lock:
            with self._database.transaction() as connection:
                connection.execute("UPDATE epochs SET state = ? WHERE id = ?", (stored, epoch.id))
            epoch.state = state

    def close_collection(self, collection: Collection) -> None:
        """Close a collection and all its epochs."""
        with self._lock, self._database.write_lock:
            self._check_there(collection)
            with self._database.transaction() as connection:
                key = (collection.id,)
                connection.execute("UPDATE collections SET closed = 1 WHERE id = ?", key)
                connection.execute(
                    f"UPDATE epochs SET state = '{CLOSED}' WHERE collection = ?",
                    key,
                )
            collection.closed = True
            for epoch in collection.epochs.values():
                if epoch.state in TAKING:
                    epoch.state = CLOSING

    def forget(self, collection: Collection, held: Sequence[Epoch]) -> bool:
        """Delete a collection from the database and from memory, but not its files.

        Does nothing and returns False unless the caller holds the locks of all its epochs.
        """
        with self._lock, self._database.write_lock:
            self._check_there(collection)
            epochs = list(collection.epochs.values())
            if len(held) < len(epochs):
                return False
            with self._database.transaction() as connection:
                for epoch in epochs:
                    for table in ("inbox", "segments", "sketches"):
                        connection.execute(
                            f"DELETE FROM {table} WHERE epoch = ?",
                            (epoch.id,),
                        )
                connection.execute("DELETE FROM epochs WHERE collection = ?", (collection.id,))
                connection.execute("DELETE FROM collections WHERE id = ?", (collection.id,))
            self.add_pending((epoch, -epoch.pending) for epoch in epochs)
            del self.collections[collection.digest]
            for epoch in epochs:
                epoch.state, epoch.sealed = CLOSED, 0  # for threads that wait for its lock
                del self.by_id[epoch.id]
        return True

    def _check_there(self, collection: Collection) -> None:
        """Raise `Problem` if the collection was deleted, or recreated, while the caller waited."""
        if self.collections.get(collection.digest) is not collection:
            raise Problem(problems.UNKNOWN_COLLECTION, "the collection was deleted")


def takes(epoch: Epoch) -> bool:
    """Return whether an epoch accepts reports now."""
    if epoch.state == TIMED:
        return abs(epoch.number - _present(epoch.collection)) <= NEAR
    return epoch.state == OPEN


def is_past(epoch: Epoch) -> bool:
    """Return whether the clock opened an epoch and has since moved well past it."""
    return epoch.state == TIMED and epoch.number < _present(epoch.collection) - 2 * NEAR


def _present(collection: Collection) -> int:
    """Return the current epoch of a collection whose epochs follow the clock."""
    assert collection.period_s is not None
    return int(time.time() // collection.period_s)


def _insert(
    connection: sqlite3.Connection, collection: Collection, number: int, state: str
) -> Epoch:
    key = connection.execute(
        "INSERT INTO epochs (collection, number, state) VALUES (?, ?, ?) RETURNING id",
        (collection.id, number, state),
    ).fetchone()[0]
    return Epoch(key, collection, number, state)


def _check_plan(plan: Plan) -> Mechanism:
    try:
        mechanism = mechanism_of(plan)
    except FaintlyError as error:
        raise Problem(problems.BAD_PLAN, str(error)) from None
    if mechanism.layout.record_bytes > report_v1.MAX_RECORD_BYTES:
        raise Problem(problems.BAD_PLAN, "a report of this plan is too large to be sent")
    return mechanism


def _check_epoch(number: int) -> None:
    if not 0 <= number <= MAX_EPOCH:
        raise Problem(problems.BAD_REQUEST, "an epoch is an integer from 0 to 2^53 - 1")


def _read_plan(digest: bytes, text: bytes) -> tuple[Plan, Mechanism]:
    try:
        plan = Plan.from_json(text)
        mechanism = mechanism_of(plan)
    except FaintlyError as error:
        raise FolderDamaged(f"the plan of collection {digest.hex()} is damaged: {error}") from None
    if plan.digest != digest:
        raise FolderDamaged(f"the plan of collection {digest.hex()} has another digest")
    return plan, mechanism
