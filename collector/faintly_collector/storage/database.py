"""The one SQLite file of a data folder: its schema, its connections, its transactions.

Inbox, manifest, request ids, tokens and credentials share a file, so one transaction can move
reports from the inbox to the manifest, or store a body together with its request id. Writers of
this process share a lock; readers have their own connection and never wait.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from faintly.errors import InvalidInput
from faintly.wire.http import REQUEST_ID_BYTES
from faintly.wire.problems import CANNOT_STORE, Problem
from faintly_collector.storage.disk import RESTORE, damaged

DATABASE_FILE = "collector.sqlite"
COUNT_FILE = "collector.count"  # how many requests were acknowledged
VERSION = 3
BUSY_S = 10.0  # how long to wait for another process, such as one adding a credential
# Error codes that blame the file, such as a missing page or table; other ones come from the disk or
# from another process. Text that is not UTF-8 has no code.
DAMAGE_CODES = {0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
ID_TABLES = ("requests", "tokens")  # whose rows are kept only while an epoch is open
ID_BYTES = REQUEST_ID_BYTES  # and of the hash of a token
PURGE_ROWS = 20_000  # rows deleted per transaction, which takes about ten milliseconds
SETTINGS = (  # of a connection
    "synchronous = FULL",
    "secure_delete = ON",  # overwrite deleted reports and request ids with zeros
    "wal_autocheckpoint = 0",  # maintenance makes checkpoints: commits must not pause
    f"journal_size_limit = {2**27}",
    f"cache_size = -{2**15}",
)

# Tables of 16-byte ids are clustered by epoch, then by id: they do not reveal the order of
# arrival, and an epoch is deleted as one range. File names contain the id of their collection, so
# ids are never reused.
SCHEMA = f"""
CREATE TABLE collections (
    id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE, plan BLOB NOT NULL,
    name TEXT NOT NULL, retention TEXT NOT NULL, tokens INTEGER NOT NULL, period_s REAL,
    grace_s REAL, closed INTEGER NOT NULL);
