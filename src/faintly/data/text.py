"""CSV and JSON lines, read row by row with the line of each row kept for errors.

CSV    a header that names client, item (or key) and, if there is one, value
JSONL  {"client": 7, "item": "a", "value": 0.5}             one row a line, or
       {"client": 7, "items": {"a": 0.5}}, {"items": ["a"]}  one client a line
"""

import csv
import json
import math
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from faintly.core import Key
from faintly.core.projection import number_of
from faintly.core.strict_json import RepeatedField, no_repeats
from faintly.data.columns import KEY_TYPES, Numbering, Source, integers_or_list
from faintly.data.records import Records
from faintly.errors import InvalidData

HEADER = "must name the columns client, item (or key) and optionally value"
NOT_A_NUMBER = "value is not a number; write it as a decimal in [-1, 1]"


class _Rows:
    """Rows in the making, as flat arrays: a Python object per cell would cost gigabytes."""

    def __init__(self, path: Path, strict: bool) -> None:
        self.path, self.strict = path, strict
        self.client_numbers = Numbering()
        self.key_numbers = Numbering()
        self.clients = array("q")
        self.codes = array("q")
        self.values = array("d")
        self.lines = array("q")

    def refuse(self, line: int, rule: str) -> InvalidData:
        """Return the error that says which rule line `line`, counted from 1, breaks."""
        return InvalidData(f"line {line} of {self.path.name}: {rule}")

    def done(self) -> Records:
        """Return the rows as checked records."""
        keys: list[Key] = list(self.key_numbers)  # type: ignore[arg-type]  # checked when added
        return Records.checked(
            np.array(self.clients, dtype=np.int64),
            np.array(self.codes, dtype=np.int64),
            integers_or_list(keys),
            np.array(self.values, dtype=np.float64),
            source=Source(
                "line", self.path.name, np.array(self.lines, dtype=np.int64), self.strict
            ),
            count=len(self.client_numbers),
        )


def key_column(names: list[str], source: str) -> str:
    """Return which of item and key the columns have, or say what is wrong with them.

    The names are not shown: in a file without a header they are somebody's data.
    """
    wanted = [name for name in names if name in ("client", "item", "key", "value")]
    if len(set(wanted)) != len(wanted) or {"item", "key"} <= set(wanted):
        raise InvalidData(f"{source} has a column twice, or both item and key; keep one of them")
    missing = [] if "client" in wanted else ["client"]
    missing += [] if {"item", "key"} & set(wanted) else ["item (or key)"]
    if missing:
        raise InvalidData(f"{source} has no column {' and no '.join(missing)}; it {HEADER}")
    return "item" if "item" in wanted else "key"


def read_csv(path: Path, *, strict: bool = True) -> Records:
    """Return the rows of a comma-separated file in UTF-8 with a header."""
    rows = _Rows(path, strict)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            _fill_from_csv(reader, rows)
        except csv.Error:
            raise rows.refuse(
                reader.line_num,
                "is not well-formed CSV; close every quote, and double one inside a quoted cell",
            ) from None
        except UnicodeDecodeError:
            raise _not_utf8(rows) from None
    return rows.done()


def _fill_from_csv(reader: Any, rows: _Rows) -> None:
    header = [name.strip() for name in next(reader, [])]
    if not header:
        raise InvalidData(f"{rows.path.name} is empty; its first line {HEADER}")
    key_name = key_column(header, f"line 1 of {rows.path.name}")
    client_at, key_at = header.index("client"), header.index(key_name)
    value_at = header.index("value") if "value" in header else None
    width, line = len(header), reader.line_num + 1
    for row in reader:
        if len(row) == width:
            client, key = row[client_at], row[key_at]
            if not client or not key:
                raise rows.refuse(line, "client or item is missing; fill the cell or drop the row")
            rows.clients.append(rows.client_numbers[client])
            rows.codes.append(rows.key_numbers[key])
            rows.values.append(1.0 if value_at is None else _decimal(row[value_at], line, rows))
            rows.lines.append(line)
        elif row:  # a blank line is not a row
            fix = "quote cells that contain commas" if len(row) > width else "fill those that lack"
            rule = f"has {len(row)} cells where the header has {width}; {fix}, or drop the row"
            raise rows.refuse(line, rule)
        line = reader.line_num + 1


def _decimal(text: str, line: int, rows: _Rows) -> float:
    try:
        return float(text)
    except ValueError:
        if not rows.strict:
            return math.nan
        missing = "value is missing; fill it or drop the row"
        raise rows.refuse(line, NOT_A_NUMBER if text.strip() else missing) from None


