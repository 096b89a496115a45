"""A report is kept until the collector has it, and sent under one id whatever happens."""

import pytest

from faintly import Client
from faintly.client import Ledger
from faintly.client import ledger as ledger_module
from faintly.client.journal import Kept, Sending, Sent, read, write
from faintly.client.ledger import Book
from faintly.client.transport import Receipt
from faintly.errors import LedgerFailed, SendFailed

PERIOD = 3600.0


class Collector:
    """Takes the place of a connection, and counts each request once."""

    def __init__(self, *failures):
        self.failures, self.attempts, self.counted = list(failures), [], {}

    def send(self, digest, body, *, epoch, request, token):
        self.attempts.append((request, epoch, body, token))
        if self.failures:
            failure = self.failures.pop(0)
            if failure == "LOST":  # it arrived, and the answer did not
                self.counted[request] = body
            raise SendFailed(failure, "no")
        replayed = request in self.counted
        self.counted[request] = body
        return Receipt(1, replayed)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger"


def client_of(plan, path, now, **more):
    ledger = Ledger(path, {"event": 9}, **more)
    return Client(plan, ledger=ledger, period_s=PERIOD, clock=lambda: now[0] * PERIOD)


@pytest.mark.parametrize("code", ["CLOSED", "UNKNOWN_EPOCH", "UNREACHABLE", "LOST"])
def test_a_refused_report_is_sent_again_until_it_is_acknowledged(plan_of, path, code):
    plan, now, server = plan_of(), [100.5], Collector(code, code)
    for items in ({1: 1.0}, {2: 1.0}):
        with pytest.raises(SendFailed, match="no"):
            client_of(plan, path, now).deliver(server, items, token="t")
    receipt = client_of(plan, path, now).deliver(server, {3: 1.0}, token="t")
    assert receipt == Receipt(1, replayed=code == "LOST")
    assert len(set(server.attempts)) == 1, "the same id, epoch, bytes and token"
    assert server.attempts[0][1] == 100
    assert client_of(plan, path, now).deliver(server, {}) is None
    assert len(server.attempts) == 3, "what was acknowledged is not sent again"


def test_once_its_own_epoch_has_passed_the_next_report_is_sent(plan_of, path):
    plan, now, server = plan_of(), [100.5], Collector("CLOSED")
    client = client_of(plan, path, now)
    with pytest.raises(SendFailed):
        client.deliver(server, {1: 1.0})
    now[0] += 1
    client.deliver(server, {1: 1.0})
    assert [epoch for _, epoch, _, _ in server.attempts] == [100, 101]
    assert server.attempts[0][0] != server.attempts[1][0]
    client.deliver(server, {}, epoch=100)  # an application that knows of a grace may insist
    assert server.attempts[2] == server.attempts[0]


def test_a_crash_at_any_step_sends_under_no_second_id(plan_of, memory_disk, crash):
    """Other ids would let the collector count one report twice."""
    plan, crashes = plan_of(), 0
    for stop_at in range(1, 60):
        disk, server = memory_disk(stop_at), Collector()
        try:
            client_of(plan, "ledger", [7.5], disk=disk).deliver(server, {1: 1.0})
        except crash:
            crashes += 1
        else:
            break
        # Of every write in flight a part of its prefixes: test_ledger_faults has all of them.
        for left in [*disk.after_kill(), *disk.after_power_cut()][::3]:
            again = Collector()
            again.counted = dict(server.counted)
            client_of(plan, "ledger", [7.5], disk=left).deliver(again, {2: 1.0})
            assert len(again.counted) == 1
    assert crashes > 10
    assert stop_at < 59, "it went through in the end"


def test_a_ledger_that_fails_after_the_answer_only_repeats(plan_of, memory_disk):
    plan = plan_of()
    through = memory_disk()
    client_of(plan, "ledger", [7.5], disk=through).deliver(Collector(), {})
    disk, server = memory_disk(through.steps - 5, OSError), Collector()
    with pytest.raises(LedgerFailed, match="No space left"):
        client_of(plan, "ledger", [7.5], disk=disk).deliver(server, {})
    assert len(server.counted) == 1
    receipt = client_of(plan, "ledger", [7.5], disk=disk).deliver(server, {})
    assert receipt is None or receipt.replayed


def test_a_ledger_that_is_rewritten_keeps_ids_and_acknowledgements(plan_of, path, monkeypatch):
    monkeypatch.setattr(ledger_module, "SPARE_LINES", 0)
    plan, now, server = plan_of(epsilon=0.1), [100.5], Collector()
    for _ in range(20):
        client_of(plan, path, now).deliver(server, {})
        now[0] += 1
    server.failures = ["CLOSED"]
    with pytest.raises(SendFailed):
        client_of(plan, path, now).deliver(server, {})
    assert len(path.read_bytes().splitlines()) < 20
    assert client_of(plan, path, now).deliver(server, {}, epoch=119) is None
    client_of(plan, path, now).deliver(server, {})
    assert server.attempts[-1] == server.attempts[-2]


def test_the_shortest_records_say_the_same():
    digest = bytes(16)
    records = [
        Kept(digest, 1, b"a"),
        Sending(digest, 1, b"x" * 16),
        Sent(digest, 1),
        Kept(digest, 2, b"b"),
        Sending(digest, 2, b"y" * 16),
    ]
    shortest = Book.of(tuple(records)).shortest()
    assert set(records) < set(shortest)
    assert Book.of(read(write(shortest)).records) == Book.of(tuple(records))


def test_delivering_needs_a_ledger(plan_of):
    with pytest.raises(TypeError, match="needs a ledger"):
        Client(plan_of()).deliver(Collector(), {})
