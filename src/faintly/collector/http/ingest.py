"""The hot path: takes reports as a bare ASGI application, in front of FastAPI.

A request is checked without touching the disk, joins the next commit and waits for one future.
The thread that commits wakes the event loop once for all requests of a commit.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from faintly.collector.http import logs
from faintly.collector.http.access import Gate, check_headers
from faintly.collector.http.metrics import Durations, Traffic
from faintly.collector.http.middleware import (
    COMMON,
    PREFIX,
    Exchange,
    Receive,
    Reply,
    Scope,
    Send,
    refusal,
    reply,
    unexpected,
)
from faintly.collector.problems import (
    BAD_REQUEST,
    BUSY,
    CANNOT_STORE,
    NO_REQUEST_ID,
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


class ClientDisconnected(Exception):
    """The sender disconnected before its request was complete."""


class Ingest:
    """Takes the requests of one event loop."""

    def __init__(self, store: Store, gate: Gate, traffic: Traffic) -> None:
        self._store, self._gate, self._traffic = store, gate, traffic
        self._log = logs.logger()
        self.stopping = False
        self._held, self._most_held = 0, max(HELD_BYTES, gate.body_bytes)
        self.waits = Durations()  # from a checked body to its commit
        self.failed_at: float | None = None  # when the last commit failed, unless one passed since
        self._short = {
            status: self._counted(status, 1) for status in ("counted", "replayed")
        }  # most requests carry one report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        started = time.perf_counter()
        exchange = Exchange(scope, receive, send)
        try:
            answer = await self._answer(exchange)
        except ClientDisconnected:
            return
        await reply(send if exchange.ended else exchange.send, answer)
        seconds = time.perf_counter() - started
        self._traffic.add(ROUTE, "POST", answer[0], seconds, exchange.read)

    async def _answer(self, exchange: Exchange) -> Reply:
        scope = exchange.scope
        found: dict[bytes, bytes] = {name: value.strip() for name, value in scope["headers"]}
        origin = found.get(b"origin")
        try:
            if len(found) < len(scope["headers"]):
                check_headers(scope["headers"])
            self._admit(found, origin)
            request, epoch = _parse_query(scope["query_string"])
            body = await self._read(found.get(b"content-length"), exchange)
            self._hold(len(body))
            try:
                answer = await self._submit(scope["path"], epoch, request, body, found)
            finally:
                self._held -= len(body)
        except ClientDisconnected:
            raise
        except asyncio.CancelledError:
            exchange.ended = True  # the process has stopped waiting for open requests
            answer = refusal(stopping())
        except Exception as error:
            answer = refusal(self._problem(error))
        status, headers, content = answer
        return status, [*headers, *self._gate.pages.headers(origin)], content

    def _problem(self, error: Exception) -> Problem:
        """Return the answer to an exception."""
        if isinstance(error, Problem):
            if error.kind is CANNOT_STORE:
                self.failed_at = time.monotonic()
            return error.with_traceback(None)  # it would keep the request alive in a cycle
        self._log.error("unexpected", route=ROUTE, **logs.place_of(error))
        return unexpected()

    def _admit(self, found: dict[bytes, bytes], origin: bytes | None) -> None:
        """Raise `Problem` unless the sender may send."""
        if self.stopping:
            raise stopping()
        self._gate.check_page("POST", found.get(b"host"), origin)
        self._gate.access.check(found.get(b"authorization"), "submit")

    async def _read(self, length: bytes | None, exchange: Exchange) -> bytes:
        """Return the body, or raise as soon as it is known to be too large."""
        self._gate.check_length(length)
        pieces: list[bytes] = []
        held, more = 0, True
        try:
            while more:
                message = await exchange.receive()
                if message["type"] != "http.request":
                    raise ClientDisconnected
                more = message.get("more_body", False)
                pieces.append(message.get("body", b""))
                if exchange.read > self._gate.body_bytes:
                    raise self._gate.too_large()
                if more:
                    self._hold(len(pieces[-1]))
                    held += len(pieces[-1])
        finally:
            self._held -= held
        return b"".join(pieces)

    def _hold(self, size: int) -> None:
        """Count bytes as held in memory, or raise `Problem` if they are too many."""
        if self._held + size > self._most_held:
            raise Problem(BUSY, "too many bodies arrive or wait for the disk")
        self._held += size

    async def _submit(
        self, path: str, epoch: int, request: bytes, body: bytes, found: dict[bytes, bytes]
    ) -> Reply:
        digest = _parse_digest(path)
        waiter: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        token = _parse_token(found.get(b"faintly-token"))
        take = partial(
            self._store.take, digest, epoch, request, body, token=token, waiter=waiter, answer=wake
        )
        slow = len(body) >= THREAD_BYTES or self._store.opens(digest, epoch)
        reports = await asyncio.to_thread(take) if slow else take()
        offered = time.perf_counter()
        outcome = await waiter
        self.waits.add(time.perf_counter() - offered)
        if isinstance(outcome, Problem):
            raise outcome
        if outcome is COUNTED:  # a replay succeeds even on a full disk
            self.failed_at = None
        return self._short[outcome] if reports == 1 else self._counted(outcome, reports)

    @staticmethod
    def _counted(status: str, reports: int) -> Reply:
        body = b'{"status":"%s","reports":%d}' % (status.encode(), reports)
        return 200, [*COMMON, (b"content-length", b"%d" % len(body))], body


def wake(outcomes: Sequence[tuple[Any, Outcome]]) -> None:
    """Pass the outcomes of a commit from its thread to the event loop."""
    loop = outcomes[0][0].get_loop()
    # If the loop has ended, every sender is gone.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_resolve, outcomes)


def _resolve(outcomes: Sequence[tuple[asyncio.Future[Outcome], Outcome]]) -> None:
    for waiter, outcome in outcomes:
        if not waiter.done():  # its sender disconnected
            waiter.set_result(outcome)


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
