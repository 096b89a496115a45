"""CSV, TSV, JSON lines and sets, read row by row; errors name the line of a row.

CSV    a header that names the columns; commas, tabs or semicolons between cells
JSONL  {"client": 7, "item": "a", "value": 0.5}             one row per line, or
       {"client": 7, "items": {"a": 0.5}}, {"items": ["a"]}  one client per line
sets   3 17 5                                               one client per line, as in FIMI files
"""

import csv
import json
import math
from array import array
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from faintly.core import Key
from faintly.core.projection import number_of
from faintly.core.strict_json import RepeatedField, no_repeats
from faintly.core.universe import integers_or_list
from faintly.data.columns import KEY_TYPES, NOT_A_NUMBER, Source, numbering
from faintly.data.naming import HEADER, Columns, Found
from faintly.data.opening import STDIN, OnRead, Opened, opened
from faintly.data.records import Records
from faintly.errors import InvalidData

DELIMITERS = ",\t;"
OWN_FIELDS = {"client", "item", "key", "value", "items"}
MAX_DIGITS = 18  # such integers fit 64 bits
PROGRESS_LINES = 2**16  # lines between two reports of progress
FORMS = (
    "needs client and item (or key), or items; write "
    '{"client": 7, "item": "a", "value": 0.5} or {"client": 7, "items": {"a": 0.5}}'
)


class TextRows:
    """Rows of text files, as flat arrays: a Python object per cell would cost gigabytes."""

    def __init__(self, columns: Columns, strict: bool, on_read: OnRead) -> None:
        self.columns, self.strict, self._on_read = columns, strict, on_read
        self.client_numbers = numbering()
        self.key_numbers = numbering()
        self.clients = array("q")
        self.codes = array("q")
        self.values = array("d")
        self.lines = array("q")
        self.files: list[tuple[int, str]] = []
        self._file: Opened | None = None

    def read(self, file: Opened) -> None:
        """Add the rows of a file."""
        self.files.append((len(self.clients), file.name))
        self._file = file
        fill = {"jsonl": _fill_from_jsonl, "sets": _fill_from_sets}.get(file.kind, _fill_from_csv)
        try:
            fill(file, self)
        except UnicodeDecodeError:
            raise _not_utf8(file.path, self) from None
        self.show_progress()

    def show_progress(self) -> None:
        """Report how much of the file has been read."""
        first, name = self.files[-1]
        assert self._file is not None
        self._on_read(name, len(self.clients) - first, self._file.share())

    def add(self, client: int, key: Key, value: float, line: int) -> None:
        """Add a row."""
        self.clients.append(client)
        self.codes.append(self.key_numbers[key])
        self.values.append(value)
        self.lines.append(line)

    def refuse(self, line: int, rule: str) -> InvalidData:
        """Return the error that says which rule line `line`, counted from 1, breaks."""
        return InvalidData(f"line {line} of {self.files[-1][1]}: {rule}")

    def done(self) -> Records:
        """Return the rows as checked records."""
        lines, files = np.asarray(self.lines), tuple(self.files)
        return Records.checked(
            np.asarray(self.clients),
            np.asarray(self.codes),
            integers_or_list(list(self.key_numbers)),
            np.asarray(self.values),
            source=Source("line", files[0][1], lines, self.strict, files),
            count=len(self.client_numbers),
            duplicates=self.columns.duplicates,
        )


def _fill_from_csv(file: Opened, rows: TextRows) -> None:
    text = file.text
    header = text.readline()
    # A cell with a line break in the header would be cut here, and refused below.
    delimiter = max(DELIMITERS, key=header.count)
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])]
        _fill_from_cells(reader, names, rows)
    except csv.Error:
        raise rows.refuse(
            reader.line_num + 1,
            "is not well-formed CSV; close every quote, and double one inside a quoted cell",
        ) from None


def _fill_from_cells(reader: Any, header: list[str], rows: TextRows) -> None:
    name = rows.files[-1][1]
    if not header:
        raise InvalidData(f"{name} is empty; its first line {HEADER}")
    found = rows.columns.find(header, f"line 1 of {name}")
    client_at, key_at = header.index(found.client), header.index(found.key)
    value_at = None if found.value is None else header.index(found.value)
    width, line, next_shown = len(header), 2, PROGRESS_LINES
    rows.show_progress()
    for row in reader:
        if len(row) == width:
            client, key = row[client_at], row[key_at]
            if not client or not key:
                raise rows.refuse(line, "client or item is missing; fill the cell or drop the row")
            value = 1.0 if value_at is None else _decimal(row[value_at], line, rows)
            rows.add(rows.client_numbers[client], key, value, line)
        elif row:  # a blank line is not a row
            fix = "quote cells that contain commas" if len(row) > width else "fill the missing ones"
            rule = f"has {len(row)} cells where the header has {width}; {fix}, or drop the row"
            raise rows.refuse(line, rule)
        line = reader.line_num + 2
        if line > next_shown:
            rows.show_progress()
            next_shown = line + PROGRESS_LINES


def _decimal(text: str, line: int, rows: TextRows) -> float:
    try:
        return float(text)
    except ValueError:
        if not rows.strict:
            return math.nan
        missing = "value is missing; fill it or drop the row"
        raise rows.refuse(line, NOT_A_NUMBER if text.strip() else missing) from None