CREATE TABLE epochs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, collection INTEGER NOT NULL, number INTEGER NOT NULL,
    state TEXT NOT NULL, late_s REAL NOT NULL DEFAULT 0, UNIQUE (collection, number));
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
CREATE TABLE acknowledged (requests INTEGER NOT NULL);
INSERT INTO acknowledged VALUES (0);
PRAGMA user_version = {VERSION};
"""


class Database(AbstractContextManager["Database"]):
    """Connections to the file: one for writing, one for reading, one for checkpoints."""

    def __init__(self, folder: Path) -> None:
        """Open the file of a folder, or create it; SQLite recovers from a crash by itself."""
        self.path = folder / DATABASE_FILE
        # An existing file is not touched: closing it would release this process's locks on it.
        if not self.path.exists():
            self.path.touch(0o600)  # SQLite gives its other files the permissions of this one
        self._immutable_since = immutable_since(self.path)
        # Callers that also change memory hold the write lock until both agree.
        self.write_lock, self._read_lock = threading.RLock(), threading.Lock()
        with _translate_errors(self.path, opening=True), ExitStack() as opened:
            self.writer = self._connect(opened)
            version = self.writer.execute("PRAGMA user_version").fetchone()[0]
            if version not in {0, VERSION}:
                what = f"has version {version}, and this program knows {VERSION}"
                raise damaged(self.path, what, "use the program that wrote it")
            self.writer.execute("PRAGMA journal_mode = WAL")
            if version == 0:
                self.writer.executescript(f"BEGIN IMMEDIATE; {SCHEMA} COMMIT;")
            self.reader = self._connect(opened)
            self.checkpointer = self._connect(opened, wait_s=0.0)  # it retries at the next tick
            self._resources = opened.pop_all()

    def _connect(self, opened: ExitStack, wait_s: float = BUSY_S) -> sqlite3.Connection:
        """Return a connection, which `opened` closes; the file may be on read-only media.

        SQLite creates a log and its index even to read a file, unless it is told that the file is
        immutable. In a read-only folder without a log it is: every process that has the file open
        keeps a log. An existing log must be read, since it holds the latest commits.
        """
        uri = self.path.absolute().as_uri()
        uri += "" if self._immutable_since is None else "?immutable=1"
        connection = sqlite3.connect(
            uri, uri=True, timeout=wait_s, isolation_level=None, check_same_thread=False
        )
        opened.callback(connection.close)
        for setting in SETTINGS:
            connection.execute(f"PRAGMA {setting}")
        return connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection for writing; on exit all of it is on the disk, or nothing is."""
        with self.write_lock, _translate_errors(self.path), self.writer as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Make one change in a transaction of its own, and return how many rows it affected."""
        with self.transaction() as connection:
            return connection.execute(statement, parameters).rowcount

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Return the committed rows that a query selects."""
        with self._read_lock, _translate_errors(self.path):
            return self.reader.execute(statement, parameters).fetchall()

    def wal_bytes(self) -> int:
        """Return the size of the write-ahead log."""
        log = wal_of(self.path)
        return log.stat().st_size if log.exists() else 0

    def checkpoint(self, *, truncate: bool) -> None:
        """Move the write-ahead log into the file, so that the log can start over.

        Commits continue during the first pass; they wait only during the second, short one. A
        truncated log holds no deleted reports.
        """
        self.checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        mode = "TRUNCATE" if truncate else "PASSIVE"
        with self.write_lock:
            self.checkpointer.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()

    def purge(self, epoch: int) -> None:
        """Delete the request ids and tokens of an epoch, in small transactions."""
        for table in ID_TABLES:
            chosen = f"SELECT id FROM {table} WHERE epoch = ?1 LIMIT {PURGE_ROWS}"
            delete = f"DELETE FROM {table} WHERE epoch = ?1 AND id IN ({chosen})"
            while self.execute(delete, (epoch,)) == PURGE_ROWS:
                pass

    def count_requests(self) -> int:
        """Return how many requests it has counted, deleted ones included."""
        ((found,),) = self.rows("SELECT requests FROM acknowledged")
        return int(found)

    def check_count(self) -> None:
        """Raise `FolderDamaged` if acknowledged requests are missing.

        The latest commits are in SQLite's log. If that is deleted or damaged after a crash, the
        database looks intact without them, and only the small count file shows the loss.
        """
        try:
            promised = int(self.path.with_name(COUNT_FILE).read_bytes())
        except (FileNotFoundError, ValueError):  # a restored backup has none
            return
        lost = promised - self.count_requests()
        if lost > 0:
            what = f"acknowledged requests are missing ({lost:,}): its log was deleted or damaged"
            back = f"put {wal_of(self.path).name} back, or {RESTORE}"
            raise damaged(self.path, what, f"{back}; to go on without them, delete {COUNT_FILE}")

    def copy(self, path: Path) -> None:
        """Copy the committed rows to a new file, while others may write."""
        path.touch(0o600)
        with self._read_lock, _translate_errors(self.path), closing(sqlite3.connect(path)) as copy:
            self.reader.backup(copy)
            # Without a log, which would also have to be renamed.
            copy.execute("PRAGMA journal_mode = DELETE")
        if self._immutable_since not in {None, immutable_since(self.path)}:
            message = f"a collector began to use {self.path.parent} while it was copied"
            raise InvalidInput(f"{message}; copy it again")

    def __exit__(self, *_: object) -> None:
        self._resources.close()  # the last connection moves the log into the file


def immutable_since(path: Path) -> int | None:
    """Return when an immutable file changed, or None if its folder is writable or it has a log."""
    if os.access(path.parent, os.W_OK) or wal_of(path).exists():
        return None
    return path.stat().st_mtime_ns


def check_folder(folder: Path) -> None:
    """Refuse a folder that is not a data folder."""
    if not (folder / DATABASE_FILE).is_file():
        raise InvalidInput(f"{folder} is not a data folder: it has no {DATABASE_FILE}")


def wal_of(path: Path) -> Path:
    """Return where SQLite keeps the write-ahead log of a file."""
    return path.with_name(f"{path.name}-wal")


@contextmanager
def _translate_errors(path: Path, *, opening: bool = False) -> Iterator[None]:
    """Translate SQLite's errors: to `FolderDamaged`, unless the disk or a permission is why."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGE_CODES:
            raise damaged(path, f"cannot be read ({error})") from error
        if not opening:
            why = f"the disk is full, read-only or failed ({error})"
            raise Problem(CANNOT_STORE, why) from error
        advice = "check the space on its disk, its permissions, and whether another program uses it"
        if not os.access(path.parent, os.W_OK):  # a log without its index, which must be created
            advice = "copy its folder to a writable place"
        raise InvalidInput(f"{path} cannot be opened ({error}); {advice}") from None


def split_ids(width: int) -> str:
    """Return a WITH clause: `i` runs over the positions of `width`-byte ids in the blob `?2`.

    Every statement gives up the GIL and has to win it back, so many ids travel in one blob
    and are cut apart inside SQLite.
    """
    step = f"SELECT i + {width} FROM at WHERE i + {width} < length(?2)"
    return f"WITH RECURSIVE at(i) AS (SELECT 1 UNION ALL {step})"
