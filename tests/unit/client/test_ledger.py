"""What a ledger remembers: charges, reports, epochs; and what it refuses."""

import json
import math
import threading
import zlib
from fractions import Fraction

import pytest

from faintly import Client
from faintly.client import Ledger, Policy
from faintly.client import ledger as ledger_module
from faintly.client.journal import Charged, Journal, Kept, Last, Total, read, write
from faintly.core import EventLevel, Tally, UserLevel, WithinL1
from faintly.core.spending import Charge, Loss
from faintly.errors import (
    BudgetSpent,
    EpochPassed,
    InvalidInput,
    LedgerFailed,
    PlanRefused,
)

ONE = Charge(EventLevel(), Loss(Fraction(1)))
DIGEST = bytes(range(16))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger"


def test_the_same_epoch_gives_the_same_bytes_whatever_the_vector(plan_of, path):
    ledger = Ledger(path, {"event": 3})
    client = Client(plan_of(), ledger=ledger)
    first = client.encode(client.report({1: 1.0}, epoch=5))
    for changed in ({2: -1.0}, {}, {"not even": "a vector"}):
        assert client.encode(client.report(changed, epoch=5)) == first
    assert ledger.spent("event") == Loss(Fraction(1))


def test_another_client_object_finds_the_report(plan_of, path):
    plan = plan_of()
    reports = [Client(plan, ledger=Ledger(path, {"event": 1})).report({1: 1.0}) for _ in range(3)]
    assert reports[0] == reports[1] == reports[2]


def test_two_plans_and_two_epochs_are_paid_for_apart(plan_of, path):
    ledger = Ledger(path, {"event": 10})
    for plan in (plan_of(epsilon=0.1), plan_of(epsilon=0.2)):
        client = Client(plan, ledger=ledger)
        for epoch in (1, 2, 2, 1):
            client.report([], epoch=epoch)
    assert ledger.spent("event") == Loss(Fraction(6, 10))
    assert ledger.left("event") == Loss(Fraction(94, 10))


def test_the_budget_ends_and_the_kept_report_stays(plan_of, path):
    client = Client(plan_of(epsilon=0.7), ledger=Ledger(path, {"event": 2}))
    first = client.report([1], epoch=1)
    client.report([1], epoch=2)
    message = "the event account allows epsilon 2 and has spent epsilon 1.4; .* cost epsilon 0.7"
    with pytest.raises(BudgetSpent, match=message):
        client.report([1], epoch=3)
    assert client.report([2], epoch=1) == first
    raised = Client(client.plan, ledger=Ledger(path, {"event": "2.1"}))
    raised.report([1], epoch=3)


def test_a_user_level_report_is_charged_to_every_account(plan_of, path):
    ledger = Ledger(path, {"user": 4, "event": 4, "l1:3": 4})
    Client(plan_of("user", 1.5), ledger=ledger).report([1])
    for account in ("user", "event", "l1:3", UserLevel(), WithinL1(7)):
        assert ledger.spent(account) == Loss(Fraction(3, 2))


def test_an_event_plan_without_a_bound_is_refused_where_users_are_limited(plan_of, path):
    with pytest.raises(PlanRefused, match="has no bound at user level"):
        Client(plan_of(), ledger=Ledger(path, {"event": 9, "user": 9}))
    free = Ledger(path, {"event": 9})
    Client(plan_of(), ledger=free).report([1])
    assert free.spent("user") is None
    with pytest.raises(BudgetSpent, match="an unbounded amount"):
        Client(plan_of("user"), ledger=Ledger(path, {"user": 9})).report([1])


def test_an_enforced_number_of_items_bounds_the_user_account(squeeze_plan, bounded, path):
    """l1:64 with at most 32 items: any two vectors are 64 apart, so one step reaches them."""
    ledger = Ledger(path, {"user": (1, "0.00001")})
    Client(squeeze_plan, policy=bounded, ledger=ledger).report([1, 2])
    assert ledger.spent("user") == Loss(Fraction(1), Fraction(1, 10**6))
    assert ledger.spent("event") == ledger.spent("user")


def test_a_clock_that_goes_back_gives_the_kept_report_or_a_refusal(plan_of, path):
    now = [1000.0]
    ledger = Ledger(path, {"event": 100})
    client = Client(plan_of(), ledger=ledger, period_s=100.0, clock=lambda: now[0])
    tenth = client.report([1])
    now[0] = 1099.9
    assert client.report([2]) == tenth
    now[0] = 1300.0
    thirteenth = client.report([1])
    assert thirteenth != tenth
    for earlier in (1299.0, 1100.0, 999.0, 0.0):
        now[0] = earlier
        with pytest.raises(EpochPassed, match="before the last one, 13, and its report is not"):
            client.report([1])
    now[0] = 1000.0
    assert client.report([3]) == tenth
    now[0] = -5.0
    with pytest.raises(InvalidInput, match="an epoch is an integer"):
        client.report([1])
    for broken in (math.nan, math.inf, -math.inf):
        now[0] = broken
        with pytest.raises(InvalidInput, match="finite number of seconds"):
            client.report([1])
    now[0] = 1399.0
    assert client.report([3]) == thirteenth
    assert ledger.spent("event") == Loss(Fraction(2))


