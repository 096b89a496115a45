"""A load generator for a collector: how many requests a second does this machine take?

The generator keeps connections open and makes reports in advance: it may share the machine with the
collector that it measures, so it must be cheap. Every request has a fresh id, so that the collector
counts each one.
"""

import asyncio
import io
import json
import os
import ssl
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from faintly.client import randomize_all
from faintly.core import Plan, VectorBatch
from faintly.errors import SendFailed
from faintly.mechanisms import mechanism_of
from faintly.primitives.entropy import secure
from faintly.wire.report_v1 import encode_batch, resize_batches

REFUSED_PAUSE_S = 0.05  # wait after a refusal; otherwise only refusals would be measured
DRAIN_S = 10.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


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
        return asyncio.run(_Generator(load).run())
    return uvloop.run(_Generator(load).run())


class _Generator:
    """Sends requests on several connections, each as soon as it is free and a request is due."""

    def __init__(self, load: Load) -> None:
        self.load, self.measured = load, Measured()
        self._url = urlsplit(load.server)
        self._tokens = None if load.tokens is None else iter(load.tokens)
        self._begun = self._end = 0.0
        self._requests = 0
        # What all requests share, around the id and before the length of the body.
        path = f"{self._url.path.rstrip('/')}/v1/collections/{load.digest}/reports"
        secret = [] if load.credential is None else [f"Authorization: Bearer {load.credential}"]
        lines = [f"&epoch={load.epoch} HTTP/1.1", f"Host: {self._url.netloc}", *secret]
        self._start = f"POST {path}?request="
        self._rest = "\r\n".join([*lines, "Content-Length: "])

    async def run(self) -> Measured:
        """Make every connection before the clock starts, send, and wait for the last answers."""
        try:
            opened = await asyncio.gather(*(self._connect() for _ in range(self.load.connections)))
        except OSError:
            raise SendFailed("UNREACHABLE", "cannot connect to the collector") from None
        self._begun = perf_counter()
        self._end = self._begun + self.load.seconds
        senders = [asyncio.create_task(self._send_all(streams)) for streams in opened]
        _, late = await asyncio.wait(senders, timeout=self.load.seconds + DRAIN_S)
        if late:
            self.measured.errors["NO_ANSWER"] = len(late)
        self.measured.seconds = perf_counter() - self._begun
        return self.measured

    async def _connect(self) -> Streams:
        tls = (self.load.tls or True) if self._url.scheme == "https" else None
        port = self._url.port or (443 if tls else 80)
        return await asyncio.open_connection(self._url.hostname or "", port, ssl=tls)

    async def _send_all(self, streams: Streams) -> None:
        """Send on one connection until the time is over or there are no more tokens."""
        while (due := self._due()) < self._end:
            token = None if self._tokens is None else next(self._tokens, "")
            if token == "":
                return
            request = self._request(token)
            if due > perf_counter():
                await asyncio.sleep(due - perf_counter())
                due = perf_counter()  # the connection was free in time, so any delay was ours
            try:
                if streams[0].at_eof() or streams[1].is_closing():
                    streams = await self._connect()
                streams[1].write(request)
                status, body = await _answer(streams[0])
            except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
                streams[1].close()
                self.measured.errors["DISCONNECTED"] += 1
                await asyncio.sleep(REFUSED_PAUSE_S)
                continue
            if status == b"200":
                self.measured.latencies.append(perf_counter() - due)
                self.measured.reports += self.load.reports
            else:
                self.measured.errors[_code(status, body)] += 1
                await asyncio.sleep(REFUSED_PAUSE_S)

    def _due(self) -> float:
        rate = self.load.rate
        return perf_counter() if rate is None else self._begun + self._requests / rate

    def _request(self, token: str | None) -> bytes:
        """Return the next request, under an id of its own."""
        load = self.load
        body = load.bodies[self._requests % len(load.bodies)]
        self._requests += 1
        lines = [f"{self._start}{os.urandom(16).hex()}{self._rest}{len(body)}"]
        lines += [] if token is None else [f"Faintly-Token: {token}"]
        return "\r\n".join([*lines, "", ""]).encode() + body


async def _answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return the status and the body of an answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = head.lower().partition(b"content-length:")[2].partition(b"\r")[0]
    return head[9:12], await reader.readexactly(int(size or 0))


def _code(status: bytes, body: bytes) -> str:
    try:
        return str(json.loads(body)["code"])
    except (ValueError, TypeError, KeyError):
        return f"HTTP_{status.decode('ascii', 'replace')}"
