"""A load generator for a collector: how many requests a second does this machine take?

Raw asyncio protocols over persistent connections, with reports made in advance: it may share the
machine with the server that it measures, so it must be cheap. Every request has a fresh id, so
that the collector counts each one.
"""

import asyncio
import io
import json
import os
import ssl
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np

from faintly.client import randomize_all
from faintly.core import Plan, VectorBatch
from faintly.errors import SendFailed
from faintly.mechanisms import mechanism_of
from faintly.primitives.entropy import secure
from faintly.wire.report_v1 import encode_batch, resize_batches

ID_POOL = 1024  # request ids drawn at once
REFUSED_PAUSE_S = 0.05  # wait after a refusal; otherwise only refusals would be measured
TICK_S = 0.001
DRAIN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What to send, and how."""

    server: str
    digest: str
    bodies: Sequence[bytes]
    reports: int  # in each body
    epoch: int = 0
    connections: int = 64
    seconds: float = 10.0
    rate: float | None = None  # requests a second; None: as many as are answered
    credential: str | None = None
    tokens: Sequence[str] | None = None
    tls: ssl.SSLContext | None = None  # how to check an https server; None: as the system does


@dataclass(slots=True)
class Measured:
    """What was measured; latencies are seconds from when a request was due to its answer."""

    seconds: float = 0.0
    reports: int = 0
    latencies: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def document(self) -> dict[str, Any]:
        """Return the results as JSON."""
        seen = np.array(self.latencies or [0.0])
        p50, p99 = (float(np.quantile(seen, q)) for q in (0.5, 0.99))
        wall = max(self.seconds, 1e-9)
        return {
            "seconds": self.seconds,
            "requests": len(self.latencies),
            "reports": self.reports,
            "requests_per_s": len(self.latencies) / wall,
            "reports_per_s": self.reports / wall,
            "p50_ms": 1e3 * p50,
            "p99_ms": 1e3 * p99,
            "max_ms": 1e3 * float(seen.max()),
            "errors": dict(sorted(self.errors.items())),
        }


def empty_reports(plan: Plan, batches: int, reports: int) -> list[bytes]:
    """Return batches of reports of people who hold nothing, made as a client makes them."""
    layout = mechanism_of(plan).layout
    nobody = VectorBatch.of([]).padded(batches * reports)
    parts = randomize_all(plan, nobody, secure(), secure())
    file = io.BytesIO(b"".join(encode_batch(part, layout) for part in parts))
    return list(resize_batches(file, reports))


def run(load: Load) -> Measured:
    """Send for the given time, wait for the last answers, and return the measurements."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(_run(load))
    return uvloop.run(_run(load))


async def _run(load: Load) -> Measured:
    made = _Generator(load)
    await made.open()
    await made.work()
    return made.measured


