"""Epochs that follow the clock are closed when they are over, and by no clock that jumps."""

import time

import pytest

from faintly.collector.problems import CANNOT_STORE, Problem
from faintly.collector.storage import maintenance, seal, segments
from faintly.collector.storage.store import Limits
from faintly.engine import aggregate
from faintly.mechanisms import mechanism_of

PERIOD = 1800.0


@pytest.fixture
def clock(monkeypatch):
    """Return a list of the epoch that the clock says it is."""
    now = [1000]
    monkeypatch.setattr(
        "faintly.collector.storage.registry.time.time", lambda: (now[0] + 0.5) * PERIOD
    )
    return now


def code_of(call, *arguments):
    try:
        return call(*arguments)
    except Problem as problem:
        return problem.kind.code


def states(store, plan):
    return {each.epoch: each.state for each in store.status(plan.digest).epochs}


def wait_for(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_epoch_is_open_while_it_takes_reports(store, plan, bodies, fresh, clock):
    store.registry.create(plan, period_s=PERIOD, epochs=(5,))
    store.submit(plan.digest, 1000, fresh(), bodies[0])
    for now, state in ((999, "open"), (1001, "open"), (1002, "closed"), (998, "closed")):
        clock[0] = now
        assert states(store, plan) == {5: "open", 1000: state}
        taken = code_of(store.submit, plan.digest, 1000, fresh(), bodies[1])
        assert (taken == "counted") == (state == "open")


@pytest.mark.parametrize(
    ("period_s", "patience_s"), [(1.0, 3600.0), (1800.0, 5400.0), (1e6, 21_600.0)]
)
def test_an_epoch_ends_only_when_the_clock_has_long_said_so(
    store, plan, bodies, fresh, clock, monkeypatch, period_s, patience_s
):
    monkeypatch.setattr(
        "faintly.collector.storage.registry.time.time", lambda: (clock[0] + 0.5) * period_s
    )
    store.maintenance.stop()  # this test looks at the clocks in its place
    store.registry.create(plan, period_s=period_s, epochs=(5,))
    store.submit(plan.digest, 1000, fresh(), bodies[0])
    ended = store.maintenance.ended
    clock[0] = 1002
    assert ended(0.0) == ended(1e9) == []  # over, and not yet past
    clock[0] = 2000
    assert ended(1e9) == ended(1e9 + patience_s - 1) == []
    clock[0] = 1000  # the clock was wrong; had it been for longer, it would have to be again
    assert ended(1e9 + patience_s - 0.5) == []
    assert store.submit(plan.digest, 1000, fresh(), bodies[1]) == "counted"
    clock[0] = 2000
    assert ended(1e9 + patience_s) == ended(1e9 + 2 * patience_s - 1) == []
    assert [epoch.number for epoch in ended(1e9 + 2 * patience_s)] == [1000]


def test_a_past_epoch_is_sealed_and_forgets_its_request_ids(
    open_store, plan, batches, bodies, fresh, clock, monkeypatch
):
    monkeypatch.setattr(maintenance, "LEAST_S", 0.0)
    monkeypatch.setattr(maintenance, "PERIODS", 0)
    store, old, new, kept = open_store(), fresh(), fresh(), fresh()
    store.registry.create(plan, period_s=PERIOD, epochs=(5,))
    store.submit(plan.digest, 1000, old, bodies[0])
    store.submit(plan.digest, 5, kept, bodies[1])  # opened by hand: the clock has no say
    clock[0] = 1003
    store.submit(plan.digest, 1003, new, bodies[2])
    wait_for(lambda: len(store.database.rows("SELECT id FROM requests")) == 2)
    assert states(store, plan) == {5: "open", 1000: "closed", 1003: "open"}
    assert store.sketches.sketch(plan.digest, 1000) == aggregate(plan, batches[:1])
    assert store.submit(plan.digest, 5, kept, bodies[1]) == "replayed"
    assert store.submit(plan.digest, 1003, new, bodies[2]) == "replayed"
    clock[0] = 1000  # it is too late for the clock to say otherwise: the ids are gone
    assert code_of(store.submit, plan.digest, 1000, old, bodies[0]) == "CLOSED"
    store.close()
    again = open_store()
    assert code_of(again.submit, plan.digest, 1000, old, bodies[0]) == "CLOSED"


def test_a_closing_that_failed_is_tried_again(store, plan, bodies, fresh, clock, monkeypatch):
    monkeypatch.setattr(maintenance, "LEAST_S", 0.0)
    monkeypatch.setattr(maintenance, "PERIODS", 0)
    monkeypatch.setattr(maintenance, "RETRY_S", 0.01)
    failures, write = [], segments.write

    def failing(*arguments):
        if len(failures) < 2:
            failures.append(1)
            raise Problem(CANNOT_STORE, "the disk is full")
        return write(*arguments)

    monkeypatch.setattr(segments, "write", failing)
    store.registry.create(plan, period_s=PERIOD, epochs=())
    store.submit(plan.digest, 1000, fresh(), bodies[0])
    clock[0] = 1003
    wait_for(lambda: not store.database.rows("SELECT id FROM requests"))
    assert len(failures) == 2
    assert store.status(plan.digest).reports == 10


def test_an_epoch_is_queued_for_merging_once_and_when_it_is_closed(
    store, plan, bodies, fresh, clock, monkeypatch
):
    """Queued with each try, a full disk would have filled memory as well."""
    monkeypatch.setattr(maintenance, "LEAST_S", 0.0)
    monkeypatch.setattr(maintenance, "PERIODS", 0)
    store.maintenance.stop()
    queued, write = store.maintenance._uncompacted, segments.write

    def failing(*_):
        raise Problem(CANNOT_STORE, "the disk is full")

    monkeypatch.setattr(store.maintenance, "_compact_next", lambda: None)
    monkeypatch.setattr(segments, "write", failing)
    store.registry.create(plan, period_s=PERIOD, epochs=())
    store.submit(plan.digest, 1000, fresh(), bodies[0])
    clock[0] = 1003
    for _ in range(3):
        assert not store.maintenance._work()
        assert not queued
    monkeypatch.setattr(segments, "write", write)
    for _ in range(3):
        assert store.maintenance._work()
        assert [epoch.number for epoch in queued] == [1000]


def test_an_epoch_that_was_opened_meanwhile_stays_open(store, plan, bodies, fresh, clock):
    """Somebody may open it, or set the clock right, between the check and the closing."""
    store.maintenance.stop()
    store.registry.create(plan, period_s=PERIOD, epochs=(5,))
    store.submit(plan.digest, 1000, fresh(), bodies[0])
    clock[0] = 2000
    store.maintenance.ended(0.0)
    (epoch,) = store.maintenance.ended(1e6)
    store.registry.open_epoch(plan.digest, 1000)
    store._close_past(epoch)
    store.submit(plan.digest, 1000, fresh(), bodies[1])
    assert store.status(plan.digest).pending == 20


def test_an_inbox_that_many_epochs_fill_is_sealed_at_once(
    open_store, plan, batches_of, body_of, fresh
):
    """None of them has enough, and none is old enough, but senders would have to wait."""
    size = 50
    record = mechanism_of(plan).layout.record_bytes
    store = open_store(limits=Limits(seal_s=1e9, inbox_bytes=8 * size * record))
    store.registry.create(plan, epochs=[0, 1, 2])
    sent = batches_of(plan, 4 * size, size)
    for epoch, batch in zip((0, 1, 2), sent, strict=False):
        store.submit(plan.digest, epoch, fresh(), body_of(plan, batch))
    time.sleep(2 * maintenance.TICK_S)
    assert store.registry.pending == 3 * size  # less than half of it
    store.submit(plan.digest, 1, fresh(), body_of(plan, sent[3]))
    wait_for(lambda: store.registry.pending < 4 * size)
    sealed = {each.epoch: each.reports for each in store.status(plan.digest).epochs}
    assert sealed == {0: 0, 1: 2 * size, 2: 0}  # the one that had most
    time.sleep(2 * maintenance.TICK_S)
    assert store.registry.pending == 2 * size


def test_epochs_are_compacted_one_file_at_a_time(
    store, plan, batches_of, body_of, fresh, monkeypatch
):
    monkeypatch.setattr(seal, "MOST_REPORTS", 20)
    store.maintenance.stop()
    store.registry.create(plan)
    for batch in batches_of(plan, 40, 5):
        store.submit(plan.digest, 0, fresh(), body_of(plan, batch))
        store.seal()
    epoch = store.registry.collection(plan.digest).epochs[0]
    store.registry.close_epoch(epoch)
    store._seal_closed(epoch)
    store.maintenance._uncompacted.append(epoch)
    counts = []
    for _ in range(4):
        store.maintenance._compact_next()
        counts.append(store.status(plan.digest).segments)
    assert counts == [5, 2, 2, 2]
    assert not store.maintenance._uncompacted


def test_a_start_merges_what_the_last_process_left(
    open_store, plan, batches_of, body_of, fresh, monkeypatch
):
    store = open_store()
    store.registry.create(plan)
    for batch in batches_of(plan, 20, 5):
        store.submit(plan.digest, 0, fresh(), body_of(plan, batch))
        store.seal()
    monkeypatch.setattr(store.compactor, "compact", lambda _: None)  # it dies before
    store.close_epoch(plan.digest, 0)
    assert store.status(plan.digest).segments == 4
    store.close()
    again = open_store()
    wait_for(lambda: again.status(plan.digest).segments == 1)
