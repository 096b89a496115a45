"""What this device has already spent, and the reports it spent it on.

The order is: charge, fsync, randomize, persist the bytes, send. So every report that
leaves the device is paid for, and a crash in between wastes budget but reveals nothing. Reports
are remembered by (plan digest, epoch), never by the data: a second request gets the same bytes
even if the vector has changed, because fresh noise would have to be paid for again.
docs/explanation/ledger.md has the arguments.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from faintly.client.disk import Disk
from faintly.client.journal import (
    Charged,
    Journal,
    Kept,
    Last,
    Record,
    Sending,
    Sent,
    Total,
)
from faintly.client.journal_file import JournalFile, checked, mark_path
from faintly.core import Unit, parse_unit
from faintly.core.arguments import path_of
from faintly.core.epochs import check_epoch
from faintly.core.spending import Charge, Limit, Limits, Loss, Spending
from faintly.errors import EpochPassed, InvalidInput, LedgerFailed
from faintly.wire.http import REQUEST_ID_BYTES

WAIT_S = 10.0  # a report takes milliseconds; a process that holds the lock this long is stuck
KEPT_EPOCHS = 2  # a clock set back across one epoch boundary still finds its report
SPARE_LINES = 256  # lines beyond twice the shortest journal before a rewrite: about 30 KiB


@dataclass(slots=True)
class Book:
    """The state that the records of a journal add up to."""

    spending: Spending = field(default_factory=Spending)
    last: dict[bytes, int] = field(default_factory=dict)
    kept: dict[tuple[bytes, int], bytes] = field(default_factory=dict)
    requests: dict[tuple[bytes, int], bytes] = field(default_factory=dict)
    sent: set[tuple[bytes, int]] = field(default_factory=set)

    @classmethod
    def of(cls, records: tuple[Record, ...]) -> "Book":
        """Return the state after these records."""
        book = cls()
        for record in records:
            book.add(record)
        return book

    def add(self, record: Record) -> None:
        """Apply one more record."""
        match record:
            case Charged(digest, epoch, charge):
                self.spending = self.spending.plus(charge)
                self._reach(digest, epoch)
            case Kept(digest, epoch, report):
                self.kept[digest, epoch] = report
                self._reach(digest, epoch)
            case Total(charge, count):
                self.spending = self.spending.plus(charge, count)
            case Last(digest, epoch):
                self._reach(digest, epoch)
            case Sending(digest, epoch, request):
                self.requests[digest, epoch] = request
            case Sent(digest, epoch):
                self.sent.add((digest, epoch))

    def _reach(self, digest: bytes, epoch: int) -> None:
        self.last[digest] = max(epoch, self.last.get(digest, 0))

    def shortest(self) -> list[Record]:
        """Return the fewest records that give this state, without older reports."""
        totals = [Total(charge, count) for charge, count in self.spending.counts.items()]
        lasts = [Last(digest, epoch) for digest, epoch in self.last.items()]
        kept: list[Record] = []
        for digest in self.last:
            epochs = sorted(epoch for plan, epoch in self.kept if plan == digest)
            for key in [(digest, epoch) for epoch in epochs[-KEPT_EPOCHS:]]:
                kept.append(Kept(*key, self.kept[key]))
                if key in self.requests:
                    kept.append(Sending(*key, self.requests[key]))
                if key in self.sent:
                    kept.append(Sent(*key))
        return [*totals, *lasts, *kept]


class Entry:
    """One report of one plan and epoch, while the ledger is locked for it."""

    def __init__(self, limits: Limits, file: JournalFile, digest: bytes, epoch: int) -> None:
        self._limits, self._file = limits, file
        self._key = digest, epoch
        self._paid = False
        self._journal = file.read()
        self._book = Book.of(self._journal.records if self._journal else ())
        self.report = self._book.kept.get(self._key)
        last = self._book.last.get(digest)
        if self.report is None and last is not None and epoch < last:
            raise EpochPassed(
                f"epoch {epoch} is before the last one, {last}, and its report is not kept; "
                "a past epoch never gets a new report"
            )

    def charge(self, charge: Charge) -> None:
        """Pay for a report; returns once that is on the disk, or raises."""
        self._limits.admit(self._book.spending, charge)
        self._settle(Charged(*self._key, charge))
        self._paid = True

    def keep(self, report: bytes) -> None:
        """Remember the bytes that were paid for; they may be sent once this returns."""
        if not self._paid:
            raise TypeError("a report is charged before it is kept")
        self._append(Kept(*self._key, report))
        self._paid = False
        self.report = report

    @property
    def sent(self) -> bool:
        """Return whether the collector acknowledged the report."""
        return self._key in self._book.sent

    def request(self) -> bytes:
        """Return the request id of the report; it is drawn once, and durable before its use."""
        if self._key not in self._book.requests:
            self._settle(Sending(*self._key, os.urandom(REQUEST_ID_BYTES)))
        return self._book.requests[self._key]

    def acknowledge(self) -> None:
        """Remember that the collector has the report."""
        self._settle(Sent(*self._key))

    def _settle(self, record: Record) -> None:
        """Append a record and update the mark, rewriting the journal first if needed."""
        shortest = self._book.shortest()
        most = 2 * len(shortest) + SPARE_LINES
        found = self._journal
        if found is None or found.torn or len(found.records) > most:
            self._journal = self._file.rewrite(shortest)
        after = self._append(record)
        # The file's name must be durable, too: its creator may have died before syncing the folder.
        self._file.sync_name()
        self._file.mark(after)

    def _append(self, record: Record) -> Journal:
        assert self._journal is not None
        self._journal = self._file.append(self._journal, record)
        self._book.add(record)
        return self._journal


class Ledger:
    """The accounts of one person on one device, in one small file.

    Privacy: the totals over all reports, in every account, stay within the limits, as long as
    the file is kept and every report of this person goes through it. Deleting the file, or
    restoring an older copy of its folder, makes the ledger forget, which it cannot detect.
    """

    def __init__(
        self,
        path: str | Path,
        limits: Mapping[str, Limit] | Mapping[Unit, Limit],
        *,
        wait_s: float = WAIT_S,
        disk: Disk | None = None,
    ) -> None:
        """Name the file and set what may be spent.

        Args:
            path: the ledger's file; created by the first report, in an existing folder.
            limits: per account (event, user or l1:DISTANCE) an epsilon, or (epsilon, delta).
                Amounts are exact: pass text or integers where a float would be rounded.
            wait_s: how long to wait for another process that is using the ledger.
            disk: the file system; tests replace it.
        """
        self.path = path_of(path).resolve()
        self.limits = Limits.of(limits)
        self._wait_s = wait_s
        self._file = JournalFile(self.path, disk or Disk())

    @contextmanager
    def entry(self, digest: bytes, epoch: int) -> Iterator[Entry]:
        """Lock the ledger and yield the entry of one plan and epoch.

        Raises:
            EpochPassed: the epoch is before the last one, and its report is not kept.
        """
        check_epoch(epoch)
        with self._file.lock(self._wait_s):
            yield Entry(self.limits, self._file, digest, epoch)

    def spent(self, account: str | Unit) -> Loss | None:
        """Return what an account has spent; None where some report has no bound there."""
        return self._read().spending.spent(parse_unit(account))

    def left(self, account: str | Unit) -> Loss:
        """Return what a limited account has left."""
        unit = parse_unit(account)
        if unit not in self.limits.accounts:
            raise InvalidInput(f"the ledger sets no limit on {unit}")
        return self.limits.left(self._read().spending, unit)

    def _read(self) -> Book:
        with self._file.lock(self._wait_s):
            found = self._file.read()
        return Book.of(found.records if found else ())


def read_book(path: Path) -> Book:
    """Return the state in a ledger's file, for people; changes nothing."""
    try:
        data, mark = path.read_bytes(), Disk().read(mark_path(path))
    except OSError as error:
        raise LedgerFailed(f"cannot read the ledger {path}: {error.strerror}") from None
    return Book.of(checked(data, mark).records)
