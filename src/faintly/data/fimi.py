"""FIMI set files: one transaction a line, its items as integers with blanks between them.

A line is a client, and an empty line a client with no items. The line's number is what
errors name, and every item has the value 1.
"""

from array import array
from pathlib import Path

import numpy as np

from faintly.data.columns import Source, number_labels
from faintly.data.naming import Columns
from faintly.data.opening import opened
from faintly.data.records import Records
from faintly.errors import InvalidData

MAX_DIGITS = 18  # such integers fit 64 bits


def read_fimi(path: Path, columns: Columns, *, strict: bool = True) -> Records:
    """Return the sets of a FIMI file, or say which line is not one."""
    items, lengths = array("q"), array("q")
    with opened(path) as file:
        for line, text in enumerate(file.stream, 1):
            parts = text.split()
            _check(parts, line, path)
            items.extend(map(int, parts))
            lengths.append(len(parts))
    counts = np.array(lengths, dtype=np.int64)
    clients = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    source = Source("line", path.name, clients + 1, strict)
    codes, keys = number_labels(np.array(items, dtype=np.int64), "item", source)
    return Records.checked(
        clients,
        codes,
        keys,
        None,
        source=source,
        count=len(counts),
        duplicates=columns.duplicates,
    )


def _check(parts: list[bytes], line: int, path: Path) -> None:
    if not all(part.isdigit() and len(part) <= MAX_DIGITS for part in parts):
        raise InvalidData(
            f"line {line} of {path.name}: holds something that is not an item number; write one "
            "set a line, non-negative integers with blanks between them"
        )