class _Generator:
    """Hands requests to connections as they become free, or as they fall due."""

    def __init__(self, load: Load) -> None:
        self.load, self.measured = load, Measured()
        self._url = urlsplit(load.server)
        self._loop = asyncio.get_running_loop()
        self._idle: deque[_Sender] = deque()
        self._ids: list[bytes] = []
        self._tokens = None if load.tokens is None else deque(load.tokens)
        self._begun = self._end = 0.0
        self._asked = self._flying = 0
        self._drained = asyncio.Event()
        self._head, self._tails = self._frames()

    def _frames(self) -> tuple[bytes, list[bytes]]:
        load, path = self.load, self._url.path.rstrip("/")
        head = f"POST {path}/v1/collections/{load.digest}/reports?request="
        lines = [f"&epoch={load.epoch} HTTP/1.1", f"Host: {self._url.netloc}"]
        if load.credential is not None:
            lines.append(f"Authorization: Bearer {load.credential}")
        rest = "\r\n".join(lines)
        tails = [f"{rest}\r\nContent-Length: {len(body)}\r\n" for body in load.bodies]
        return head.encode(), [tail.encode() for tail in tails]

    async def open(self) -> None:
        """Make every connection before the clock starts."""
        try:
            await asyncio.gather(*(self._connect() for _ in range(self.load.connections)))
        except OSError:
            raise SendFailed("UNREACHABLE", "cannot connect to the collector") from None

    async def _connect(self) -> None:
        secure_ = self._url.scheme == "https"
        port = self._url.port or (443 if secure_ else 80)
        await self._loop.create_connection(
            lambda: _Sender(self),
            self._url.hostname or "",
            port,
            ssl=(self.load.tls or True) if secure_ else None,
        )

    async def work(self) -> None:
        """Send until the time is over, then wait for the last answers."""
        self._begun = perf_counter()
        self._end = self._begun + self.load.seconds
        while perf_counter() < self._end and not self._exhausted:
            self._hand_out()
            await asyncio.sleep(TICK_S)
        self._end = min(self._end, perf_counter())
        self._check_drained()
        try:
            await asyncio.wait_for(self._drained.wait(), DRAIN_S)
        except TimeoutError:
            self.measured.errors["NO_ANSWER"] += self._flying
        self.measured.seconds = perf_counter() - self._begun

    @property
    def _exhausted(self) -> bool:
        return self._tokens is not None and not self._tokens

    def _hand_out(self) -> None:
        """Send on idle connections. They were free in time, so any delay was ours."""
        while self._idle and not self._exhausted:
            now = perf_counter()
            if now >= self._end or self._due(now) > now:
                return
            self._send(self._idle.popleft(), now)

    def _due(self, now: float) -> float:
        rate = self.load.rate
        return now if rate is None else self._begun + self._asked / rate

    def free(self, sender: "_Sender") -> None:
        """Give a free connection its next request, or mark it idle."""
        if sender.transport.is_closing():
            return
        now = perf_counter()
        due = self._due(now)
        if now >= self._end or due > now or self._exhausted:
            self._idle.append(sender)
        else:
            self._send(sender, due)

    def _send(self, sender: "_Sender", due: float) -> None:
        if not self._ids:
            drawn = os.urandom(16 * ID_POOL).hex().encode()
            self._ids = [drawn[start : start + 32] for start in range(0, len(drawn), 32)]
        number = self._asked % len(self._tails)
        token = f"Faintly-Token: {self._tokens.popleft()}\r\n" if self._tokens else ""
        parts = [self._head, self._ids.pop(), self._tails[number], token.encode(), b"\r\n"]
        self._asked += 1
        self._flying += 1
        sender.due, sender.busy = due, True
        sender.transport.write(b"".join([*parts, self.load.bodies[number]]))

    def answered(self, sender: "_Sender", status: bytes, body: bytes) -> None:
        """Count an answer."""
        self._flying -= 1
        if status == b"200":
            self.measured.latencies.append(perf_counter() - sender.due)
            self.measured.reports += self.load.reports
            self.free(sender)
        else:
            self.measured.errors[_code(status, body)] += 1
            self._loop.call_later(REFUSED_PAUSE_S, self.free, sender)
        self._check_drained()

    def lost(self, sender: "_Sender") -> None:
        """Count a broken connection, and replace it."""
        if sender in self._idle:
            self._idle.remove(sender)
        if sender.busy:
            self._flying -= 1
            self.measured.errors["DISCONNECTED"] += 1
        if perf_counter() < self._end:
            self._loop.call_later(REFUSED_PAUSE_S, self._reconnect)
        self._check_drained()

    def _reconnect(self) -> None:
        task = self._loop.create_task(self._connect())
        task.add_done_callback(self._reconnected)

    def _reconnected(self, task: "asyncio.Task[None]") -> None:
        if task.exception() is not None and perf_counter() < self._end:
            self._loop.call_later(REFUSED_PAUSE_S, self._reconnect)

    def _check_drained(self) -> None:
        if not self._flying and perf_counter() >= self._end:
            self._drained.set()


class _Sender(asyncio.Protocol):
    """One connection: a request, its answer, the next request."""

    __slots__ = ("_generator", "_part", "busy", "due", "transport")

    def __init__(self, generator: _Generator) -> None:
        self._generator, self._part, self.due, self.busy = generator, b"", 0.0, False
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        self.transport = cast(asyncio.Transport, transport)
        self._generator.free(self)

    def data_received(self, data: bytes) -> None:
        """Pass an answer on once it is whole."""
        data = self._part + data if self._part else data
        end = data.find(b"\r\n\r\n") + 4
        if end < 4 or len(data) < end + _content_length(data, end):
            self._part = data
            return
        self._part = b""
        if self.busy:
            self.busy = False
            self._generator.answered(self, data[9:12], data[end:])

    def connection_lost(self, _error: Exception | None) -> None:
        """Tell the generator, which counts the request in flight."""
        self._generator.lost(self)


def _content_length(data: bytes, end: int) -> int:
    at = data[:end].lower().find(b"content-length:")
    return int(data[at + 15 : data.find(b"\r", at)]) if at >= 0 else 0


def _code(status: bytes, body: bytes) -> str:
    try:
        return str(json.loads(body)["code"])
    except (ValueError, TypeError, KeyError):
        return f"HTTP_{status.decode('ascii', 'replace')}"