def test_a_charge_without_a_report_is_also_a_last_epoch(path):
    """After a crash at epoch 7 nothing before 7 is reported afresh."""
    ledger = Ledger(path, {"event": 9})
    with ledger.entry(DIGEST, 7) as entry:
        entry.charge(ONE)
    with pytest.raises(EpochPassed), ledger.entry(DIGEST, 6):
        pass
    with ledger.entry(DIGEST, 7) as entry:
        assert entry.report is None
    with ledger.entry(bytes(16), 6) as entry:
        assert entry.report is None, "another plan has epochs of its own"


@pytest.mark.parametrize("epoch", [-1, 2**53, True, 1.0, "1"])
def test_an_epoch_is_an_integer(plan_of, path, epoch):
    client = Client(plan_of(), ledger=Ledger(path, {"event": 1}))
    with pytest.raises(InvalidInput, match="an epoch is an integer"):
        client.report([1], epoch=epoch)


def test_epochs_and_periods_need_a_ledger(plan_of, path):
    with pytest.raises(TypeError, match="epoch needs a ledger"):
        Client(plan_of()).report([1], epoch=3)
    with pytest.raises(TypeError, match="period needs a ledger"):
        Client(plan_of(), period_s=3600)
    for period in (0, -1, float("inf"), float("nan")):
        with pytest.raises(InvalidInput, match="period must be positive"):
            Client(plan_of(), ledger=Ledger(path, {"event": 1}), period_s=period)


def test_a_kept_report_is_returned_without_a_look_at_the_data(plan_of, path):
    client = Client(plan_of(), ledger=Ledger(path, {"event": 1}))
    first = client.report({3: 7.25})
    assert client.tally == Tally(clipped=1)
    assert client.report({99: 7.25}) == first
    assert client.tally == Tally(clipped=1)


def test_the_ledger_holds_no_data_and_is_for_its_owner(plan_of, path):
    """Two people with the same sequence of calls differ in the noisy bytes alone."""
    client = Client(plan_of(), ledger=Ledger(path, {"event": 1}))
    report = client.report({7: 1.0}, epoch=3)
    lines = [json.loads(line.rsplit(" ", 1)[0]) for line in path.read_text().splitlines()]
    digest = client.plan.digest.hex()
    assert lines[:2] == [["faintly-ledger", 1], ["charge", digest, 3, "event", "1", "0", None]]
    assert lines[2][:3] == ["report", digest, 3]
    assert client.encode(report).hex().find(lines[2][3]) > 0
    assert path.stat().st_mode & 0o077 == 0


def test_a_failure_while_randomizing_burns_the_charge(plan_of, path, monkeypatch):
    ledger = Ledger(path, {"event": 2})
    client = Client(plan_of(), ledger=ledger)
    with monkeypatch.context() as patch:
        patch.setattr("faintly.client.client.randomize", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            client.report([1])
    assert ledger.spent("event") == Loss(Fraction(1))
    client.report([1])
    assert ledger.spent("event") == Loss(Fraction(2))


def test_nothing_is_kept_that_was_not_charged(path):
    with Ledger(path, {"event": 2}).entry(DIGEST, 1) as entry:
        with pytest.raises(TypeError, match="charged before"):
            entry.keep(b"free")
        entry.charge(ONE)
        entry.keep(b"paid")
        with pytest.raises(TypeError, match="charged before"):
            entry.keep(b"again")


def test_compaction_forgets_old_reports_and_no_charge(plan_of, path, monkeypatch):
    monkeypatch.setattr(ledger_module, "SPARE_LINES", 4)
    ledger = Ledger(path, {"event": 1000, "user": 1000})
    clients = [Client(plan_of("user", e), ledger=ledger) for e in (0.1, 0.3)]
    reports = {}
    for epoch in range(40):
        for client in clients:
            reports[client, epoch] = client.report([1], epoch=epoch)
    assert ledger.spent("user") == Loss(Fraction(16))
    assert len(path.read_bytes().splitlines()) < 30
    for client in clients:
        for epoch in (38, 39):
            assert client.report([], epoch=epoch) == reports[client, epoch]
        with pytest.raises(EpochPassed):
            client.report([], epoch=3)
    assert ledger.spent("event") == Loss(Fraction(16))


def test_a_journal_says_what_was_written():
    charge = Charge(WithinL1(0.3), Loss(Fraction(1, 8), Fraction(1, 10**9)), 12)
    records = [Total(charge, 3), Last(DIGEST, 8), Charged(DIGEST, 9, ONE), Kept(DIGEST, 9, b"\0")]
    found = read(write(records))
    assert found == Journal(tuple(records), found.checksums, torn=False)
    assert len(found.checksums) == 1 + len(records)
    line, after = found.appended(Kept(DIGEST, 10, b""))
    assert read(write(records) + line) == after


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"something else\n",
        b'["faintly-ledger",1] 00000000\n',
        write([])[:-1],
        write([Last(DIGEST, 1)]) + b"\n",
        write([Last(DIGEST, 1)]) * 2,
        write([]) + write([])[:0] + b'["last","00",1] 12345678\n',
    ],
)
def test_damage_is_refused_and_left_alone(path, data):
    path.write_bytes(data)
    ledger = Ledger(path, {"event": 1})
    for use in (lambda: ledger.spent("event"), lambda: ledger.entry(DIGEST, 1).__enter__()):
        with pytest.raises(LedgerFailed):
            use()
    assert path.read_bytes() == data


