"""What a store takes, refuses, counts and forgets."""

import stat
import threading
import time
from concurrent.futures import Future

import pytest

from faintly.engine import aggregate
from faintly.engine.files import load_sketch
from faintly.errors import FolderInUse, InvalidInput
from faintly.wire.problems import Problem
from faintly_collector.storage import database
from faintly_collector.storage.collection import status_of
from faintly_collector.storage.credentials import hash_of
from faintly_collector.storage.store import StoreLimits
from tests.collecting import refused, sketch_of, submit, wait_for


@pytest.fixture
def ones(plan, batches_of, body_of):
    return [body_of(plan, batch) for batch in batches_of(plan, 6, 1)]


def test_a_retry_is_answered_and_not_counted(store, plan, bodies, fresh):
    store.registry.create(plan)
    request = fresh()
    assert submit(store, plan.digest, 0, request, bodies[0]) == "counted"
    assert submit(store, plan.digest, 0, request, bodies[0]) == "replayed"
    assert refused(submit, store, plan.digest, 0, request, bodies[1]) == "REQUEST_REUSED"
    assert status_of(store.registry.collection(plan.digest)).pending == 10
    assert store.seal() == 10
    assert submit(store, plan.digest, 0, request, bodies[0]) == "replayed"
    assert status_of(store.registry.collection(plan.digest)).reports == 10


def test_retries_that_share_a_commit_count_once(store, plan, bodies, fresh):
    store.registry.create(plan)
    request, waiters = fresh(), [Future() for _ in range(3)]
    with store.database.transaction():  # all three wait for the same commit
        for waiter, body in zip(waiters, [bodies[0], bodies[0], bodies[1]], strict=True):
            store.take(plan.digest, 0, request, body, waiter=waiter)
            while waiter is waiters[0] and store.inbox.waiting:
                time.sleep(0.001)  # the first is on its way; the others share the next one
    outcomes = [waiter.result(10) for waiter in waiters]
    assert outcomes[:2] == ["counted", "replayed"]
    assert outcomes[2].kind.code == "REQUEST_REUSED"
    assert store.seal() == 10


@pytest.mark.parametrize("retention", ["keep", "drop"])
def test_the_sketch_is_that_of_the_reports(open_store, plan, batches_of, body_of, fresh, retention):
    store = open_store()
    batches = batches_of(plan, 95, 10)
    store.registry.create(plan, retention=retention, epochs=(0, 3))
    for number, batch in enumerate(batches):
        submit(store, plan.digest, 3 * (number % 2), fresh(), body_of(plan, batch))
        if number % 3 == 2:
            store.seal()
    store.seal()
    halves = {0: batches[::2], 3: batches[1::2]}
    for epoch, mine in halves.items():
        assert sketch_of(store, plan.digest, epoch) == aggregate(plan, mine)
        found = store.sketches.file(plan.digest, epoch)
        assert load_sketch(found.path) == aggregate(plan, mine)
        assert found.reports == sum(map(len, mine))
    assert store.registry.sealed_epochs(plan.digest)[-1].number == 3
    store.close()
    again = open_store()
    for epoch, mine in halves.items():
        assert sketch_of(again, plan.digest, epoch) == aggregate(plan, mine)
    assert status_of(again.registry.collection(plan.digest)).reports == 95
    assert bool(again.manifest.segments(plan.digest)) == (retention == "keep")


def test_direct_reports_are_kept_and_answered(open_store, direct_plan, batches_of, body_of, fresh):
    store, batches = open_store(), batches_of(direct_plan, 30, 10)
    assert refused(store.registry.create, direct_plan, retention="drop") == "BAD_REQUEST"
    store.registry.create(direct_plan)
    for batch in batches:
        submit(store, direct_plan.digest, 0, fresh(), body_of(direct_plan, batch))
        store.seal()
    assert sketch_of(store, direct_plan.digest, 0) == aggregate(direct_plan, batches)
    store.close()
    assert sketch_of(open_store(), direct_plan.digest, 0) == aggregate(direct_plan, batches)


def test_a_version_changes_when_answers_may(store, plan, bodies, fresh):
    store.registry.create(plan, epochs=(0, 1))
    assert refused(store.sketches.file, plan.digest, 0) == "NO_REPORTS"
    assert refused(store.registry.sealed_epochs, plan.digest) == "NO_REPORTS"
    epochs, seen = store.registry.collection(plan.digest).epochs, set()
    for epoch in (0, 1, 1):
        submit(store, plan.digest, epoch, fresh(), bodies[0])
        store.seal()
        version = store.sketches.version(epochs[epoch])
        assert store.sketches.file(plan.digest, epoch).version == version
        seen.add(version)
    assert len(seen) == 3


