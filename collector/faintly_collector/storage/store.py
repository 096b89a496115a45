"""A data folder in use: opens its parts, takes submissions, closes and deletes.

Safe to use from several threads. Acknowledged reports are on the disk and counted once, whenever
the process dies. What concerns a single part is called on that part, such as `store.registry`.
"""

import hashlib
import secrets
import time
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from faintly.durable import make_folder
from faintly.errors import Rejected
from faintly.wire import problems
from faintly.wire.problems import Problem
from faintly_collector.storage import credentials
from faintly_collector.storage.collection import CLOSED, Collection, Counters, Epoch
from faintly_collector.storage.database import ID_BYTES, Database
from faintly_collector.storage.disk import locked
from faintly_collector.storage.inbox import HASH_BYTES, Inbox, Submission, Waiter
from faintly_collector.storage.maintenance import Maintenance
from faintly_collector.storage.manifest import SUFFIXES, Manifest
from faintly_collector.storage.registry import Registry
from faintly_collector.storage.seal import Sealer
from faintly_collector.storage.sketches import Sketches


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLimits:
    """How much a store accepts at a time, and when it seals; the defaults of `faintly serve`."""

    inbox_bytes: int = 512 << 20  # pending bytes above which submissions are refused as busy
    waiting: int = 4096  # queued submissions above which more are refused as busy
    seal_reports: int = 1_000_000  # pending reports at which an epoch is sealed
    seal_bytes: int = 32 << 20  # or pending bytes
    seal_s: float = 30.0  # or the age of its oldest pending report
    table_bytes: int = 1 << 30  # of the tables of a new collection's plan


