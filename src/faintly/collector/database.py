"""The one SQLite file of a data folder: its schema, its connections, its transactions.

Inbox, manifest, request ids, tokens and credentials share a file, so that one transaction moves
reports from the inbox into the manifest, or counts a body together with its request id. Writers
take turns under a lock of this process; readers have a connection of their own and never wait.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from faintly.collector import problems
from faintly.collector.problems import Problem
from faintly.errors import FaintlyError, FolderDamaged, InvalidInput

NAME = "collector.sqlite"
VERSION = 2
BUSY_S = 10.0  # how long to wait for another process, such as one that adds a credential
DISK_CODES = {  # of SQLite: what another disk or another moment would cure
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}
RESTORE = "restore a backup into a new folder"
NAME_BYTES = 16  # of a request id, and of the hash of a token
PURGED_ROWS = 20_000  # rows deleted in one transaction: some ten milliseconds

# Tables of 16-byte names are clustered by epoch and then by name: nothing in them tells the order
# of arrival, and what belongs to an epoch is deleted as one range. Files are named by the id of
# their collection, which is therefore never given to another.
SCHEMA = f"""
CREATE TABLE collections (
    id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE, plan BLOB NOT NULL,
    name TEXT NOT NULL, retention TEXT NOT NULL, tokens INTEGER NOT NULL, period_s REAL,
    closed INTEGER NOT NULL);
CREATE TABLE epochs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, collection INTEGER NOT NULL, number INTEGER NOT NULL,
    state TEXT NOT NULL, UNIQUE (collection, number));
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, reports INTEGER NOT NULL,
    checksum INTEGER NOT NULL, records BLOB NOT NULL);
CREATE INDEX inbox_by_epoch ON inbox (epoch);
CREATE TABLE requests (
    epoch INTEGER NOT NULL, id BLOB NOT NULL, hash BLOB NOT NULL,
    PRIMARY KEY (epoch, id)) WITHOUT ROWID;
CREATE TABLE tokens (
    epoch INTEGER NOT NULL, id BLOB NOT NULL, used INTEGER NOT NULL,
    PRIMARY KEY (epoch, id)) WITHOUT ROWID;
CREATE TABLE segments (
    epoch INTEGER NOT NULL, number INTEGER NOT NULL, reports INTEGER NOT NULL,
    bytes INTEGER NOT NULL, checksum BLOB NOT NULL, PRIMARY KEY (epoch, number)) WITHOUT ROWID;
CREATE TABLE sketches (
    epoch INTEGER PRIMARY KEY, number INTEGER NOT NULL, reports INTEGER NOT NULL,
    bytes INTEGER NOT NULL, checksum BLOB NOT NULL);
CREATE TABLE credentials (
    label TEXT PRIMARY KEY, role TEXT NOT NULL, hash BLOB NOT NULL) WITHOUT ROWID;
PRAGMA user_version = {VERSION};
"""


class Database:
    """Connections to the file: one for writing, one for reading, one for checkpoints."""

    def __init__(self, folder: Path, name: str = NAME) -> None:
        """Open the file of a folder, or create it; what a crash left is recovered by SQLite."""
        self.path = folder / name
        if not self.path.exists():
            # SQLite gives its other files the permissions of this one. A file that is there is
            # left alone: closing it would take away the locks that this process has on it.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        # Whoever changes what is in memory as well keeps the turn until both agree.
        self.turn, self._read_lock = threading.RLock(), threading.Lock()
        self._connections: list[sqlite3.Connection] = []
        try:
            self._writer = self._connect()
            self._prepare()
            self._reader = self._connect()
            self._keeper = self._connect(wait_s=0.0)  # there is always a next time
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.DatabaseError):
                raise not_opened(self.path, error) from None
            raise

    def _connect(self, wait_s: float = BUSY_S) -> sqlite3.Connection:
        connection = connect(
            self.path, timeout=wait_s, isolation_level=None, check_same_thread=False
        )
        self._connections.append(connection)
        connection.execute("PRAGMA synchronous = FULL")
        # Deleted reports and request ids are overwritten, not only forgotten.
        connection.execute("PRAGMA secure_delete = ON")
        # A commit must not pause for a checkpoint; the sealer makes them.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA journal_size_limit = {2**27}")
        connection.execute(f"PRAGMA cache_size = -{2**15}")
        return connection

    def _prepare(self) -> None:
        version = self._writer.execute("PRAGMA user_version").fetchone()[0]
        if version not in {0, VERSION}:
            what = f"has version {version}, and this program knows {VERSION}"
            advice = "use the program that wrote it"
            raise FolderDamaged(f"{self.path} {what}; {advice}", what, advice)
        if version == 0:
            _check_new(self.path)
        self._writer.execute("PRAGMA journal_mode = WAL")
        if version == 0:
            self._writer.executescript(f"BEGIN IMMEDIATE; {SCHEMA} COMMIT;")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection for writing; all of it is on the disk afterwards, or nothing."""
        with self.turn, _translated(self.path):
            connection = self._writer
            if connection.in_transaction:  # what could not even be rolled back when it failed
                connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # SQLite has rolled back by itself after some errors, a full disk among them.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Return what a query finds among committed rows."""
        with self._read_lock, _translated(self.path):
            return self._reader.execute(statement, parameters).fetchall()

    def wal_bytes(self) -> int:
        """Return the size of the write-ahead log."""
        try:
            return log_of(self.path).stat().st_size
        except FileNotFoundError:
            return 0

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file and let it begin again.

        Most of it is moved while commits go on; only what they add meanwhile is moved while
        they wait.
        """
        self._keeper.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        with self.turn:
            self._keeper.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def empty_log(self) -> None:
        """Move the write-ahead log into the file and cut it: it holds what was deleted since."""
        self._keeper.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        with self.turn:
            self._keeper.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def purge(self, table: str, kept: Callable[[int], bool]) -> None:
        """Delete the rows of all epochs but those kept, a few at a time.

        Each epoch is asked for when its rows were seen, since more may have been opened by then.
        """
        last = -1
        while (found := self.rows(f"SELECT min(epoch) FROM {table} WHERE epoch > ?", (last,)))[0][
            0
        ] is not None:
            last = found[0][0]
            if not kept(last):
                self.purge_epoch(table, last)

    def purge_epoch(self, table: str, epoch: int) -> None:
        """Delete the rows of an epoch, a few at a time."""
        chosen = f"SELECT id FROM {table} WHERE epoch = ?1 LIMIT {PURGED_ROWS}"
        deleted = PURGED_ROWS
        while deleted == PURGED_ROWS:
            with self.transaction() as connection:
                deleted = connection.execute(
                    f"DELETE FROM {table} WHERE epoch = ?1 AND id IN ({chosen})",
                    (epoch,),
                ).rowcount

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; the last one moves the log into the file."""
        for connection in reversed(self._connections):
            connection.close()


