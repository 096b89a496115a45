"""Epochs that follow the clock are closed when their grace is over, and by no clock that jumps."""

import time

import pytest

from faintly.engine import aggregate
from faintly.mechanisms import mechanism_of
from faintly.wire.problems import CANNOT_STORE, Problem
from faintly_collector.storage import maintenance, seal, segments
from faintly_collector.storage.collection import Clock, status_of
from faintly_collector.storage.registry import Registry
from faintly_collector.storage.store import StoreLimits
from tests.collecting import sketch_of, submit, wait_for

PERIOD = 1800.0


@pytest.fixture
def clock(open_store, monkeypatch):
    """Return a list of the epochs that the clock and its steady neighbour say it is."""
    now = [1000, 1000]
    monkeypatch.setattr(Clock, "times", lambda _: tuple((each + 0.5) * PERIOD for each in now))
    return now


@pytest.fixture
def no_grace(monkeypatch):
    """Let collections state no grace, so that nobody waits for it."""
    create = Registry.create

    def create_one(*arguments, **named):
        made = create(*arguments, **named)
        made.grace_s = 0.0
        return made

    monkeypatch.setattr(Registry, "create", create_one)


def at(clock, epoch):
    """Let both clocks say that it is this epoch."""
    clock[:] = [epoch, epoch]


def code_of(call, *arguments):
    try:
        return call(*arguments)
    except Problem as problem:
        return problem.kind.code


def states(store, plan):
    return {
        each.epoch: each.state for each in status_of(store.registry.collection(plan.digest)).epochs
    }


@pytest.mark.parametrize(
    ("clocks", "opens"),
    [
        ((1000, 1000), {998: False, 999: True, 1000: True, 1001: True, 1002: False}),
        ((1024, 1000), {998: False, 999: True, 1002: True, 1024: True, 1025: True, 1026: False}),
        ((976, 1000), {974: False, 975: True, 976: True, 1000: True, 1001: True, 1002: False}),
    ],
    ids=["steady", "ahead", "behind"],
)
def test_epochs_of_both_times_open_after_a_jump(store, plan, bodies, fresh, clock, clocks, opens):
    """The true epoch takes reports, whichever of the clocks is right."""
    store.maintenance.stop()
    store.registry.create(plan, period_s=PERIOD, epochs=())
    clock[:] = clocks
    for epoch, opened in opens.items():
        taken = code_of(submit, store, plan.digest, epoch, fresh(), bodies[0])
        assert taken == ("counted" if opened else "UNKNOWN_EPOCH"), epoch


def test_a_clock_that_jumps_while_the_collector_runs_ends_no_epoch(
    store, plan, bodies, fresh, clock
):
    store.maintenance.stop()
    store.registry.create(plan, period_s=PERIOD, epochs=())
    submit(store, plan.digest, 1000, fresh(), bodies[0])
    for wrong in (1024, 976):
        clock[0] = wrong
        assert store.maintenance.find_ended(1e9) == []
        assert store.maintenance.find_ended(2e9) == []
    assert submit(store, plan.digest, 1000, fresh(), bodies[1]) == "counted"


@pytest.mark.parametrize("periods", [1, 5])
def test_an_epoch_stays_open_for_its_grace(store, plan, bodies, fresh, clock, periods):
    store.maintenance.stop()  # this test looks at the clocks in its place
    grace = periods * PERIOD
    store.registry.create(plan, period_s=PERIOD, grace_s=grace, epochs=(5,))
    submit(store, plan.digest, 1000, fresh(), bodies[0])
    ended = store.maintenance.find_ended
    assert ended(0.0) == ended(1e9) == []  # it is current
    at(clock, 2000)
    assert ended(1e9) == ended(1e9 + grace - 1) == []
    assert submit(store, plan.digest, 1000, fresh(), bodies[1]) == "counted"
    at(clock, 1000)  # the clock was wrong; had it been for longer, it would have to be again
    assert ended(1e9 + grace - 0.5) == []
    at(clock, 2000)
    assert ended(1e9 + grace) == ended(1e9 + 2 * grace - 1) == []
    assert [epoch.number for epoch in ended(1e9 + 2 * grace)] == [1000]


