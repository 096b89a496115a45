"""How many requests were acknowledged: in the database, and in a small file beside it.

The latest commits are in SQLite's log. If that is deleted or damaged after a crash, the database
is whole without them, and only this file knows better. It is written after each commit and before
the answers, without a sync: it may lag behind the database after a power failure, never lead.
"""

import os
from contextlib import suppress
from pathlib import Path

from faintly.collector.storage.database import Database, log_of
from faintly.collector.storage.disk import damaged

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
        raise damaged(database.path, what, advice)


def stored(database: Database) -> int:
    """Return the requests that the database has counted, deleted ones included."""
    ((found,),) = database.rows("SELECT requests FROM acknowledged")
    return int(found)


def write(handle: int, requests: int) -> None:
    """Note in the open file how many requests are on the disk."""
    with suppress(OSError):  # the reports are stored; a count that lags only notices less
        os.pwrite(handle, b"%0*d\n" % (DIGITS, requests), 0)
