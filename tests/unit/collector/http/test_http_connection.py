"""What happens on a connection: over real sockets, to uvicorn behind our limits."""

import asyncio
import gc
import os
import socket
import weakref
from contextlib import asynccontextmanager

import pytest
import uvicorn
from uvicorn.server import ServerState

from faintly_collector.http import limits, protocol
from faintly_collector.http.serve import allow_files
from faintly_collector.storage.collection import status_of

NOBODY = "00" * 16
NOWHERE = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def web(shared_web):
    return shared_web


class Line:
    """One connection to a collector, over a socket."""

    def __init__(self, reader, writer, state):
        self.reader, self.writer, self.state = reader, writer, state

    async def read(self):
        """Return status line, headers and body of the next answer."""
        async with asyncio.timeout(20):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()[:-1]
            headers = dict(line.split(": ", 1) for line in head[1:])
            return head[0], headers, await self.reader.readexactly(int(headers["content-length"]))

    async def is_closed(self):
        """Return whether nothing more comes."""
        async with asyncio.timeout(20):
            try:
                return await self.reader.read() == b""
            except ConnectionError:
                return True


@asynccontextmanager
async def serving(collector, keep_alive_s=20, capacity=100):
    """Serve as `faintly serve` does, and yield what makes a `Line`."""
    config = uvicorn.Config(
        collector.middleware,
        ws="none",
        lifespan="off",
        log_config=None,
        timeout_keep_alive=keep_alive_s,
        proxy_headers=False,
    )
    config.load()
    state, shared = ServerState(), protocol.Capacity(capacity)
    lines = []

    async def connect():
        lines.append(Line(*await asyncio.open_connection(*address), state))
        return lines[-1]

    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: protocol.Protocol(config, state, {}, connections=shared), "127.0.0.1", 0
    )
    async with server:
        address = server.sockets[0].getsockname()
        connect.capacity = shared
        try:
            yield connect
        finally:
            for line in lines:
                line.writer.close()


@asynccontextmanager
async def line_to(collector, **options):
    """Yield one connection."""
    async with serving(collector, **options) as connect:
        yield await connect()


def request_of(address, body, *, chunked=False, query=None, headers=b""):
    """Return the bytes of a request."""
    if query is None:
        query = f"?request={os.urandom(16).hex()}"
    head = f"POST {address}/reports{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode()
    if not chunked:
        return head + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body
    piece = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
    return head + headers + b"Transfer-Encoding: chunked\r\n\r\n" + piece + b"0\r\n\r\n"


@pytest.fixture
def say(web):
    """Return what sends bytes over one connection and returns the first answer."""

    def say(sent):
        async def talk():
            async with line_to(web.collector) as line:
                line.writer.write(sent)
                return await line.read()

        return asyncio.run(talk())

    return say


@pytest.mark.parametrize("chunked", [False, True])
def test_requests_in_a_row_are_answered_in_order(web, address, plan, body_of, chunked):
    bodies = [body_of(plan, reports) for reports in (1, 2, 3, 4)]

    async def talk():
        async with line_to(web.collector) as line:
            sent = [request_of(address, body, chunked=chunked) for body in bodies]
            line.writer.write(b"\r\n".join(sent))  # an empty line between requests is allowed
            return [(await line.read())[2] for _ in bodies]

    answers = asyncio.run(talk())
    assert [answer[-2:] for answer in answers] == [b"%d}" % count for count in (1, 2, 3, 4)]
    assert status_of(web.store.registry.collection(plan.digest)).pending == 10


def test_a_request_in_small_pieces(web, address, plan, body_of):
    whole = request_of(address, body_of(plan, 5))

    async def talk():
        async with line_to(web.collector) as line:
            for start in range(0, len(whole), 7):
                line.writer.write(whole[start : start + 7])
                await line.writer.drain()
                await asyncio.sleep(0)
            return await line.read()

    assert asyncio.run(talk())[2] == b'{"status":"counted","reports":5}'


