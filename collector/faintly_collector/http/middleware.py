"""The outermost layer: takes reports itself, and passes everything else to FastAPI.

All requests pass the same checks, limits and metrics; all but reports are logged. A request with
reports is checked without touching the disk, joins the next commit and waits for one future. The
committing thread wakes the event loop once for all requests of a commit.
"""

import asyncio
import re
import time
from binascii import unhexlify
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from faintly.core.epochs import MAX_EPOCH
from faintly.engine.documents import encode_json
from faintly.wire import problems
from faintly.wire.problems import Problem
from faintly_collector.http import limits, logs
from faintly_collector.http.access import PREFLIGHT, Access, Headers
from faintly_collector.http.metrics import Metrics
from faintly_collector.storage.credentials import TOKEN_BYTES
from faintly_collector.storage.inbox import Outcome
from faintly_collector.storage.store import Store

Reply = tuple[int, Headers, bytes]  # status, headers and body

REPORTS = "/v1/collections/{digest}/reports"
REPORTS_PATH = re.compile(REPORTS.replace("{digest}", "([0-9a-fA-F]{32})"))
# What clients send. 16 digits suffice for every epoch, and longer numbers are slow to parse.
REQUEST, EPOCH = re.compile(rb"\brequest=([0-9a-fA-F]{32})\b"), rb"epoch=([0-9]{1,16})"
QUERY = re.compile(b"%s(?:&%s)?|%s&%s" % (REQUEST.pattern, EPOCH, EPOCH, REQUEST.pattern))
TOKEN = re.compile(b"[0-9a-fA-F]{%d}" % (2 * TOKEN_BYTES))
PREFLIGHT_METHOD = b"access-control-request-method"  # a header of preflights
COMMON: Headers = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


@dataclass(slots=True)
class Capacity:
    """A limit on bytes or connections, and how many are in use."""

    limit: int
    used: int = 0


def json_answer(status: int, body: bytes) -> Reply:
    """Return a JSON answer."""
    media, length = (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))
    return status, [media, length, *COMMON], body


def refusal(problem: Problem) -> Reply:
    """Return the answer to an error."""
    document = {"code": problem.kind.code, "message": problem.message, "hint": problem.hint}
    answer = json_answer(problem.kind.status, encode_json(document))
    if problem.kind.status in {429, 503}:
        answer[1].append((b"retry-after", b"%d" % problems.RETRY_AFTER_S))
    if problem.kind is problems.NOT_AUTHORISED:
        answer[1].append((b"www-authenticate", b"Bearer"))
    return answer


class Exchange:
    """One request and its answer, which is complete only after the whole request was read.

    A client that is still sending gets the answer at once and may send the rest. If the connection
    were closed instead, the answer might be lost.
    """

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, access: Access, memory: Capacity
    ) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self._access, self._memory = access, memory
        # Values may be surrounded by spaces.
        self.headers: dict[bytes, bytes] = {name: each.strip() for name, each in scope["headers"]}
        self.read = self.held = 0  # bytes of the body read so far, and held in memory
        self.ended = False  # the whole body was read
        self.status = 0  # 0 until it is sent

    async def receive(self) -> Message:
        """Return the next part of the body, or raise `Problem` if it exceeds a limit."""
        message = await self._receive()
        size = len(message.get("body", b""))
        self.read += size
        self.ended = not message.get("more_body", False)
        if not self.status:  # otherwise the rest is discarded
            if self.read > self._access.body_bytes:
                raise self._access.too_large()
            self.held += size
            self._memory.used += size
            if self._memory.used > self._memory.limit:
                raise Problem(problems.BUSY, "too many bodies arrive or wait for their answers")
        return message

    async def body(self) -> bytes:
        """Return the whole body."""
        chunks = []
        while not self.ended:
            message = await self.receive()
            if message["type"] != "http.request":
                raise ClientDisconnect
            chunks.append(message.get("body", b""))
        return b"".join(chunks)

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            present = {name for name, _ in message["headers"]}
            common = [each for each in COMMON if each[0] not in present]
            await self._send_head(message["status"], [*message["headers"], *common])
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        # In chunks: TLS would buffer a long answer at once, and hide a client that does not read.
        while len(body) > limits.CHUNK_BYTES:
            await self._send_chunk(body[: limits.CHUNK_BYTES])
            body = memoryview(body)[limits.CHUNK_BYTES :]
        if not more and not self.ended:
            await self._send_chunk(body)
            while not self.ended:
                await self.receive()
            body = b""
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def reply(self, answer: Reply) -> None:
        """Send a whole answer."""
        status, headers, body = answer
        await self._send_head(status, headers)
        message = {"type": "http.response.body", "body": body}
        await (self._send(message) if self.ended else self.send(message))

    def _send_head(self, status: int, headers: Headers) -> Awaitable[None]:
        """Send the head of an answer."""
        self.status = status
        if b"expect" in self.headers and not self.ended:
            # A client waiting for 100 may send no body, and its next request would be read as one.
            headers = [*headers, (b"connection", b"close")]
        if self._access.origins:
            headers = [*headers, *self._access.page_headers(self.headers.get(b"origin"))]
        return self._send({"type": "http.response.start", "status": status, "headers": headers})

    def _send_chunk(self, body: "bytes | memoryview[Any]") -> Awaitable[None]:
        return self._send({"type": "http.response.body", "body": body, "more_body": True})


