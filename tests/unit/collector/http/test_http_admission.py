"""Few answers are made at a time; who waits keeps nobody up, and who is gone is not answered."""

import asyncio
import json
import threading
import time

import pytest

from faintly.engine import answers as engine
from faintly.mechanisms import mechanism_of
from faintly_collector.http import answers, limits, readers

ESTIMATES = {"json": {"keys": [1]}}


@pytest.fixture
def queries(sealed):
    """One request of every kind that computes."""
    posted = [("POST", f"{sealed}/{name}", ESTIMATES) for name in ("estimates", "history")]
    posted.append(("POST", f"{sealed}/top", {"json": {"candidates": [1]}}))
    return posted + [("GET", f"{sealed}/{name}", {}) for name in ("top", "noise-floor", "sketch")]


class Gate:
    """Holds whoever passes until it is opened, and counts them."""

    def __init__(self, work, slots):
        self.slots = slots
        self._work, self._open, self._lock = work, threading.Event(), threading.Lock()
        self.inside, self.most, self.passed = 0, 0, 0

    def __call__(self, *given, **named):
        with self._lock:
            self.inside += 1
            self.passed += 1
            self.most = max(self.most, self.inside)
        assert self._open.wait(60)
        with self._lock:
            self.inside -= 1
        return self._work(*given, **named)

    def open(self):
        self._open.set()

    async def fill(self):
        while self.inside < self.slots:
            await asyncio.sleep(0.001)


@pytest.fixture
def gate(web, monkeypatch):
    """Stands before every reader, and is open after the test."""
    made = Gate(readers.ReaderSlot.ask, len(web.collector.service.readers.slots))
    monkeypatch.setattr(limits, "WAIT_S", 600.0)  # a busy machine must not refuse for us
    monkeypatch.setattr(readers.ReaderSlot, "ask", lambda *given: made(*given))  # noqa: PLW0108 - bound
    yield made
    made.open()


def check_few(web, gate, asked):
    """Check that of so many askers as many as may be are inside at a time."""

    async def ask():
        asking = asyncio.create_task(web.at_once(*asked))
        await gate.fill()
        await asyncio.sleep(0.05)
        gate.open()
        return await asking

    assert {answer.status_code for answer in asyncio.run(ask())} == {200}
    assert gate.most == gate.slots


def test_few_answers_are_made_at_a_time(web, queries, gate):
    check_few(web, gate, queries * 5)


def test_waiting_requests_take_no_thread(web, sealed, gate):
    """Sixty askers are more than the threads that all other requests share."""
    others = [("GET", path, {}) for path in ("/readyz", "/metrics", f"{sealed}/plan", sealed)]

    async def ask():
        asked = asyncio.create_task(web.at_once(*[("POST", f"{sealed}/estimates", ESTIMATES)] * 60))
        await gate.fill()
        async with asyncio.timeout(30):
            seen = await web.at_once(*others)
        assert not asked.done()
        gate.open()
        return seen + await asked

    assert {answer.status_code for answer in asyncio.run(ask())} == {200}


def test_nobody_waits_for_ever(web, queries, gate, refused, monkeypatch):
    monkeypatch.setattr(limits, "WAIT_S", 0.05)

    async def ask():
        asked = asyncio.create_task(web.at_once(*queries[:1] * gate.slots))
        await gate.fill()
        late = await web.at_once(*queries)
        gate.open()
        return late, await asked

    late, answered = asyncio.run(ask())
    for each in late:
        refused(each, 429, "BUSY")
        assert each.headers["retry-after"] == "1"
    assert {answer.status_code for answer in answered} == {200}
    assert web(*queries[0][:2], **ESTIMATES).status_code == 200  # the slots are free again


def test_not_everybody_may_wait(web, queries, gate, refused, monkeypatch):
    monkeypatch.setattr(limits, "WAITING", 2)

    async def ask():
        asked = asyncio.create_task(web.at_once(*queries[:1] * (gate.slots + 2)))
        await gate.fill()
        while web.collector.service.readers.waiting < 2:
            await asyncio.sleep(0.001)
        (late,) = await web.at_once(queries[0])
        gate.open()
        return late, await asked

    late, answered = asyncio.run(ask())
    refused(late, 429, "BUSY")
    assert {answer.status_code for answer in answered} == {200}


def test_no_question_is_taken_while_the_collector_stops(web, queries, refused):
    web.store.stopping = True
    for method, path, options in queries:
        refused(web(method, path, **options), 503, "STOPPING")


class Asker:
    """Somebody who asks by the messages of ASGI, and hangs up when told."""

    def __init__(self, path, document):
        body = json.dumps(document).encode()
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        self.scope = {"type": "http", "method": "POST", "path": path, "query_string": b""}
        self.scope |= {"headers": headers, "root_path": ""}
        self.messages = [{"type": "http.request", "body": body, "more_body": False}]
        self.gone, self.sent = asyncio.Event(), []

    async def receive(self):
        if self.messages:
            return self.messages.pop()
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.sent.append(message)

    def ask(self, app):
        return asyncio.create_task(app(self.scope, self.receive, self.send))

    @property
    def answer(self):
        start, body = self.sent
        return start["status"], json.loads(body["body"])["code"]