@pytest.mark.parametrize("name", [b"Authorization", b"Faintly-Token", b"Host", b"Origin"])
def test_headers_that_may_come_once(say, address, plan, body_of, name):
    """A proxy may have looked at the other one."""
    twice = b"%s: 127.0.0.1\r\n" % name * 2
    told = say(request_of(address, body_of(plan, 1), headers=twice))
    assert (told[0], b"a header is repeated" in told[2]) == ("HTTP/1.1 400 Bad Request", True)
    told = say(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + twice + b"\r\n")
    assert (told[0], b"a header is repeated" in told[2]) == ("HTTP/1.1 400 Bad Request", True)
    once = say(request_of(address, body_of(plan, 1), headers=b"Accept: a\r\nAccept: b\r\n"))
    assert once[0] == "HTTP/1.1 200 OK"


def test_spaces_around_a_length_are_legal(say, address, plan, body_of):
    sent = request_of(address, body_of(plan, 1)).replace(b"\r\n\r\n", b" \t\r\n\r\n", 1)
    assert say(sent)[0] == "HTTP/1.1 200 OK"
    created = b"POST /v1/collections HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2 \r\n\r\n{}"
    assert say(created)[0].startswith("HTTP/1.1 422")


def test_zeros_before_a_length_hide_nothing(say, address):
    start = request_of(address, b"", headers=b"Content-Length: 000000000040000000\r\n")
    assert say(start.replace(b"Content-Length: 0\r\n", b""))[0].startswith("HTTP/1.1 413")


@pytest.mark.parametrize("path", ["/v1/collections", None])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_client_that_sends_too_much_is_told(web, address, path, chunked):
    """A plain client sends all of a body before it reads: closing earlier would reset it."""
    body = bytes(16 << 20)
    sent = request_of(address, body, chunked=chunked, query=None if path is None else "")
    if path is not None:
        sent = sent.replace(f"{address}/reports".encode(), path.encode(), 1)
        sent = sent.replace(b"\r\n", b"\r\nContent-Type: application/json\r\n", 1)
    after = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def plain(port):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(sent + after)
            seen = b""
            while b'"alive"' not in seen:
                part = client.recv(1 << 16)
                assert part, seen
                seen += part
            return seen

    async def talk():
        async with line_to(web.collector) as line:
            port = line.writer.get_extra_info("peername")[1]
            return await asyncio.to_thread(plain, port)

    assert asyncio.run(talk()).startswith(b"HTTP/1.1 413")
    assert web.collector.middleware.report_bytes.used == 0


def test_a_refused_body_without_end_is_cut_off(web, address, monkeypatch):
    monkeypatch.setattr(limits, "REFUSED_BODY_BYTES", 10 << 20)

    async def talk():
        async with line_to(web.collector) as line:
            line.writer.write(request_of(address, bytes(12 << 20))[:-10])
            told = await line.read()
            assert await line.is_closed()
            return told[0]

    assert asyncio.run(talk()).startswith("HTTP/1.1 413 ")


def test_a_client_that_waits_to_be_asked_for_its_body_is_refused_at_once(web, address):
    """What comes next on such a connection may be a body or not, so nothing comes next."""
    waits = b"Expect: 100-continue\r\n"

    async def talk():
        async with line_to(web.collector) as line:
            line.writer.write(request_of(address, bytes(9), query="", headers=waits)[:-9])
            return await line.read()

    status, headers, _ = asyncio.run(talk())
    assert (status, headers["connection"]) == ("HTTP/1.1 400 Bad Request", "close")


def test_a_client_that_may_send_is_asked_for_its_body(web, address, plan, body_of):
    body = body_of(plan, 1)
    waits = request_of(address, body, headers=b"Expect: 100-continue\r\n")

    async def talk():
        async with line_to(web.collector) as line:
            line.writer.write(waits[: -len(body)])
            async with asyncio.timeout(20):
                assert await line.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            line.writer.write(body)
            return await line.read()

    assert asyncio.run(talk())[0] == "HTTP/1.1 200 OK"