def test_a_late_epoch_opens_within_its_grace_only(store, plan, bodies, fresh, clock):
    store.maintenance.stop()
    store.registry.create(plan, period_s=PERIOD, grace_s=3 * PERIOD, epochs=())
    for epoch, expected in ((996, "UNKNOWN_EPOCH"), (997, "counted"), (999, "counted")):
        assert code_of(submit, store, plan.digest, epoch, fresh(), bodies[0]) == expected


def test_restarts_do_not_make_the_grace_longer(open_store, plan, bodies, fresh, clock):
    """Else a collector that is restarted daily would never close an epoch of a day."""
    store = open_store()
    store.maintenance.stop()
    store.registry.create(plan, period_s=PERIOD, epochs=())
    submit(store, plan.digest, 1000, fresh(), bodies[0])
    at(clock, 2000)
    start = float(int(time.monotonic()))  # whole, so that sums of times are exact
    assert store.maintenance.find_ended(start) == []
    assert store.maintenance.find_ended(start + PERIOD - 100) == []
    store.close()
    again = open_store()
    again.maintenance.stop()
    (epoch,) = again.registry.by_id.values()
    epoch.past_since = None  # the thread may have looked already
    assert again.maintenance.find_ended(start) == []
    assert again.maintenance.find_ended(start + 99) == []
    assert [epoch.number for epoch in again.maintenance.find_ended(start + 100)] == [1000]
    at(clock, 1000)  # a clock that was wrong is forgotten, on the disk as well
    assert again.maintenance.find_ended(start + 101) == []
    assert again.database.rows("SELECT late_s FROM epochs") == [(0.0,)]


@pytest.mark.parametrize(
    ("period_s", "grace_s"), [(None, 60.0), (60.0, 59.0), (60.0, float("nan")), (60.0, 2.0**41)]
)
def test_a_grace_is_at_least_one_period(store, plan, period_s, grace_s):
    with pytest.raises(Problem, match="grace_s needs period_s, and must be at least as long"):
        store.registry.create(plan, period_s=period_s, grace_s=grace_s)


def test_a_jump_is_told_and_a_small_correction_is_not(monkeypatch):
    now = [1e9]
    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setattr(time, "monotonic", lambda: 5.0)
    clock = Clock()
    for jump, told in ((0.0, 0.0), (9.0, 0.0), (-9.0, 0.0), (86_400.0, 86_400.0), (-60.0, -60.0)):
        now[0] = 1e9 + jump
        assert clock.jump_s == told


def test_a_past_epoch_is_sealed_and_forgets_its_request_ids(
    open_store, plan, batches, bodies, fresh, clock, no_grace
):
    store, old, new, kept = open_store(), fresh(), fresh(), fresh()
    store.registry.create(plan, period_s=PERIOD, epochs=(5,))
    submit(store, plan.digest, 1000, old, bodies[0])
    submit(store, plan.digest, 5, kept, bodies[1])  # opened by hand: the clock has no say
    at(clock, 1003)
    submit(store, plan.digest, 1003, new, bodies[2])
    wait_for(lambda: len(store.database.rows("SELECT id FROM requests")) == 2)
    assert states(store, plan) == {5: "open", 1000: "closed", 1003: "open"}
    assert sketch_of(store, plan.digest, 1000) == aggregate(plan, batches[:1])
    assert submit(store, plan.digest, 5, kept, bodies[1]) == "replayed"
    assert submit(store, plan.digest, 1003, new, bodies[2]) == "replayed"
    at(clock, 1000)  # it is too late for the clock to say otherwise: the ids are gone
    assert code_of(submit, store, plan.digest, 1000, old, bodies[0]) == "CLOSED"
    store.close()
    again = open_store()
    assert code_of(submit, again, plan.digest, 1000, old, bodies[0]) == "CLOSED"


def test_a_closing_that_failed_is_tried_again(
    clock, no_grace, store, plan, bodies, fresh, monkeypatch
):
    monkeypatch.setattr(maintenance, "RETRY_S", 0.01)
    failures, write = [], segments.write

    def failing(*arguments):
        if len(failures) < 2:
            failures.append(1)
            raise Problem(CANNOT_STORE, "the disk is full")
        return write(*arguments)

    monkeypatch.setattr(segments, "write", failing)
    store.registry.create(plan, period_s=PERIOD, epochs=())
    submit(store, plan.digest, 1000, fresh(), bodies[0])
    at(clock, 1003)
    wait_for(lambda: not store.database.rows("SELECT id FROM requests"))
    assert len(failures) == 2
    assert status_of(store.registry.collection(plan.digest)).reports == 10


