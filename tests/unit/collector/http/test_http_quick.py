"""A short request is answered in fewer steps, and with the same bytes.

What comes in chunks takes the way of every ASGI application, and is the reference.
"""

import asyncio
import gc
import os
import time
from contextlib import asynccontextmanager
from functools import partial

import pytest
import uvicorn
from uvicorn.server import ServerState

from faintly.collector.http import protocol
from faintly.collector.storage.status import status_of

NOBODY = "00" * 16


class Line:
    """One connection to a collector, over a socket."""

    def __init__(self, reader, writer, state):
        self.reader, self.writer, self.state = reader, writer, state

    async def read(self):
        """Return status line, headers and body of the next answer."""
        async with asyncio.timeout(5):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()[:-1]
            headers = dict(line.split(": ", 1) for line in head[1:])
            return head[0], headers, await self.reader.readexactly(int(headers["content-length"]))

    async def is_closed(self):
        """Return whether nothing more comes."""
        async with asyncio.timeout(5):
            return await self.reader.read() == b""


@asynccontextmanager
async def line_to(collector, keep_alive_s=20):
    """Yield a connection to a collector that serves as `faintly serve` does."""
    config = uvicorn.Config(
        collector.middleware,
        http=protocol.Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        timeout_keep_alive=keep_alive_s,
        proxy_headers=False,  # which would stand between the protocol and the application
    )
    config.load()
    state, loop = ServerState(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: protocol.Protocol(config, state, {}), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            yield Line(reader, writer, state)
        finally:
            writer.close()


def request_of(address, body, *, chunked=False, query=None, headers=b""):
    """Return the bytes of a request."""
    if query is None:
        query = f"?request={os.urandom(16).hex()}"
    head = f"POST {address}/reports{query} HTTP/1.1\r\n".encode()
    if b"Host" not in headers:
        head += b"Host: 127.0.0.1\r\n"
    if not chunked:
        return head + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body
    piece = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
    return head + headers + b"Transfer-Encoding: chunked\r\n\r\n" + piece + b"0\r\n\r\n"


@pytest.fixture
def ask():
    """Return what sends requests: ask(web, requests) -> answers, how many went the short ways."""

    def ask(web, requests):
        taken = []

        def counted(way, *given, **named):
            taken.append(way(*given, **named))
            return taken[-1]

        async def talk():
            answers = []
            for each in requests:
                async with line_to(web.collector) as line:
                    line.writer.write(each)
                    answers.append(await line.read())
            return answers

        with pytest.MonkeyPatch.context() as patch:
            for name in ("quick", "again"):
                way = getattr(web.collector.ingest, name)
                patch.setattr(web.collector.ingest, name, partial(counted, way))
            return asyncio.run(talk()), sum(taken)

    return ask


@pytest.fixture
def address(web, plan):
    return web.create(plan)


def both(ask, web, address, body, status, **options):
    """Ask every way, check that the answers agree, and return the body."""
    plain, short = ask(web, [request_of(address, body, **options)])
    chunked, none = ask(web, [request_of(address, body, chunked=True, **options)])
    assert (short, none) == (1, 0)
    assert plain == chunked
    assert plain[0][0].startswith(f"HTTP/1.1 {status} ")
    assert web.collector.ingest._held == 0
    return plain[0][2]


@pytest.mark.parametrize("reports", [1, 50, 2000])
def test_reports_are_counted(ask, web, address, plan, body_of, reports):
    assert b"counted" in both(ask, web, address, body_of(plan, reports), 200)
    assert status_of(web.store.registry.collection(plan.digest)).pending == 2 * reports


def test_a_replay_and_a_reused_id(ask, web, address, plan, body_of):
    query = f"?request={os.urandom(16).hex()}"
    assert web.send(plan, body_of(plan, 3), query[9:]).status_code == 200
    assert b"replayed" in both(ask, web, address, body_of(plan, 3), 200, query=query)
    assert b"REQUEST_REUSED" in both(ask, web, address, body_of(plan, 4), 409, query=query)
    assert status_of(web.store.registry.collection(plan.digest)).pending == 3


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?",
        "?request=",
        "?request=12",
        "?request=" + "zz" * 16,
        "?request=" + "1 " * 16,
        f"?request={NOBODY}&request={NOBODY}",
        f"?request={NOBODY}&epoch=x",
        f"?request={NOBODY}&epoch=-1",
        f"?request={NOBODY}&epoch={2**53}",
        f"?request={NOBODY}&more=1",
    ],
)
def test_bad_queries(ask, web, address, plan, body_of, query):
    if " " in query:  # ends the address, and is no HTTP
        answers, _ = ask(web, [request_of(address, body_of(plan, 1), query=query)])
        assert answers[0][0].startswith("HTTP/1.1 400")
    else:
        both(ask, web, address, body_of(plan, 1), 400, query=query)
    assert status_of(web.store.registry.collection(plan.digest)).pending == 0


