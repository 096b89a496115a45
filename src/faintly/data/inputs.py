"""One entry point for the shapes in which people hold sparse data.

list of dicts, sets or lists     one entry per client
scipy.sparse matrix              one row per client, the column number is the item
(clients, items[, values])       a tuple of arrays, one entry per row
pandas, polars, pyarrow tables   columns client, item (or key), optionally value
str or Path, list of Paths       files that `read_records` reads
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from faintly.core import AnyArray, Key, Plan, VectorBatch
from faintly.core.arguments import instance
from faintly.core.key_value import coordinates
from faintly.data.columns import Source, number_labels, number_values
from faintly.data.files import read_records
from faintly.data.naming import Columns
from faintly.data.records import Records, as_indices, check_taken, to_vectors
from faintly.data.tables import records_from_arrow, records_from_columns, records_from_frame
from faintly.errors import InvalidData

SHAPES = (
    "a list with one dict or set of items per client, a scipy.sparse matrix, a tuple "
    "(clients, items, values) of arrays, a pandas, polars or pyarrow table, or a file's path"
)


def vectors_from(
    data: Any,
    plan: Plan,
    *,
    strict: bool = True,
    pad: bool = True,
    columns: Columns | None = None,
) -> VectorBatch:
    """Return one vector per client, whatever shape the data has.

    A mean is over all clients of the plan. Rows name only clients that hold something, so clients
    of the plan that the data do not mention are empty vectors at the end.

    Args:
        data: any of the shapes at the top of this module, a path, several paths, `Records`, or a
            `VectorBatch`.
        plan: says how a key becomes an id, and how many clients there are.
        strict: refuse keys that the plan does not have, values that it does not take and
            repeated items. False projects them as a client does: left out, clipped, added up.
        pad: False leaves out clients that the data do not mention; a mean is then over the
            others.
        columns: which columns of a table or file to read, and what to do with repeated rows.

    Raises:
        InvalidData: the data break a rule; the message names the row or client, from 1.

    Privacy: errors never show keys, values or client labels. A vector's position reveals whether it
    is empty: shuffle before you hand out reports one by one, as `faintly encode` does. A sketch has
    no order.
    """
    instance(plan, Plan, "plan", "as make_plan returns it")
    made = _vectors(data, plan, strict, columns)
    return made.padded(plan.clients) if pad else made


def entries_from(
    data: Any,
    plan: Plan,
    *,
    strict: bool = True,
    pad: bool = True,
    columns: Columns | None = None,
) -> VectorBatch:
    """Return one vector per client, in which each entry is two coordinates.

    Arguments and errors are those of `vectors_from`, except that `key_value_plan` made the `plan`.
    The values of the data are those of entries.
    """
    instance(plan, Plan, "plan", "as key_value_plan returns it")
    made = to_vectors(_paired(records_of(data, strict=strict, columns=columns), plan), plan)
    return made.padded(plan.clients) if pad else made


def _paired(records: Records, plan: Plan) -> Records:
    """Return the records of coordinates: held and value of each row, in turn."""
    held = np.where(np.isnan(records.values), np.nan, 1.0)  # without a value, no entry
    return replace(
        records,
        clients=np.repeat(records.clients, 2),
        codes=np.stack([2 * records.codes, 2 * records.codes + 1], axis=1).ravel(),
        keys=coordinates(as_indices(records.keys, plan.universe)),
        values=np.stack([held, records.values], axis=1).ravel(),
        source=records.source.each_twice(len(records)),
    )


def _vectors(data: Any, plan: Plan, strict: bool, columns: Columns | None) -> VectorBatch:
    if isinstance(data, VectorBatch):
        if strict:
            plan.ids(data.indices, private=True)  # refuses indices outside this plan's universe
            check_taken(data.values, plan, Source("client", numbers=data.owners + 1))
            return data
        everything = (data.owners, np.arange(len(data.indices)), data.indices, data.values)
        data = Records(*everything, len(data), Source(strict=False))
    return to_vectors(records_of(data, strict=strict, columns=columns), plan)


def records_of(data: Any, *, strict: bool = True, columns: Columns | None = None) -> Records:
    """Return the rows that the data hold, in any shape but a `VectorBatch`."""
    columns, rows = Columns() if columns is None else columns, Source(strict=strict)
    instance(columns, Columns, "columns", "such as Columns(client='user')")
    if isinstance(data, Records):
        loose = replace(data.source, strict=False)  # lenient records cannot become strict again
        return data if strict else replace(data, source=loose)
    paths = isinstance(data, list | tuple) and all(isinstance(one, Path) for one in data)
    if isinstance(data, str | Path) or (paths and data):  # text in a list is a key
        if isinstance(data, str) and not Path(data).exists():
            # The text may be somebody's key rather than a path, so it is not shown.
            raise InvalidData(f"cannot read a str that is not the path of a file; pass {SHAPES}")
        return read_records(data, columns, strict=strict)
    package = type(data).__module__.partition(".")[0]
    if package == "scipy" and hasattr(data, "tocsr"):
        return _from_matrix(data, strict)
    if package == "pyarrow" and hasattr(data, "column_names"):
        return records_from_arrow(data, columns, rows)
    if package in ("pandas", "polars") and type(data).__name__ == "DataFrame":
        return records_from_frame(data, columns, rows)
    if isinstance(data, tuple) and len(data) in (2, 3) and all(map(_is_column, data)):
        clients, keys, values = [*map(_flat, data), None][:3]
        return records_from_columns(clients, keys, values, rows, columns.duplicates)
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return replace(_from_clients(data, strict), duplicates=columns.duplicates)
    raise InvalidData(f"cannot read a {type(data).__name__}; pass {SHAPES}")


def _is_column(part: Any) -> bool:
    return not isinstance(part, Mapping | Set | str | bytes) and hasattr(part, "__len__")


def _flat(part: Any) -> AnyArray | list[Any]:
    if not isinstance(part, np.ndarray) and not hasattr(part, "__array__"):
        return list(part)  # numpy would turn [1, "a"] into text
    column = np.asarray(part)
    if column.ndim != 1:
        raise InvalidData(
            "clients, items and values must be arrays of one dimension; "
            "flatten them, one entry per row"
        )
    return column


def _from_matrix(data: Any, strict: bool) -> Records:
    if len(data.shape) != 2:
        raise InvalidData("a matrix needs two dimensions: a row per client, a column per item")
    matrix = data.tocsr()
    clients = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    source = Source("row", "the matrix", clients + 1, strict)
    codes, keys = number_labels(np.asarray(matrix.indices), "item", source)
    values = number_values(np.asarray(matrix.data), source)
    return Records.checked(clients, codes, keys, values, source=source, count=int(matrix.shape[0]))


def _from_clients(entries: Sequence[Any], strict: bool) -> Records:
    keys: list[Key] = []
    values: list[object] = []
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, str | bytes) or not isinstance(entry, Collection):
            raise InvalidData(
                f"client {number} is neither a dict nor a set of items; pass {{item: value}} or "
                "{item}, and {} for a client without items"
            )
        keys.extend(entry)
        values.extend(entry.values() if isinstance(entry, Mapping) else (1.0,) * len(entry))
    lengths = np.fromiter(map(len, entries), np.int64, len(entries))
    clients = np.repeat(np.arange(len(entries), dtype=np.int64), lengths)
    source = Source("client", numbers=clients + 1, strict=strict)
    codes, distinct = number_labels(keys, "item", source)
    return Records.checked(
        clients,
        codes,
        distinct,
        number_values(values, source),
        source=source,
        count=len(entries),
    )