def test_a_newer_version_is_refused(path):
    body = b'["faintly-ledger",2]'
    path.write_bytes(body + f" {zlib.crc32(body):08x}\n".encode())
    with pytest.raises(LedgerFailed, match="not of version 1"):
        Ledger(path, {"event": 1}).spent("event")


def test_a_missing_folder_is_named(tmp_path):
    ledger = Ledger(tmp_path / "nowhere" / "ledger", {"event": 1})
    with pytest.raises(LedgerFailed, match=r"cannot lock the ledger .*nowhere.*No such file"):
        ledger.spent("event")


def test_a_ledger_in_use_is_waited_for_and_then_given_up(path):
    mine, other = Ledger(path, {"event": 1}), Ledger(path, {"event": 1}, wait_s=0.02)
    with mine.entry(DIGEST, 1) as entry:
        with pytest.raises(LedgerFailed, match=r"still locked after 0\.02 s"):
            other.spent("event")
        entry.charge(ONE)
    assert other.spent("event") == Loss(Fraction(1))


def test_threads_share_one_report(plan_of, path):
    plan, seen = plan_of(), []
    ledger = Ledger(path, {"event": 1})

    def work():
        seen.append(Client(plan, ledger=ledger).report([1]))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 6
    assert len(set(seen)) == 1


def test_a_cleared_ledger_starts_at_nothing(plan_of, path):
    """Documented: the ledger cannot know what it was never told."""
    client = Client(plan_of(), ledger=Ledger(path, {"event": 1}), policy=_any())
    client.report([1], epoch=1)
    with pytest.raises(BudgetSpent):
        client.report([1], epoch=2)
    path.unlink()
    with pytest.raises(LedgerFailed, match="its mark is there"):
        client.report([1], epoch=2)
    path.with_name(f"{path.name}.mark").unlink()
    client.report([1], epoch=2)
    assert Ledger(path, {"event": 1}).spent("event") == Loss(Fraction(1))


def _any():
    return Policy.within(epsilon=16, units=["event"])


def test_lost_last_lines_are_noticed(path):
    """Cut after any whole line, the journal is sound in itself; what was charged would be free."""
    ledger = Ledger(path, {"event": 9})
    for epoch in (1, 2, 3):
        with ledger.entry(DIGEST, epoch) as entry:
            entry.charge(ONE)
            entry.keep(b"report")
    lines = path.read_bytes().splitlines(keepends=True)
    for left in range(1, len(lines)):
        path.write_bytes(b"".join(lines[:left]))
        charged = b"charge" in b"".join(lines[left:])
        for use in (lambda: ledger.spent("event"), lambda: ledger.entry(DIGEST, 4).__enter__()):
            if charged:
                with pytest.raises(LedgerFailed, match="has lost lines"):
                    use()
        assert charged or ledger.spent("event") == Loss(Fraction(3)), "a lost report is no charge"
    path.write_bytes(b"".join(lines))
    (path.parent / "ledger.mark").write_bytes(b"damage")
    with pytest.raises(LedgerFailed):
        ledger.spent("event")
    (path.parent / "ledger.mark").unlink()  # as of an earlier version of this program
    assert ledger.spent("event") == Loss(Fraction(3))


def test_an_older_copy_beside_the_newer_mark_is_noticed(path, monkeypatch):
    """Also where the journal was written anew in between, and has become shorter by that."""
    monkeypatch.setattr(ledger_module, "SPARE_LINES", 2)
    ledger = Ledger(path, {"event": 99})
    copies = []
    for epoch in range(20):
        with ledger.entry(DIGEST, epoch) as entry:
            entry.charge(ONE)
            entry.keep(b"report")
        copies.append(path.read_bytes())
    for copy in copies[:-1]:
        path.write_bytes(copy)
        with pytest.raises(LedgerFailed, match="has lost lines"):
            ledger.spent("event")
    path.write_bytes(copies[-1])
    assert ledger.spent("event") == Loss(Fraction(20))


def test_a_ledger_with_two_names_is_refused(path):
    """Written anew under one of them, it would go on as two ledgers with a budget each."""
    ledger = Ledger(path, {"event": 9})
    with ledger.entry(DIGEST, 1) as entry:
        entry.charge(ONE)
    other = path.with_name("other")
    other.hardlink_to(path)
    for one in (ledger, Ledger(other, {"event": 9})):
        with pytest.raises(LedgerFailed, match="it has a second name; remove that hard link"):
            one.spent("event")
    other.unlink()
    assert ledger.spent("event") == Loss(Fraction(1))


def test_left_needs_a_limit(path):
    with pytest.raises(InvalidInput, match="no limit on user"):
        Ledger(path, {"event": 1}).left("user")
