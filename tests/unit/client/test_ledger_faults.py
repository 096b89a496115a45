"""Crashes at every step, torn writes at every byte, full disks: no report goes unpaid.

Invariants, checked after every accident:
- all distinct reports that were ever returned are covered by what the ledger says is spent;
- a plan and epoch that returned bytes once returns those bytes ever after (after several
  accidents: or others that were paid for again);
- the spending stays within the limit.
"""

import errno
import io
import itertools
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from faintly import durable
from faintly.client import Ledger
from faintly.client import ledger as ledger_module
from faintly.client.disk import Disk
from faintly.client.journal import Charged, Kept, read, write
from faintly.client.journal_file import JournalFile
from faintly.core import EventLevel
from faintly.core.spending import Charge, Loss
from faintly.errors import BudgetSpent, EpochPassed, LedgerFailed

ONE = Charge(EventLevel(), Loss(Fraction(1)))
PLANS = [bytes([plan]) * 16 for plan in (1, 2)]
CALLS = [(PLANS[0], 1), (PLANS[1], 1), (PLANS[0], 2), (PLANS[0], 2), (PLANS[0], 3), (PLANS[1], 2)]
LEDGER = Path("ledger")
LIMIT = 7  # five reports are asked for, so two crashes can be paid for


class World:
    """An application that asks for reports in order and survives what happens to it."""

    def __init__(self, calls=tuple(CALLS), limit=LIMIT):
        self.calls, self.limit = list(calls), limit
        self.returned = {}  # (plan, epoch): the set of reports that left the device
        self.fresh = itertools.count()
        self.position = 0

    def copy(self):
        other = World(self.calls, self.limit)
        other.returned = {key: set(reports) for key, reports in self.returned.items()}
        other.fresh, other.position = itertools.count(next(self.fresh) + 1000), self.position
        return other

    def ask(self, disk, path=LEDGER):
        """Ask for all reports that are still to come; stops at the first crash."""
        while self.position < len(self.calls):
            key = self.calls[self.position]
            with Ledger(path, {"event": self.limit}, disk=disk).entry(*key) as entry:
                if entry.report is None:
                    entry.charge(ONE)
                    entry.keep(f"report {next(self.fresh)}".encode())
            self.returned.setdefault(key, set()).add(entry.report)
            self.position += 1

    def finish(self, disk, path=LEDGER, strict=True):
        """Ask on until everything is answered or refused, then check the invariants."""
        while self.position < len(self.calls):
            try:
                self.ask(disk, path)
            except BudgetSpent:
                assert self.spent(disk, path) + 1 > self.limit, "there was room"
                self.position += 1
            except EpochPassed:
                self.position += 1
        self.check(disk, path, strict)

    def spent(self, disk, path=LEDGER):
        return Ledger(path, {"event": self.limit}, disk=disk).spent("event").epsilon

    def check(self, disk, path=LEDGER, strict=True):
        distinct = sum(len(reports) for reports in self.returned.values())
        assert distinct <= self.spent(disk, path) <= self.limit
        assert not strict or all(len(reports) == 1 for reports in self.returned.values())


@pytest.fixture(params=[256, -1000], ids=["appending", "rewriting"])
def spare(request, monkeypatch):
    monkeypatch.setattr(ledger_module, "SPARE_LINES", request.param)


def steps_of(memory_disk):
    disk = memory_disk()
    World().finish(disk)
    return disk.steps


@pytest.mark.long
@pytest.mark.parametrize("accident", ["after_kill", "after_power_cut"])
def test_a_crash_at_every_step(memory_disk, crash, spare, accident):
    """Every step of every call, and every prefix of the bytes that were on their way."""
    states = 0
    for stop_at in range(1, steps_of(memory_disk) + 1):
        world, disk = World(), memory_disk(stop_at)
        with pytest.raises(crash):
            world.ask(disk)
        for left in getattr(disk, accident)():
            survivor = world.copy()
            survivor.finish(left)
            states += 1
    assert states > 500


