"""The load generator: it counts what was answered, and cannot be fooled by a slow server."""

import asyncio
import threading
from contextlib import contextmanager

import pytest

from faintly import make_plan
from faintly.engine import decode
from faintly.errors import SendFailed
from faintly.load import Load, empty_reports, run

PLAN = make_plan(protect="event", epsilon=1, sparsity=2, clients=10, universe=8)
COUNTED = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
BUSY = b'HTTP/1.1 429 Busy\r\ncontent-length: 16\r\n\r\n{"code": "BUSY"}'


class Handler(asyncio.Protocol):
    def __init__(self, respond, seen):
        self.respond, self.seen, self.data = respond, seen, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.data += data
        head, end, body = self.data.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]) if end else 1
        if len(body) < size:
            return
        self.data = b""
        self.seen.append((head, body))
        self.respond(self.transport, len(self.seen))


@contextmanager
def server(respond):
    """Yield an address that answers as `respond` does, and what was asked."""
    loop, seen = asyncio.new_event_loop(), []
    started = loop.create_server(lambda: Handler(respond, seen), "127.0.0.1", 0)
    made = loop.run_until_complete(started)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield f"http://127.0.0.1:{made.sockets[0].getsockname()[1]}", seen
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def load(url, **options):
    bodies = options.pop("bodies", [b"body"])
    given = {"server": url, "digest": "0" * 32, "bodies": bodies, "reports": 3, "seconds": 0.3}
    return run(Load(**{**given, "connections": 2, **options})).document()


def test_what_it_sends_is_what_a_client_sends():
    for body in empty_reports(PLAN, 3, 5):
        assert len(decode(PLAN, body)) == 5
    assert len(set(empty_reports(PLAN, 50, 8))) == 50


def test_every_request_has_a_name_of_its_own():
    with server(lambda line, _: line.write(COUNTED)) as (url, seen):
        found = load(url, bodies=[b"one", b"two"], credential="secret", epoch=4)
    assert found["requests"] == len(seen) > 1
    assert found["reports"] == 3 * len(seen)
    assert found["errors"] == {}
    names = {head.partition(b"request=")[2][:32] for head, _ in seen}
    assert len(names) == len(seen)
    assert {body for _, body in seen} == {b"one", b"two"}
    assert all(b"&epoch=4 HTTP/1.1" in head for head, _ in seen)
    assert all(b"Authorization: Bearer secret" in head for head, _ in seen)


def test_tokens_are_used_once_each():
    with server(lambda line, _: line.write(COUNTED)) as (url, seen):
        found = load(url, tokens=["a", "b", "c"], seconds=60)  # it ends with the last token
    assert found["requests"] == 3
    assert sorted(head.partition(b"Faintly-Token: ")[2] for head, _ in seen) == [b"a", b"b", b"c"]


def test_refusals_and_lost_connections_are_counted_apart():
    def respond(line, number):
        if number % 3 == 0:
            line.write(BUSY)
        elif number % 3 == 1:
            line.close()
        else:
            line.write(COUNTED[:10])
            line.write(COUNTED[10:])

    with server(respond) as (url, seen):
        found = load(url, seconds=0.6, connections=3)  # one of each at once
    assert set(found["errors"]) == {"BUSY", "DISCONNECTED"}
    assert found["requests"] + sum(found["errors"].values()) == len(seen)


def test_a_rate_is_kept():
    with server(lambda line, _: line.write(COUNTED)) as (url, seen):
        found = load(url, rate=100, seconds=60, tokens=["token"] * 20)
    assert len(seen) == 20
    # The last is due after 0.19 s, but a timer counts in milliseconds and may end a little early.
    assert 0.15 < found["seconds"] < 10, "never more than what was due"


def test_a_stall_shows_in_the_latencies():
    """Requests that fell due during a stall have waited as well, though they were not sent."""

    def respond(line, number):
        pause = 0.4 if number == 3 else 0.0
        asyncio.get_running_loop().call_later(pause, line.write, COUNTED)

    with server(respond) as (url, seen):
        found = load(url, rate=100, seconds=60, connections=1, tokens=["token"] * 50)
    assert found["requests"] == len(seen) == 50
    assert found["max_ms"] >= 390
    assert found["p50_ms"] > 50, "most of the requests fell due behind the stall"


def test_nobody_listens():
    with server(lambda *_: None) as (url, _):
        pass
    with pytest.raises(SendFailed):
        load(url.rpartition(":")[0] + ":1")
