"""A head that was read before is not read again, and makes no difference.

Connections here have no socket: the bytes of a request are given to two protocols, one of which
may remember heads, and what they write, whether they hang up, and what reaches the store must be
the same.
"""

import asyncio
import os
import time

import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState

from faintly.collector.http import ingest, protocol
from faintly.collector.storage.inbox import COUNTED

SEVERAL = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


class Wire(asyncio.Transport):
    """A connection that keeps what is written to it."""

    def __init__(self):
        super().__init__()
        self.written, self.closed = b"", False

    def write(self, data):
        if not self.closed:
            self.written += data

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


class Talk:
    """Connections to one collector, of those that remember heads and those that do not."""

    def __init__(self, web):
        self._state = ServerState()
        self._config = uvicorn.Config(
            web.collector.middleware,
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
        )
        self._config.load()

    def connect(self, *, remember=True):
        made = protocol.Protocol(self._config, self._state, {})
        made.connection_made(Wire())
        if not remember:
            made._recall = lambda _: False
        return made

    async def say(self, pieces, *, remember=True):
        """Return what is answered to pieces on a new connection, and whether it stays."""
        made = self.connect(remember=remember)
        for piece in pieces:
            if not made.transport.closed:  # as a real one would stop reading
                made.data_received(piece)
            await rest()
        written, closed = made.transport.written, made.transport.closed
        made.connection_lost(None)
        return written, closed


def is_given_up(made):
    """Return whether a connection ends once nothing came for as long as it is kept."""
    assert made.timeout_keep_alive_task is not None  # which calls the handler in the end
    made.timeout_keep_alive = 0
    made.timeout_keep_alive_handler()
    return made.transport.closed


async def rest():
    """Let everything happen that can."""
    for _ in range(8):
        await asyncio.sleep(0)


@pytest.fixture
def address(web, plan):
    return web.create(plan)


@pytest.fixture
def taken(web, monkeypatch):
    """Return the list of what reaches the store, which counts all of it."""
    reached = []

    def take(digest, epoch, request, body, *, token, waiter, answer):
        reached.append((digest, epoch, request, body, token))
        asyncio.get_running_loop().call_soon(waiter.set_result, COUNTED)
        return 1

    monkeypatch.setattr(web.store, "take", take)
    return reached


def request_of(address, body, *, name=None, query="", headers=b""):
    name = name or os.urandom(16).hex()
    line = f"POST {address}/reports?request={name}{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    return line.encode() + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.fixture
def recalled(web, monkeypatch):
    """Return the list of whether each request was served by what is remembered."""
    found = []
    recall, again = web.collector.ingest.recall, web.collector.ingest.again

    def looked(key):
        head = recall(key)
        if head is None:
            found.append(False)
        return head

    def served(*given):
        found.append(again(*given))
        return found[-1]

    monkeypatch.setattr(web.collector.ingest, "recall", looked)
    monkeypatch.setattr(web.collector.ingest, "again", served)
    return found


HEADERS = st.sampled_from(
    [
        b"",
        b"Origin: http://127.0.0.1\r\n",
        b"Content-Type: application/octet-stream\r\nAccept: */*\r\n",
        b"X-Long: " + b"x" * 300 + b"\r\n",
    ]
)
PIECE = st.one_of(
    st.binary(max_size=4),
    st.sampled_from([b"\r\n", b"\r\n\r\n", b" ", b"&epoch=1", b"%20", b"#", b"?request=", b"\0"]),
    # As long as an id, and the end of a head.
    st.just(b"x HTTP/1.1\r\nContent-Length:0\r\n\r\n"),
    st.just(b" HTTP/1.1\r\nContent-Length:10\r\n\r\n"),
)


@SEVERAL
@given(
    headers=HEADERS,
    query=st.sampled_from(["", "&epoch=0", "&epoch=5"]),
    place=st.one_of(st.integers(0, 600), st.just(protocol.ID_AT)),
    gone=st.sampled_from([0, 1, 2, 3, 2 * protocol.NAME_BYTES]),
    more=PIECE,
    after=st.sampled_from([b"", b"\r\n", b"POST ", "again"]),
    cut=st.integers(0, 600),
)
def test_a_remembered_head_makes_no_difference(
    web, address, taken, headers, query, place, gone, more, after, cut
):
    """Change a request that is known, anywhere, and cut it in two, anywhere."""
    body = b"0123456789"
    options = {"headers": headers, "query": query}
    known = request_of(address, body, **options)
    changed = request_of(address, body, **options)
    place %= len(changed)
    changed = changed[:place] + more + changed[place + gone :]
    changed += request_of(address, body, **options) if after == "again" else after
    pieces = [changed[: cut % len(changed)], changed[cut % len(changed) :]]

    async def talk():
        talk = Talk(web)
        await talk.say([known])
        outcomes = []
        for remember in (True, False):
            taken.clear()
            outcomes.append((await talk.say([known, *pieces], remember=remember), list(taken)))
        return outcomes

    with_memory, without = asyncio.run(talk())
    assert with_memory == without


