"""Sealed segments to a lake; a collector may be running."""

import secrets
from dataclasses import astuple
from pathlib import Path

from faintly.lake import Committed, Lake, Sealed, Segment
from faintly_collector.storage.database import Database
from faintly_collector.storage.manifest import SEGMENTS, Manifest


def commit(folder: Path, lake: Lake) -> Committed:
    """Commit every sealed segment that the lake lacks, of all collections that keep reports.

    The folder's name in the lake is random and kept in the database. A backup has it too, so a
    restored folder continues where the lost one stopped. Two copies of a folder must not both run.
    """
    with Manifest.open(folder) as manifest:
        source = _source(manifest.database)
        sealed = [
            Sealed(
                source,
                epoch.collection.digest.hex(),
                epoch.number,
                tuple(
                    Segment(file.path, file.number, file.reports, *astuple(file.stored))
                    for file in manifest.files(SEGMENTS, epoch)
                ),
            )
            for epoch in manifest.registry.by_id.values()
            if epoch.collection.retention == "keep"
        ]
        return lake.commit(sealed)


def _source(database: Database) -> str:
    """Return the folder's name in lakes, which the first commit chooses at random."""
    # Not in the schema: only folders that feed a lake have this table.
    with database.transaction() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS lake (source TEXT NOT NULL)")
        if_none = "SELECT ? WHERE NOT EXISTS (SELECT * FROM lake)"
        connection.execute(f"INSERT INTO lake {if_none}", (secrets.token_hex(8),))
        return str(connection.execute("SELECT source FROM lake").fetchone()[0])