def test_kills_and_power_cuts_in_random_order(memory_disk, crash, spare):
    """Kills and power cuts in random order: what a kill leaves unsafe may be lost later."""
    rng = np.random.default_rng(5)
    calls = [(PLANS[int(rng.integers(2))], epoch // 2) for epoch in range(24)]
    for _ in range(20):
        world, disk = World(calls, limit=60), memory_disk()
        for _ in range(12):
            disk.stop_at = disk.steps + int(rng.integers(1, 25))
            try:
                world.ask(disk)
            except crash:
                kind = "after_kill" if rng.integers(2) else "after_power_cut"
                outcomes = list(getattr(disk, kind)())
                disk = outcomes[int(rng.integers(len(outcomes)))]
        disk.stop_at = 0
        spent = world.spent(disk)
        world.finish(disk, strict=False)
        assert world.spent(disk) >= spent


def test_a_full_disk_at_every_step(memory_disk, spare):
    """An error of the disk is reported, nothing leaves, and the ledger is usable afterwards."""
    for stop_at in range(1, steps_of(memory_disk) + 1):
        world, disk = World(), memory_disk(stop_at, OSError)
        with pytest.raises(LedgerFailed, match=r"cannot write the ledger .*No space left"):
            world.ask(disk)
        world.finish(disk)


def opener_on_full_disk(room):
    """Return `durable.open_file` on a disk that takes `room` more bytes."""

    class File(io.FileIO):
        def write(self, data):
            nonlocal room
            if room == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            done = super().write(data[:room])
            room -= done
            return done

    def open_file(path, flags, mode=durable.PRIVATE):
        return io.BufferedWriter(File(os.open(path, os.O_WRONLY | flags, mode), "wb"))

    return open_file


def test_a_real_file_on_a_disk_that_fills_up(tmp_path, monkeypatch):
    """The disk is full after each number of bytes; later there is room again."""
    for room in range(0, 260, 20):
        path, world = tmp_path / f"ledger{room}", World(limit=9)
        with monkeypatch.context() as patched:
            patched.setattr(durable, "open_file", opener_on_full_disk(room))
            with pytest.raises(LedgerFailed, match="No space left"):
                world.ask(Disk(), path)
        world.finish(Disk(), path)


@pytest.mark.parametrize(("broken", "calls_of_a_world"), [("sync", 28), ("rename", 6)])
def test_a_real_file_that_cannot_be_synced_or_renamed(
    tmp_path, monkeypatch, broken, calls_of_a_world
):
    sound = getattr(durable, broken)
    for fail_at in range(1, calls_of_a_world + 1):
        calls = itertools.count(1)

        def fail(*arguments, calls=calls, fail_at=fail_at):
            if next(calls) >= fail_at:
                raise OSError(errno.EIO, "Input/output error")
            return sound(*arguments)

        path, world = tmp_path / f"{broken}{fail_at}", World(limit=9)
        with monkeypatch.context() as patched:
            patched.setattr(durable, broken, fail)
            with pytest.raises(LedgerFailed, match="Input/output error"):
                world.ask(Disk(), path)
        world.finish(Disk(), path)


HISTORY = [
    Charged(PLANS[0], 1, ONE),
    Kept(PLANS[0], 1, b"first"),
    Charged(PLANS[0], 2, ONE),
    Kept(PLANS[0], 2, b"second"),
]


@pytest.mark.parametrize("count", range(1, len(HISTORY) + 1))
def test_a_torn_write_at_every_byte(memory_disk, count):
    """The last record is cut at every byte: read as spent where it can be, else left out."""
    whole, before = write(HISTORY[:count]), write(HISTORY[: count - 1])
    charged = sum(isinstance(record, Charged) for record in HISTORY[: count - 1])
    key = (HISTORY[count - 1].digest, HISTORY[count - 1].epoch)
    is_charge = isinstance(HISTORY[count - 1], Charged)
    seen = set()
    for length in range(len(before) + 1, len(whole)):
        disk = memory_disk.holding(whole[:length])
        ledger = Ledger(LEDGER, {"event": 9}, disk=disk)
        spent = ledger.spent("event").epsilon
        assert disk.read(LEDGER) == whole[:length], "looking repairs nothing"
        readable = is_charge and b"]" in whole[len(before) : length]
        assert spent == charged + readable
        seen.add(readable)
        with ledger.entry(*key) as entry:
            assert entry.report is None, "a torn report was never sent, and never will be"
            entry.charge(ONE)
            entry.keep(b"anew")
        assert ledger.spent("event").epsilon == spent + 1
        assert not read(disk.read(LEDGER)).torn
    assert seen == ({True, False} if is_charge else {False})


def test_a_torn_first_line_is_no_new_ledger(memory_disk):
    """The first line comes by a rename, so it is never torn; if it is short, it was damaged."""
    for length in range(len(write([]))):
        with pytest.raises(LedgerFailed):
            Ledger(LEDGER, {"event": 9}, disk=memory_disk.holding(write([])[:length])).spent(
                "event"
            )


@pytest.mark.parametrize("garbage", [bytes(40), b'["charge","01', b"\xff\xfe", b"null", b"[]"])
def test_a_torn_end_of_garbage(tmp_path, garbage):
    path = tmp_path / "ledger"
    path.write_bytes(write(HISTORY) + garbage)
    ledger = Ledger(path, {"event": 9})
    with ledger.entry(PLANS[0], 2) as entry:
        assert entry.report == b"second"
    with ledger.entry(PLANS[0], 3) as entry:
        entry.charge(ONE)
    assert ledger.spent("event").epsilon == 3


def test_a_flipped_bit_never_frees_budget(memory_disk):
    whole = write(HISTORY)
    refused = 0
    for place, bit in itertools.product(range(len(whole)), range(8)):
        data = bytearray(whole)
        data[place] ^= 1 << bit
        try:
            disk = memory_disk.holding(bytes(data))
            assert Ledger(LEDGER, {"event": 9}, disk=disk).spent("event").epsilon >= 2
        except LedgerFailed:
            refused += 1
    # All but the very last newline: without it the end counts as torn.
    assert refused == 8 * (len(whole) - 1)


def test_a_lost_line_in_the_middle_is_noticed(memory_disk):
    lines = write(HISTORY).splitlines(keepends=True)
    for gone in range(len(lines) - 1):
        disk = memory_disk.holding(b"".join(lines[:gone] + lines[gone + 1 :]))
        with pytest.raises(LedgerFailed):
            Ledger(LEDGER, {"event": 9}, disk=disk).spent("event")


def test_the_mutant_that_writes_no_charges_is_caught(memory_disk, monkeypatch):
    def careless(self, found, record):
        return found if isinstance(record, Charged) else append(self, found, record)

    append = JournalFile.append
    monkeypatch.setattr(JournalFile, "append", careless)
    world, disk = World(), memory_disk()
    with Ledger(LEDGER, {"event": 9}, disk=disk).entry(PLANS[0], 1) as entry:
        entry.charge(ONE)
        entry.keep(b"free")
    world.returned[PLANS[0], 1] = {b"free"}
    with pytest.raises(AssertionError):
        world.check(disk)


def test_the_mutant_that_does_not_sync_is_caught(memory_disk):
    """Without the sync a power cut loses charges of reports that were sent."""

    class Lazy(memory_disk):
        def append(self, path, data):
            self.names[path.name].data += data

    world, disk = World(), Lazy()
    world.ask(disk)
    with pytest.raises(LedgerFailed, match="has lost lines"):
        world.check(next(iter(disk.after_power_cut())))
    left = next(iter(disk.after_power_cut()))
    left.remove(Path("ledger.mark"))
    with pytest.raises(AssertionError):
        world.check(left)


def test_the_mutant_that_marks_too_early_is_caught(memory_disk, crash, monkeypatch):
    """A mark ahead of its journal would call a sound ledger damaged after a crash."""

    def early(self, found, record):
        _, after = found.appended(record)
        self.mark(after)
        return append(self, found, record)

    append = JournalFile.append
    monkeypatch.setattr(JournalFile, "append", early)
    refused = 0
    for stop_at in range(1, 40):
        disk = memory_disk(stop_at)
        with pytest.raises(crash):
            World().ask(disk)
        for left in disk.after_kill():
            try:
                World().spent(left)
            except LedgerFailed:
                refused += 1
    assert refused


def test_the_mutant_that_names_no_file_is_caught(memory_disk, crash, monkeypatch):
    """A ledger renamed into place by a process that died is not there until its folder is synced.

    Whoever appends to it next must see to that, or a power cut takes the charges with it.
    """
    for mutant in (False, True):
        disk = memory_disk(stop_at=6)  # the new file is in place, its name is not yet safe
        with pytest.raises(crash):
            World().ask(disk)
        disk = list(disk.after_kill())[-1]
        assert "ledger" in disk.names
        assert "ledger" not in disk.safe_names
        if mutant:
            monkeypatch.setattr(JournalFile, "sync_name", lambda self: None)
            monkeypatch.setattr(JournalFile, "mark", lambda self, found: None)  # it syncs as well
        world = World()
        world.ask(disk)
        worst = [left for left in disk.after_power_cut() if left.read(LEDGER) is None]
        assert bool(worst) is mutant
        for left in worst:
            with pytest.raises(AssertionError):
                world.check(left)


def test_a_kept_report_that_a_power_cut_takes_is_paid_for_again(memory_disk, crash):
    """A kill leaves a report unsynced, the next process returns it, then the power fails."""
    world, disk = World(calls=CALLS[:1]), memory_disk(stop_at=18)
    with pytest.raises(crash):
        world.ask(disk)
    disk = list(disk.after_kill())[-1]
    world.ask(disk)
    assert world.spent(disk) == 1
    left = next(iter(disk.after_power_cut()))
    world.position = 0
    world.finish(left, strict=False)
    assert len(world.returned[CALLS[0]]) == 2
    assert world.spent(left) == 2
