"""Raw reports of a collection as one file, for other programs; a collector may be running.

Only sealed reports are exported, in the shuffled order of their segments.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from faintly.collector.problems import Problem
from faintly.collector.storage import segments
from faintly.collector.storage.collection import Collection, Epoch
from faintly.collector.storage.database import NAME, Database
from faintly.collector.storage.disk import copying
from faintly.collector.storage.registry import Registry
from faintly.core import AnyArray
from faintly.engine.files import atomic_write
from faintly.errors import InvalidInput
from faintly.wire import report_v1


def export_parquet(folder: Path, digest: bytes, epoch: int | None, path: Path) -> int:
    """Write sealed reports with their epoch as Parquet, and return how many."""
    import pyarrow as pa

    written = 0
    with _opened(folder, digest, path) as (database, collection, stream):
        about = {b"faintly.plan": digest.hex().encode(), b"faintly.version": segments.FORMAT}
        record = pa.field("record", pa.binary(collection.record_bytes), nullable=False)
        epochs = pa.field("epoch", pa.int64(), nullable=False)
        columns = pa.schema([epochs, record], metadata=about)
        with segments.writer(stream, columns) as out:
            for source, records in _records(database, folder, collection, epoch):
                numbers = pa.array(np.full(len(records), source.number, np.int64))
                rows = segments.array_of(records)
                out.write_table(pa.Table.from_arrays([numbers, rows], schema=columns))
                written += len(records)
    return written


def export_reports(folder: Path, digest: bytes, epoch: int | None, path: Path) -> int:
    """Write sealed reports as a file that `faintly aggregate` reads, and return how many."""
    written = 0
    with _opened(folder, digest, path) as (database, collection, stream):
        for _, records in _records(database, folder, collection, epoch):
            for start in range(0, len(records), report_v1.BATCH_REPORTS):
                some = records[start : start + report_v1.BATCH_REPORTS]
                batch = segments.decode(some, collection)
                stream.write(report_v1.encode_batch(batch, collection.mechanism.layout))
            written += len(records)
    return written


def check_folder(folder: Path) -> None:
    """Refuse a folder that no collector has used."""
    if not (folder / NAME).is_file():
        raise InvalidInput(f"{folder} is not a data folder: it has no {NAME}")


def find(folder: Path, named: str) -> bytes:
    """Return the digest of a collection that is given by that or by its name."""
    check_folder(folder)
    with Database(folder) as database:
        try:
            return bytes.fromhex(Registry(database).digest_of(named))
        except Problem as problem:
            raise InvalidInput(f"{folder}: {problem}") from None


@contextmanager
def _opened(
    folder: Path, digest: bytes, path: Path
) -> Iterator[tuple[Database, Collection, BinaryIO]]:
    """Yield the database, the collection and the file to write, which is private."""
    check_folder(folder)
    with Database(folder) as database, copying(folder), atomic_write(path, private=True) as stream:
        collection = Registry(database).collections.get(digest)
        if collection is None:
            raise InvalidInput(f"{folder} has no collection {digest.hex()}")
        if collection.retention == "drop":
            raise InvalidInput("this collection drops its reports once they are counted")
        yield database, collection, stream


def _records(
    database: Database, folder: Path, collection: Collection, epoch: int | None
) -> Iterator[tuple[Epoch, AnyArray]]:
    chosen = [each for number, each in sorted(collection.epochs.items()) if epoch in {None, number}]
    if not any(each.sealed for each in chosen):
        raise InvalidInput("there are no sealed reports to export")
    for each in chosen:
        for row in segments.rows(database, each):
            path = segments.path_of(folder, each, row.number)
            yield each, segments.read(path, each, row.stored)
