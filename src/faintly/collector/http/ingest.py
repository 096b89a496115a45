"""The hot path: takes reports as a bare ASGI application, in front of FastAPI.

A request is checked without touching the disk, joins the next commit and waits for one future.
The thread that commits wakes the event loop once for all requests of a commit. Most requests
are short and plain, and come without the messages of ASGI: `Ingest.quick` gives them the same
answers in fewer steps, and `Ingest.again` in fewer still where the head is one that came before.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from faintly.collector.http import logs
from faintly.collector.http.access import Access, Headers, Pages, check_headers
from faintly.collector.http.metrics import Durations, Traffic
from faintly.collector.http.middleware import (
    COMMON,
    PREFIX,
    Done,
    Head,
    Receive,
    Scope,
    Send,
    refusal,
    reply,
    too_large,
    unexpected,
)
from faintly.collector.problems import (
    BAD_REQUEST,
    BUSY,
    CANNOT_STORE,
    NO_REQUEST_ID,
    TOO_LARGE,
    Problem,
    stopping,
)
from faintly.collector.storage.database import NAME_BYTES
from faintly.collector.storage.inbox import COUNTED, Outcome
from faintly.collector.storage.store import Store
from faintly.collector.storage.tokens import TOKEN_BYTES
from faintly.core.epochs import MAX_EPOCH

ROUTE = "/v1/collections/{digest}/reports"
THREAD_BYTES = 1 << 20  # larger bodies are checked in a thread, to keep the loop free
HELD_BYTES = 256 << 20  # of bodies that are being received, checked or committed
HEADS = 1024  # that are remembered
SECRET = frozenset({b"authorization", b"cookie", b"faintly-token"})  # no head with one is

Reply = tuple[int, Headers, bytes]


class ClientDisconnected(Exception):
    """The sender disconnected before its request was complete."""


class Heads:
    """Heads that were read before: programs send the same ones over and over.

    All are forgotten when a role has its first credential or has lost its last one, since who
    was let in without any may not be any more.
    """

    def __init__(self) -> None:
        self.roles: frozenset[str] = frozenset()  # that had credentials when these were let in
        self._heads: dict[bytes, Head] = {}

    def add(self, key: bytes, head: Head, roles: frozenset[str]) -> None:
        """Remember a head that was let in while these roles had credentials."""
        if self.roles != roles or len(self._heads) >= HEADS:
            self.roles, self._heads = roles, {}
        self._heads[key] = head

    def find(self, key: bytes) -> Head | None:
        """Return a head that is remembered."""
        return self._heads.get(key)


class Ingest:
    """Takes the requests of one event loop."""

    def __init__(
        self,
        store: Store,
        access: Access,
        pages: Pages,
        traffic: Traffic,
        *,
        body_bytes: int,
        local: bool,
    ) -> None:
        """Take reports.

        Args:
            store: where reports are stored.
            access: checks credentials.
            pages: checks origins.
            traffic: counts requests.
            body_bytes: size of the largest body.
            local: True where only this machine is served.
        """
        self._store, self._access, self._pages, self._traffic = store, access, pages, traffic
        self._limit, self._local = body_bytes, local
        self._log = logs.logger()
        self.stopping = False
        self._held, self._most_held = 0, max(HELD_BYTES, body_bytes)
        self._heads = Heads()
        self.waits = Durations()  # from a checked body to its commit
        self.failed_at: float | None = None  # when the last commit failed, unless one passed since
        self._short = {
            status: self._counted(status, 1) for status in ("counted", "replayed")
        }  # most requests carry one report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        started = time.perf_counter()
        try:
            status, headers, body, size = await self._answer(scope, receive)
        except ClientDisconnected:
            return
        await reply(send, status, headers, body)
        self._traffic.add(ROUTE, "POST", status, time.perf_counter() - started, size)

    async def reply_to(self, scope: Scope, receive: Receive) -> Reply:
        """Return status, headers and body of the answer, for the caller to send."""
        status, headers, body, _ = await self._answer(scope, receive)
        return status, headers, body

    def quick(
        self,
        path: str,
        query: bytes,
        headers: Headers,
        body: bytes,
        done: Done,
        *,
        key: bytes | None = None,
    ) -> bool:
        """Serve a request whose body is here, and tell `done`.

        Returns False, having done nothing, where the disk might have to be waited for or nothing
        may follow the answer: the other way is for those.

        Args:
            path: of the address.
            query: what follows its question mark.
            headers: with names in lower case.
            body: all of it.
            done: called with status, headers and body of the answer, now or later.
            key: what to remember all this by, its id and body aside, for `again`.
        """
        found = dict(headers)
        waiting = Waiting(self, len(body), found.get(b"origin"), done)
        try:
            if len(body) > self._limit:
                return False
            if len(found) < len(headers):
                check_headers(headers)
            roles = self._admit(found, waiting.origin)
            request, epoch = _parse_query(query)
            head = Head(_parse_digest(path), epoch, len(body), waiting.origin)
            if self._store.opens(head.digest, epoch):  # which waits for the disk
                return False
            token = _parse_token(found.get(b"faintly-token"))
        except Exception as error:
            self.finish(waiting, self._problem(error))
            return True
        taken = self._offer(waiting, head, request, body, token)
        if taken and key is not None and SECRET.isdisjoint(found):
            self._heads.add(key, head, roles)
        return True

    def recall(self, key: bytes) -> Head | None:
        """Return what is known of a head that came with this key, if it can be acted on at once."""
        head = self._heads.find(key)
        if head is None or self.stopping:
            return None
        try:
            same = self._heads.roles == self._access.roles
            return head if same and not self._store.opens(head.digest, head.epoch) else None
        except Exception:  # which the other ways meet as well, and answer
            return None

    def again(self, head: Head, name: bytes, body: bytes, done: Done) -> bool:
        """Serve a request whose head is known but for its id.

        Returns False, having done nothing, where it is another head after all.

        Args:
            head: what `recall` returned just now.
            name: the id, in hexadecimal digits.
            body: all of it.
            done: as for `quick`.
        """
        request = _parse_hex(name.decode("latin-1"), NAME_BYTES)
        if request is None or head.size != len(body):
            return False
        waiting = Waiting(self, head.size, head.origin, done)
        self._offer(waiting, head, request, body, None)
        return True

    def _offer(
        self, waiting: "Waiting", head: Head, request: bytes, body: bytes, token: bytes | None
    ) -> bool:
        """Have a body stored and its sender answered then, or answer now what is wrong with it."""
        try:
            self._hold(waiting.size)
            waiting.held = True
            waiting.reports = self._store.take(
                head.digest, head.epoch, request, body, token=token, waiter=waiting, answer=wake
            )
        except Exception as error:
            self.finish(waiting, self._problem(error))
            return False
        return True

    def settle(self, waiting: "Waiting", outcome: Outcome) -> None:
        """Answer what became of a submission."""
        self.waits.add(time.perf_counter() - waiting.started)
        self.finish(waiting, self._settled(outcome, waiting.reports))

    def finish(self, waiting: "Waiting", outcome: Reply | Problem) -> None:
        """Answer a request, and count it."""
        if waiting.held:
            self._held -= waiting.size
        status, headers, body = self._replied(outcome, waiting.origin)
        waiting.tell(status, headers, body)
        seconds = time.perf_counter() - waiting.started
        self._traffic.add(ROUTE, "POST", status, seconds, waiting.size)

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, Headers, bytes, int]:
        found: dict[bytes, bytes] = dict(scope["headers"])
        origin = found.get(b"origin")
        size = 0
        outcome: Reply | Problem
        try:
            check_headers(scope["headers"])
            self._admit(found, origin)
            request, epoch = _parse_query(scope["query_string"])
            body = await self._read(found.get(b"content-length"), receive)
            size = len(body)
            self._hold(size)
            try:
                outcome = await self._submit(scope["path"], epoch, request, body, found)
            finally:
                self._held -= size
        except ClientDisconnected:
            raise
        except asyncio.CancelledError:  # the process has stopped waiting for open requests
            outcome = stopping()
        except Exception as error:
            outcome = self._problem(error)
        return *self._replied(outcome, origin), size

    def _problem(self, error: Exception) -> Problem:
        """Return the answer to an exception."""
        if isinstance(error, Problem):
            if error.kind is CANNOT_STORE:
                self.failed_at = time.monotonic()
            return error.with_traceback(None)  # it would keep the request alive in a cycle
        self._log.error("unexpected", route=ROUTE, **logs.place_of(error))
        return unexpected()

    def _replied(self, outcome: Reply | Problem, origin: bytes | None) -> Reply:
        if isinstance(outcome, Problem):
            outcome = refusal(outcome, close=outcome.kind is TOO_LARGE)
        own = self._pages.headers(origin)
        if not own:
            return outcome
        status, headers, body = outcome
        return status, [*headers, *own], body

    def _admit(self, found: dict[bytes, bytes], origin: bytes | None) -> frozenset[str]:
        """Check the sender; return the roles that have a credential at this moment."""
        if self.stopping:
            raise stopping()
        roles = self._access.roles
        local = self._local and not roles
        if local or origin is not None:
            self._pages.check("POST", found.get(b"host", b""), origin, local=local)
        self._access.check(found.get(b"authorization"), "submit", roles)
        return roles

    async def _read(self, length: bytes | None, receive: Receive) -> bytes:
        """Return the body, or raise as soon as it is known to be too large."""
        limit = self._limit
        if length is not None and (not length.isdigit() or int(length[:20]) > limit):
            raise too_large(limit)
        message = await receive()
        body: bytes = message.get("body", b"")
        if message["type"] == "http.request" and not message.get("more_body"):
            if len(body) > limit:
                raise too_large(limit)
            return body
        pieces, size = [body], len(body)
        self._hold(size)
        try:
            while message.get("more_body"):
                message = await receive()
                pieces.append(message.get("body", b""))
                self._hold(len(pieces[-1]))
                size += len(pieces[-1])
                if size > limit:
                    raise too_large(limit)
        finally:
            self._held -= size
        if message["type"] != "http.request":
            raise ClientDisconnected
        return b"".join(pieces)

    def _hold(self, size: int) -> None:
        """Count bytes as held in memory, or raise `Problem` if they are too many."""
        if self._held + size > self._most_held:
            raise Problem(BUSY, "too many bodies arrive or wait for the disk")
        self._held += size

    async def _submit(
        self, path: str, epoch: int, request: bytes, body: bytes, found: dict[bytes, bytes]
    ) -> Reply | Problem:
        digest = _parse_digest(path)
        waiter: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        take = partial(
            self._store.take,
            digest,
            epoch,
            request,
            body,
            token=_parse_token(found.get(b"faintly-token")),
            waiter=waiter,
            answer=wake,
        )
        slow = len(body) >= THREAD_BYTES or self._store.opens(digest, epoch)
        reports = await asyncio.to_thread(take) if slow else take()
        offered = time.perf_counter()
        outcome = await waiter
        self.waits.add(time.perf_counter() - offered)
        return self._settled(outcome, reports)

    def _settled(self, outcome: Outcome, reports: int) -> Reply | Problem:
        """Return the answer to the outcome of a submission."""
        if isinstance(outcome, Problem):
            return self._problem(outcome)
        if outcome is COUNTED:  # a replay succeeds even on a full disk
            self.failed_at = None
        return self._short[outcome] if reports == 1 else self._counted(outcome, reports)

    @staticmethod
    def _counted(status: str, reports: int) -> Reply:
        body = b'{"status":"%s","reports":%d}' % (status.encode(), reports)
        return 200, [*COMMON, (b"content-length", b"%d" % len(body))], body


class Waiting:
    """A future that is acted on at once, without a task to await it."""

    __slots__ = ("_ingest", "_loop", "held", "origin", "reports", "size", "started", "tell")

    def __init__(self, ingest: Ingest, size: int, origin: bytes | None, tell: Done) -> None:
        self._ingest, self._loop = ingest, asyncio.get_running_loop()
        self.size, self.origin, self.tell = size, origin, tell
        self.started, self.held, self.reports = time.perf_counter(), False, 0

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop that is to be woken."""
        return self._loop

    def done(self) -> bool:
        """Return False: a client that hung up gets no answer, and its bytes are freed."""
        return False

    def set_result(self, outcome: Outcome) -> None:
        """Answer, in the loop."""
        self._ingest.settle(self, outcome)


