"""The outermost layer: sends reports to the hot path and everything else to FastAPI.

FastAPI's requests get a limit on bodies, a log line, metrics and headers against content sniffing;
the hot path is bare ASGI and does all that itself.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple, Protocol

from starlette.exceptions import HTTPException

from faintly.collector.http import logs
from faintly.collector.http.access import SAFE, Access, Headers, Pages, check_headers, role_for
from faintly.collector.http.answers import encode
from faintly.collector.http.metrics import Traffic
from faintly.collector.problems import (
    INTERNAL,
    NOT_AUTHORISED,
    RETRY_AFTER_S,
    TOO_LARGE,
    Kind,
    Problem,
    stopping,
)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

Done = Callable[[int, Headers, bytes], object]  # called with status, headers and body

PREFIX, SUFFIX = b"/v1/collections/", b"/reports"
LENGTH = len(PREFIX) + 32 + len(SUFFIX)
PIECE_BYTES = 256 << 10
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
COMMON: Headers = [
    (b"content-type", b"application/json"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
]


class Head(NamedTuple):
    """What the head of a request that was let in says, its id aside."""

    digest: bytes
    epoch: int
    size: int  # of the body
    origin: bytes | None


class Hot(Protocol):
    """What takes reports."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

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
        """Serve one whose body is here, and tell `done`; return False where that might wait.

        Its head may be remembered by the key.
        """

    def recall(self, key: bytes) -> Head | None:
        """Return what is known of a head that came with this key before."""

    def again(self, head: Head, name: bytes, body: bytes, done: Done) -> bool:
        """Serve one whose head is known but for its id; return False where it is another."""


def is_hot(path: bytes) -> bool:
    """Return whether a path is that of reports."""
    return len(path) == LENGTH and path.startswith(PREFIX) and path.endswith(SUFFIX)


def refusal(problem: Problem, *, close: bool = False) -> tuple[int, Headers, bytes]:
    """Return status, headers and body of an error.

    Args:
        problem: the error.
        close: True where the rest of the request is unread, so the connection must be closed.
    """
    body = encode(problem.document())
    headers = [*COMMON, (b"content-length", b"%d" % len(body))]
    if problem.kind.status in {429, 503}:
        headers.append((b"retry-after", b"%d" % RETRY_AFTER_S))
    if problem.kind is NOT_AUTHORISED:
        headers.append((b"www-authenticate", b"Bearer"))
    if close:
        headers.append((b"connection", b"close"))
    return problem.kind.status, headers, body


async def reply(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """Send a whole answer."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def header(scope: Scope, wanted: bytes) -> bytes | None:
    """Return the first header of a name."""
    for name, value in scope["headers"]:
        if name == wanted:
            found: bytes = value
            return found
    return None


def too_large(limit: int) -> Problem:
    """Return the refusal of a body over the limit."""
    return Problem(TOO_LARGE, f"a body has at most {limit:,} bytes")


def over(scope: Scope, limit: int) -> bool:
    """Return whether Content-Length exceeds the limit."""
    length = header(scope, b"content-length")
    return length is not None and (not length.isdigit() or int(length[:20]) > limit)


class Middleware:
    """The application that uvicorn runs."""

    def __init__(
        self,
        ingest: Hot,
        control: App,
        *,
        access: Access,
        pages: Pages,
        traffic: Traffic,
        body_bytes: int,
        local: bool,
    ) -> None:
        """Put the hot path beside the control plane.

        Args:
            ingest: the hot path, which checks origins and sizes itself.
            control: the FastAPI application.
            access: checks credentials.
            pages: checks origins.
            traffic: counts requests.
            body_bytes: size of the largest body.
            local: True where only this machine is served.
        """
        self.hot, self._control = ingest, control
        self._access, self._pages, self._traffic = access, pages, traffic
        self._limit, self._local = body_bytes, local
        self._log = logs.logger()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = scope.get("path", "")
        if scope.get("method") == "POST" and is_hot(path.encode()):
            await self.hot(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        origin = header(scope, b"origin")
        routed = scope
        exchange = Exchange(receive, send, self._limit, self._pages.headers(origin))
        if scope["method"] == "HEAD":
            routed, exchange.bare = {**scope, "method": "GET"}, True
        try:
            early = self._early(scope, origin)
            if early is not None:
                await reply(exchange.send, *early)
            else:
                await self._control(routed, exchange.receive, exchange.send)
        except Problem as problem:
            await reply(exchange.send, *refusal(problem, close=True))
        except asyncio.CancelledError:
            # The process has stopped waiting for open requests.
            if not exchange.status:
                await reply(exchange.send, *refusal(stopping(), close=True))
        except Exception as error:
            self._log.error("unexpected", **logs.place_of(error))
            if not exchange.status:
                await reply(exchange.send, *refusal(unexpected()))
        route = getattr(routed.get("route"), "path", "unmatched")
        self._account(scope["method"], route, exchange, time.perf_counter() - started)

    def _early(self, scope: Scope, origin: bytes | None) -> tuple[int, Headers, bytes] | None:
        """Return the answer to a preflight, None to go on, or raise `Problem`."""
        check_headers(scope["headers"])
        host = header(scope, b"host") or b""
        local = self._local and not self._access.roles
        self._pages.check(scope["method"], host, origin, local=local)
        if scope["method"] == "OPTIONS" and origin is not None:
            requested = header(scope, b"access-control-request-method")
            if requested is not None:
                return 204, self._pages.preflight(origin), b""
        if scope["method"] not in SAFE and scope["path"].startswith("/v1/"):
            # FastAPI would read and parse the body before it checks the credential.
            needed = role_for(scope["method"], scope["path"])
            self._access.check(header(scope, b"authorization"), needed)
        if over(scope, self._limit):
            raise too_large(self._limit)
        return None

    def _account(self, method: str, route: str, exchange: "Exchange", seconds: float) -> None:
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
    """One request of the control plane: counts bytes, adds common headers, sends in pieces."""

    def __init__(self, receive: Receive, send: Send, limit: int, headers: Headers) -> None:
        self._receive, self._send = receive, send
        self._limit, self._headers = limit, headers
        self.status = 0  # none sent yet
        self.read = 0
        self.bare = False  # True for HEAD

    async def receive(self) -> Message:
        """Return the next part of the body, or raise if it exceeds the limit."""
        message = await self._receive()
        self.read += len(message.get("body", b""))
        if self.read > self._limit:
            # While it reads a body, FastAPI passes on no exceptions but its own.
            raise HTTPException(413, f"a body has at most {self._limit:,} bytes")
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name for name, _ in message["headers"]}
            common = [(name, value) for name, value in COMMON[1:] if name not in present]
            message["headers"] = [*message["headers"], *common, *self._own(present)]
        elif self.bare:
            message["body"] = b""
        body: bytes = message.get("body", b"")
        last = max(0, len(body) - 1) // PIECE_BYTES * PIECE_BYTES
        # In pieces: TLS would buffer all of a long answer at once, and a client that reads
        # nothing would go unnoticed.
        for start in range(0, last, PIECE_BYTES):
            piece = body[start : start + PIECE_BYTES]
            await self._send({"type": message["type"], "body": piece, "more_body": True})
        if last:
            message["body"] = body[last:]
        await self._send(message)

    def _own(self, present: set[bytes]) -> Headers:
        """Return the CORS headers, unless a preflight has set them."""
        if b"access-control-allow-methods" in present:
            return []
        return self._headers


def unexpected(kind: Kind = INTERNAL) -> Problem:
    """Return the answer to an unexpected error; the log has the details."""
    return Problem(kind, "the collector failed on this request")