def test_bad_bodies_are_refused_with_the_reason(store, plan, open_plan, bodies, body_of, fresh):
    store.registry.create(plan)
    body = bodies[0]
    damaged = body[:30] + bytes([body[30] ^ 1]) + body[31:]
    for bad, code in (
        (body[:-1], "TRUNCATED"),
        (body + b"x", "TRAILING_BYTES"),
        (damaged, "BAD_CHECKSUM"),
        (b"", "TRUNCATED"),
    ):
        with pytest.raises(Problem, match=code) as caught:
            submit(store, plan.digest, 0, fresh(), bad)
        assert caught.value.kind.code == "BAD_REPORTS"
    store.registry.create(open_plan)
    with pytest.raises(Problem, match="OTHER_PLAN"):
        submit(store, open_plan.digest, 0, fresh(), body)
    assert refused(submit, store, bytes(16), 0, fresh(), body) == "UNKNOWN_COLLECTION"
    assert refused(submit, store, plan.digest, 0, b"short", body) == "NO_REQUEST_ID"
    assert refused(submit, store, plan.digest, 7, fresh(), body) == "UNKNOWN_EPOCH"
    assert store.seal() == 0


def test_an_empty_batch_is_refused(store, plan, batches_of, body_of, fresh):
    store.registry.create(plan)
    empty = batches_of(plan, 1, 1)[0].take(slice(0))
    assert refused(submit, store, plan.digest, 0, fresh(), body_of(plan, empty)) == "BAD_REPORTS"


def test_creating_again_gives_the_same_and_other_settings_conflict(store, plan):
    made = store.registry.create(plan, name="songs", epochs=(0, 1))
    assert store.registry.create(plan, name="songs", epochs=(0, 1)) is made
    assert refused(store.registry.create, plan, name="other") == "CONFLICT"
    assert refused(store.registry.create, plan, name="songs", retention="drop") == "CONFLICT"
    with pytest.raises(InvalidInput, match="an epoch is an integer"):
        store.registry.create(plan, name="songs", epochs=(-1,))
    assert list(store.registry.collections.values()) == [made]


def test_many_request_ids_are_forgotten_in_several_transactions(
    store, plan, bodies, fresh, monkeypatch
):
    monkeypatch.setattr(database, "PURGE_ROWS", 3)
    store.registry.create(plan)
    for body in bodies:
        submit(store, plan.digest, 0, fresh(), body)
    store.close_epoch(store.registry.epoch(plan.digest, 0))
    assert store.database.rows("SELECT id FROM requests") == []


def test_a_start_forgets_the_request_ids_that_a_crash_left(
    open_store, plan, bodies, fresh, monkeypatch
):
    store, kept = open_store(), fresh()
    store.registry.create(plan, epochs=(0, 1))
    submit(store, plan.digest, 0, fresh(), bodies[0])
    submit(store, plan.digest, 1, kept, bodies[1])
    with monkeypatch.context() as patched:
        patched.setattr(database.Database, "purge", lambda *_: None)
        store.close_epoch(store.registry.epoch(plan.digest, 0))
    store.close()
    assert open_store().database.rows("SELECT id FROM requests") == [(kept,)]


def test_a_closed_epoch_forgets_its_request_ids(open_store, plan, bodies, fresh):
    store = open_store()
    store.registry.create(plan, epochs=(0, 1))
    first, second = fresh(), fresh()
    submit(store, plan.digest, 0, first, bodies[0])
    submit(store, plan.digest, 1, second, bodies[1])
    store.close_epoch(store.registry.epoch(plan.digest, 0))
    assert refused(submit, store, plan.digest, 0, first, bodies[0]) == "CLOSED"
    assert submit(store, plan.digest, 1, second, bodies[1]) == "replayed"
    assert store.database.rows("SELECT id FROM requests") == [(second,)]
    assert refused(store.registry.open_epoch, plan.digest, 0) == "CONFLICT"
    assert [epoch.state for epoch in status_of(store.registry.collection(plan.digest)).epochs] == [
        "closed",
        "open",
    ]
    assert status_of(store.registry.collection(plan.digest)).reports == 10
    store.registry.open_epoch(plan.digest, 2)
    assert submit(store, plan.digest, 2, fresh(), bodies[2]) == "counted"
    store.close_collection(plan.digest)
    assert refused(submit, store, plan.digest, 2, fresh(), bodies[3]) == "CLOSED"
    assert refused(store.registry.open_epoch, plan.digest, 5) == "CONFLICT"
    store.close()
    again = open_store()
    assert status_of(again.registry.collection(plan.digest)).state == "closed"
    assert refused(submit, again, plan.digest, 2, fresh(), bodies[3]) == "CLOSED"