@lru_cache(maxsize=64)
def _stored_reply(outcome: str, reports: int) -> Reply:
    """Return the answer to reports that are stored; most requests get the same."""
    body = b'{"status":"%s","reports":%d}' % (outcome.encode(), reports)
    status, headers, _ = json_answer(200, body)
    # No browser caches or renders it, and the headers against that take a twentieth of the time.
    return status, [each for each in headers if each not in COMMON], body


def parse_query(query: bytes) -> tuple[bytes, int]:
    """Return request id and epoch."""
    found = QUERY.fullmatch(query)
    if found is not None:
        epoch = int(found[2] or found[3] or 0)
        if epoch <= MAX_EPOCH:
            return unhexlify(found[1] or found[4]), epoch
    if REQUEST.search(query) is None:
        raise Problem(problems.NO_REQUEST_ID, "a request has an id of 32 hexadecimal digits")
    message = "the query has request and epoch, an integer from 0 to 2^53 - 1, and nothing else"
    raise Problem(problems.BAD_REQUEST, message)


class Middleware:
    """The application that uvicorn runs."""

    def __init__(self, store: Store, control: ASGIApp, access: Access, metrics: Metrics) -> None:
        """Put the hot path next to the FastAPI application."""
        self._store, self._control, self._access, self._metrics = store, control, access, metrics
        # Separate, so that queries cannot crowd out reports; each has room for at least one body.
        self.report_bytes = Capacity(max(limits.REPORT_BYTES, access.body_bytes))
        self.control_bytes = Capacity(max(limits.CONTROL_BYTES, access.body_bytes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        started = time.perf_counter()
        method, route = scope["method"], REPORTS
        hot = REPORTS_PATH.fullmatch(scope["path"]) if method == "POST" else None
        memory = self.control_bytes if hot is None else self.report_bytes
        exchange = Exchange(scope, receive, send, self._access, memory)
        try:
            self._access.check(method, scope["headers"], exchange.headers)
            if hot is not None:
                await exchange.reply(await self._take_reports(exchange, unhexlify(hot[1])))
            elif method == "OPTIONS" and {b"origin", PREFLIGHT_METHOD} <= exchange.headers.keys():
                self._access.check_origin(exchange.headers[b"origin"])
                await exchange.reply((204, [*PREFLIGHT, *COMMON], b""))
            else:
                if method == "HEAD":  # uvicorn leaves the body out
                    exchange.scope = {**scope, "method": "GET"}
                await self._control(exchange.scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            return
        except (Exception, asyncio.CancelledError) as error:
            await self._refuse(exchange, error)
        finally:
            memory.used -= exchange.held
        seconds = time.perf_counter() - started
        if hot is None:
            route = getattr(exchange.scope.get("route"), "path", "unmatched")
            fields = {"method": method, "route": route, "status": exchange.status}
            logs.info("request", **fields, ms=round(seconds * 1e3, 2), bytes=exchange.read)
        self._metrics.add(route, method, exchange.status, seconds, exchange.read)

    async def _take_reports(self, exchange: Exchange, digest: bytes) -> Reply:
        """Return the answer to reports under a plan's digest, or raise `Problem`."""
        store = self._store
        if store.stopping:
            raise Problem(problems.STOPPING)
        self._access.check_role(exchange.headers.get(b"authorization"), "submit")
        request, epoch = parse_query(exchange.scope["query_string"])
        token = exchange.headers.get(b"faintly-token")
        if token is not None and TOKEN.fullmatch(token):  # no other token will be found
            token = unhexlify(token)
        body = await exchange.body()
        waiter: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        take = partial(store.take, digest, epoch, request, body, waiter=waiter, token=token)
        slow = len(body) >= limits.THREAD_BYTES or store.would_open(digest, epoch)
        reports = await asyncio.to_thread(take) if slow else take()
        outcome = await waiter
        if isinstance(outcome, Problem):
            raise outcome
        return _stored_reply(outcome, reports)

    async def _refuse(self, exchange: Exchange, error: BaseException) -> None:
        """Answer with a refusal, unless an answer has started."""
        if isinstance(error, Problem):
            # Its traceback would keep the request alive in a reference cycle.
            problem = error.with_traceback(None)
        elif isinstance(error, asyncio.CancelledError):
            exchange.ended = True  # the process has stopped waiting for open requests
            problem = Problem(problems.STOPPING)
        else:
            logs.error("unexpected", **logs.place_of(error))
            problem = Problem(problems.INTERNAL)
        if not exchange.status:
            await exchange.reply(refusal(problem))