def wake(outcomes: Sequence[tuple[Any, Outcome]]) -> None:
    """Pass the outcomes of a commit from its thread to the event loop."""
    loop = outcomes[0][0].get_loop()
    # If the loop has ended, every sender is gone.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_resolve, outcomes)


def _resolve(outcomes: Sequence[tuple[asyncio.Future[Outcome] | Waiting, Outcome]]) -> None:
    for waiter, outcome in outcomes:
        try:
            if not waiter.done():  # its sender disconnected
                waiter.set_result(outcome)
        except Exception as error:  # the others must still be answered
            logs.logger().error("unexpected", route=ROUTE, **logs.place_of(error))


def _parse_query(query: bytes) -> tuple[bytes, int]:
    """Return request id and epoch."""
    request, epoch = None, 0
    seen = set()
    for part in query.split(b"&") if query else ():
        name, _, value = part.partition(b"=")
        if name in seen:
            raise Problem(BAD_REQUEST, "a query parameter is repeated")
        seen.add(name)
        if name == b"request":
            request = _parse_hex(value.decode("latin-1"), NAME_BYTES)
        elif name == b"epoch":
            # 16 digits suffice for every epoch, and longer numbers take long to parse.
            if not value.isdigit() or len(value) > 16 or int(value) > MAX_EPOCH:
                raise Problem(BAD_REQUEST, "an epoch is an integer from 0 to 2^53 - 1")
            epoch = int(value)
        else:
            raise Problem(BAD_REQUEST, "the query has a parameter other than request and epoch")
    if request is None:
        raise Problem(NO_REQUEST_ID, "a request has an id of 32 hexadecimal digits")
    return request, epoch


def _parse_digest(path: str) -> bytes:
    """Return the digest in a path."""
    digest = _parse_hex(path[len(PREFIX) : len(PREFIX) + 32], 16)
    if digest is None:
        raise Problem(BAD_REQUEST, "a collection is named by 32 hexadecimal digits")
    return digest


def _parse_token(header: bytes | None) -> bytes | None:
    """Return the token in a header; anything else is passed on and will not be found."""
    if header is None:
        return None
    return _parse_hex(header.decode("latin-1"), TOKEN_BYTES) or header


def _parse_hex(text: str, size: int) -> bytes | None:
    """Return the bytes of hexadecimal digits, or None for any other text."""
    if len(text) != 2 * size:
        return None
    try:
        made = bytes.fromhex(text)
    except ValueError:
        return None
    return made if len(made) == size else None  # fromhex skips spaces
