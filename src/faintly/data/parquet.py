"""Parquet, read a batch of rows at a time."""

from faintly.data.columns import Source
from faintly.data.naming import Columns
from faintly.data.opening import OnRead, Opened
from faintly.data.tables import ArrowRows, load
from faintly.errors import InvalidData

BATCH = 2**20  # rows that are read together: 50 MB, with long keys


class ParquetRows(ArrowRows):
    """Collects rows of Parquet files."""

    def __init__(self, columns: Columns, strict: bool, on_read: OnRead) -> None:
        super().__init__(columns, Source("row", strict=strict))
        self._on_read = on_read

    def read(self, source: Opened) -> None:
        """Add the rows of a file."""
        parquet = load("pyarrow.parquet", "reading Parquet")
        errors = load("pyarrow", "reading Parquet").ArrowException
        try:
            file = parquet.ParquetFile(source.whole())
            found = self.begin(list(file.schema_arrow.names), source.name)
            first, total = self.count, file.metadata.num_rows
            self._on_read(source.name, 0, 0.0)
            for batch in file.iter_batches(BATCH, columns=found.names):
                self.add(batch)
                done = self.count - first
                self._on_read(source.name, done, done / total)
        except (errors, OSError):
            raise InvalidData(
                f"{source.name} is not a readable Parquet file; write it again"
            ) from None
