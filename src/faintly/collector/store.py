"""A data folder in use: everything the collector does to it goes through here.

Safe to use from several threads. Whatever was acknowledged is on the disk and counted once,
whenever the process dies.
"""

import os
import sqlite3
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from faintly.collector import problems, recovery
from faintly.collector import tokens as token_store
from faintly.collector.counters import Counters
from faintly.collector.credentials import Credentials
from faintly.collector.database import NAME_BYTES, Database, damaged
from faintly.collector.disk import lock_folder, make_folder
from faintly.collector.inbox import Answer, Inbox, Outcome, Submission
from faintly.collector.keeper import Keeper
from faintly.collector.limits import Limits
from faintly.collector.merge import Merger
from faintly.collector.problems import Problem
from faintly.collector.registry import CLOSED, Collection, Epoch, Registry
from faintly.collector.seal import Sealer
from faintly.collector.sketches import Sketches
from faintly.collector.status import Segment, Status, segments_of, status_of
from faintly.core import Plan, Sketch
from faintly.engine import Reader
from faintly.errors import Rejected


class Store:
    """One data folder; `Store.open` makes or recovers it."""

    def __init__(self, folder: Path, database: Database, limits: Limits, lock: int) -> None:
        self.folder, self.limits, self.counters = folder, limits, Counters()
        self._database, self._lock = database, lock
        self._registry = Registry(database)
        recovery.recover(folder, database, self._registry)
        self._access = Credentials(database)
        self._sketches = Sketches(folder, database, limits.sketches)
        self._sealer = Sealer(folder, database, self._registry, self._sketches, self.counters)
        self._merger = Merger(folder, database, self._sketches)
        self._stopping = False
        self._keeper = Keeper(
            database=database,
            registry=self._registry,
            sealer=self._sealer,
            access=self._access,
            counters=self.counters,
            limits=limits,
            close=self._close_past,
            merger=self._merger,
        )
        self._inbox = Inbox(database, self._registry, self.counters, self._keeper.committed)
        self._keeper.start()

    @classmethod
    def open(cls, folder: Path, limits: Limits | None = None) -> Self:
        """Open a folder, or create it; recover from whatever the last process left."""
        make_folder(folder)
        lock = lock_folder(folder)
        database: Database | None = None
        try:
            for name in ("segments", "sketches", "spool"):
                make_folder(folder / name)
            database = Database(folder)
            return cls(folder, database, limits or Limits(), lock)
        except BaseException as error:
            if database is not None:
                database.close()
            os.close(lock)
            if isinstance(error, sqlite3.DatabaseError):
                raise damaged(folder, error) from None
            raise

    def close(self) -> None:
        """Take nothing more, store what waits, seal everything, and let others have the folder.

        What cannot be sealed, on a full disk for example, stays in the inbox until the next time.
        """
        if self._stopping:
            return
        self._stopping = True
        self._inbox.close()
        self._keeper.stop()
        try:
            for epoch in list(self._registry.by_id.values()):
                self._keeper.attempt(self._sealer.seal, epoch)
                self._keeper.attempt(self._sketches.snapshot, epoch, tail=1)
        finally:
            self._database.close()
            os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(
        self,
        plan: Plan,
        *,
        name: str = "",
        retention: str = "keep",
        tokens: bool = False,
        epochs: Sequence[int] = (0,),
        period_s: float | None = None,
    ) -> Collection:
        """Return a new collection, or the one that was created like this before."""
        return self._registry.create(
            plan, name=name, retention=retention, tokens=tokens, epochs=epochs, period_s=period_s
        )

    def collections(self) -> list[Collection]:
        """Return all collections."""
        return list(self._registry.collections.values())

    def collection(self, digest: bytes) -> Collection:
        """Return the collection of a plan's digest."""
        return self._registry.collection(digest)

    def open_epoch(self, digest: bytes, epoch: int) -> None:
        """Let an epoch take reports."""
        self._registry.open_epoch(digest, epoch)

    def close_epoch(self, digest: bytes, epoch: int) -> None:
        """Let an epoch take nothing more, seal it, and forget its request ids and tokens."""
        self._close_epoch(self._registry.epoch(digest, epoch))

    def close_collection(self, digest: bytes) -> None:
        """Let a collection take nothing more, and seal it."""
        collection = self.collection(digest)
        self._registry.close_collection(collection)
        for epoch in list(collection.epochs.values()):
            self._close_epoch(epoch)

    def _close_epoch(self, epoch: Epoch) -> None:
        self._registry.close_epoch(epoch)
        self._seal_closed(epoch)
        # The epoch is closed even if its files cannot be made fewer, on a full disk for example.
        self._keeper.attempt(self._merger.merge, epoch)

    def _close_past(self, epoch: Epoch) -> None:
        """Close an epoch that the clock has shut; the keeper merges it, bit by bit."""
        if self._registry.close_epoch(epoch, only_past=True):
            self._seal_closed(epoch)

    def _seal_closed(self, epoch: Epoch) -> None:
        self._sealer.seal(epoch)
        epoch.state = CLOSED
        recovery.purge(self._database, [epoch])

    def delete(self, digest: bytes) -> None:
        """Forget a collection, and then delete its files."""
        collection = self.collection(digest)
        with ExitStack() as locks:
            held: list[Epoch] = []
            # The clock may open another epoch while we wait for those that are being sealed.
            while not self._registry.forget(collection, held):
                for epoch in list(collection.epochs.values())[len(held) :]:
                    locks.enter_context(epoch.lock)
                    held.append(epoch)
            self._sketches.forget(collection)
            recovery.delete_files(self.folder, collection)
        recovery.purge(self._database, held)

    def take(
        self,
        digest: bytes,
        epoch: int,
        request: bytes,
        body: bytes,
        *,
        token: bytes | None = None,
        waiter: object,
        answer: Answer,
    ) -> int:
        """Check a submission and let it wait for the next commit; return its reports.

        Never waits for the disk, unless it `opens` an epoch. After the commit `answer` is called
        once, from another thread, with (waiter, outcome) of every submission that shares the
        commit and this `answer`.
        An outcome is "counted", "replayed", or a `Problem`.
        """
        self._check_room(body)
        if len(request) != NAME_BYTES:
            raise Problem(problems.NO_REQUEST_ID, f"a request id has {NAME_BYTES} bytes")
        collection = self._registry.collection(digest)
        try:
            reports = collection.counter.count(body)
        except Rejected as error:
            raise Problem(problems.BAD_REPORTS, str(error)) from None
        if not reports:
            raise Problem(problems.BAD_REPORTS, "the batch is empty")
        hashed = self._check_token(collection, reports, token)
        # Last, since it may open an epoch, and what is refused leaves nothing behind.
        found = self._registry.accepting(collection, epoch)
        self._inbox.submit(Submission(found, request, body, reports, hashed, waiter, answer))
        return reports

    def opens(self, digest: bytes, epoch: int) -> bool:
        """Return whether taking reports of this epoch may open it, which waits for the disk."""
        collection = self._registry.collections.get(digest)
        if collection is None or collection.period_s is None or collection.tokens:
            return False
        return epoch not in collection.epochs

    def _check_room(self, body: bytes) -> None:
        if self._stopping:
            raise problems.stopping()
        if len(body) > self.limits.body_bytes:
            raise Problem(problems.TOO_LARGE, f"a body has at most {self.limits.body_bytes} bytes")
        if self._inbox.waiting >= self.limits.waiting:
            raise Problem(problems.BUSY, "too many requests wait for the disk")
        if self._registry.pending_bytes >= self.limits.inbox_bytes:
            raise Problem(problems.BUSY, "too many reports wait to be sealed")

    def _check_token(
        self, collection: Collection, reports: int, token: bytes | None
    ) -> bytes | None:
        if not collection.tokens:
            return None
        if token is None:
            raise Problem(problems.TOKEN_MISSING, "this collection takes reports with tokens only")
        if reports != 1:
            raise Problem(problems.BAD_REPORTS, "a token stands for one report; send one at a time")
        return token_store.hash_of(token)

    def submit(
        self, digest: bytes, epoch: int, request: bytes, body: bytes, token: bytes | None = None
    ) -> str:
        """Submit reports and wait: "counted" or "replayed", or a `Problem` is raised."""
        future: Future[Outcome] = Future()
        self.take(digest, epoch, request, body, token=token, waiter=future, answer=_resolve)
        outcome = future.result()
        if isinstance(outcome, Problem):
            raise outcome
        return outcome

    @property
    def inbox_bytes(self) -> int:
        """Return the bytes of all reports that are not sealed yet."""
        return self._registry.pending_bytes

    @property
    def inbox_reports(self) -> int:
        """Return the number of reports that are not sealed yet."""
        return self._registry.pending

    @property
    def log_bytes(self) -> int:
        """Return the size of the database's log, which somebody who reads for long makes grow."""
        return self._database.wal_bytes()

    @property
    def waiting(self) -> int:
        """Return about how many submissions wait for a commit."""
        return self._inbox.waiting

    def seal(self, digest: bytes | None = None) -> int:
        """Seal what is pending, of one collection or of all, and return the reports."""
        if digest is None:
            epochs = list(self._registry.by_id.values())
        else:
            epochs = list(self.collection(digest).epochs.values())
        return sum(self._sealer.seal(epoch) for epoch in epochs)

    def reader(self, digest: bytes, epoch: int | None, level: float = 0.95) -> tuple[Reader, str]:
        """Return a reader of an epoch's sealed reports, or of all epochs', and its version.

        The version changes whenever answers may.
        """
        return self._sketches.reader(self._sealed(digest, epoch), level)

    def version(self, digest: bytes, epoch: int | None) -> str:
        """Return the version that a reader would have now."""
        return self._sketches.version(self._sealed(digest, epoch))

    def sketch(self, digest: bytes, epoch: int | None) -> Sketch:
        """Return the sketch of an epoch's sealed reports, or of all epochs'."""
        return self._sketches.sketch(self._sealed(digest, epoch))

    def latest(self, digest: bytes) -> int:
        """Return the latest epoch that has sealed reports."""
        return self._sealed(digest, None)[-1].number

    def _sealed(self, digest: bytes, epoch: int | None) -> list[Epoch]:
        if epoch is None:
            every = sorted(self.collection(digest).epochs.items())
        else:
            every = [(epoch, self._registry.epoch(digest, epoch))]
        found = [each for _, each in every if each.sealed]
        if not found:
            raise Problem(problems.NO_REPORTS, "no reports were sealed yet")
        return found

    def segments(self, digest: bytes) -> list[Segment]:
        """Return the sealed files of a collection."""
        return segments_of(self.folder, self._database, self.collection(digest))

    def status(self, digest: bytes) -> Status:
        """Return what a collection has, epoch by epoch."""
        return status_of(self.collection(digest))

    def issue_tokens(self, digest: bytes, epoch: int, count: int) -> list[str]:
        """Return fresh single-use tokens of an epoch."""
        collection = self.collection(digest)
        if not collection.tokens:
            raise Problem(problems.CONFLICT, "the collection was created without tokens")
        if not 1 <= count <= token_store.MOST:
            raise Problem(problems.BAD_REQUEST, f"issue 1 to {token_store.MOST} tokens at a time")
        found = self._registry.issuing(collection, epoch)
        return token_store.issue(self._database, found, count)

    def credentials(self) -> list[tuple[str, str]]:
        """Return label and role of each credential."""
        return self._access.labels()

    def role_of(self, secret: str) -> str | None:
        """Return the role of a secret, or None."""
        return self._access.role_of(secret)


def _resolve(pairs: Sequence[tuple[object, Outcome]]) -> None:
    for future, outcome in pairs:
        assert isinstance(future, Future)
        future.set_result(outcome)