def test_a_head_is_read_once(web, address, taken, recalled):
    bodies = [b"%03d" % number for number in range(20)]

    async def talk():
        talk = Talk(web)
        return [await talk.say([request_of(address, body)]) for body in bodies]

    answers = asyncio.run(talk())
    assert recalled == [False] + [True] * 19
    assert {written[:15] for written, _ in answers} == {b"HTTP/1.1 200 OK"}
    assert len(set(answers)) == 1
    assert [body for _, _, _, body, _ in taken] == bodies
    assert len({request for _, _, request, _, _ in taken}) == 20


def test_requests_in_a_row_on_one_connection(web, address, taken, recalled):
    async def talk():
        wire = [request_of(address, b"abc") for _ in range(5)]
        return await Talk(web).say([wire[0], wire[1], wire[2] + wire[3], wire[4]])

    written, closed = asyncio.run(talk())
    assert written.count(b"200 OK") == 5
    assert not closed
    assert recalled == [False, True, False, True]  # two at a time are left to the parser


def test_a_known_request_in_the_body_of_another_is_a_body(web, address, taken):
    inner = request_of(address, b"abc")
    outer = request_of(address, inner, query="&epoch=7")

    async def talk():
        talk = Talk(web)
        await talk.say([inner])
        return await talk.say([outer[: -len(inner)], inner])

    written, _ = asyncio.run(talk())
    assert written.count(b"200 OK") == 1
    assert [(epoch, body) for _, epoch, _, body, _ in taken] == [(0, b"abc"), (7, inner)]


def test_a_request_after_a_refused_one_is_not_taken_for_it(web, address, taken):
    bad = request_of(address, b"abc", query="&epoch=x")
    good = request_of(address, b"def")

    async def talk():
        talk = Talk(web)
        await talk.say([bad + good])
        return await talk.say([bad])

    written, _ = asyncio.run(talk())
    assert written.startswith(b"HTTP/1.1 400")
    assert [body for _, _, _, body, _ in taken] == [b"def"]


OTHER = "ab" * 16  # another collection


@pytest.mark.parametrize(
    ("first", "between"),
    [
        ("x HTTP/1.1\r\nContent-Length:0\r\n\r\n", b""),
        (
            " HTTP/1.1\r\nContent-Length:60\r\n\r\n",
            b" HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\nX: ",
        ),
    ],
    ids=["alone", "in a header"],
)
def test_a_head_that_ends_where_an_id_belongs_teaches_nothing(web, address, taken, first, between):
    """What is refused, and the request after it, must not look like one request of both."""
    assert len(first) == 32
    line = f"POST /v1/collections/{OTHER}/reports?request={'11' * 16}&epoch=7 HTTP/1.1\r\n"
    second = line.encode() + b"Host: 127.0.0.1\r\nContent-Length: 3\r\n\r\nabc"
    start = f"POST {address}/reports?request=".encode()
    both = start + first.encode() + between + second
    looks_like_it = start + b"22" * 16 + between + second

    async def talk():
        talk = Talk(web)
        before = await talk.say([looks_like_it])
        assert len(taken) == 0
        await talk.say([both])
        assert [epoch for _, epoch, _, _, _ in taken] == [7]
        return before, await talk.say([looks_like_it])

    before, after = asyncio.run(talk())
    assert before == after
    assert len(taken) == 1


def test_a_trailer_that_ends_a_connection(web, address, taken):
    known = request_of(address, b"abc")
    head = b"POST /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    last = head + b"1\r\na\r\n0\r\nConnection: close\r\n\r\n"

    async def talk(*, remember):
        talk = Talk(web)
        await talk.say([known])
        taken.clear()
        made = talk.connect(remember=remember)
        made.data_received(last)
        async with asyncio.timeout(5):
            while not made.transport.closed:
                await asyncio.sleep(0.001)
        return made.transport.written

    for remember in (True, False):
        assert asyncio.run(talk(remember=remember)).startswith(b"HTTP/1.1 404")


def test_empty_lines_between_known_requests(web, address, taken):
    async def talk():
        talk = Talk(web)
        await talk.say([request_of(address, b"abc")])
        made = talk.connect()
        for _ in range(4):
            made.data_received(b"\r\n")
            made.data_received(request_of(address, b"abc"))
            await rest()
        return made._unended, made.transport.written.count(b"200 OK")

    assert asyncio.run(talk()) == (0, 4)