def test_a_retry_is_answered_while_its_epoch_closes(store, plan, bodies, fresh, at_step):
    store.registry.create(plan)
    request, seen = fresh(), []
    submit(store, plan.digest, 0, request, bodies[0])

    def try_again():
        seen.append(submit(store, plan.digest, 0, request, bodies[0]))
        seen.append(refused(submit, store, plan.digest, 0, fresh(), bodies[1]))

    at_step(store, "written", try_again)
    store.close_epoch(store.registry.epoch(plan.digest, 0))
    assert seen == ["replayed", "CLOSED"]
    assert status_of(store.registry.collection(plan.digest)).reports == 10


def test_epochs_open_by_the_clock(store, plan, bodies, fresh, monkeypatch):
    now = [1000.0 * 60]
    monkeypatch.setattr(store.registry.clock, "times", lambda: (now[0], now[0]))
    store.registry.create(plan, period_s=60, epochs=(5,))
    for epoch, answer in ((5, "counted"), (999, "counted"), (1000, "counted"), (1001, "counted")):
        assert submit(store, plan.digest, epoch, fresh(), bodies[0]) == answer
    assert refused(submit, store, plan.digest, 1002, fresh(), bodies[0]) == "UNKNOWN_EPOCH"
    assert refused(submit, store, plan.digest, 998, fresh(), bodies[0]) == "UNKNOWN_EPOCH"
    now[0] += 180  # an epoch that has ended is open until its grace is over
    assert submit(store, plan.digest, 1000, fresh(), bodies[0]) == "counted"
    assert submit(store, plan.digest, 5, fresh(), bodies[0]) == "counted"
    store.seal()
    assert status_of(store.registry.collection(plan.digest)).reports == 60


def test_what_is_refused_opens_no_epoch(
    store, plan, open_plan, batches_of, body_of, bodies, fresh, monkeypatch
):
    monkeypatch.setattr(store.registry.clock, "times", lambda: (60_000.0, 60_000.0))
    store.registry.create(plan, period_s=60, epochs=())
    store.registry.create(open_plan, period_s=60, epochs=(), tokens=True)
    one, two = (body_of(open_plan, batch) for batch in batches_of(open_plan, 3, 2)[::-1])
    other = open_plan.digest
    assert refused(submit, store, plan.digest, 1000, fresh(), b"7 bytes") == "BAD_REPORTS"
    assert refused(submit, store, plan.digest, 1000, b"short", bodies[0]) == "NO_REQUEST_ID"
    assert refused(submit, store, other, 1000, fresh(), one) == "TOKEN_MISSING"
    assert refused(submit, store, other, 1000, fresh(), two, bytes(16)) == "BAD_REPORTS"
    assert refused(submit, store, other, 1000, fresh(), one, bytes(16)) == "TOKEN_UNKNOWN"
    assert store.database.rows("SELECT * FROM epochs") == []


def test_issuing_tokens_opens_the_epochs_of_the_clock(store, plan, ones, fresh, monkeypatch):
    now = [1000.0 * 60]
    monkeypatch.setattr(store.registry.clock, "times", lambda: (now[0], now[0]))
    store.registry.create(plan, period_s=60, epochs=(), tokens=True)
    for epoch in (998, 1002):
        assert refused(store.issue_tokens, plan.digest, epoch, 1) == "UNKNOWN_EPOCH"
    for epoch, one in zip((999, 1000, 1001), ones, strict=False):
        (token,) = map(bytes.fromhex, store.issue_tokens(plan.digest, epoch, 1))
        assert submit(store, plan.digest, epoch, fresh(), one, token) == "counted"
    now[0] += 180
    (token,) = map(bytes.fromhex, store.issue_tokens(plan.digest, 1003, 1))
    assert refused(submit, store, plan.digest, 1000, fresh(), ones[3], token) == "TOKEN_UNKNOWN"
    store.close_epoch(store.registry.epoch(plan.digest, 1003))
    assert refused(store.issue_tokens, plan.digest, 1003, 1) == "CLOSED"


