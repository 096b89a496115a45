"""How many requests were acknowledged: in the database, and in a small file beside it.

The latest commits are in SQLite's log. If that is deleted or damaged after a crash, the database
is whole without them, and only this file knows better. It is written after each commit and before
the answers, without a sync: it may lag behind the database after a power failure, never lead.
"""

import os
from contextlib import suppress
from pathlib import Path

from faintly.collector.storage.database import Database, log_of
from faintly.errors import FolderDamaged

NAME = "collector.count"
DIGITS = 20


def check(folder: Path, database: Database) -> None:
    """Raise `FolderDamaged` if the database has lost acknowledged requests."""
    try:
        promised = int((folder / NAME).read_bytes()[:DIGITS])
    except (FileNotFoundError, ValueError):  # a restored backup has none
        return
    lost = promised - stored(database)
    if lost > 0:
        what = f"acknowledged requests are missing ({lost:,}): its log was deleted or damaged"
        advice = (
            f"put {log_of(database.path).name} back, or restore a backup into a new folder; "
            f"to go on without them, delete {NAME}"
        )
        raise FolderDamaged(f"{database.path}: {what}; {advice}", what, advice)


def stored(database: Database) -> int:
    """Return the requests that the database has counted, deleted ones included."""
    found: int = database.rows("SELECT requests FROM acknowledged")[0][0]
    return found


class Acknowledged:
    """The file, open for writing."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.requests = stored(database)
        self._handle = os.open(folder / NAME, os.O_WRONLY | os.O_CREAT, 0o600)
        self.write(self.requests)

    def write(self, requests: int) -> None:
        """Note how many requests are on the disk."""
        self.requests = requests
        with suppress(OSError):  # the reports are stored; a count that lags only notices less
            os.pwrite(self._handle, b"%0*d\n" % (DIGITS, requests), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)
