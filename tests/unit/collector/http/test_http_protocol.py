"""What the collector takes on a connection, and how long it waits for a slow one."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvicorn
from uvicorn.server import ServerState

from faintly_collector.http import access, limits, middleware, protocol
from faintly_collector.http.settings import Settings
from faintly_collector.storage.collection import status_of


@pytest.fixture
def web(shared_web):
    return shared_web


async def answered_to(collector, pieces):
    """Return what a connection that sends pieces gets until it is closed."""
    loop = asyncio.get_running_loop()
    config = uvicorn.Config(collector.middleware, ws="none", lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    server = await loop.create_server(
        lambda: protocol.Protocol(config, state, {}, connections=protocol.Capacity(100)),
        "127.0.0.1",
        0,
    )
    async with server:
        host, port = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(host, port)
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.001)
            async with asyncio.timeout(60):
                return await reader.read()
        finally:
            writer.close()


HEAD = b"POST %s/reports?request=%s HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def head_of(address):
    return HEAD % (address.encode(), os.urandom(16).hex().encode())


@pytest.mark.parametrize(
    "rest",
    [
        None,
        b"",
        b"Content-Length: 100\r\n\r\n",
        b"Content-Length: 100\r\n\r\nxxx",
        b"Transfer-Encoding: chunked\r\n\r\n3\r\nxxx\r\n",
    ],
)
def test_a_client_that_sends_nothing_more_is_cut_off(web, address, monkeypatch, rest):
    monkeypatch.setattr(limits, "ARRIVE_S", 0.2)
    pieces = [] if rest is None else [head_of(address) + rest]
    assert asyncio.run(answered_to(web.collector, pieces)) == b""
    assert web.collector.middleware.report_bytes.used == 0


def test_a_quick_client_is_answered_and_kept(web, address, plan, body_of, monkeypatch):
    monkeypatch.setattr(limits, "ARRIVE_S", 5.0)
    body = body_of(plan, 50)
    one = head_of(address) + b"Content-Length: %d\r\n\r\n" % len(body)
    last = head_of(address) + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    got = asyncio.run(answered_to(web.collector, [one, body, last[:30], last[30:], body]))
    assert got.count(b"HTTP/1.1 200") == 2


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"


@pytest.mark.parametrize(
    "upgrade", [UPGRADE, b"Upgrade: websocket\r\nConnection: Upgrade\r\n"], ids=["h2c", "websocket"]
)
@pytest.mark.parametrize("cut", [0, 20, 100, -3])
def test_an_upgrade_costs_no_report(web, address, plan, body_of, upgrade, cut):
    body = body_of(plan, 3)
    last = upgrade + b"Connection: close\r\n"
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    one = head_of(address) + last + b"Content-Length: %d\r\n\r\n" % len(body) + body
    two = head_of(address) + last + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    for whole in (one, two):
        got = asyncio.run(answered_to(web.collector, [whole[:cut], whole[cut:]]))
        assert got.count(b"HTTP/1.1 ") == 1
        assert got.endswith(b'{"status":"counted","reports":3}')
    assert status_of(web.store.registry.collection(plan.digest)).pending == 6


@pytest.mark.parametrize("first", ["a body", "a request"])
def test_an_upgrade_behind_something_else_is_ignored_too(web, address, plan, body_of, first):
    body = body_of(plan, 3)
    one = head_of(address) + b"Content-Length: %d\r\n\r\n" % len(body)
    two = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + UPGRADE + b"\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    pieces = [one, body + two + last] if first == "a body" else [one + body + two + last]
    got = asyncio.run(answered_to(web.collector, pieces))
    assert got.count(b"HTTP/1.1 200") == got.count(b"HTTP/1.1 ") == 3
    assert status_of(web.store.registry.collection(plan.digest)).pending == 3


def test_what_is_refused_takes_no_answer_from_what_came_before(web, address, plan, body_of):
    """Out of turn, a refusal would seem to be the answer to another request."""
    body = body_of(plan, 3)
    one = head_of(address) + b"Content-Length: %d\r\n\r\n" % len(body) + body
    two = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    got = asyncio.run(answered_to(web.collector, [one + two + b"nonsense\r\n\r\n"]))
    assert got.count(b"HTTP/1.1 200") == got.count(b"HTTP/1.1 ") == 2
    assert status_of(web.store.registry.collection(plan.digest)).pending == 3


def test_many_upgrades_at_once_are_all_ignored(web):
    one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + UPGRADE + b"\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    got = asyncio.run(answered_to(web.collector, [one * 1500 + last]))
    assert got.count(b'{"status":"alive"}') == 1501


@pytest.mark.parametrize(
    "request_",
    [
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"CONNECT /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_only_another_protocol_is_refused(web, request_):
    got = asyncio.run(answered_to(web.collector, [request_]))
    assert got.startswith(b"HTTP/1.1 400")
    assert got.count(b"HTTP/1.1 ") == 1


def test_trailers_without_end_are_cut_off(web, address):
    begin = head_of(address) + b"Transfer-Encoding: chunked\r\n\r\n3\r\nxxx\r\n0\r\n"
    lines = [b"x: " + b"y" * 40_000 + b"\r\n"] * 2
    got = asyncio.run(answered_to(web.collector, [begin, *lines]))
    assert got.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 3\r\nContent-Length: 4\r\n",
        b"Content-Length: +3\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
    ],
)
def test_a_body_of_two_lengths_is_refused(web, address, lengths):
    got = asyncio.run(answered_to(web.collector, [head_of(address) + lengths + b"\r\nxxx"]))
    assert got.startswith(b"HTTP/1.1 400")
    assert got.count(b"HTTP/1.1 ") == 1


LONG = 64 << 20  # bytes that no socket holds for a reader


async def reads_nothing():
    """Ask for a long answer, read nothing until nobody sends it, and return what was had in all."""

    async def app(scope, receive, send):
        head = [(b"content-length", b"%d" % LONG)]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": bytes(LONG)})

    loop, capacity = asyncio.get_running_loop(), protocol.Capacity(100)
    config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    server = await loop.create_server(
        lambda: protocol.Protocol(config, state, {}, connections=capacity), "127.0.0.1", 0
    )
    async with server, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        had = 0
        try:
            while not capacity.used:
                await asyncio.sleep(0.001)
            while capacity.used:
                await asyncio.sleep(0.001)
            while piece := await reader.read(1 << 20):
                had += len(piece)
        except ConnectionError:
            pass
        finally:
            writer.close()
    return had


def test_a_client_that_does_not_read_is_cut_off(monkeypatch):
    monkeypatch.setattr(limits, "STALL_S", 0.1)
    assert asyncio.run(reads_nothing()) < LONG


MIB = limits.STALL_BYTES


@pytest.mark.parametrize(
    ("left", "cut_off"),
    [
        ([9 * MIB, 8 * MIB, 7 * MIB, 0], False),
        ([9 * MIB, 8 * MIB, 7 * MIB + 1], True),
        ([9 * MIB, 9 * MIB], True),
        ([MIB // 2, MIB // 2], True),
    ],
)
def test_a_client_that_reads_slowly_gets_everything(left, cut_off):
    """Look after look, a part of the answer must have left; `left` is what has not."""
    sizes, looks, aborted = iter(left), [], []

    class Wire(asyncio.Transport):
        def get_write_buffer_size(self):
            return next(sizes)

        def abort(self):
            aborted.append(True)

    async def talk():
        config = uvicorn.Config(lambda: None, ws="none", log_config=None)
        config.load()
        line = protocol.Protocol(config, ServerState(), {}, connections=protocol.Capacity(1))
        line.connection_made(Wire())
        line.loop = SimpleNamespace(call_later=lambda seconds, *look: looks.append(look))
        line.pause_writing()
        for _ in left[1:]:
            look, *before = looks[-1]
            look(*before)
        line.loop = asyncio.get_running_loop()

    asyncio.run(talk())
    assert bool(aborted) is cut_off
    assert len(looks) == len(left) - cut_off


def test_a_long_answer_goes_out_in_pieces():
    """TLS takes a piece whole, however long, so the next must wait until it has left."""
    sent = []

    async def send(message):
        sent.append(dict(message))

    async def receive():
        return {"type": "http.request"}

    checks, capacity = access.Access(None, Settings(data=Path("data"))), middleware.Capacity(0)

    async def answer():
        exchange = middleware.Exchange({"headers": []}, receive, send, checks, capacity)
        await exchange.send({"type": "http.response.start", "status": 200, "headers": []})
        await exchange.send({"type": "http.response.body", "body": body, "more_body": False})

    for size, pieces in ((0, 1), (limits.CHUNK_BYTES, 1), (2 * limits.CHUNK_BYTES + 1, 3)):
        sent.clear()
        body = os.urandom(size)
        asyncio.run(answer())
        *parts, last = sent[1:]
        assert b"".join(message["body"] for message in parts) == body
        assert [message["more_body"] for message in parts] == [True] * pieces
        assert last == {"type": "http.response.body", "body": b"", "more_body": False}


@pytest.mark.parametrize("more", [0, 1, 100_000])
@pytest.mark.parametrize("name", [b"X-Long: ", b"GET /"])
def test_a_head_that_comes_in_one_read_is_bounded(web, name, more):
    """To the byte; uvicorn would refuse a long address itself, and not in our words."""
    written = []

    class Wire(asyncio.Transport):
        def write(self, data):
            written.append(bytes(data))

        def write_eof(self):
            written.append(None)

        def can_write_eof(self):
            return True

        def is_closing(self):
            return None in written

    async def talk():
        config = uvicorn.Config(web.collector.middleware, ws="none", log_config=None)
        config.load()
        line = protocol.Protocol(config, ServerState(), {}, connections=protocol.Capacity(1))
        line.connection_made(Wire())
        head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: \r\n\r\n"
        fill = b"x" * (limits.HEAD_BYTES - len(head) + more)
        line.data_received(head.replace(name, name + fill))
        async with asyncio.timeout(20):
            while not written:
                await asyncio.sleep(0)
        line.connection_lost(ConnectionError())

    asyncio.run(talk())
    status = 400 if more else 200 if name == b"X-Long: " else 404
    assert written[0].startswith(b"HTTP/1.1 %d " % status)
    assert (b'"message":"the headers are too large"' in written[0]) == bool(more)
