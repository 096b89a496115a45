"""The whole application over a real store, asked in process; tests/system asks over sockets."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks import samples
from faintly.core import Plan
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1
from faintly_collector.http import answers, readers
from faintly_collector.http.app import Collector, build
from faintly_collector.http.settings import read_settings
from faintly_collector.storage.store import Store, StoreLimits
from tests.collecting import QUIET


class Web:
    """A collector and somebody who calls it."""

    def __init__(self, store: Store, collector: Collector) -> None:
        self.store, self.collector = store, collector
        self._transport = httpx.ASGITransport(collector.middleware, raise_app_exceptions=False)

    def __call__(self, method: str, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._ask(method, path, options))

    async def at_once(self, *asked: tuple[str, str, dict[str, Any]]) -> list[httpx.Response]:
        """Send requests at the same time, and return their answers in order."""
        return await asyncio.gather(*(self._ask(*each) for each in asked))

    async def _ask(self, method: str, path: str, options: dict[str, Any]) -> httpx.Response:
        if isinstance(options.get("content"), Iterator):
            options["content"] = _later(options["content"])
        address = "http://127.0.0.1"
        async with httpx.AsyncClient(transport=self._transport, base_url=address) as client:
            return await client.request(method, path, **options)

    def create(self, plan: Plan, **settings: Any) -> str:
        """Create a collection and return its address."""
        made = self("POST", "/v1/collections", json={"plan": plan.document()} | settings)
        assert made.status_code == 201, made.text
        return f"/v1/collections/{plan.digest.hex()}"

    def send(self, plan: Plan, body: bytes, request: str = "", **options: Any) -> httpx.Response:
        """Send reports under a fresh request id, or the given one."""
        path = f"/v1/collections/{plan.digest.hex()}/reports"
        query = {"request": request or os.urandom(16).hex()} | options.pop("params", {})
        return self("POST", path, content=body, params=query, **options)

    def cleaned(self) -> bool:
        """Forget collections and credentials, and return whether all is as it was at first."""
        try:
            for digest in list(self.store.registry.collections):
                self.store.delete(digest)
            for label, _ in self.store.credentials.labels():
                self.store.credentials.remove(label)
        except Exception:
            return False
        return not self.store.stopping

    def close(self) -> None:
        self.collector.service.readers.close()
        self.store.close()


async def _later(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, str]:
    """Check that an answer is an error in the one shape that errors have."""
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    document = answer.json()
    assert set(document) == {"code", "message", "hint"}
    assert all(document.values())
    assert answer.text.isascii()
    return document


@pytest.fixture(name="refused", scope="session")
def refused_fixture() -> Callable[..., dict[str, str]]:
    return refused


@pytest.fixture(scope="session")
def body_of() -> Callable[[Plan, int], bytes]:
    """Return a maker of bodies: body_of(plan, reports)."""

    def make(plan: Plan, reports: int) -> bytes:
        (batch,) = samples.batches(plan, reports, reports)
        return report_v1.encode_batch(batch, mechanism_of(plan).layout)

    return make


class ReaderThread:
    """A reader without a process of its own: what a test patches holds for it as well."""

    def __init__(self, pipe: int, cancellations: int) -> None:
        self._pipe = Connection(os.dup(pipe))
        stopping = Connection(os.dup(cancellations), writable=False)
        given = self._pipe, stopping
        self._thread = threading.Thread(target=answers.answer_all, args=given)
        self._thread.start()

    def kill(self) -> None:
        with suppress(OSError), socket.socket(fileno=os.dup(self._pipe.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)

    def poll(self) -> None:
        """Threads do not die before they are told to."""

    def wait(self) -> int:
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._pipe.close()
        return -signal.SIGKILL


@pytest.fixture(autouse=True)
def _threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let readers be threads, unless a test asks for processes."""
    if "processes" not in request.fixturenames:
        monkeypatch.setattr(readers, "start_reader", ReaderThread)


@pytest.fixture
def processes() -> None:
    """Let readers be the processes that they are outside of tests."""


def open_web(folder: Path, limits: StoreLimits = QUIET, **settings: Any) -> Web:
    """Open a store and build its collector."""
    store = Store.open(folder, limits)
    return Web(store, build(store, read_settings(None, data=folder, **settings)))


@pytest.fixture
def make_web(tmp_path: Path) -> Iterator[Callable[..., Web]]:
    """Return a maker of collectors with settings, in one folder, closed after the test."""
    opened: list[Web] = []

    def make(limits: StoreLimits = QUIET, **settings: Any) -> Web:
        opened.append(open_web(tmp_path / "data", limits, **settings))
        return opened[-1]

    yield make
    for web in opened:
        web.close()


@pytest.fixture
def web(make_web: Callable[..., Web]) -> Web:
    """A collector of the test's own, for one that counts, breaks or ends it."""
    return make_web()


@pytest.fixture(scope="session")
def _kept() -> Iterator[list[Web]]:
    """The collector that is shared, once there is one."""
    kept: list[Web] = []
    yield kept
    for web in kept:
        web.close()


@pytest.fixture
def shared_web(
    _kept: list[Web],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Web]:
    """A collector that others have used before, and left without collections and credentials.

    To build one takes longer than most tests.
    """
    if not _kept:
        _kept.append(open_web(tmp_path_factory.mktemp("shared") / "data"))
    yield _kept[0]
    monkeypatch.undo()
    if not _kept[0].cleaned():
        _kept.pop().close()


@pytest.fixture
def address(web: Web, plan: Plan) -> str:
    """The address of a new collection."""
    return web.create(plan)


@pytest.fixture
def sealed(web: Web, address: str, plan: Plan, body_of: Callable[[Plan, int], bytes]) -> str:
    """The address of a collection with 50 sealed reports."""
    web.send(plan, body_of(plan, 50))
    web.store.seal()
    return address
