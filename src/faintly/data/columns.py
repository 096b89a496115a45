"""Columns of rows, and where each row came from.

A column of labels becomes numbers 0, 1, … in order of first appearance, so that the
same file gives the same batch everywhere and the labels themselves can be dropped.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from faintly.core import AnyArray, FloatArray, IntArray, Key
from faintly.core.projection import number_of
from faintly.core.universe import integers_or_list
from faintly.errors import InvalidData

KEY_TYPES = (int, str, bytes)
NOT_A_NUMBER = "value is not a number; write it as a decimal in [-1, 1]"


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows came from, for error messages that point at one."""

    word: str = "row"
    name: str = ""  # file name; empty for data that is already in memory
    numbers: IntArray | None = None  # the number to print for each row; None: rows count from 1
    strict: bool = True  # False: what a plan does not take is projected, as on a device
    files: tuple[tuple[int, str], ...] = ()  # several files: first row and name of each

    def at(self, row: int) -> str:
        """Return the name of row `row`, counted from 0, for error messages."""
        first, name = [(0, self.name), *(one for one in self.files if one[0] <= row)][-1]
        number = row - first + 1 if self.numbers is None else int(self.numbers[row])
        return f"{self.word} {number}" + (f" of {name}" if name else "")

    def each_twice(self, rows: int) -> "Source":
        """Return the source after each of its `rows` rows became two."""
        numbers = self.numbers
        if numbers is None:
            firsts = np.array([first for first, _ in self.files] or [0])
            lengths = np.diff(firsts, append=rows)
            numbers = np.arange(rows) - np.repeat(firsts, lengths) + 1
        files = tuple((2 * first, name) for first, name in self.files)
        return replace(self, numbers=np.repeat(numbers, 2), files=files)

    def refuse(self, row: int, rule: str) -> InvalidData:
        """Return the error that says which rule row `row`, counted from 0, breaks."""
        return InvalidData(f"{self.at(row)}: {rule}")

    def refuse_all(self, rule: str) -> InvalidData:
        """Return the error that says which rule the data as a whole breaks."""
        return InvalidData(f"{self.name or 'the data'} {rule}")

    def check(self, bad: AnyArray, rule: str) -> None:
        """Raise for the first row where `bad` is True."""
        if bad.any():
            raise self.refuse(int(np.argmax(bad)), rule)


def numbering() -> defaultdict[Hashable, int]:
    """Return a dictionary that numbers labels in the order in which they are first looked up."""
    return defaultdict(count().__next__)


def number_labels(
    column: AnyArray | Iterable[Key], name: str, source: Source
) -> tuple[IntArray, AnyArray | Sequence[Key]]:
    """Return the number of each label in order of first appearance, and the distinct labels."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
        return _number_integers(column)
    if isinstance(column, np.ndarray) and column.dtype.kind not in "OUS":
        raise source.refuse_all(f"needs integers or text in column {name}; convert the column")
    listed = column.tolist() if isinstance(column, np.ndarray) else list(column)
    if not set(map(type, listed)) <= set(KEY_TYPES):
        listed = [_plain(label, row, name, source) for row, label in enumerate(listed)]
    known = numbering()
    numbers = np.fromiter(map(known.__getitem__, listed), np.int64, len(listed))
    return numbers, integers_or_list(list(known))


def number_values(column: AnyArray | Iterable[object], source: Source) -> FloatArray:
    """Return the values as floats, or say which row does not hold a number."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiu":
        return column.astype(np.float64)
    listed = column.tolist() if isinstance(column, np.ndarray) else list(column)
    if not source.strict:
        return np.array([number_of(value) for value in listed], dtype=np.float64)
    out = np.empty(len(listed))
    for row, value in enumerate(listed):
        # Text and booleans would convert, but a column of them is more likely a mistake.
        if isinstance(value, str | bytes | bool | np.bool_):
            raise source.refuse(row, NOT_A_NUMBER)
        try:
            out[row] = float(value)
        except (TypeError, ValueError, OverflowError):
            raise source.refuse(row, NOT_A_NUMBER) from None
    return out


def check_values(values: FloatArray, source: Source) -> None:
    """Raise for the first value that is not a finite number in [-1, 1]."""
    if not source.strict or bool(np.all(np.abs(values) <= 1.0)):
        return
    source.check(~np.isfinite(values), "value is not finite; drop the row or give it a value")
    source.check(
        np.abs(values) > 1.0,
        "value is outside [-1, 1]; divide the column by its largest possible magnitude",
    )


def _plain(label: object, row: int, name: str, source: Source) -> Key:
    if isinstance(label, np.integer):
        return int(label)
    if isinstance(label, bool) or not isinstance(label, int | str | bytes):
        # NaN is how tables spell a missing cell.
        missing = label is None or str(label) in ("nan", "<NA>", "NaT")
        rule = "is missing" if missing else "is neither an integer nor text"
        raise source.refuse(row, f"{name} {rule}; fill the cell or drop the row")
    # A subclass such as numpy's str would work, but one type per label keeps equality simple.
    return next(kind(label) for kind in (int, str, bytes) if isinstance(label, kind))  # type: ignore[arg-type]


def _number_integers(column: AnyArray) -> tuple[IntArray, AnyArray]:
    if len(column) == 0:
        return np.zeros(0, np.int64), column
    fresh = column[1:] != column[:-1]
    if bool(np.all(column[1:] >= column[:-1])):
        numbers = np.concatenate([[0], np.cumsum(fresh)]).astype(np.int64)
        return numbers, column[np.concatenate([[True], fresh])]
    labels, first, inverse = np.unique(column, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[inverse], labels[order]
