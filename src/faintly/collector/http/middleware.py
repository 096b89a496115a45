"""The outermost layer: sends reports to the hot path and everything else to FastAPI.

Every request passes the same gate and gets the same headers, limits and metrics. All but reports
get a log line.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from faintly.collector import problems
from faintly.collector.http import logs
from faintly.collector.http.access import PREFLIGHT, Gate, Headers
from faintly.collector.http.metrics import Metrics
from faintly.collector.problems import Problem, stopping
from faintly.engine.documents import encode_json

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Reply = tuple[int, Headers, bytes]  # status, headers and body

REPORTS = "/v1/collections/{digest}/reports"
PREFIX, SUFFIX = REPORTS.split("{digest}")
HOT_LENGTH = len(PREFIX) + 32 + len(SUFFIX)
PIECE_BYTES = 256 << 10
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
ASKED_METHOD = b"access-control-request-method"  # a header of preflights
COMMON: Headers = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class ClientDisconnected(Exception):
    """The sender disconnected before its request was complete."""


def is_hot(path: str) -> bool:
    """Return whether a path is that of reports."""
    return len(path) == HOT_LENGTH and path.startswith(PREFIX) and path.endswith(SUFFIX)


def json_answer(status: int, body: bytes) -> Reply:
    """Return an answer of JSON."""
    media, length = (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))
    return status, [media, length, *COMMON], body


def refusal(problem: Problem) -> Reply:
    """Return the answer to an error."""
    answer = json_answer(problem.kind.status, encode_json(problem.document()))
    if problem.kind.status in {429, 503}:
        answer[1].append((b"retry-after", b"%d" % problems.RETRY_AFTER_S))
    if problem.kind is problems.NOT_AUTHORISED:
        answer[1].append((b"www-authenticate", b"Bearer"))
    return answer


def unexpected() -> Problem:
    """Return the answer to an unexpected error; the log has the details."""
    return Problem(problems.INTERNAL, "the collector failed on this request")


class Exchange:
    """One request and its answer, which is complete only when the request was read to its end.

    Who is still sending gets the answer at once and may send the rest. If the connection were
    closed instead, the answer might be lost.
    """

    __slots__ = ("_gate", "_receive", "_send", "ended", "headers", "read", "scope", "status")

    def __init__(self, scope: Scope, receive: Receive, send: Send, gate: Gate) -> None:
        self.scope, self._receive, self._send, self._gate = scope, receive, send, gate
        # Spaces may stand around a value.
        self.headers: dict[bytes, bytes] = {name: each.strip() for name, each in scope["headers"]}
        self.read = 0  # bytes of the body so far
        self.ended = False  # nothing more of it comes
        self.status = 0  # none sent yet

    async def receive(self) -> Message:
        """Return the next part of the body, or raise `Problem` if it exceeds the limit."""
        message = await self._receive()
        self.read += len(message.get("body", b""))
        self.ended = not message.get("more_body", False)
        if self.read > self._gate.body_bytes and not self.status:
            raise self._gate.too_large()
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            present = {name for name, _ in message["headers"]}
            common = [each for each in COMMON if each[0] not in present]
            await self._start(message["status"], [*message["headers"], *common])
            return
        body = b"" if self.scope["method"] == "HEAD" else message.get("body", b"")
        # In pieces: TLS would buffer all of a long answer at once, and a client that reads
        # nothing would go unnoticed.
        while len(body) > PIECE_BYTES:
            await self._part(body[:PIECE_BYTES])
            body = memoryview(body)[PIECE_BYTES:]
        more = message.get("more_body", False)
        if not more and not self.ended:
            await self._part(body)
            while not self.ended:
                await self.receive()
            body = b""
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def reply(self, answer: Reply) -> None:
        """Send a whole answer."""
        status, headers, body = answer
        await self._start(status, headers)
        if self.ended and self.scope["method"] != "HEAD":
            await self._send({"type": "http.response.body", "body": body})
        else:
            await self.send({"type": "http.response.body", "body": body})

    def _start(self, status: int, headers: Headers) -> Awaitable[None]:
        """Send the head of an answer."""
        self.status = status
        if b"expect" in self.headers and not self.ended:
            # Who waits for 100 may never send the body, and another request would be read as one.
            headers = [*headers, (b"connection", b"close")]
        if self._gate.origins:
            headers = [*headers, *self._gate.page_headers(self.headers.get(b"origin"))]
        return self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _part(self, body: "bytes | memoryview[Any]") -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})


class Middleware:
    """The application that uvicorn runs."""

    def __init__(
        self,
        ingest: Callable[[Exchange], Awaitable[Reply]],
        control: App,
        gate: Gate,
        metrics: Metrics,
    ) -> None:
        """Put the hot path beside the FastAPI application."""
        self._ingest, self._control, self._gate, self._metrics = ingest, control, gate, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        started = time.perf_counter()
        exchange = Exchange(scope, receive, send, self._gate)
        method = scope["method"]
        hot = method == "POST" and is_hot(scope["path"])
        routed = {**scope, "method": "GET"} if method == "HEAD" else scope
        try:
            self._gate.check(method, scope["headers"], exchange.headers)
            if hot:
                await exchange.reply(await self._ingest(exchange))
            elif method == "OPTIONS" and {b"origin", ASKED_METHOD} <= exchange.headers.keys():
                self._gate.check_origin(exchange.headers[b"origin"])
                await exchange.reply((204, [*PREFLIGHT, *COMMON], b""))
            else:
                await self._control(routed, exchange.receive, exchange.send)
        except ClientDisconnected:
            return
        except (Exception, asyncio.CancelledError) as error:
            await self._fail(exchange, error)
        seconds = time.perf_counter() - started
        if hot:
            self._metrics.add(REPORTS, method, exchange.status, seconds, exchange.read)
        else:
            route = getattr(routed.get("route"), "path", "unmatched")
            self._log(exchange, route, seconds)

    async def _fail(self, exchange: Exchange, error: BaseException) -> None:
        """Answer with a refusal, unless an answer was begun."""
        if isinstance(error, Problem):
            # Its traceback would keep the request alive in a cycle.
            problem = error.with_traceback(None)
        elif isinstance(error, asyncio.CancelledError):
            exchange.ended = True  # the process has stopped waiting for open requests
            problem = stopping()
        else:
            logs.error("unexpected", **logs.place_of(error))
            problem = unexpected()
        if not exchange.status:
            await exchange.reply(refusal(problem))

    def _log(self, exchange: Exchange, route: str, seconds: float) -> None:
        method = exchange.scope["method"] if exchange.scope["method"] in METHODS else "other"
        self._metrics.add(route, method, exchange.status, seconds, exchange.read)
        logs.info(
            "request",
            method=method,
            route=route,
            status=exchange.status,
            ms=round(seconds * 1e3, 2),
            bytes=exchange.read,
        )