def test_a_token_counts_once(open_store, plan, ones, bodies, fresh):
    store = open_store()
    store.registry.create(plan, tokens=True, epochs=(0, 1))
    first, second = map(bytes.fromhex, store.issue_tokens(plan.digest, 0, 2))
    request = fresh()
    assert refused(submit, store, plan.digest, 0, request, ones[0]) == "TOKEN_MISSING"
    assert refused(submit, store, plan.digest, 0, request, bodies[0], first) == "BAD_REPORTS"
    assert refused(submit, store, plan.digest, 0, request, ones[0], bytes(16)) == "TOKEN_UNKNOWN"
    assert refused(submit, store, plan.digest, 1, request, ones[0], first) == "TOKEN_UNKNOWN"
    assert submit(store, plan.digest, 0, request, ones[0], first) == "counted"
    assert submit(store, plan.digest, 0, request, ones[0], first) == "replayed"
    assert refused(submit, store, plan.digest, 0, fresh(), ones[1], first) == "TOKEN_USED"
    store.close()
    again = open_store()
    assert submit(again, plan.digest, 0, request, ones[0], first) == "replayed"
    assert refused(submit, again, plan.digest, 0, fresh(), ones[1], first) == "TOKEN_USED"
    assert submit(again, plan.digest, 0, fresh(), ones[2], second) == "counted"
    assert status_of(again.registry.collection(plan.digest)).pending == 1
    stored = again.database.rows("SELECT id, used FROM tokens")
    assert [used for _, used in stored] == [1, 1]
    assert not {first, second} & {token for token, _ in stored}


def test_tokens_that_share_a_commit_count_once(store, plan, ones, fresh):
    store.registry.create(plan, tokens=True)
    (token,) = map(bytes.fromhex, store.issue_tokens(plan.digest, 0, 1))
    waiters = [Future() for _ in range(3)]
    with store.database.transaction():
        for body, waiter in zip(ones[:3], waiters, strict=True):
            store.take(plan.digest, 0, fresh(), body, token=token, waiter=waiter)
    seen = [waiter.result(10) for waiter in waiters]
    assert seen.count("counted") == 1
    assert {outcome.kind.code for outcome in seen if outcome != "counted"} == {"TOKEN_USED"}


def test_tokens_need_a_collection_that_has_them(store, plan, open_plan):
    store.registry.create(plan)
    assert refused(store.issue_tokens, plan.digest, 0, 1) == "CONFLICT"
    store.registry.create(open_plan, tokens=True)
    assert refused(store.issue_tokens, open_plan.digest, 4, 1) == "UNKNOWN_EPOCH"
    assert len(set(store.issue_tokens(open_plan.digest, 0, 700))) == 700


def test_a_full_inbox_asks_to_wait(open_store, plan, bodies, fresh):
    width = 2  # bytes of a report of this plan
    store = open_store(limits=StoreLimits(seal_s=1e9, inbox_bytes=10 * width))
    store.maintenance.stop()  # which would seal at once
    assert store.registry.create(plan).record_bytes == width
    submit(store, plan.digest, 0, fresh(), bodies[0])
    assert refused(submit, store, plan.digest, 0, fresh(), bodies[1]) == "BUSY"
    store.seal()
    assert submit(store, plan.digest, 0, fresh(), bodies[1]) == "counted"


def test_a_long_queue_asks_to_wait(open_store, plan, bodies, fresh):
    store = open_store(limits=StoreLimits(seal_s=1e9, waiting=2))
    store.registry.create(plan)
    with store.database.transaction():
        store.take(plan.digest, 0, fresh(), bodies[0], waiter=Future())
        while store.inbox.waiting:
            time.sleep(0.001)
        for _ in range(2):
            store.take(plan.digest, 0, fresh(), bodies[0], waiter=Future())
        assert refused(store.take, plan.digest, 0, fresh(), bodies[0], waiter=Future()) == "BUSY"


def test_closing_stores_what_waits_and_seals_it(open_store, plan, bodies, fresh):
    store, waiters = open_store(), [Future() for _ in bodies]
    store.registry.create(plan)
    for body, waiter in zip(bodies, waiters, strict=True):
        store.take(plan.digest, 0, fresh(), body, waiter=waiter)
    store.close()
    assert [waiter.result(0) for waiter in waiters] == ["counted"] * 4
    assert refused(submit, store, plan.digest, 0, fresh(), bodies[0]) == "STOPPING"
    again = open_store()
    assert (
        status_of(again.registry.collection(plan.digest)).reports,
        status_of(again.registry.collection(plan.digest)).pending,
    ) == (40, 0)


