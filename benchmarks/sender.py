"""Send reports from a process of its own, as fast as a server answers or at a given rate.

Reads {"port", "path", "bodies", "connections", "seconds", "rate"} as JSON from standard input,
bodies in hexadecimal. Each request names another sender, as behind a proxy. Prints the number of
200s and of other answers, seconds, and latencies. At a given rate a latency counts from when the
request was due, so that it shows a server that falls behind.
"""

import asyncio
import json
import os
import sys
import time
from collections import Counter, deque
from typing import Any, cast

import uvloop

TICK_S = 0.001


class Connection(asyncio.Protocol):
    """One connection: sends a request, waits for the whole answer, sends the next."""

    def __init__(self, load: "Load") -> None:
        self._load, self._answer = load, b""
        self._due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        # uvloop's transports do not descend from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._load.free(self)

    def send(self, due: float) -> None:
        """Send one request that was due at the time `due`."""
        self._due = due
        self._transport.write(self._load.request())

    def data_received(self, data: bytes) -> None:
        """Take a part of the answer, which ends with a brace from both servers."""
        self._answer += data
        if self._answer.endswith(b"}"):
            self._load.answered(self._answer[9:12], time.perf_counter() - self._due)
            self._answer = b""
            self._load.free(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - given
        """Count a closed connection as a failure."""
        if not self._load.done:
            self._load.answered(b"000", 0.0)


class Load:
    """The requests of one job, and their answers."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._bodies = [bytes.fromhex(body) for body in job["bodies"]]
        self._heads = [self._head(job["path"], len(body)) for body in self._bodies]
        self._rate, self._turn = job["rate"], 0
        self._idle: deque[Connection] = deque()
        self._due: deque[float] = deque()
        self.statuses: Counter[bytes] = Counter()
        self.latencies: list[float] = []
        self.done = False

    @staticmethod
    def _head(path: str, size: int) -> tuple[bytes, bytes]:
        start = f"POST {path}?request=".encode()
        return start, f" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\n".encode()

    def request(self) -> bytes:
        """Return the next request, with a fresh id and unique headers."""
        self._turn = (self._turn + 1) % len(self._bodies)
        start, end = self._heads[self._turn]
        name = os.urandom(16)
        more = b"X-Forwarded-For: 10.%d.%d.%d\r\n" % (*name[:3],)
        return b"".join((start, name.hex().encode(), end, more, b"\r\n", self._bodies[self._turn]))

    def answered(self, status: bytes, seconds: float) -> None:
        """Count an answer."""
        self.statuses[status] += 1
        self.latencies.append(seconds)

    def free(self, connection: Connection) -> None:
        """Give a connection its next request, at once or when one is due."""
        if self.done:
            return
        if self._rate is None:
            connection.send(time.perf_counter())
        elif self._due:
            connection.send(self._due.popleft())
        else:
            self._idle.append(connection)

    async def pace(self, until: float) -> None:
        """Make requests due at the given rate."""
        following = time.perf_counter()
        while (now := time.perf_counter()) < until:
            while following <= now:
                if self._idle:
                    self._idle.popleft().send(following)
                else:
                    self._due.append(following)
                following += 1 / self._rate
            await asyncio.sleep(TICK_S)


async def run(job: dict[str, Any]) -> dict[str, Any]:
    """Send for the given seconds."""
    load = Load(job)
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    for _ in range(job["connections"]):
        await loop.create_connection(lambda: Connection(load), "127.0.0.1", job["port"])
    until = started + job["seconds"]
    if job["rate"] is None:
        await asyncio.sleep(job["seconds"])
    else:
        await load.pace(until)
    load.done = True
    seconds = time.perf_counter() - started
    good = load.statuses.pop(b"200", 0)
    ordered = sorted(load.latencies) or [0.0]
    others = {status.decode(): count for status, count in load.statuses.items()}
    return {
        "good": good,
        "others": others,
        "seconds": seconds,
        "p50": ordered[len(ordered) // 2],
        "p99": ordered[int(len(ordered) * 0.99)],
    }


if __name__ == "__main__":
    print(json.dumps(uvloop.run(run(json.load(sys.stdin)))))