def test_an_unknown_epoch_and_collection(ask, web, address, plan, body_of):
    query = f"?request={NOBODY}&epoch=7"
    both(ask, web, address, body_of(plan, 1), 404, query=query)
    both(ask, web, f"/v1/collections/{NOBODY}", body_of(plan, 1), 404)
    both(ask, web, f"/v1/collections/{'x' * 32}", body_of(plan, 1), 400)


@pytest.mark.parametrize(
    "change", [lambda body: b"", lambda body: body[:-1], lambda body: body + b"x"]
)
def test_bad_bodies(ask, web, address, plan, body_of, change):
    assert b"BAD_REPORTS" in both(ask, web, address, change(body_of(plan, 1)), 400)


def test_a_closed_collection(ask, web, address, plan, body_of):
    web.store.close_collection(plan.digest)
    assert b"CLOSED" in both(ask, web, address, body_of(plan, 1), 410)


def test_tokens(ask, web, plan, body_of):
    address = web.create(plan, tokens=True)
    one, two = web.store.issue_tokens(plan.digest, 0, 2)
    body = body_of(plan, 1)
    assert b"TOKEN_MISSING" in both(ask, web, address, body, 403)
    assert b"TOKEN_UNKNOWN" in both(ask, web, address, body, 403, headers=b"Faintly-Token: x\r\n")
    fresh = [b"Faintly-Token: %s\r\n" % each.encode() for each in (one, two)]
    plain, _ = ask(web, [request_of(address, body, headers=fresh[0])])
    chunked, _ = ask(web, [request_of(address, body, headers=fresh[1], chunked=True)])
    assert plain == chunked
    assert b"TOKEN_USED" in both(ask, web, address, body, 409, headers=fresh[0])
    assert status_of(web.store.registry.collection(plan.digest)).pending == 2


def test_who_may_send(ask, web, address, plan, body_of):
    body = body_of(plan, 1)
    both(ask, web, address, body, 403, headers=b"Host: example.org\r\n")
    both(ask, web, address, body, 403, headers=b"Origin: https://example.org\r\n")
    secret = web.store.credentials.add("submit", "phones").encode()
    both(ask, web, address, body, 401)
    both(ask, web, address, body, 401, headers=b"Authorization: Bearer x\r\n")
    both(ask, web, address, body, 200, headers=b"Authorization: Bearer %s\r\n" % secret)


@pytest.mark.parametrize("name", [b"Authorization", b"Faintly-Token", b"Host", b"Origin"])
def test_headers_that_may_come_once(ask, web, address, plan, body_of, name):
    """A proxy may have looked at the other one."""
    twice = b"%s: 127.0.0.1\r\n" % name * 2
    assert b"a header is repeated" in both(ask, web, address, body_of(plan, 1), 400, headers=twice)
    both(ask, web, address, body_of(plan, 1), 200, headers=b"Accept: a\r\nAccept: b\r\n")


def test_a_page_is_answered_with_its_headers(ask, make_web, plan, body_of):
    web = make_web(cors=["https://example.org"])
    address = web.create(plan)
    origin = b"Origin: https://example.org\r\n"
    both(ask, web, address, body_of(plan, 1), 200, headers=origin)
    ((_, headers, _),), _ = ask(web, [request_of(address, body_of(plan, 1), headers=origin)])
    assert headers["access-control-allow-origin"] == "https://example.org"


def test_while_stopping(ask, web, address, plan, body_of):
    web.collector.stop()
    assert b"STOPPING" in both(ask, web, address, body_of(plan, 1), 503)