def _not_utf8(path: Path, rows: TextRows) -> InvalidData:
    if path != STDIN:  # which cannot be read again
        with opened(path) as file:
            for line, data in enumerate(file.stream, 1):
                try:
                    data.decode("utf-8")
                except UnicodeDecodeError:
                    return rows.refuse(line, "is not UTF-8 text; save the file as UTF-8")
    return InvalidData(f"{rows.files[-1][1]} is not UTF-8 text; save it as UTF-8")


def _fill_from_sets(file: Opened, rows: TextRows) -> None:
    rows.show_progress()
    for line, text in enumerate(file.stream, 1):
        parts = text.split()
        if not all(part.isdigit() and len(part) <= MAX_DIGITS for part in parts):
            raise rows.refuse(
                line,
                "holds something that is not an item number; write one set per line, non-negative "
                "integers with blanks between them",
            )
        client = rows.client_numbers[rows.files[-1][1], line]  # an empty line is a client, too
        for part in parts:
            rows.add(client, int(part), 1.0, line)
        if line % PROGRESS_LINES == 0:
            rows.show_progress()


def _fill_from_jsonl(file: Opened, rows: TextRows) -> None:
    decode = json.JSONDecoder(object_pairs_hook=no_repeats).decode
    form: _Form | None = None
    rows.show_progress()
    for line, text in enumerate(file.text, 1):
        if text.isspace():
            continue
        fields = _object(decode, text, line, rows)
        form = form or _Form(fields, line, rows)
        form.add(fields, line, rows)
        if line % PROGRESS_LINES == 0:
            rows.show_progress()


def _object(decode: Callable[[str], Any], text: str, line: int, rows: TextRows) -> dict[str, Any]:
    try:
        fields = decode(text)
    except RepeatedField:
        raise rows.refuse(line, "names a field or an item twice; keep one") from None
    except (ValueError, RecursionError):
        raise rows.refuse(line, "is not JSON; write one object per line") from None
    if not isinstance(fields, dict):
        raise rows.refuse(line, "is not a JSON object; write one object per line")
    return fields


class _Form:
    """The fields that every line must have, as the first line shows them."""

    def __init__(self, fields: dict[str, Any], line: int, rows: TextRows) -> None:
        self.several = "items" in fields and rows.columns.key is None
        if self.several:
            if {"item", "key", "value"} & set(fields):
                raise rows.refuse(line, FORMS)
            client = rows.columns.client or "client"
            self.found = Found(client if client in fields else "", "items", None)
        else:
            self.found = self._find(fields, line, rows)
        self.fields = {name for name in self.found.names if name}
        # Another line may not add one of these: it would change what the line means.
        self.watched = self.fields | (set() if rows.columns.named else OWN_FIELDS)

    def _find(self, fields: dict[str, Any], line: int, rows: TextRows) -> Found:
        try:
            return rows.columns.find(list(fields), f"line {line} of {rows.files[-1][1]}")
        except InvalidData:
            if rows.columns.named:
                raise
            raise rows.refuse(line, FORMS) from None

    def add(self, fields: dict[str, Any], line: int, rows: TextRows) -> None:
        """Add the rows of one line."""
        for name in self.fields:
            if fields.get(name) is None:
                raise rows.refuse(
                    line, f"{name} is missing; fill it in: every line needs the fields of the first"
                )
        if set(fields) & self.watched != self.fields:
            raise rows.refuse(
                line, "has a field that the first line lacks; use one form in each file"
            )
        # A line that names no client is a separate client.
        label = fields[self.found.client] if self.found.client else (rows.files[-1][1], line)
        if self.found.client and type(label) not in KEY_TYPES:
            raise rows.refuse(
                line, "client is neither an integer nor text; quote it or drop the row"
            )
        client = rows.client_numbers[label]
        for key, value in self._items(fields, line, rows):
            # Exact types: JSON's true is an int to Python, and 1.0 would share the key of 1.
            if type(key) not in KEY_TYPES:
                raise rows.refuse(line, "item is neither an integer nor text; quote it or drop it")
            number = value if type(value) is float else _number(value, line, rows)
            rows.add(client, key, number, line)

    def _items(
        self, fields: dict[str, Any], line: int, rows: TextRows
    ) -> Iterable[tuple[Any, Any]]:
        """Return the keys and values of one line."""
        items = fields[self.found.key]
        if not self.several:
            return [(items, 1.0 if self.found.value is None else fields[self.found.value])]
        if isinstance(items, dict):
            return items.items()
        if isinstance(items, list):
            return ((key, 1.0) for key in items)
        raise rows.refuse(
            line,
            "items is neither an object of values nor a list of keys; write "
            '{"a": 0.5} or ["a", "b"]',
        )


def _number(value: Any, line: int, rows: TextRows) -> float:
    if not rows.strict:
        return number_of(value)
    if value is None:
        raise rows.refuse(line, "value is missing; fill it or drop the row")
    if type(value) is not int:
        raise rows.refuse(line, NOT_A_NUMBER)
    # Any larger integer is outside [-1, 1] as well, and may not fit a float.
    return float(max(-2, min(2, value)))
