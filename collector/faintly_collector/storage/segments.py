"""Segments: sealed reports as Parquet, which other programs can read.

One column of records, shuffled: a file does not reveal when a report arrived or with which others.
Records are random bytes, so compression is off.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from faintly import kernels
from faintly.core import AnyArray, ReportBatch
from faintly.durable import Stored
from faintly.errors import Rejected
from faintly.primitives.entropy import secure
from faintly.wire import report_v1
from faintly_collector.storage.collection import Collection, Epoch
from faintly_collector.storage.disk import damaged, file_problem, write_file
from faintly_collector.storage.manifest import File

FORMAT = b"1"


def shuffle(records: AnyArray) -> AnyArray:
    """Return the rows in random order, drawn from the operating system."""
    # Rows whose 32-bit sort keys are equal keep their order. Of any two rows, the first arrived
    # first with probability 1/2 + 2^-33: too close to 1/2 to detect.
    return kernels.shuffle_rows(records, secure().words(len(records)))


def schema(collection: Collection, epoch: int) -> pa.Schema:
    """Return the schema of a segment, with its plan and epoch as metadata."""
    about = {
        b"faintly.plan": collection.digest.hex().encode(),
        b"faintly.epoch": str(epoch).encode(),
        b"faintly.version": FORMAT,
    }
    column = pa.field("record", pa.binary(collection.record_bytes), nullable=False)
    return pa.schema([column], metadata=about)


def array_of(records: AnyArray) -> pa.Array:
    """Return rows of bytes as a column, without copying."""
    buffers = [None, pa.py_buffer(records)]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(records.shape[1]), len(records), buffers)


def writer(sink: Any, columns: pa.Schema) -> Any:
    """Return a Parquet writer without compression, dictionaries and statistics."""
    return parquet.ParquetWriter(
        sink, columns, use_dictionary=False, compression="NONE", write_statistics=False
    )


def write(path: Path, epoch: Epoch, records: AnyArray) -> Stored:
    """Write a segment; returns once it is on the disk."""
    columns = schema(epoch.collection, epoch.number)
    sink = pa.BufferOutputStream()
    with writer(sink, columns) as out:
        out.write_table(pa.Table.from_arrays([array_of(records)], schema=columns))
    made = memoryview(sink.getvalue())
    return write_file(path, lambda stream: stream.write(made))


def read(file: File) -> AnyArray:
    """Return the records of a segment as rows of bytes; the whole file is checked first."""
    problem = file_problem(file.path, file.stored)
    if problem is not None:
        raise damaged(file.path, problem)
    try:
        # The simpler read_table would import pandas if it is installed.
        with parquet.ParquetFile(file.path, memory_map=True) as stream:
            table = stream.read(use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise damaged(file.path, f"cannot be read ({error})") from None
    collection = file.epoch.collection
    if not table.schema.equals(schema(collection, file.epoch.number), check_metadata=True):
        raise damaged(file.path, "it belongs to another plan or epoch")
    if len(table) != file.reports:
        raise damaged(file.path, f"it has {len(table)} reports instead of {file.reports}")
    column = table.column(0).combine_chunks()
    rows = np.frombuffer(column.buffers()[1], np.uint8).reshape(-1, collection.record_bytes)
    return rows[column.offset : column.offset + len(column)].copy()  # the file may be deleted


def decode(records: AnyArray, collection: Collection) -> ReportBatch:
    """Return stored records as reports."""
    try:
        return report_v1.unpack(records, collection.digest, collection.mechanism.layout)
    except Rejected as error:
        raise damaged("stored reports", f"they were changed: {error}") from None