@pytest.mark.parametrize("remember", [True, False])
def test_an_empty_line_does_not_keep_a_connection(web, address, taken, remember):
    async def talk():
        talk = Talk(web)
        made = talk.connect(remember=remember)
        for _ in range(2):
            made.data_received(request_of(address, b"abc"))
            await rest()
        made.data_received(b"\r\n")
        return is_given_up(made)

    assert asyncio.run(talk())


def test_the_rest_of_a_refused_body_does_not_keep_a_connection(web, address, taken):
    whole = request_of(address, b"x" * (protocol.SHORT_BYTES + 1), query="&epoch=x")

    async def talk():
        made = Talk(web).connect()
        made.data_received(whole[:-10])
        await rest()
        assert made.transport.written.startswith(b"HTTP/1.1 400")
        assert not made.transport.closed
        made.data_received(whole[-10:])
        return is_given_up(made)

    assert asyncio.run(talk())


def test_what_cannot_be_looked_up_is_answered(web, address, taken, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    async def talk():
        talk = Talk(web)
        await talk.say([request_of(address, b"abc")])
        monkeypatch.setattr(web.store, "opens", fail)
        return await talk.say([request_of(address, b"abc")])

    assert asyncio.run(talk())[0].startswith(b"HTTP/1.1 500")


def test_heads_of_refused_requests_are_not_remembered(web, address, plan, recalled):
    async def talk():
        talk = Talk(web)
        for _ in range(2):
            await talk.say([request_of(f"/v1/collections/{OTHER}", b"abc")])
            await talk.say([request_of(address, b"abc")])

    asyncio.run(talk())
    assert recalled == [False] * 4
    assert not web.collector.ingest._heads._heads


def test_a_request_in_pieces_is_not_taken_for_the_one_before(web, address, taken):
    """A body as long as what seemed to follow a head must not be learned as that head's."""
    before = request_of(address, b"abc", headers=b"Authorization: none\r\n")  # not remembered
    body = b"0123456789"
    other = request_of(address, body, query="&epoch=7")
    first = len(body) + len(protocol.HEAD_END) - 1

    async def talk():
        talk = Talk(web)
        await talk.say([before, other[:first], other[first:]])
        return await talk.say([request_of(address, body, headers=b"Authorization: none\r\n")])

    asyncio.run(talk())
    assert [epoch for _, epoch, _, _, _ in taken] == [0, 7, 0]
    assert not web.collector.ingest._heads._heads


def test_heads_are_remembered_anew_when_others_have_credentials(web, address, taken, recalled):
    async def talk():
        talk = Talk(web)
        for _ in range(2):
            await talk.say([request_of(address, b"abc")])
        web.store.credentials.add("read", "people")
        for _ in range(2):
            await talk.say([request_of(address, b"abc")])

    asyncio.run(talk())
    assert recalled == [False, True, False, True]
    assert len(taken) == 4


def test_a_collection_that_was_created_anew_opens_its_epoch(web, plan, body_of, recalled):
    """Which waits for the disk, and must not be done in the loop."""
    now = int(time.time() // 3600)
    address = web.create(plan, epochs=[now])

    async def ask(talk):
        made = talk.connect()
        made.data_received(request_of(address, body_of(plan, 1), query=f"&epoch={now}"))
        async with asyncio.timeout(5):
            while not made.transport.written:
                await asyncio.sleep(0.001)
        return made.transport.written[:12]

    async def talk():
        talk = Talk(web)
        answers = [await ask(talk)]
        web.store.delete(plan.digest)
        web.store.registry.create(plan, period_s=3600.0, epochs=[])
        return [*answers, await ask(talk), await ask(talk)]

    assert asyncio.run(talk()) == [b"HTTP/1.1 200"] * 3
    assert recalled == [False, False, True]


def test_one_request_at_a_time(web, address, taken, monkeypatch):
    waiting = []

    def take(*given, waiter, **_):
        waiting.append(waiter)
        return 1

    async def talk():
        talk = Talk(web)
        await talk.say([request_of(address, b"abc")])
        monkeypatch.setattr(web.store, "take", take)
        made = talk.connect()
        for _ in range(2):
            made.data_received(request_of(address, b"abc"))
            await rest()
        assert len(waiting) == 1  # or the second might be answered first
        for number in (1, 2):
            waiting.pop().set_result(COUNTED)
            await rest()
            assert made.transport.written.count(b"200 OK") == number

    asyncio.run(talk())


def test_digits_of_an_id_in_upper_case_are_the_same_id(web, address, taken, recalled):
    name = "AB" * 16

    async def talk():
        talk = Talk(web)
        for each in ("00" * 16, name, name.lower()):
            await talk.say([request_of(address, b"abc", name=each)])

    asyncio.run(talk())
    assert recalled == [False, True, True]
    assert taken[1] == taken[2]


@pytest.mark.parametrize("name", ["zz" * 16, "0" * 31 + "-", "0" * 31 + "g", "0" * 30 + "&a"])
def test_what_is_no_id_is_refused_as_ever(web, address, taken, recalled, name):
    async def talk():
        talk = Talk(web)
        await talk.say([request_of(address, b"abc")])
        return await talk.say([request_of(address, b"abc", name=name)])

    written, _ = asyncio.run(talk())
    assert written.startswith(b"HTTP/1.1 400")
    assert len(taken) == 1


@pytest.mark.parametrize(
    "headers",
    [b"Authorization: Bearer x\r\n", b"Cookie: a=b\r\n", b"Faintly-Token: abc\r\n"],
)
def test_heads_with_secrets_are_not_remembered(web, address, taken, recalled, headers):
    async def talk():
        talk = Talk(web)
        for _ in range(3):
            await talk.say([request_of(address, b"abc", headers=headers)])

    asyncio.run(talk())
    assert recalled == [False] * 3
    assert len(taken) == 3
    assert not web.collector.ingest._heads._heads


def test_a_stopping_collector_takes_nothing(web, address, taken):
    async def talk():
        talk = Talk(web)
        await talk.say([request_of(address, b"abc")])
        web.collector.stop()
        return await talk.say([request_of(address, b"abc")])

    assert asyncio.run(talk())[0].startswith(b"HTTP/1.1 503")
    assert len(taken) == 1


def test_who_needs_a_credential_by_now_is_refused(web, address, taken):
    async def talk():
        talk = Talk(web)
        await talk.say([request_of(address, b"abc")])
        web.store.credentials.add("submit", "phones")
        return await talk.say([request_of(address, b"abc")])

    assert asyncio.run(talk())[0].startswith(b"HTTP/1.1 401")
    assert len(taken) == 1


def test_an_epoch_that_must_be_opened_takes_the_long_way(web, plan, recalled, body_of):
    address = web.create(plan, period_s=3600.0, epochs=[])
    now = int(time.time() // 3600)

    async def talk():
        talk = Talk(web)
        for _ in range(4):
            made = talk.connect()
            made.data_received(request_of(address, body_of(plan, 1), query=f"&epoch={now}"))
            async with asyncio.timeout(5):
                while not made.transport.written:
                    await asyncio.sleep(0.001)
            assert made.transport.written.startswith(b"HTTP/1.1 200")

    asyncio.run(talk())
    assert recalled == [False, False, True, True]


def test_a_refusal_of_what_is_remembered(web, address, plan, body_of, recalled):
    async def talk():
        talk = Talk(web)
        made = talk.connect()
        made.data_received(request_of(address, body_of(plan, 1)))
        while not made.transport.written:
            await asyncio.sleep(0.001)
        web.store.close_collection(plan.digest)
        closed = await talk.say([request_of(address, body_of(plan, 1))])
        web.store.delete(plan.digest)
        return closed, await talk.say([request_of(address, body_of(plan, 1))])

    (closed, _), (deleted, _) = asyncio.run(talk())
    assert recalled == [False, True, True]
    assert closed.startswith(b"HTTP/1.1 410")
    assert deleted.startswith(b"HTTP/1.1 404")
    assert web.collector.ingest._held == 0


def test_there_is_an_end_to_what_is_remembered(web, address, taken, monkeypatch):
    monkeypatch.setattr(ingest, "HEADS", 10)

    async def talk():
        talk = Talk(web)
        for number in range(35):
            await talk.say([request_of(address, b"abc", headers=b"X-Number: %d\r\n" % number)])
        long = b"X-Long: " + b"x" * protocol.KNOWN_BYTES + b"\r\n"
        await talk.say([request_of(address, b"abc", headers=long)])

    asyncio.run(talk())
    heads = web.collector.ingest._heads._heads
    assert 0 < len(heads) <= 10
    assert max(map(len, heads)) < protocol.KNOWN_BYTES
    assert len(taken) == 36


def test_a_connection_is_kept_after_a_first_request_that_was_known(
    web, address, taken, monkeypatch
):
    monkeypatch.setattr(protocol, "ARRIVE_S", 0.05)

    async def talk():
        talk = Talk(web)
        await talk.say([request_of(address, b"abc")])
        made = talk.connect()
        made.data_received(request_of(address, b"abc"))
        await asyncio.sleep(0.1)
        return made.transport.closed

    assert not asyncio.run(talk())
