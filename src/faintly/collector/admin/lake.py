"""Sealed segments to a lake; a collector may be running."""

import secrets
from pathlib import Path

from faintly.collector.storage import segments
from faintly.collector.storage.collection import Epoch
from faintly.collector.storage.database import Database, check_folder
from faintly.collector.storage.disk import copying
from faintly.collector.storage.registry import Registry
from faintly.lake import Committed, Lake, Sealed, Segment


def commit(folder: Path, lake: Lake) -> Committed:
    """Commit every sealed segment that the lake lacks, of all collections that keep reports.

    The folder's name in the lake is random, and kept in the database: a backup has it, too, so a
    restored folder goes on where the lost one stopped. Two copies of a folder must not both run.
    """
    check_folder(folder)
    with Database(folder) as database, copying(folder):
        source, registry = _source(database), Registry(database)
        sealed = [
            Sealed(
                source, collection.digest.hex(), epoch.number, _segments(folder, database, epoch)
            )
            for collection in registry.collections.values()
            for epoch in collection.epochs.values()
            if collection.retention == "keep"
        ]
        return lake.commit(sealed)


def _segments(folder: Path, database: Database, epoch: Epoch) -> tuple[Segment, ...]:
    return tuple(
        Segment(
            segments.path_of(folder, epoch, row.number),
            row.number,
            row.reports,
            row.stored.size,
            row.stored.checksum,
        )
        for row in segments.rows(database, epoch)
    )


def _source(database: Database) -> str:
    """Return the folder's name in lakes, which the first commit draws."""
    # Not in the schema: only folders that feed a lake have it.
    with database.transaction() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS lake (source TEXT NOT NULL)")
        found = connection.execute("SELECT source FROM lake").fetchone()
        if found is None:
            found = (secrets.token_hex(8),)
            connection.execute("INSERT INTO lake VALUES (?)", found)
    return str(found[0])