class Store(AbstractContextManager["Store"]):
    """One data folder; `Store.open` creates or recovers it.

    Its parts are public: `registry` (collections and epochs), `manifest` (sealed files), `sealer`,
    `sketches`, `credentials`, `inbox`, `maintenance` and `database`, the file below them.
    """

    def __init__(self, folder: Path, limits: StoreLimits, opened: ExitStack) -> None:
        """Use a folder; takes over what is `opened` for it, such as its lock."""
        self.folder, self.limits, self.counters = folder, limits, Counters()
        self.stopping = False  # True: take nothing new
        self.database = opened.enter_context(Database(folder))
        self.registry = Registry(self.database, limits.table_bytes)
        self.manifest = Manifest(folder, self.database, self.registry)
        self.manifest.recover()
        self.credentials = credentials.Credentials(self.database)
        self.sketches = Sketches(self.manifest)
        self.sealer = Sealer(self.manifest, self.sketches, self.counters)
        self.maintenance = Maintenance(self)
        self.inbox = Inbox(self)
        self.maintenance.start()
        self._resources = opened.pop_all()

    @classmethod
    def open(cls, folder: Path, limits: StoreLimits | None = None) -> Self:
        """Open a folder, or create it; recover from a crash of the last process."""
        make_folder(folder)
        with ExitStack() as opened:
            opened.enter_context(locked(folder))
            for name in (*SUFFIXES, "spool"):
                make_folder(folder / name)
            return cls(folder, limits or StoreLimits(), opened)

    def close(self) -> None:
        """Refuse new submissions, store queued ones, seal everything and unlock the folder.

        What cannot be sealed, on a full disk for example, stays in the inbox until the next start.
        """
        if self.inbox.closed:
            return
        self.stopping = True
        self.inbox.close()
        self.maintenance.stop()
        with self._resources:
            for epoch in list(self.registry.by_id.values()):
                self.maintenance.attempt(self.sealer.seal, epoch)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close_collection(self, digest: bytes) -> None:
        """Close a collection, and seal it."""
        collection = self.registry.collection(digest)
        self.registry.close_collection(collection)
        for epoch in list(collection.epochs.values()):
            self.close_epoch(epoch)

    def close_epoch(self, epoch: Epoch, *, only_past: bool = False) -> None:
        """Close and seal an epoch, and delete its request ids and tokens; compact it later.

        With `only_past`, only if it is still past.
        """
        if self.registry.close_epoch(epoch, only_past=only_past):
            self.sealer.seal(epoch)
            self.database.purge(epoch.id)
            epoch.state = CLOSED
            self.maintenance.uncompacted.append(epoch)

    def delete(self, digest: bytes) -> None:
        """Delete a collection, and then its files."""
        collection = self.registry.collection(digest)
        self.registry.close_collection(collection)  # or the clock might open another epoch
        epochs = list(collection.epochs.values())
        with ExitStack() as locks:
            for epoch in epochs:
                locks.enter_context(epoch.lock)  # it may be being sealed
            self.registry.forget(collection)
            self.manifest.delete(collection)
        for epoch in epochs:
            self.database.purge(epoch.id)

    def take(
        self,
        digest: bytes,
        epoch: int,
        request: bytes,
        body: bytes,
        *,
        waiter: Waiter,
        token: bytes | None = None,
    ) -> int:
        """Check a submission and queue it for the next commit; return its reports.

        Waits for the disk only if it opens an epoch. After the commit, the waiter gets the
        outcome: "counted", "replayed", or a `Problem`.
        """
        collection = self.registry.collection(digest)
        try:
            self.check_capacity()
            if len(request) != ID_BYTES:
                raise Problem(problems.NO_REQUEST_ID, f"a request id has {ID_BYTES} bytes")
            reports, hashed = _check_body(collection, body, token)
            # Last, since it may open an epoch, and a refused submission must leave nothing behind.
            found = self.registry.epoch_for(collection, epoch)
        except Problem as problem:
            collection.arrivals.count_refusal(problem.kind.code)
            if problem.kind is problems.CANNOT_STORE:  # an epoch could not be opened
                self.inbox.failed_at = time.monotonic()
            raise
        body_hash = hashlib.blake2b(body, digest_size=HASH_BYTES).digest()
        self.inbox.submit(Submission(found, request, body, body_hash, reports, hashed, waiter))
        return reports

    def would_open(self, digest: bytes, epoch: int) -> bool:
        """Return whether a submission to this epoch may open it, which waits for the disk."""
        found = self.registry.collections.get(digest)
        return bool(found and found.period_s and not found.tokens and epoch not in found.epochs)

    def check_capacity(self) -> None:
        """Raise `Problem` if a submission would be refused as busy, or because of a stop."""
        if self.inbox.closed:
            raise Problem(problems.STOPPING)
        if self.inbox.waiting >= self.limits.waiting:
            raise Problem(problems.BUSY, "too many requests wait for the disk")
        if self.registry.pending_bytes >= self.limits.inbox_bytes:
            raise Problem(problems.BUSY, "too many reports wait to be sealed")

    def seal(self, digest: bytes | None = None) -> int:
        """Seal the pending reports of one collection, or of all, and return their number."""
        chosen = self.registry.by_id if digest is None else self.registry.collection(digest).epochs
        return sum(self.sealer.seal(epoch) for epoch in list(chosen.values()))

    def issue_tokens(self, digest: bytes, epoch: int, count: int) -> list[str]:
        """Return new single-use tokens of an epoch, which are shown only once."""
        collection = self.registry.collection(digest)
        if not collection.tokens:
            raise Problem(problems.CONFLICT, "the collection was created without tokens")
        found = self.registry.epoch_for(collection, epoch, issuing=True)
        tokens = [secrets.token_bytes(credentials.TOKEN_BYTES) for _ in range(count)]
        hashes = b"".join(sorted([credentials.token_hash(token) for token in tokens]))
        self.database.execute(credentials.ADD_TOKENS, (found.id, hashes))
        return [token.hex() for token in tokens]


def _check_body(
    collection: Collection, body: bytes, token: bytes | None
) -> tuple[int, bytes | None]:
    """Return the number of reports, and the hash of the token where the collection needs one."""
    try:
        reports = collection.counter.count(body)
    except Rejected as error:
        raise Problem(problems.BAD_REPORTS, str(error)) from None
    if not reports:
        raise Problem(problems.BAD_REPORTS, "the batch is empty")
    if not collection.tokens:
        return reports, None
    if token is None:
        raise Problem(problems.TOKEN_MISSING, "this collection requires a token")
    if reports != 1:
        raise Problem(problems.BAD_REPORTS, "a token stands for one report; send one at a time")
    return reports, credentials.token_hash(token)
