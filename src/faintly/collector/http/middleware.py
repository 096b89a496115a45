"""The outermost layer: sends reports to the hot path and everything else to FastAPI.

FastAPI's requests get a limit on bodies, a log line, metrics and headers against content sniffing;
the hot path is bare ASGI and does all that itself.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException

from faintly.collector.http import logs
from faintly.collector.http.access import SAFE, Gate, Headers, check_headers, role_for
from faintly.collector.http.answers import encode
from faintly.collector.http.metrics import Traffic
from faintly.collector.problems import (
    INTERNAL,
    NOT_AUTHORISED,
    RETRY_AFTER_S,
    Problem,
    stopping,
)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Reply = tuple[int, Headers, bytes]  # status, headers and body

PREFIX, SUFFIX = b"/v1/collections/", b"/reports"
LENGTH = len(PREFIX) + 32 + len(SUFFIX)
PIECE_BYTES = 256 << 10
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
COMMON: Headers = [
    (b"content-type", b"application/json"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
]


def is_hot(path: bytes) -> bool:
    """Return whether a path is that of reports."""
    return len(path) == LENGTH and path.startswith(PREFIX) and path.endswith(SUFFIX)


def refusal(problem: Problem) -> Reply:
    """Return the answer to an error."""
    body = encode(problem.document())
    headers = [*COMMON, (b"content-length", b"%d" % len(body))]
    if problem.kind.status in {429, 503}:
        headers.append((b"retry-after", b"%d" % RETRY_AFTER_S))
    if problem.kind is NOT_AUTHORISED:
        headers.append((b"www-authenticate", b"Bearer"))
    return problem.kind.status, headers, body


async def reply(send: Send, answer: Reply) -> None:
    """Send a whole answer."""
    status, headers, body = answer
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def header(scope: Scope, wanted: bytes) -> bytes | None:
    """Return the first header of a name, without the spaces that may stand around a value."""
    for name, value in scope["headers"]:
        if name == wanted:
            found: bytes = value.strip()
            return found
    return None


class Middleware:
    """The application that uvicorn runs."""

    def __init__(self, ingest: App, control: App, gate: Gate, traffic: Traffic) -> None:
        """Put the hot path, which passes the gate itself, beside the FastAPI application."""
        self._hot, self._control, self._gate, self._traffic = ingest, control, gate, traffic
        self._log = logs.logger()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = scope.get("path", "")
        if scope.get("method") == "POST" and is_hot(path.encode()):
            await self._hot(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        exchange = Control(scope, receive, send, self._gate)
        routed = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        try:
            early = self._early(scope)
            if early is not None:
                await reply(exchange.send, early)
            else:
                await self._control(routed, exchange.receive, exchange.send)
        except Problem as problem:
            await reply(exchange.send, refusal(problem))
        except asyncio.CancelledError:
            exchange.ended = True  # the process has stopped waiting for open requests
            if not exchange.status:
                await reply(exchange.send, refusal(stopping()))
        except Exception as error:
            self._log.error("unexpected", **logs.place_of(error))
            if not exchange.status:
                await reply(exchange.send, refusal(unexpected()))
        route = getattr(routed.get("route"), "path", "unmatched")
        self._account(scope["method"], route, exchange, time.perf_counter() - started)

    def _early(self, scope: Scope) -> Reply | None:
        """Return the answer to a preflight, None to go on, or raise `Problem`."""
        check_headers(scope["headers"])
        origin = header(scope, b"origin")
        self._gate.check_page(scope["method"], header(scope, b"host"), origin)
        if scope["method"] == "OPTIONS" and origin is not None:
            requested = header(scope, b"access-control-request-method")
            if requested is not None:
                return 204, self._gate.pages.preflight(origin), b""
        if scope["method"] not in SAFE and scope["path"].startswith("/v1/"):
            # FastAPI would read and parse the body before it checks the credential.
            needed = role_for(scope["method"], scope["path"])
            self._gate.access.check(header(scope, b"authorization"), needed)
        self._gate.check_length(header(scope, b"content-length"))
        return None

    def _account(self, method: str, route: str, exchange: "Control", seconds: float) -> None:
        method = method if method in METHODS else "other"
        status, size = exchange.status, exchange.read
        self._traffic.add(route, method, status, seconds, size)
        self._log.info(
            "request",
            method=method,
            route=route,
            status=status,
            ms=round(seconds * 1e3, 2),
            bytes=size,
        )


class Exchange:
    """One request and its answer, which is complete only when the request was read to its end.

    Who is still sending gets the answer at once and may send the rest. If the connection were
    closed instead, the answer might be lost.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self.read = 0  # bytes of the body so far
        self.ended = False  # nothing more of it comes

    async def receive(self) -> Message:
        """Return the next part of the body."""
        message = await self._receive()
        self.read += len(message.get("body", b""))
        self.ended = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if self.ended:
            await self._send(message)
        elif message["type"] == "http.response.start":
            # Who waits for 100 may never send the body, and another request would be read as one.
            if header(self.scope, b"expect") is not None:
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await self._send(message)
        else:
            await self._send({**message, "more_body": True})
            if not message.get("more_body", False):
                while not self.ended:
                    await self.receive()
                await self._send({"type": "http.response.body"})


class Control(Exchange):
    """A request of the control plane: has a limit, adds common headers, sends in pieces."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, gate: Gate) -> None:
        super().__init__(scope, receive, send)
        self._gate = gate
        self.status = 0  # none sent yet

    async def receive(self) -> Message:
        """Return the next part of the body, or raise if it exceeds the limit."""
        message = await super().receive()
        if self.read > self._gate.body_bytes and not self.status:
            # While it reads a body, FastAPI passes on no exceptions but its own.
            raise HTTPException(413, self._gate.too_large().message)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name for name, _ in message["headers"]}
            common = [(name, value) for name, value in COMMON[1:] if name not in present]
            message["headers"] = [*message["headers"], *common, *self._own(present)]
        elif self.scope["method"] == "HEAD":
            message["body"] = b""
        body: bytes = message.get("body", b"")
        last = max(0, len(body) - 1) // PIECE_BYTES * PIECE_BYTES
        # In pieces: TLS would buffer all of a long answer at once, and a client that reads
        # nothing would go unnoticed.
        for start in range(0, last, PIECE_BYTES):
            piece = body[start : start + PIECE_BYTES]
            await super().send({"type": message["type"], "body": piece, "more_body": True})
        if last:
            message["body"] = body[last:]
        await super().send(message)

    def _own(self, present: set[bytes]) -> Headers:
        """Return the CORS headers, unless a preflight has set them."""
        if b"access-control-allow-methods" in present:
            return []
        return self._gate.pages.headers(header(self.scope, b"origin"))


def unexpected() -> Problem:
    """Return the answer to an unexpected error; the log has the details."""
    return Problem(INTERNAL, "the collector failed on this request")
