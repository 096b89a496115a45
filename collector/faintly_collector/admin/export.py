"""Raw reports of a collection as one file, for other programs; a collector may be running.

Only sealed reports are exported, in the shuffled order of their segments.
"""

from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from faintly.engine.files import atomic_write
from faintly.errors import InvalidInput
from faintly.wire import report_v1
from faintly_collector.storage import segments
from faintly_collector.storage.collection import Collection
from faintly_collector.storage.manifest import SEGMENTS, File, Manifest


def export(folder: Path, named: str, epoch: int | None, path: Path) -> int:
    """Write the sealed reports of a collection, given its name or digest; return how many.

    A path that ends with .parquet also gets their epochs; any other gets the format that
    `faintly aggregate` reads. Without an epoch, all epochs are written.
    """
    write = _write_parquet if path.suffix == ".parquet" else _write_reports
    with Manifest.open(folder) as manifest:
        registry = manifest.registry
        collection = registry.collection(bytes.fromhex(registry.digest_of(named)))
        if collection.retention == "drop":
            raise InvalidInput("this collection drops its reports once they are counted")
        files = [
            file
            for number, each in sorted(collection.epochs.items())
            if epoch in {None, number}
            for file in manifest.files(SEGMENTS, each)
        ]
        if not files:
            raise InvalidInput("there are no sealed reports to export")
        with atomic_write(path, private=True) as stream:
            write(collection, files, stream)
        return sum(file.reports for file in files)


def _write_parquet(collection: Collection, files: list[File], stream: BinaryIO) -> None:
    about = {b"faintly.plan": collection.digest.hex().encode(), b"faintly.version": segments.FORMAT}
    record = pa.field("record", pa.binary(collection.record_bytes), nullable=False)
    epochs = pa.field("epoch", pa.int64(), nullable=False)
    columns = pa.schema([epochs, record], metadata=about)
    with segments.writer(stream, columns) as out:
        for file in files:
            numbers = pa.array(np.full(file.reports, file.epoch.number, np.int64))
            rows = segments.array_of(segments.read(file))
            out.write_table(pa.Table.from_arrays([numbers, rows], schema=columns))


def _write_reports(collection: Collection, files: list[File], stream: BinaryIO) -> None:
    for file in files:
        records = segments.read(file)
        for start in range(0, len(records), report_v1.BATCH_REPORTS):
            batch = segments.decode(records[start : start + report_v1.BATCH_REPORTS], collection)
            stream.write(report_v1.encode_batch(batch, collection.mechanism.layout))
