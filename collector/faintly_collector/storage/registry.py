"""The collections of a folder and their epochs, in memory, to check submissions against.

The database holds the same, and is updated first.
"""

import math
import time
from collections.abc import Iterable, Sequence

from faintly.core import Plan
from faintly.core.epochs import check_epoch
from faintly.errors import FaintlyError
from faintly.mechanisms import Mechanism, mechanism_of
from faintly.wire import problems, report_v1
from faintly.wire.http import DIGEST
from faintly.wire.problems import Problem
from faintly_collector.storage.collection import (
    CLOSED,
    CLOSING,
    OPEN,
    TIMED,
    Clock,
    Collection,
    Epoch,
    Retention,
)
from faintly_collector.storage.database import DATABASE_FILE, Database
from faintly_collector.storage.disk import damaged

CELL_BYTES = 4  # of a table; with very many reports a cell takes eight
MAX_SHOWN = 300  # characters of an error about a plan, which may quote it
CREATE = """INSERT INTO collections
    (digest, plan, name, retention, tokens, period_s, grace_s, closed)
    VALUES (?, ?, ?, ?, ?, ?, ?, 0) RETURNING id"""
OPEN_EPOCH = "INSERT INTO epochs (collection, number, state) VALUES (?, ?, ?) RETURNING id"


