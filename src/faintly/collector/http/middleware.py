"""The outermost layer: sends reports to the hot path and everything else to FastAPI.

Every request passes the same gate and gets the same headers, limits and metrics. All but reports
get a log line.
"""

import asyncio
import re
import time
from binascii import unhexlify
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
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
HOT = re.compile(REPORTS.replace("{digest}", "([0-9a-fA-F]{32})"))
REPORT_BYTES = 256 << 20  # of bodies of reports that are being received, checked or committed
QUESTION_BYTES = 128 << 20  # of all other bodies, until they are answered
PIECE_BYTES = 256 << 10
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
ASKED_METHOD = b"access-control-request-method"  # a header of preflights
COMMON: Headers = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class ClientDisconnected(Exception):
    """The sender disconnected before its request was complete."""


@dataclass(slots=True)
class Room:
    """How much there may be at a time, of bytes or connections, and is."""

    most: int
    taken: int = 0


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

    __slots__ = ("_gate", "_receive", "_room", "_send", "ended", "headers", "kept", "read")
    __slots__ += ("scope", "status")

    def __init__(self, scope: Scope, receive: Receive, send: Send, gate: Gate, room: Room) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self._gate, self._room = gate, room
        # Spaces may stand around a value.
        self.headers: dict[bytes, bytes] = {name: each.strip() for name, each in scope["headers"]}
        self.read = self.kept = 0  # bytes of the body so far, and of those that take room
        self.ended = False  # nothing more of it comes
        self.status = 0  # none sent yet

    async def receive(self) -> Message:
        """Return the next part of the body, or raise `Problem` if it exceeds a limit."""
        message = await self._receive()
        size = len(message.get("body", b""))
        self.read += size
        self.ended = not message.get("more_body", False)
        if not self.status:  # else it is read to be forgotten
            if self.read > self._gate.body_bytes:
                raise self._gate.too_large()
            self.kept += size
            self._room.taken += size
            if self._room.taken > self._room.most:
                raise Problem(problems.BUSY, "too many bodies arrive or wait for their answers")
        return message

    async def body(self) -> bytes:
        """Return the whole body."""
        pieces = []
        while not self.ended:
            message = await self.receive()
            if message["type"] != "http.request":
                raise ClientDisconnected
            pieces.append(message.get("body", b""))
        return b"".join(pieces)

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            present = {name for name, _ in message["headers"]}
            common = [each for each in COMMON if each[0] not in present]
            await self._start(message["status"], [*message["headers"], *common])
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        # In pieces: TLS would buffer all of a long answer at once, and a client that reads
        # nothing would go unnoticed.
        while len(body) > PIECE_BYTES:
            await self._part(body[:PIECE_BYTES])
            body = memoryview(body)[PIECE_BYTES:]
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
        message = {"type": "http.response.body", "body": body}
        await (self._send(message) if self.ended else self.send(message))

    def _start(self, status: int, headers: Headers) -> Awaitable[None]:
        """Send the head of an answer."""
        self.status = status
        if b"expect" in self.headers and not self.ended:
            # Who waits for 100 may never send the body, and another request would be read as one.
            headers = [*headers, (b"connection", b"close")]
        if self._gate.origins:
            headers = [*headers, *self._gate.page_headers(self.headers.get(b"origin"))]
        return self._send({"type": "http.response.start", "status": status, "headers": headers})

    def _part(self, body: "bytes | memoryview[Any]") -> Awaitable[None]:
        return self._send({"type": "http.response.body", "body": body, "more_body": True})


class Middleware:
    """The application that uvicorn runs."""

    def __init__(
        self,
        ingest: Callable[[Exchange, bytes], Awaitable[Reply]],
        control: App,
        gate: Gate,
        metrics: Metrics,
    ) -> None:
        """Put the hot path, which gets the digest of a plan, beside the FastAPI application."""
        self._ingest, self._control, self._gate, self._metrics = ingest, control, gate, metrics
        # Apart, so that whoever asks cannot keep out whoever sends; each takes one body at least.
        self.reports = Room(max(REPORT_BYTES, gate.body_bytes))
        self.questions = Room(max(QUESTION_BYTES, gate.body_bytes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        started = time.perf_counter()
        method, route = scope["method"], REPORTS
        hot = HOT.fullmatch(scope["path"]) if method == "POST" else None
        room = self.questions if hot is None else self.reports
        exchange = Exchange(scope, receive, send, self._gate, room)
        try:
            self._gate.check(method, scope["headers"], exchange.headers)
            if hot is not None:
                await exchange.reply(await self._ingest(exchange, unhexlify(hot[1])))
            elif method == "OPTIONS" and {b"origin", ASKED_METHOD} <= exchange.headers.keys():
                self._gate.check_origin(exchange.headers[b"origin"])
                await exchange.reply((204, [*PREFLIGHT, *COMMON], b""))
            else:
                if method == "HEAD":  # uvicorn leaves the body out
                    exchange.scope = {**scope, "method": "GET"}
                await self._control(exchange.scope, exchange.receive, exchange.send)
        except ClientDisconnected:
            return
        except (Exception, asyncio.CancelledError) as error:
            await self._fail(exchange, error)
        finally:
            room.taken -= exchange.kept
        seconds = time.perf_counter() - started
        if hot is None:
            method = method if method in METHODS else "other"
            route = getattr(exchange.scope.get("route"), "path", "unmatched")
            told = {"method": method, "route": route, "status": exchange.status}
            logs.info("request", **told, ms=round(seconds * 1e3, 2), bytes=exchange.read)
        self._metrics.add(route, method, exchange.status, seconds, exchange.read)

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