def connect(path: Path, **options: Any) -> sqlite3.Connection:
    """Return a connection to a file of ours, also where nothing can be written beside it.

    SQLite makes a log and an index of it even to read such a file, unless it is told that nobody
    changes the file. That is so in a folder that cannot be written to, such as a backup on
    read-only media, if there is no log: whoever has the file open has one. A log that is there
    is read; whoever trusts the file alone would miss what it holds.
    """
    uri = path.absolute().as_uri() + ("?immutable=1" if is_frozen(path) else "")
    return sqlite3.connect(uri, uri=True, **options)


def is_frozen(path: Path) -> bool:
    """Return whether nobody changes a file now, for all that can be seen."""
    return not os.access(path.parent, os.W_OK) and not log_of(path).exists()


def log_of(path: Path) -> Path:
    """Return where SQLite keeps the write-ahead log of a file."""
    return path.with_name(f"{path.name}-wal")


def _check_new(path: Path) -> None:
    """Refuse to begin anew beside sealed files: nothing would name them, so all would go."""
    found = [each for name in ("segments", "sketches") for each in path.parent.glob(f"{name}/*/*")]
    if any(each.suffix != ".part" for each in found):
        what = "is missing or empty, and there are sealed files beside it"
        advice = f"put it back, or {RESTORE}"
        raise FolderDamaged(f"{path} {what}; {advice}", what, advice)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into what a caller can act on."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise
    except sqlite3.DatabaseError as error:
        if is_of_disk(error):
            why = f"the disk is full, read-only or failed ({error})"
            raise Problem(problems.CANNOT_STORE, why) from error
        raise damaged(path, error) from error


def is_of_disk(error: Exception) -> bool:
    """Return whether SQLite failed for want of a disk or a permission: the file may be sound."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in DISK_CODES


def not_opened(path: Path, error: Exception) -> FaintlyError:
    """Return the error of a file that SQLite does not open."""
    if not is_of_disk(error):
        return damaged(path, error)
    advice = "look at the room on its disk, who may write there, and who else uses it"
    if not os.access(path.parent, os.W_OK):  # its log is there without the index, which is needed
        advice = "copy its folder to where it can be written to"
    return InvalidInput(f"{path} cannot be opened ({error}); {advice}")


def damaged(path: Path, error: Exception) -> FolderDamaged:
    """Return the error of a file that SQLite cannot read."""
    what = f"cannot be read ({error})"
    return FolderDamaged(f"{path} {what}; run faintly fsck, or {RESTORE}", what)


def cut(width: int) -> str:
    """Return the start of a statement that finds `width` bytes at every `i` of a blob `?2`.

    A statement lets other threads run and then waits for its turn again, so names come in one
    blob, and are cut apart in the statement: any number of them waits once.
    """
    step = f"SELECT i + {width} FROM at WHERE i + {width} < length(?2)"
    return f"WITH RECURSIVE at(i) AS (SELECT 1 UNION ALL {step})"
