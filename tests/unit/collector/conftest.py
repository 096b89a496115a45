"""Small plans and bodies, and stores that seal only when told."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks import samples
from faintly.core import Plan, ReportBatch
from faintly.mechanisms import mechanism_of
from faintly.wire import report_v1
from faintly_collector.storage import database
from faintly_collector.storage.store import Store, StoreLimits
from tests.collecting import QUIET

STEPS = {  # of a seal, and which call of a part of a store ends it or, once written, comes next
    "read": ("sealer", "read_oldest"),
    "written": ("manifest", "change"),
    "committed": ("manifest", "change"),
    "done": ("sketches", "refresh"),
}


@pytest.fixture
def synced() -> None:
    """Let a test wait for the disk, as the collector does."""


@pytest.fixture(autouse=True)
def _unsynced(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let no other test wait for the disk: no power fails, so what was written is there."""
    with pytest.MonkeyPatch.context() as patched:
        if "synced" not in request.fixturenames:
            patched.setattr(os, "fsync", lambda _: None)
            patched.setattr(database, "SETTINGS", (*database.SETTINGS, "synchronous = OFF"))
        yield


@pytest.fixture(scope="session")
def plan() -> Plan:
    """An indexed universe of 64 keys, decoded by table."""
    return samples.one_cell_plan(1000, 64)


@pytest.fixture(scope="session")
def direct_plan() -> Plan:
    return samples.retrieval_plan(1000, 64, 8, "direct")


@pytest.fixture(scope="session")
def open_plan() -> Plan:
    """A universe of any text."""
    return samples.open_plan(1000)


@pytest.fixture(scope="session")
def batches_of() -> Callable[..., list[ReportBatch]]:
    """Return a maker of batches: batches_of(plan, reports, size)."""
    return lambda plan, reports, size: list(samples.batches(plan, reports, size))


@pytest.fixture(scope="session")
def body_of() -> Callable[[Plan, ReportBatch], bytes]:
    return lambda plan, batch: report_v1.encode_batch(batch, mechanism_of(plan).layout)


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Return an opener of stores, in one folder unless told, closed after the test."""
    opened = []

    def open_one(folder: Path = tmp_path / "data", limits: StoreLimits = QUIET) -> Store:
        opened.append(Store.open(folder, limits))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    return open_store()


@pytest.fixture
def at_step(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that has a store act whenever a seal or merge has come so far."""

    def install(store: Store, step: str, act: Callable[[], object]) -> None:
        part, name = STEPS[step]
        owner = getattr(store, part)
        original = getattr(owner, name)

        def wrapped(*given: object) -> object:
            if step == "written":
                act()
            made = original(*given)
            if step != "written":
                act()
            return made

        monkeypatch.setattr(owner, name, wrapped)

    return install


@pytest.fixture
def fresh() -> Callable[[], bytes]:
    return lambda: os.urandom(16)


@pytest.fixture
def batches(plan, batches_of):
    """Return four batches of ten reports."""
    return batches_of(plan, 40, 10)


@pytest.fixture
def bodies(plan, batches, body_of):
    """Return the batches as clients send them."""
    return [body_of(plan, batch) for batch in batches]