def test_an_epoch_is_queued_for_merging_once_and_when_it_is_closed(
    store, plan, bodies, fresh, clock, no_grace, monkeypatch
):
    """Queued with each try, a full disk would have filled memory as well."""
    store.maintenance.stop()
    queued, write = store.maintenance.uncompacted, segments.write

    def failing(*_):
        raise Problem(CANNOT_STORE, "the disk is full")

    monkeypatch.setattr(store.maintenance, "compact_next", lambda: None)
    monkeypatch.setattr(segments, "write", failing)
    store.registry.create(plan, period_s=PERIOD, epochs=())
    submit(store, plan.digest, 1000, fresh(), bodies[0])
    at(clock, 1003)
    for _ in range(3):
        assert not store.maintenance.run_once()
        assert not queued
    monkeypatch.setattr(segments, "write", write)
    for _ in range(3):
        assert store.maintenance.run_once()
        assert [epoch.number for epoch in queued] == [1000]


def test_an_epoch_that_was_opened_meanwhile_stays_open(store, plan, bodies, fresh, clock):
    """Somebody may open it, or set the clock right, between the check and the closing."""
    store.maintenance.stop()
    store.registry.create(plan, period_s=PERIOD, epochs=(5,))
    submit(store, plan.digest, 1000, fresh(), bodies[0])
    at(clock, 2000)
    store.maintenance.find_ended(0.0)
    (epoch,) = store.maintenance.find_ended(1e6)
    store.registry.open_epoch(plan.digest, 1000)
    store.close_epoch(epoch, only_past=True)
    submit(store, plan.digest, 1000, fresh(), bodies[1])
    assert status_of(store.registry.collection(plan.digest)).pending == 20


def test_an_inbox_that_many_epochs_fill_is_sealed_at_once(
    open_store, plan, batches_of, body_of, fresh
):
    """None of them has enough, and none is old enough, but senders would have to wait."""
    size = 50
    record = mechanism_of(plan).layout.record_bytes
    store = open_store(limits=StoreLimits(seal_s=1e9, inbox_bytes=8 * size * record))
    store.maintenance.stop()
    store.registry.create(plan, epochs=[0, 1, 2])
    sent = batches_of(plan, 4 * size, size)
    for epoch, batch in zip((0, 1, 2), sent, strict=False):
        submit(store, plan.digest, epoch, fresh(), body_of(plan, batch))
    store.maintenance.run_once()
    assert store.registry.pending == 3 * size  # less than half of it
    submit(store, plan.digest, 1, fresh(), body_of(plan, sent[3]))
    store.maintenance.run_once()
    sealed = {
        each.epoch: each.reports
        for each in status_of(store.registry.collection(plan.digest)).epochs
    }
    assert sealed == {0: 0, 1: 2 * size, 2: 0}  # the one that had most
    store.maintenance.run_once()
    assert store.registry.pending == 2 * size


def test_epochs_are_compacted_one_file_at_a_time(
    store, plan, batches_of, body_of, fresh, monkeypatch
):
    monkeypatch.setattr(seal, "MAX_REPORTS", 20)
    store.maintenance.stop()
    store.registry.create(plan)
    for batch in batches_of(plan, 40, 5):
        submit(store, plan.digest, 0, fresh(), body_of(plan, batch))
        store.seal()
    store.close_epoch(store.registry.epoch(plan.digest, 0))
    counts = []
    for _ in range(4):
        store.maintenance.compact_next()
        counts.append(status_of(store.registry.collection(plan.digest)).epochs[0].segments)
    assert counts == [5, 2, 2, 2]
    assert not store.maintenance.uncompacted


def test_a_start_merges_what_the_last_process_left(
    open_store, plan, batches_of, body_of, fresh, monkeypatch
):
    store = open_store()
    store.registry.create(plan)
    for batch in batches_of(plan, 20, 5):
        submit(store, plan.digest, 0, fresh(), body_of(plan, batch))
        store.seal()
    store.maintenance.stop()  # it dies before
    store.close_epoch(store.registry.epoch(plan.digest, 0))
    assert status_of(store.registry.collection(plan.digest)).epochs[0].segments == 4
    store.close()
    again = open_store()
    wait_for(lambda: status_of(again.registry.collection(plan.digest)).epochs[0].segments == 1)