def test_reports_of_a_client_that_hangs_up_are_counted(web, address, plan, body_of):
    async def talk():
        with web.store.database.write_lock:  # the commit waits until it is gone
            async with line_to(web.collector) as line:
                line.writer.write(request_of(address, body_of(plan, 1)))
                while not web.collector.middleware.report_bytes.used:
                    await asyncio.sleep(0.001)
                line.writer.transport.abort()
                while line.state.connections:
                    await asyncio.sleep(0.001)
        while web.collector.middleware.report_bytes.used:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(talk(), 20))
    assert status_of(web.store.registry.collection(plan.digest)).pending == 1


@pytest.mark.parametrize("half", [False, True])
def test_a_server_that_stops_answers_first_and_hangs_up_then(web, address, plan, body_of, half):
    whole = request_of(address, body_of(plan, 1))

    async def talk():
        async with line_to(web.collector) as line:
            with web.store.database.write_lock:
                line.writer.write(whole[:-5] if half else whole)
                while not web.collector.middleware.report_bytes.used:
                    await asyncio.sleep(0.001)
                for connection in list(line.state.connections):
                    connection.shutdown()
                line.writer.write(whole[-5:] if half else b"")
            status, headers, _ = await line.read()
            assert (status, headers["connection"]) == ("HTTP/1.1 200 OK", "close")
            assert await line.is_closed()

    asyncio.run(asyncio.wait_for(talk(), 20))


def test_an_old_client_is_hung_up_on(web, address, plan, body_of):
    old = request_of(address, body_of(plan, 1), headers=b"Connection: keep-alive\r\n")

    async def talk():
        async with line_to(web.collector) as line:
            line.writer.write(old.replace(b"HTTP/1.1", b"HTTP/1.0"))
            status, headers, _ = await line.read()
            assert (status, headers["connection"]) == ("HTTP/1.1 200 OK", "close")
            assert await line.is_closed()

    asyncio.run(talk())


@pytest.mark.parametrize(
    "last",
    [
        b"\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx",
        NOWHERE + b"1\r\na\r\n0\r\nConnection: close\r\n\r\nGET /healthz HTTP/1.1\r\n",
    ],
    ids=["an empty line", "a body that nobody reads", "a trailer that says close"],
)
def test_nothing_keeps_an_idle_connection(web, address, plan, body_of, last, monkeypatch):
    monkeypatch.setattr(limits, "ARRIVE_S", 0.5)

    async def talk():
        async with line_to(web.collector, keep_alive_s=1) as line:
            line.writer.write(request_of(address, body_of(plan, 1)))
            await line.read()
            for byte in (last[:-1], last[-1:]):
                line.writer.write(byte)
                await line.writer.drain()
                await asyncio.sleep(0.05)
            async with asyncio.timeout(20):
                return await line.reader.read()

    assert asyncio.run(talk()).count(b"HTTP/1.1 ") == (last != b"\r\n")


def test_one_connection_too_many_is_told_so(web, address, plan, body_of):
    async def talk():
        async with serving(web.collector, capacity=2) as connect:
            first, second = [await connect() for _ in range(2)]
            first.writer.write(request_of(address, body_of(plan, 1)))
            assert (await first.read())[0] == "HTTP/1.1 200 OK"
            while len(second.state.connections) < 2:
                await asyncio.sleep(0.001)
            third = await connect()
            third.writer.write(request_of(address, body_of(plan, 1)))
            status, headers, body = await third.read()
            assert (status, headers["retry-after"]) == ("HTTP/1.1 429 Too Many Requests", "1")
            assert b"too many connections" in body
            assert await third.is_closed()
            third.writer.close()
            second.writer.close()
            while connect.capacity.used > 1:
                await asyncio.sleep(0.001)
            fourth = await connect()
            fourth.writer.write(request_of(address, body_of(plan, 1)))
            assert (await fourth.read())[0] == "HTTP/1.1 200 OK"

    asyncio.run(asyncio.wait_for(talk(), 20))


