"""The journal of a ledger on the disk, and its mark, which shows later whether lines were lost."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from faintly.client import journal
from faintly.client.disk import Disk
from faintly.client.journal import Journal, Record
from faintly.errors import LedgerFailed


def mark_path(path: Path) -> Path:
    """Return the path of a journal's mark."""
    return path.with_name(f"{path.name}.mark")


def checked(data: bytes, mark: bytes | None) -> Journal:
    """Return the journal in `data`, or raise where it lacks lines that the mark counts."""
    found = journal.read(data)
    if mark is not None:
        found.check_mark(mark)
    return found


class JournalFile:
    """The files of one ledger; a write returns once it is durable, or raises."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path, self._disk = path, disk
        self._mark = mark_path(path)

    @contextmanager
    def lock(self, wait_s: float) -> Iterator[None]:
        """Hold the ledger's lock, having waited for any process that holds it."""
        with ExitStack() as stack:
            with self._failures("lock"):
                name = self.path.with_name(f"{self.path.name}.lock")
                stack.enter_context(self._disk.lock(name, wait_s))
            yield

    def read(self) -> Journal | None:
        """Return the journal, checked against its mark; None where there is none yet."""
        with self._failures("read"):
            data, mark = self._disk.read(self.path), self._disk.read(self._mark)
        if data is not None:
            return checked(data, mark)
        if mark is not None:
            raise LedgerFailed(
                f"the ledger {self.path} is missing, but its mark is there: restore both, "
                "or delete the mark to forget what was spent"
            )
        return None

    def rewrite(self, records: list[Record]) -> Journal:
        """Replace the journal by one of these records alone, and return it."""
        data = journal.write(records)
        with self._failures("write"):
            # The old mark would not fit the new journal if a crash left both.
            self._disk.remove(self._mark)
            self._disk.replace(self.path, data)
        return journal.read(data)

    def append(self, found: Journal, record: Record) -> Journal:
        """Append a record, and return the journal with it."""
        line, after = found.appended(record)
        with self._failures("write"):
            self._disk.append(self.path, line)
        return after

    def mark(self, found: Journal) -> None:
        """Write the mark of a journal that is on the disk."""
        with self._failures("write"):
            self._disk.replace(self._mark, found.mark)

    def sync_name(self) -> None:
        """Return once the name of the journal is on the disk."""
        with self._failures("write"):
            self._disk.sync_folder(self.path.parent)

    @contextmanager
    def _failures(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise LedgerFailed(f"cannot {what} the ledger {self.path}: {reason}") from error
