"""Tables in memory and Parquet files, with columns client, item (or key) and optionally value.

pyarrow numbers labels itself, quickly; pandas and polars columns go through numpy.
Neither pandas nor polars is imported: a caller with a table has done that.
"""

from importlib import import_module
from typing import Any

import numpy as np

from faintly.core import AnyArray, FloatArray, Key
from faintly.data.columns import Source, number_labels, number_values
from faintly.data.naming import DUPLICATES, Columns, Found
from faintly.data.opening import OnRead, Opened
from faintly.data.records import Records
from faintly.errors import InvalidData, MissingDependency

BATCH = 2**20  # rows of a Parquet file read at a time: 50 MB, with long keys
MISSING = "{} is missing; fill the cell or drop the row"


def load(module: str, reason: str) -> Any:
    """Return an optional module, or say which extra installs it."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingDependency.of(f"{reason} needs {package}", "eval") from None


def records_from_columns(
    clients: Any, keys: Any, values: Any | None, source: Source, duplicates: str = DUPLICATES[0]
) -> Records:
    """Return the records of three columns in numpy arrays or lists, one entry per row."""
    client_numbers, _ = number_labels(clients, "client", source)
    codes, distinct = number_labels(keys, "item", source)
    weights = None if values is None else number_values(values, source)
    return Records.checked(
        client_numbers, codes, distinct, weights, source=source, duplicates=duplicates
    )


def records_from_frame(frame: Any, columns: Columns, source: Source) -> Records:
    """Return the records of a pandas or polars DataFrame."""
    found = columns.find([str(name) for name in frame.columns], "the table")
    read: list[AnyArray | None] = []
    for name in found:
        column = None if name is None else frame[name]
        if column is not None and (source.strict or name != found.value):
            missing = column.isna() if hasattr(column, "isna") else column.is_null()
            source.check(np.asarray(missing.to_numpy(), dtype=bool), MISSING.format(name))
        read.append(None if column is None else np.asarray(column.to_numpy()))
    clients, keys, values = read
    return records_from_columns(clients, keys, values, source, columns.duplicates)


def records_from_arrow(table: Any, columns: Columns, source: Source) -> Records:
    """Return the records of a pyarrow Table or RecordBatch."""
    rows = ArrowRows(columns, source.strict)
    rows.begin(list(table.column_names))
    for batch in table.to_batches() if hasattr(table, "to_batches") else [table]:
        rows.add(batch)
    return rows.done()


class ArrowRows:
    """Collects rows from batches of Arrow columns, without a Python object for each.

    Batches may come from several files. Each distinct label is kept once, in Arrow's format.
    """

    def __init__(self, columns: Columns, strict: bool, on_read: OnRead = lambda *_: None) -> None:
        self._columns, self._strict, self._on_read = columns, strict, on_read
        self._files: list[tuple[int, str]] = []
        self._found = Found("", "", None)
        self._labels = {"client": _Labels("client"), "item": _Labels("item")}
        self._clients: list[AnyArray] = []
        self._codes: list[AnyArray] = []
        self._values: list[AnyArray] = []
        self.count = 0

    def read(self, file: Opened) -> None:
        """Add the rows of a Parquet file."""
        parquet = load("pyarrow.parquet", "reading Parquet")
        errors = load("pyarrow", "reading Parquet").ArrowException
        try:
            stored = parquet.ParquetFile(file.whole())
            found = self.begin(list(stored.schema_arrow.names), file.name)
            first, total = self.count, stored.metadata.num_rows
            self._on_read(file.name, 0, 0.0)
            for batch in stored.iter_batches(BATCH, columns=found.names):
                self.add(batch)
                done = self.count - first
                self._on_read(file.name, done, done / total)
        except (errors, OSError):
            raise InvalidData(
                f"{file.name} is not a readable Parquet file; write it again"
            ) from None

    def begin(self, names: list[str], file: str = "") -> Found:
        """Start a table of these columns, and return which of them are read."""
        self._found = self._columns.find(names, file or "the table", public=bool(file))
        if file:
            self._files.append((self.count, file))
        return self._found

    def add(self, batch: Any) -> None:
        """Add the rows of a batch of columns."""
        found, source = self._found, self._source()
        parts = {"client": found.client, "item": found.key, "value": found.value}
        for part, name in parts.items():
            if name is not None and (self._strict or part != "value"):
                missing = _array(batch.column(name).is_null())
                if missing.any():
                    row = self.count + int(np.argmax(missing))
                    raise source.refuse(row, MISSING.format(name))
        for part, kept in (("client", self._clients), ("item", self._codes)):
            kept.append(self._labels[part].numbers(batch.column(parts[part]), source))
        if found.value is None:
            self._values.append(np.broadcast_to(1.0, len(batch)))
        else:
            self._values.append(_numbers(batch.column(found.value), source))
        self.count += len(batch)

    def done(self) -> Records:
        """Return the rows as checked records."""
        # Sets stay a view of one number.
        ones = all(part.strides == (0,) for part in self._values)
        return Records.checked(
            _concatenated(self._clients, np.int64),
            _concatenated(self._codes, np.int64),
            self._labels["item"].distinct,
            None if ones else _concatenated(self._values, np.float64),
            source=self._source(),
            count=len(self._labels["client"]),
            duplicates=self._columns.duplicates,
        )

    def _source(self) -> Source:
        name = self._files[0][1] if self._files else ""
        return Source("row", name, None, self._strict, tuple(self._files))


class _Labels:
    """The distinct labels of a column in order of first appearance."""

    def __init__(self, name: str) -> None:
        self._name, self._known = name, None

    def __len__(self) -> int:
        return 0 if self._known is None else len(self._known)

    def numbers(self, column: Any, source: Source) -> AnyArray:
        """Return the number of each label, with new numbers for new labels."""
        import pyarrow as pa
        from pyarrow import compute

        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        target = _label_type(kind)
        if target is None:
            raise source.refuse_all(
                f"needs integers or text in column {self._name}; convert the column"
            )
        # Decoding a dictionary first drops entries that no row uses, and repeated ones.
        encoded = column.cast(target).dictionary_encode()
        if self._known is None:
            self._known = encoded.dictionary
            return _array(encoded.indices)
        if self._known.type != target:
            raise source.refuse_all(
                f"has text in column {self._name} in one place and numbers in another; convert one"
            )
        found = compute.index_in(encoded.dictionary, value_set=self._known)
        new = _array(found.is_null())
        numbers = _array(found.fill_null(0)).astype(np.int64)
        numbers[new] = len(self._known) + np.arange(int(new.sum()))
        fresh = encoded.dictionary.filter(pa.array(new))
        self._known = pa.concat_arrays([self._known, fresh])
        return numbers[_array(encoded.indices)].astype(np.int32)

    @property
    def distinct(self) -> AnyArray | list[Key]:
        """Return the labels."""
        import pyarrow as pa

        if self._known is None:
            return []
        integers = pa.types.is_integer(self._known.type)
        return _array(self._known) if integers else self._known.to_pylist()


def _concatenated(parts: list[AnyArray], kind: Any) -> Any:
    """Return the parts as one array, and free them."""
    whole = np.concatenate([np.empty(0, kind), *parts], dtype=kind)
    parts.clear()
    return whole


def _label_type(kind: Any) -> Any | None:
    """Return the type that labels of type `kind` are cast to, or None if it has no labels."""
    import pyarrow as pa

    if pa.types.is_integer(kind):
        return kind if str(kind) == "uint64" else pa.int64()
    if str(kind) in ("string", "large_string", "string_view"):
        return pa.large_string()
    if str(kind) in ("binary", "large_binary", "binary_view"):
        return pa.large_binary()
    return None


def _numbers(column: Any, source: Source) -> FloatArray:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return _array(column.cast(pa.float64(), safe=False))
    raise source.refuse_all("needs numbers in column value; convert the column")


def _array(column: Any) -> AnyArray:
    return np.asarray(column.to_numpy(zero_copy_only=False))