def _not_utf8(rows: _Rows) -> InvalidData:
    with rows.path.open("rb") as file:
        for line, data in enumerate(file, 1):
            try:
                data.decode("utf-8")
            except UnicodeDecodeError:
                return rows.refuse(line, "is not UTF-8 text; save the file as UTF-8")
    return InvalidData(f"{rows.path.name} is not UTF-8 text; save the file as UTF-8")


def read_jsonl(path: Path, *, strict: bool = True) -> Records:
    """Return the rows of a file with one JSON object a line, in either form."""
    rows = _Rows(path, strict)
    decode = json.JSONDecoder(object_pairs_hook=no_repeats).decode
    form: frozenset[str] | None = None
    with path.open(encoding="utf-8-sig") as file:
        try:
            for line, text in enumerate(file, 1):
                if text.isspace():
                    continue
                fields = _object(decode, text, line, rows)
                form = form or _form(fields, line, rows)
                _add_object(fields, form, line, rows)
        except UnicodeDecodeError:
            raise _not_utf8(rows) from None
    return rows.done()


def _object(decode: Any, text: str, line: int, rows: _Rows) -> dict[str, Any]:
    try:
        fields = decode(text)
    except RepeatedField:
        raise rows.refuse(line, "names a field or an item twice; keep one") from None
    except (ValueError, RecursionError):
        raise rows.refuse(line, "is not JSON; write one object a line") from None
    if not isinstance(fields, dict):
        raise rows.refuse(line, "is not a JSON object; write one object a line")
    return fields


def _form(fields: dict[str, Any], line: int, rows: _Rows) -> frozenset[str]:
    """Return the fields that every line must have, as the first line shows them."""
    form = frozenset(fields) & {"client", "item", "key", "value", "items"}
    if form in ({"items"}, {"client", "items"}):
        return form
    if "client" in form and len(form & {"item", "key", "items"}) == 1 and "items" not in form:
        return form
    raise rows.refuse(
        line,
        "needs client and item (or key), or items; write "
        '{"client": 7, "item": "a", "value": 0.5} or {"client": 7, "items": {"a": 0.5}}',
    )


def _add_object(fields: dict[str, Any], form: frozenset[str], line: int, rows: _Rows) -> None:
    for name in form:
        if fields.get(name) is None:
            raise rows.refuse(
                line, f"{name} is missing; fill it in: every line needs the first one's fields"
            )
    if frozenset(fields) & {"client", "item", "key", "value", "items"} != form:
        raise rows.refuse(line, "has a field that the first line lacks; use one form a file")
    # A line that names no client is a client of its own.
    label = fields["client"] if "client" in form else line
    if type(label) not in KEY_TYPES:
        raise rows.refuse(line, "client is neither an integer nor text; quote it or drop the row")
    client = rows.client_numbers[label]
    if "items" in form:
        _add_items(fields["items"], client, line, rows)
    else:
        key = fields["item"] if "item" in form else fields["key"]
        _add_item(client, key, fields.get("value", 1.0), line, rows)


def _add_items(items: Any, client: int, line: int, rows: _Rows) -> None:
    if isinstance(items, Mapping):
        for key, value in items.items():
            _add_item(client, key, value, line, rows)
    elif isinstance(items, list):
        for key in items:
            _add_item(client, key, 1.0, line, rows)
    else:
        raise rows.refuse(
            line,
            "items is neither an object of values nor a list of keys; write "
            '{"a": 0.5} or ["a", "b"]',
        )


def _add_item(client: int, key: Any, value: Any, line: int, rows: _Rows) -> None:
    # Exact types: JSON's true is an int to Python, and 1.0 would share the key of 1.
    if type(key) not in KEY_TYPES:
        raise rows.refuse(line, "item is neither an integer nor text; quote it or drop it")
    if type(value) is not float:
        value = _number(value, line, rows)
    rows.clients.append(client)
    rows.codes.append(rows.key_numbers[key])
    rows.values.append(value)
    rows.lines.append(line)


def _number(value: Any, line: int, rows: _Rows) -> float:
    if not rows.strict:
        return number_of(value)
    if value is None:
        raise rows.refuse(line, "value is missing; fill it or drop the row")
    if type(value) is not int:
        raise rows.refuse(line, NOT_A_NUMBER)
    # Any larger integer is outside [-1, 1] as well, and may not fit a float.
    return float(max(-2, min(2, value)))