def test_many_connections_too_many_are_dropped(web, monkeypatch):
    monkeypatch.setattr(limits, "REFUSED_CONNECTIONS", 0)

    async def talk():
        async with serving(web.collector, capacity=0) as connect:
            assert await (await connect()).is_closed()

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "allowed"),
    [
        (1024, 1024, 4096, 1024 - limits.OWN_FILES),
        (1024, 1 << 20, 4096, 4096),
        (1024, -1, 4096, 4096),
        (-1, -1, 4096, 4096),
        (1 << 20, 1 << 20, 4096, 4096),
        (64, 64, 4096, 1),
    ],
)
def test_connections_leave_files_for_the_rest(monkeypatch, soft, hard, wanted, allowed):
    pairs = [(soft, hard)]
    monkeypatch.setattr("resource.getrlimit", lambda _: pairs[-1])
    monkeypatch.setattr("resource.setrlimit", lambda _, pair: pairs.append(pair))
    assert allow_files(wanted) == allowed
    now = pairs[-1][0]
    assert now == -1 or now >= min(soft if hard == 64 else wanted, allowed + limits.OWN_FILES)
    assert pairs[-1][1] == hard


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
@pytest.mark.parametrize("path", [b"/healthz", b"/nowhere"])
def test_an_answer_leaves_with_a_body_or_without_one(web, method, path):
    asked = b"%s %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % (method, path)
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    async def talk():
        async with line_to(web.collector) as line:
            line.writer.write(asked)
            async with asyncio.timeout(20):
                head = await line.reader.readuntil(b"\r\n\r\n")
                line.writer.write(last)
                return head, await line.reader.read()

    head, rest = asyncio.run(talk())
    assert head.startswith(b"HTTP/1.1 200" if path == b"/healthz" else b"HTTP/1.1 404")
    assert rest.startswith(b"{" if method == b"GET" else b"HTTP/1.1 200")


def test_refused_requests_leave_no_reference_cycles(web, address):
    """The collector looks for garbage seldom, so that refused bodies must not wait for it."""

    async def talk():
        async def receive():
            return {"type": "http.request", "body": b"bad", "more_body": False}

        async def send(message):
            seen.append(message.get("status"))

        seen = []
        scope = {"method": "POST", "path": f"{address}/reports"}
        scope["headers"] = [(b"host", b"localhost")]
        scope["query_string"] = f"request={NOBODY}".encode()
        gc.collect()
        for _ in range(100):
            await web.collector.middleware(scope, receive, send)
        assert seen.count(400) == 100
        return gc.collect()

    gc.disable()
    try:
        assert asyncio.run(talk()) < 100
    finally:
        gc.enable()


def test_the_head_of_an_answer_leaves_with_its_body():
    """And what comes alone does not wait for more."""
    written = []

    class Wire(asyncio.Transport):
        def write(self, data):
            written.append(bytes(data))

        def close(self):
            written.append(None)

    async def write():
        both = protocol.CoalescingTransport(Wire())
        for data in (b"HTTP/1.1 200 head", b"body", b"", b"more", b"HTTP/1.1 100 Continue"):
            both.write(data)
        for last in (both.write, lambda _: both.close()):
            both.write(b"HTTP/1.1 304 alone")
            last(b"")

    asyncio.run(write())
    assert written == [
        b"HTTP/1.1 200 headbody",
        b"more",
        b"HTTP/1.1 100 Continue",
        *[b"HTTP/1.1 304 alone"] * 2,
        None,
    ]


def test_nothing_is_left_of_a_connection_that_ended(web, address, plan, body_of):
    """The collector looks for garbage seldom, so that a connection must not be part of a circle."""
    alive = []

    class Noted(protocol.Protocol):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            alive.append(weakref.ref(self))

    async def talk():
        async with line_to(web.collector) as line:
            line.writer.write(request_of(address, body_of(plan, 1)))
            await line.read()
            line.writer.close()
            while line.state.connections:
                await asyncio.sleep(0.001)
            for _ in range(5):
                await asyncio.sleep(0)
            return [each() for each in alive]

    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(protocol, "Protocol", Noted)
            assert asyncio.run(asyncio.wait_for(talk(), 20)) == [None]
    finally:
        gc.enable()