def test_it_seals_by_itself_when_there_is_enough_or_it_is_old(open_store, plan, bodies, fresh):
    for limits in (StoreLimits(seal_s=1e9, seal_reports=20), StoreLimits(seal_s=0.0)):
        store = open_store(limits=limits)
        store.registry.create(plan)
        before = status_of(store.registry.collection(plan.digest)).reports
        for body in bodies[:2]:
            submit(store, plan.digest, 0, fresh(), body)
        collection = store.registry.collection(plan.digest)
        wait_for(lambda at=collection, least=before + 20: status_of(at).reports >= least)
        store.close()


def test_deleting_removes_everything(store, plan, open_plan, bodies, fresh):
    request = fresh()
    store.registry.create(plan)
    store.registry.create(open_plan)
    submit(store, plan.digest, 0, request, bodies[0])
    store.seal()
    submit(store, plan.digest, 0, fresh(), bodies[1])
    assert store.manifest.segments(plan.digest)
    store.delete(plan.digest)
    assert refused(store.registry.collection, plan.digest) == "UNKNOWN_COLLECTION"
    assert not [path for path in (store.folder / "segments").rglob("*") if path.is_file()]
    for table in ("inbox", "requests", "segments", "sketches"):
        assert store.database.rows(f"SELECT * FROM {table}") == []
    assert list(store.registry.collections) == [open_plan.digest]
    store.registry.create(plan, retention="drop")  # other settings are fine now
    assert submit(store, plan.digest, 0, request, bodies[0]) == "counted"


def test_two_stores_cannot_have_one_folder(open_store, plan):
    store = open_store()
    store.registry.create(plan)
    with pytest.raises(FolderInUse, match="another collector"):
        open_store()
    assert status_of(store.registry.collection(plan.digest)).reports == 0
    store.close()
    open_store()


def test_everything_is_private(store, plan, bodies, fresh):
    store.registry.create(plan)
    submit(store, plan.digest, 0, fresh(), bodies[0])
    store.seal()
    store.sketches.file(plan.digest, 0)
    paths = [store.folder, *store.folder.rglob("*")]
    assert {path.suffix for path in paths} >= {".parquet", ".fns", ".sqlite", ".lock"}
    for path in paths:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_credentials_are_hashed_and_have_a_role(open_store):
    store = open_store()
    secret = store.credentials.add("read", "dashboard")
    assert store.credentials.role_of(hash_of(secret)) == "read"
    assert store.credentials.role_of(hash_of(secret + "x")) is None
    assert store.credentials.role_of(hash_of("\ud800")) is None
    assert refused(store.credentials.add, "read", "dashboard") == "CONFLICT"
    with pytest.raises(InvalidInput, match="printable"):
        store.credentials.add("read", "two\nlines")
    admin = store.credentials.add("admin", "me")
    assert store.credentials.labels() == [("dashboard", "read"), ("me", "admin")]
    store.close()
    raw = (store.folder / "collector.sqlite").read_bytes()
    assert b"dashboard" in raw
    assert secret.encode() not in raw
    again = open_store()
    assert (
        again.credentials.role_of(hash_of(secret)),
        again.credentials.role_of(hash_of(admin)),
    ) == (
        "read",
        "admin",
    )
    again.credentials.remove("dashboard")
    assert again.credentials.role_of(hash_of(secret)) is None
    assert refused(again.credentials.remove, "dashboard") == "NOT_FOUND"


def test_a_credential_added_from_outside_is_seen(store):
    from faintly_collector.storage.credentials import Credentials
    from faintly_collector.storage.database import Database

    with Database(store.folder) as database:
        secret = Credentials(database).add("submit", "phones")
    wait_for(lambda: store.credentials.role_of(hash_of(secret)) is not None)
    assert store.credentials.role_of(hash_of(secret)) == "submit"


def test_many_threads_submit_at_once(store, plan, batches_of, body_of, fresh):
    batches = batches_of(plan, 400, 2)
    store.registry.create(plan)

    def send(mine):
        for batch in mine:
            request = fresh()
            for _ in range(2):
                submit(store, plan.digest, 0, request, body_of(plan, batch))

    threads = [threading.Thread(target=send, args=(batches[part::8],)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.seal()
    assert sketch_of(store, plan.digest, 0) == aggregate(plan, batches)
    counters = store.counters
    assert (counters.submissions, counters.reports, counters.replays) == (200, 400, 200)
    assert counters.commits < 400
