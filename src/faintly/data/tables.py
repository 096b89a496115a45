"""Tables in memory, with columns client, item (or key) and optionally value.

pyarrow numbers labels itself, quickly; pandas and polars columns go through numpy.
Neither pandas nor polars is imported: a caller with a table has done that.
"""

from importlib import import_module
from typing import Any

import numpy as np

from faintly.core import AnyArray, FloatArray, IntArray
from faintly.data.columns import Source, number_labels, number_values
from faintly.data.records import Records
from faintly.data.text import NOT_A_NUMBER, key_column
from faintly.errors import MissingDependency

MISSING = "{} is missing; fill the cell or drop the row"


def load(module: str, reason: str) -> Any:
    """Return an optional module, or say which extra installs it."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingDependency.of(f"{reason} needs {package}", "eval") from None


def records_from_columns(clients: Any, keys: Any, values: Any | None, source: Source) -> Records:
    """Return the records of three columns in numpy arrays or lists, one entry per row."""
    client_numbers, _ = number_labels(clients, "client", source)
    codes, distinct = number_labels(keys, "item", source)
    weights = None if values is None else number_values(values, source)
    return Records.checked(client_numbers, codes, distinct, weights, source=source)


def records_from_frame(frame: Any, source: Source) -> Records:
    """Return the records of a pandas or polars DataFrame."""
    names = [str(name) for name in frame.columns]
    wanted = ["client", key_column(names, source.name or "the table")]
    wanted += ["value"] if "value" in names else []
    columns: list[AnyArray | None] = [_frame_column(frame, name, source) for name in wanted]
    clients, keys, values = [*columns, None][:3]
    return records_from_columns(clients, keys, values, source)


def _frame_column(frame: Any, name: str, source: Source) -> AnyArray:
    column = frame[name]
    missing = column.isna() if hasattr(column, "isna") else column.is_null()
    if source.strict or name != "value":
        source.check(np.asarray(missing.to_numpy(), dtype=bool), MISSING.format(name))
    return np.asarray(column.to_numpy())


def records_from_arrow(table: Any, source: Source) -> Records:
    """Return the records of a pyarrow Table."""
    names = list(table.column_names)
    key_name = key_column(names, source.name or "the table")
    for name in ("client", key_name, *(["value"] if "value" in names else [])):
        column = table.column(name)
        if column.null_count and (source.strict or name != "value"):
            source.check(_array(column.is_null()), MISSING.format(name))
    clients, labels = _arrow_labels(table.column("client"), "client", source)
    codes, keys = _arrow_labels(table.column(key_name), key_name, source)
    values = _arrow_values(table.column("value"), source) if "value" in names else None
    distinct = _array(keys) if _is_integer(keys.type) else keys.to_pylist()
    return Records.checked(clients, codes, distinct, values, source=source, count=len(labels))


def _arrow_labels(column: Any, name: str, source: Source) -> tuple[IntArray, Any]:
    types = load("pyarrow.types", "reading Arrow tables")
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    target = _label_type(kind)
    if target is None:
        raise source.refuse_all(f"needs integers or text in column {name}; convert the column")
    # Decoding a dictionary first drops entries that no row uses, and repeated ones.
    encoded = _joined(column.cast(target)).dictionary_encode()
    return _array(encoded.indices).astype(np.int64), encoded.dictionary


def _label_type(kind: Any) -> Any | None:
    """Return the type to number labels of type `kind` in; None where it cannot be one."""
    arrow = load("pyarrow", "this table")
    if _is_integer(kind):
        return kind
    if str(kind) in ("string", "large_string", "string_view"):
        return arrow.large_string()
    if str(kind) in ("binary", "large_binary", "binary_view"):
        return arrow.large_binary()
    return None


def _arrow_values(column: Any, source: Source) -> FloatArray:
    types, arrow = load("pyarrow.types", "this table"), load("pyarrow", "this table")
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if not (types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind)):
        if _label_type(kind) is not None:
            source.check(_no_numbers(column), NOT_A_NUMBER)
        raise source.refuse_all("needs numbers in column value; convert the column")
    return _array(column.cast(arrow.float64(), safe=False)).astype(np.float64)


def _no_numbers(column: Any) -> AnyArray:
    """Return which texts are not numbers: slow, and only on the way to an error."""
    bad = np.zeros(len(column), dtype=bool)
    for row, text in enumerate(column.to_pylist()):
        try:
            float(text)
        except ValueError:
            bad[row] = True
    return bad


def _is_integer(kind: Any) -> bool:
    return bool(load("pyarrow.types", "this table").is_integer(kind))


def _array(column: Any) -> AnyArray:
    return np.asarray(_joined(column).to_numpy(zero_copy_only=False))


def _joined(column: Any) -> Any:
    """Return a column as one array: tables hold it in chunks, record batches do not."""
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column