@pytest.fixture
def slow(web, direct_plan, body_of, monkeypatch):
    """A collection of 50 reports that are read one by one; reading a key takes 10 ms."""
    address = web.create(direct_plan)
    web.send(direct_plan, body_of(direct_plan, 50))
    web.store.seal()
    read, seen = type(mechanism_of(direct_plan)).read, []

    def slowly(self, batch, ids):
        seen.extend(ids.tolist())
        time.sleep(0.01)
        return read(self, batch, ids)

    monkeypatch.setattr(engine, "READINGS", 50)
    monkeypatch.setattr(type(mechanism_of(direct_plan)), "read", slowly)
    return f"{address}/estimates", seen


KEYS = list(range(64)) * 100  # more than a minute


def test_nothing_more_is_computed_for_a_client_that_left(web, slow):
    path, seen = slow

    async def ask():
        asker = Asker(path, {"keys": KEYS})
        asked = asker.ask(web.collector.middleware)
        while not seen:
            await asyncio.sleep(0.001)
        asker.gone.set()
        async with asyncio.timeout(30):
            await asked
        return asker.answer

    assert asyncio.run(ask()) == (499, "ABANDONED")
    assert 0 < len(seen) < len(KEYS)
    assert web("POST", path, **ESTIMATES).status_code == 200


def test_nothing_is_begun_for_a_client_that_left_while_waiting(web, slow, gate):
    path, seen = slow

    async def ask():
        asked = asyncio.create_task(web.at_once(*[("POST", path, ESTIMATES)] * gate.slots))
        await gate.fill()
        asker = Asker(path, {"keys": [63]})
        late = asker.ask(web.collector.middleware)
        while not web.collector.service.readers.waiting:
            await asyncio.sleep(0.001)
        asker.gone.set()
        async with asyncio.timeout(5):
            await late  # at once, so that another may wait
        assert not web.collector.service.readers.waiting
        gate.open()
        await asked
        return asker.answer

    assert asyncio.run(ask()) == (499, "ABANDONED")
    assert set(seen) == {1}
    assert gate.passed == gate.slots


def test_a_request_that_waits_when_time_is_over_is_told_so(web, slow, caplog):
    """As uvicorn does at last with what is not done when a signal came."""
    path, seen = slow
    submitting = Asker(path.replace("estimates", "reports"), {})
    submitting.scope["query_string"] = b"request=" + b"0" * 32
    submitting.messages = []  # its body never comes

    async def ask():
        asker = Asker(path, {"keys": KEYS})
        asked = [each.ask(web.collector.middleware) for each in (asker, submitting)]
        while not seen:
            await asyncio.sleep(0.001)
        for each in asked:
            each.cancel()
        async with asyncio.timeout(30):
            await asyncio.gather(*asked)  # they end as others do
        return asker.answer

    assert asyncio.run(ask()) == (503, "STOPPING")
    assert submitting.answer == (503, "STOPPING")
    web.collector.service.readers.close()  # waits for what still computes
    assert len(seen) < len(KEYS)
    assert web.collector.middleware.report_bytes.used == 0


def test_long_questions_together_have_a_bound(web, sealed, refused, monkeypatch):
    capacity = web.collector.middleware.control_bytes
    monkeypatch.setattr(capacity, "limit", 100)
    long = {"json": {"keys": [1] * 100}}
    refused(web("POST", f"{sealed}/estimates", **long), 429, "BUSY")
    assert web("POST", f"{sealed}/estimates", **ESTIMATES).status_code == 200
    assert capacity.used == 0


def test_half_a_query_is_not_answered(web, sealed):
    async def ask():
        asker = Asker(f"{sealed}/estimates", {"keys": [1]})
        asker.messages[0]["more_body"] = True
        asker.gone.set()
        await asker.ask(web.collector.middleware)
        return asker.answer

    assert asyncio.run(ask()) == (499, "ABANDONED")
    assert web.collector.middleware.control_bytes.used == 0


def test_nothing_is_left_of_a_sketch_that_nobody_waits_for(web, sealed, monkeypatch):
    gate = Gate(answers.write_sketch, 1)
    monkeypatch.setattr(answers, "write_sketch", gate)
    free = web.collector.service.readers.free

    async def ask():
        asker = Asker(f"{sealed}/sketch", {})
        asker.scope["method"] = "GET"
        asked = asker.ask(web.collector.middleware)
        await gate.fill()
        asker.gone.set()
        await asked
        gate.open()
        while free.qsize() < len(web.collector.service.readers.slots):
            await asyncio.sleep(0.001)
        return asker.answer

    assert asyncio.run(asyncio.wait_for(ask(), 60)) == (499, "ABANDONED")
    assert list((web.store.folder / "spool").iterdir()) == []
    assert web("GET", f"{sealed}/sketch").status_code == 200