class Registry:
    """All collections, by digest."""

    def __init__(self, database: Database, table_bytes: float = math.inf) -> None:
        """Read everything from the database; `table_bytes` limits the tables of new plans."""
        self._database, self._table_bytes, self.clock = database, table_bytes, Clock()
        self._lock = database.write_lock  # one change at a time, until memory agrees
        self.collections: dict[bytes, Collection] = {}
        by_id: dict[int, Collection] = {}
        for key, digest, text, name, retention, tokens, period_s, grace_s, closed in database.rows(
            "SELECT * FROM collections"
        ):
            plan, mechanism = _read_plan(digest, text)
            by_id[key] = self.collections[digest] = Collection(
                key, plan, name, retention, bool(tokens), period_s, grace_s, bool(closed), mechanism
            )
        self.by_id: dict[int, Epoch] = {}
        self.pending = self.pending_bytes = 0  # of all epochs
        try:
            for key, owner, *rest in database.rows("SELECT * FROM epochs"):
                epoch = Epoch(key, by_id[owner], *rest)
                self.by_id[key] = epoch.collection.epochs[epoch.number] = epoch
                self.recount(epoch)
            pending = "SELECT epoch, sum(reports) FROM inbox GROUP BY epoch"
            for key, reports in database.rows(pending):
                self.add_pending([(self.by_id[key], reports)])
        except KeyError:
            raise damaged(database.path, "it refers to rows that it does not have") from None

    def recount(self, epoch: Epoch) -> None:
        """Reread what is sealed of an epoch, after the manifest has changed."""
        dropped = epoch.collection.retention == "drop"
        table = "sketches" if dropped else "segments"
        ((last, files, reports, size),) = self._database.rows(
            f"SELECT max(number), count(*), sum(reports), sum(bytes) FROM {table} WHERE epoch = ?",
            (epoch.id,),
        )
        epoch.last, epoch.sealed, epoch.bytes = last or 0, reports or 0, size or 0
        epoch.segments = 0 if dropped else files

    def add_pending(self, changes: Iterable[tuple[Epoch, int]]) -> None:
        """Add to the pending reports of epochs, or subtract; the caller holds the write lock."""
        now = time.monotonic()
        for epoch, reports in changes:
            if not epoch.pending or reports < 0:
                epoch.pending_since = now  # what is left after a seal arrived during it
            epoch.pending += reports
            self.pending += reports
            self.pending_bytes += reports * epoch.collection.record_bytes

    def collection(self, digest: bytes) -> Collection:
        """Return the collection of a plan's digest."""
        found = self.collections.get(digest)
        if found is None:
            raise Problem(problems.UNKNOWN_COLLECTION, f"there is no collection {digest.hex()}")
        return found

    def digest_of(self, named: str) -> str:
        """Return the digest of a collection in hexadecimal, given its digest or its name."""
        if DIGEST.fullmatch(named):
            return named
        found = [each for each in list(self.collections.values()) if each.name == named]
        if not found:
            raise Problem(problems.UNKNOWN_COLLECTION, "there is no collection of this name")
        if len(found) > 1:
            message = "several collections have this name; use the digest of one"
            raise Problem(problems.CONFLICT, message)
        return found[0].plan.digest.hex()

    def epoch(self, digest: bytes, number: int) -> Epoch:
        """Return an epoch, whatever its state."""
        try:
            return self.collection(digest).epochs[number]
        except KeyError:
            raise Problem(problems.UNKNOWN_EPOCH, f"there is no epoch {number}") from None

    def sealed_epochs(self, digest: bytes, number: int | None = None) -> list[Epoch]:
        """Return the epochs that have sealed reports, in order; only one if it is named."""
        numbers = sorted(self.collection(digest).epochs) if number is None else [number]
        found = [each for each in (self.epoch(digest, each) for each in numbers) if each.sealed]
        if not found:
            raise Problem(problems.NO_REPORTS)
        return found

    def create(
        self,
        plan: Plan,
        *,
        name: str = "",
        retention: Retention = "keep",
        tokens: bool = False,
        epochs: Sequence[int] = (0,),
        period_s: float | None = None,
        grace_s: float | None = None,
    ) -> Collection:
        """Return a new collection, or the existing one of the same plan and settings."""
        grace_s = period_s if grace_s is None else grace_s
        mechanism = self._check_plan(plan, retention, period_s, grace_s)
        epochs = sorted(map(check_epoch, set(epochs)))
        wanted = name, retention, tokens, period_s, grace_s
        with self._lock:
            before = self.collections.get(plan.digest)
            if before is not None:
                if before.settings != wanted or not set(epochs) <= set(before.epochs):
                    message = "this plan already has a collection with other settings"
                    raise Problem(problems.CONFLICT, message)
                return before
            made = Collection(0, plan, *wanted, False, mechanism)
            self._open(made, epochs, OPEN)
            return made

    def _check_plan(
        self, plan: Plan, retention: str, period_s: float | None, grace_s: float | None
    ) -> Mechanism:
        """Return the mechanism of a plan, or raise `Problem` if it cannot have a collection."""
        try:
            mechanism = mechanism_of(plan)
        except FaintlyError as error:
            raise Problem(problems.BAD_PLAN, str(error)[:MAX_SHOWN]) from None
        if mechanism.layout.record_bytes > report_v1.MAX_RECORD_BYTES:
            raise Problem(problems.BAD_PLAN, "a report of this plan is too large to be sent")
        tables = mechanism.tables.sketch_shape.tables
        size = 0 if tables is None else CELL_BYTES * math.prod(tables)
        if size > self._table_bytes and plan.digest not in self.collections:
            most = f"the limit is {self._table_bytes:,}"
            hint = "Make a plan with smaller tables, or start with a larger table_bytes."
            message = f"the tables of this plan take {size:,} bytes; {most}"
            raise Problem(problems.BAD_PLAN, message, hint)
        if retention == "drop" and plan.decode == "direct":
            message = "direct decoding needs the raw reports; use retention keep"
            raise Problem(problems.BAD_REQUEST, message)
        if period_s is not None and not 1 <= period_s < 2**40:
            raise Problem(problems.BAD_REQUEST, "period_s must be at least one second")
        if grace_s is not None and (period_s is None or not period_s <= grace_s < 2**40):
            message = "grace_s needs period_s, and must be at least as long"
            raise Problem(problems.BAD_REQUEST, message)
        return mechanism

    def open_epoch(self, digest: bytes, number: int) -> None:
        """Open an epoch; a closed one cannot be reopened."""
        check_epoch(number)
        with self._lock:
            collection = self.collection(digest)
            if collection.closed:
                raise Problem(problems.CONFLICT, "the collection is closed")
            epoch = collection.epochs.get(number)
            if epoch is None:
                self._open(collection, [number], OPEN)
            elif epoch.state == TIMED:
                self._set_state(epoch, OPEN, OPEN)
            elif epoch.state != OPEN:
                # Its request ids are deleted, so a retry would be counted twice.
                raise Problem(problems.CONFLICT, f"epoch {number} was closed; open another one")

    def _open(self, collection: Collection, numbers: Iterable[int], state: str) -> None:
        """Open epochs, and create their collection if it is new, in one transaction."""
        opened = []
        with self._database.transaction() as connection:
            if not collection.id:
                settings = (collection.digest, collection.plan.canonical, *collection.settings)
                collection.id = connection.execute(CREATE, settings).fetchone()[0]
            for number in numbers:
                row = (collection.id, number, state)
                key = connection.execute(OPEN_EPOCH, row).fetchone()[0]
                opened.append(Epoch(key, collection, number, state))
        for epoch in opened:
            self.by_id[epoch.id] = collection.epochs[epoch.number] = epoch
        self.collections[collection.digest] = collection

    def epoch_for(self, collection: Collection, number: int, *, issuing: bool = False) -> Epoch:
        """Return the epoch of a submission, or of tokens to issue, or raise `Problem`.

        A report opens an epoch that the clock allows; if tokens are needed, issuing one does.
        A submission also gets a closing epoch: a retry may still find its request id.
        """
        if number not in collection.epochs and not collection.closed:
            if not self.clock.allows(collection, number):
                raise Problem(problems.UNKNOWN_EPOCH, f"epoch {number} does not take reports")
            if collection.tokens and not issuing:
                raise Problem(problems.TOKEN_UNKNOWN, f"no token of epoch {number} was issued")
            with self._lock:
                self._check_exists(collection)
                if number not in collection.epochs and not collection.closed:
                    self._open(collection, [number], TIMED)
        epoch = collection.epochs.get(number)
        if epoch is None or epoch.state == CLOSED or (issuing and not epoch.is_open):
            raise Problem(problems.CLOSED, f"epoch {number} is closed")
        return epoch

    def close_epoch(self, epoch: Epoch, *, only_past: bool = False) -> bool:
        """Close an epoch, after the commits that have already begun.

        With `only_past`, return False for an epoch that is no longer past, and leave it open:
        somebody has since opened it or changed the clock.
        """
        with self._lock:
            if epoch.is_open and only_past and not self.clock.is_past(epoch):
                return False
            if epoch.is_open:
                self._set_state(epoch, CLOSED, CLOSING)
            return True

    def _set_state(self, epoch: Epoch, stored: str, state: str) -> None:
        self._database.execute("UPDATE epochs SET state = ? WHERE id = ?", (stored, epoch.id))
        epoch.state = state

    def close_collection(self, collection: Collection) -> None:
        """Close a collection and all its epochs."""
        with self._lock:
            self._check_exists(collection)
            with self._database.transaction() as connection:
                key = collection.id
                connection.execute("UPDATE collections SET closed = 1 WHERE id = ?", (key,))
                connection.execute(
                    "UPDATE epochs SET state = ? WHERE collection = ?", (CLOSED, key)
                )
            collection.closed = True
            for epoch in collection.epochs.values():
                if epoch.is_open:
                    epoch.state = CLOSING

    def forget(self, collection: Collection) -> None:
        """Delete a closed collection, but not its files; the caller holds its epochs' locks."""
        with self._lock:
            self._check_exists(collection)
            epochs = list(collection.epochs.values())
            keys = [(epoch.id,) for epoch in epochs]
            with self._database.transaction() as connection:
                for table in ("inbox", "segments", "sketches"):
                    connection.executemany(f"DELETE FROM {table} WHERE epoch = ?", keys)
                connection.execute("DELETE FROM epochs WHERE collection = ?", (collection.id,))
                connection.execute("DELETE FROM collections WHERE id = ?", (collection.id,))
            self.add_pending((epoch, -epoch.pending) for epoch in epochs)
            del self.collections[collection.digest]
            for epoch in epochs:
                epoch.state, epoch.sealed, epoch.last = CLOSED, 0, 0  # for those who wait for it
                del self.by_id[epoch.id]

    def _check_exists(self, collection: Collection) -> None:
        """Raise `Problem` if the collection was deleted, or recreated, while the caller waited."""
        if self.collections.get(collection.digest) is not collection:
            raise Problem(problems.UNKNOWN_COLLECTION, "the collection was deleted")


def _read_plan(digest: bytes, text: bytes) -> tuple[Plan, Mechanism]:
    try:
        plan = Plan.from_json(text)
        if plan.digest == digest:
            return plan, mechanism_of(plan)
        what = "it has another digest"
    except FaintlyError as error:
        what = str(error)
    raise damaged(DATABASE_FILE, f"the plan of collection {digest.hex()}: {what}")
