"""MovieLens: `ratings.csv` with the columns userId, movieId, rating and timestamp.

A user is a client, and the movies that anybody rated are the items, numbered 0, 1, … by
ascending movieId. Ratings 0.5 to 5 become 2·rating/5 - 1, the map of the paper's authors.
MovieLens-20M thus gives the paper's 138,493 clients and 26,744 items.
"""

import csv
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np

from faintly.core import AnyArray
from faintly.data.columns import Source, number_labels
from faintly.data.opening import opened
from faintly.data.records import Records
from faintly.data.tables import load
from faintly.errors import InvalidData

COLUMNS = ("userId", "movieId", "rating")
LEAST, MOST = 0.5, 5.0
IDS = "must be a non-negative integer; fix the cell or drop the row"
RATING = "rating must be a number from 0.5 to 5; fix the cell or drop the row"


def read_ratings(path: Path) -> Records:
    """Return the ratings as records, or say which line breaks which rule."""
    users, movies, stars = _columns(path)
    source = Source("line", path.name, np.arange(2, len(users) + 2))
    source.check(users < 0, f"userId {IDS}")
    source.check(movies < 0, f"movieId {IDS}")
    source.check(~((stars >= LEAST) & (stars <= MOST)), RATING)
    clients, _ = number_labels(users, "userId", source)
    known, codes = np.unique(movies, return_inverse=True)
    values = 2 * stars / MOST - 1
    return Records.checked(clients, codes, np.arange(len(known)), values, source=source)


def _columns(path: Path) -> list[AnyArray]:
    """Return the three columns; twenty million rows need a reader in C."""
    reader, arrow = load("pyarrow.csv", "reading ratings"), load("pyarrow", "reading ratings")
    kinds = dict(zip(COLUMNS, (arrow.int64(), arrow.int64(), arrow.float64()), strict=True))
    convert = reader.ConvertOptions(column_types=kinds, include_columns=list(COLUMNS))
    # An empty line must not shift the numbers of the lines after it.
    parse = reader.ParseOptions(ignore_empty_lines=False)
    try:
        with opened(path) as file:
            table = reader.read_csv(file.stream, convert_options=convert, parse_options=parse)
    except (arrow.ArrowException, OSError):
        raise _explained(path) from None
    if any(table.column(name).null_count for name in COLUMNS):
        raise _explained(path)
    return [np.asarray(table.column(name).combine_chunks().to_numpy()) for name in COLUMNS]


def _explained(path: Path) -> InvalidData:
    """Return the error of the first line that cannot be read: slow, and used for errors only."""
    with opened(path) as file:
        text = TextIOWrapper(file.stream, encoding="utf-8-sig", errors="replace", newline="")
        reader = csv.reader(text)
        header = next(reader, [])
        if not set(COLUMNS) <= set(header):
            return InvalidData(f"line 1 of {path.name} must name the columns {', '.join(COLUMNS)}")
        for line, row in enumerate(reader, 2):
            rule = _broken_rule(dict(zip(header, row, strict=False)), len(row) - len(header))
            if rule:
                return InvalidData(f"line {line} of {path.name}: {rule}")
    return InvalidData(f"{path.name} is not a readable CSV file; save it again as UTF-8")


def _broken_rule(cells: dict[str, Any], surplus: int) -> str | None:
    if surplus:
        return "has more or fewer cells than the header; fix or drop the row"
    for name in COLUMNS[:2]:
        if not (cells[name].isascii() and cells[name].isdigit()):
            return f"{name} {IDS}"
    try:
        return None if LEAST <= float(cells["rating"]) <= MOST else RATING
    except ValueError:
        return RATING