def test_what_is_unexpected(ask, web, address, plan, body_of, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(web.store, "take", fail)
    assert b"INTERNAL" in both(ask, web, address, body_of(plan, 1), 500)


def test_a_failed_commit(ask, web, address, plan, body_of, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(web.store.inbox, "_commit", fail)
    assert b"CANNOT_STORE" in both(ask, web, address, body_of(plan, 1), 503)
    assert web.collector.ingest.failed_at is not None


def test_the_first_of_an_epoch_takes_the_long_way(ask, web, plan, body_of):
    address = web.create(plan, period_s=3600.0, epochs=[])
    now = int(time.time() // 3600)
    requests = [
        request_of(address, body_of(plan, 1), query=f"?request={os.urandom(16).hex()}&epoch={now}")
        for _ in range(2)
    ]
    answers, short = ask(web, requests)
    assert [line for line, _, _ in answers] == ["HTTP/1.1 200 OK"] * 2
    assert short == 1


@pytest.mark.parametrize(
    "headers",
    [
        b"Expect: 100-continue\r\n",
        b"Connection: close\r\n",
        b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
    ],
)
def test_what_is_unusual_takes_the_long_way(web, address, plan, body_of, headers, monkeypatch):
    async def talk():
        async with line_to(web.collector) as line:
            line.writer.write(request_of(address, body_of(plan, 1), headers=headers))
            return await line.reader.readuntil(b"}")

    def wrong(*_, **__):
        raise AssertionError

    if b"Upgrade" not in headers:  # which is ignored, and then there is nothing unusual
        monkeypatch.setattr(web.collector.ingest, "quick", wrong)
    answer = asyncio.run(talk())
    assert b"HTTP/1.1 200 OK" in answer
    assert answer.startswith(b"HTTP/1.1 100 Continue") == (b"Expect" in headers)


def test_requests_in_a_row_are_answered_in_order(web, address, plan, body_of):
    bodies = [body_of(plan, reports) for reports in (1, 2, 3, 4)]

    async def talk():
        async with line_to(web.collector) as line:
            line.writer.write(b"".join([request_of(address, body) for body in bodies]))
            return [(await line.read())[2] for _ in bodies]

    answers = asyncio.run(talk())
    assert [answer[-2:] for answer in answers] == [b"%d}" % count for count in (1, 2, 3, 4)]
    assert status_of(web.store.registry.collection(plan.digest)).pending == 10


def test_a_body_that_comes_in_pieces(web, address, plan, body_of):
    whole = request_of(address, body_of(plan, 5))

    async def talk():
        async with line_to(web.collector) as line:
            for start in range(0, len(whole), 7):
                line.writer.write(whole[start : start + 7])
                await line.writer.drain()
                await asyncio.sleep(0)
            return await line.read()

    assert asyncio.run(talk())[2] == b'{"status":"counted","reports":5}'


def test_who_hangs_up_is_counted_all_the_same(web, address, plan, body_of):
    async def talk():
        with web.store.database.write_lock:  # the commit waits until it is gone
            async with line_to(web.collector) as line:
                line.writer.write(request_of(address, body_of(plan, 1)))
                await line.writer.drain()
                while not web.collector.ingest._held:
                    await asyncio.sleep(0.001)
                line.writer.transport.abort()
                while line.state.connections:
                    await asyncio.sleep(0.001)
        while web.collector.ingest._held:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(talk(), 10))
    assert status_of(web.store.registry.collection(plan.digest)).pending == 1


def test_a_server_that_stops_answers_first_and_hangs_up_then(web, address, plan, body_of):
    async def talk():
        async with line_to(web.collector) as line:
            with web.store.database.write_lock:
                line.writer.write(request_of(address, body_of(plan, 1)))
                while not web.collector.ingest._held:
                    await asyncio.sleep(0.001)
                for connection in list(line.state.connections):
                    connection.shutdown()
            status, headers, _ = await line.read()
            assert (status, headers["connection"]) == ("HTTP/1.1 200 OK", "close")
            assert await line.is_closed()

    asyncio.run(asyncio.wait_for(talk(), 10))


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
@pytest.mark.parametrize("path", [b"/healthz", b"/nowhere"])
def test_an_answer_leaves_with_a_body_or_without_one(web, method, path):
    asked = b"%s %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % (method, path)
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    async def talk():
        async with line_to(web.collector) as line:
            line.writer.write(asked)
            async with asyncio.timeout(5):
                head = await line.reader.readuntil(b"\r\n\r\n")
                line.writer.write(last)
                return head, await line.reader.read()

    head, rest = asyncio.run(talk())
    assert head.startswith(b"HTTP/1.1 200" if path == b"/healthz" else b"HTTP/1.1 404")
    assert rest.startswith(b"{" if method == b"GET" else b"HTTP/1.1 200")


def test_a_head_that_is_not_modified_leaves_at_once(web, address, plan, body_of):
    web.send(plan, body_of(plan, 50))
    web.store.seal()
    asked = b"GET %s/noise-floor HTTP/1.1\r\nHost: localhost\r\n" % address.encode()

    async def talk():
        async with line_to(web.collector) as line:
            line.writer.write(asked + b"\r\n")
            _, headers, _ = await line.read()
            known = f"If-None-Match: {headers['etag']}\r\n\r\n".encode()
            line.writer.write(asked + known)
            async with asyncio.timeout(5):
                return await line.reader.readuntil(b"\r\n\r\n")

    assert asyncio.run(talk()).startswith(b"HTTP/1.1 304")


def test_zeros_before_a_length_hide_nothing(web, address):
    start = request_of(address, b"", headers=b"Content-Length: 000000000040000000\r\n")
    start = start.replace(b"Content-Length: 0\r\n", b"")

    async def talk():
        async with line_to(web.collector) as line:
            line.writer.write(start)
            return await line.read()

    assert asyncio.run(talk())[0].startswith("HTTP/1.1 413")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_refusal_leaves_the_next_request_its_time(web, address, plan, body_of, chunked):
    bad = request_of(address, b"bad", chunked=chunked)
    good = request_of(address, body_of(plan, 1))

    async def talk():
        async with line_to(web.collector, keep_alive_s=1) as line:
            with web.store.database.write_lock:
                line.writer.write(bad + good)
                first = await line.read()
                await asyncio.sleep(1.5)  # longer than an idle connection is kept
            return first, await line.read()

    first, second = asyncio.run(talk())
    assert (first[0], second[0]) == ("HTTP/1.1 400 Bad Request", "HTTP/1.1 200 OK")


def test_nothing_is_counted_after_an_answer_that_closes(make_web, plan, body_of):
    web = make_web(body_bytes=1024)
    address = web.create(plan)
    large = request_of(address, body_of(plan, 500))
    assert 1024 < len(body_of(plan, 500)) < protocol.SHORT_BYTES

    async def talk():
        async with line_to(web.collector) as line:
            line.writer.write(large + request_of(address, body_of(plan, 1)))
            answer = await line.read()
            assert await line.is_closed()
            return answer

    assert asyncio.run(talk())[0].startswith("HTTP/1.1 413")
    assert status_of(web.store.registry.collection(plan.digest)).pending == 0


def test_an_old_client_is_hung_up_on(web, address, plan, body_of):
    old = request_of(address, body_of(plan, 1), headers=b"Connection: keep-alive\r\n")

    async def talk():
        async with line_to(web.collector) as line:
            line.writer.write(old.replace(b"HTTP/1.1", b"HTTP/1.0"))
            status, headers, _ = await line.read()
            assert (status, headers["connection"]) == ("HTTP/1.1 200 OK", "close")
            assert await line.is_closed()

    asyncio.run(talk())


def test_a_server_that_stops_waits_for_a_body_that_is_half_here(web, address, plan, body_of):
    whole = request_of(address, body_of(plan, 1))

    async def talk():
        async with line_to(web.collector) as line:
            line.writer.write(whole[:-5])
            while not any(each._short for each in line.state.connections):
                await asyncio.sleep(0.001)
            for connection in list(line.state.connections):
                connection.shutdown()
            line.writer.write(whole[-5:])
            status, headers, _ = await line.read()
            assert (status, headers["connection"]) == ("HTTP/1.1 200 OK", "close")

    asyncio.run(asyncio.wait_for(talk(), 10))


def test_refused_requests_leave_no_circles(web, address):
    """The collector looks for garbage seldom, so that refused bodies must not wait for it."""

    async def talk():
        async def receive():
            return {"type": "http.request", "body": b"bad", "more_body": False}

        scope = {"path": f"{address}/reports", "headers": [(b"host", b"localhost")]}
        scope["query_string"] = f"request={NOBODY}".encode()
        gc.collect()
        for _ in range(100):
            status, _, _ = await web.collector.ingest.reply_to(scope, receive)
            assert status == 400
        return gc.collect()

    gc.disable()
    try:
        assert asyncio.run(talk()) < 100
    finally:
        gc.enable()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_connection_is_kept_while_requests_come(web, address, plan, body_of, chunked):
    async def talk():
        async with line_to(web.collector) as line:
            for _ in range(4):
                line.writer.write(request_of(address, body_of(plan, 1), chunked=chunked))
                assert (await line.read())[0] == "HTTP/1.1 200 OK"
                (connection,) = line.state.connections
                connection.timeout_keep_alive_task.cancel()
                connection.timeout_keep_alive_handler()  # as if the timer ended, while others come
                assert not connection.transport.is_closing()
            connection.timeout_keep_alive_task.cancel()
            connection.timeout_keep_alive = 0  # as if nothing came for as long as it is kept
            connection.timeout_keep_alive_handler()
            assert await line.is_closed()

    asyncio.run(talk())


def test_nothing_is_left_of_a_connection_that_ended(web, address, plan, body_of):
    async def talk():
        async with line_to(web.collector) as line:
            line.writer.write(request_of(address, body_of(plan, 1)))
            await line.read()
            (connection,) = line.state.connections
            line.writer.close()
            while line.state.connections:
                await asyncio.sleep(0.001)
        return connection.timeout_keep_alive_task

    assert asyncio.run(asyncio.wait_for(talk(), 10)) is None
