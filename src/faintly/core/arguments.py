"""Arguments of callers, accepted in any usual type or refused with a clear message.

numpy's numbers and whole floats such as 5e3 are numbers; True is not. Text is never parsed as a
number here: the command line does that.
"""

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from faintly.errors import InvalidInput, InvalidPlan

LARGEST = 2**64
LONGEST = 40  # characters of a text or a number that an error repeats
NUMBERS = (int, float, np.integer, np.floating, Fraction, Decimal)


def whole(value: Any, name: str, error: type[InvalidInput] = InvalidPlan) -> int:
    """Return a whole number as an int.

    >>> whole(5e3, "clients"), whole(np.int32(7), "clients")
    (5000, 7)
    """
    if _is_number(value) and -LARGEST < value < LARGEST and value == int(value):
        return int(value)
    raise error(f"{name} must be a whole number of at most 64 bits, got {shown(value)}")


def real(value: Any, name: str, error: type[InvalidInput] = InvalidPlan) -> float:
    """Return a number as a float; the caller checks its range, infinities and NaN included."""
    if _is_number(value):
        try:
            return float(value)
        except OverflowError:
            pass
    raise error(f"{name} must be a number, got {shown(value)}")


def text(value: Any, name: str, error: type[InvalidInput] = InvalidPlan) -> str:
    """Return a string."""
    if isinstance(value, str):
        return str(value)
    raise error(f"{name} must be text, got {shown(value)}")


def instance(value: Any, kind: type, name: str, how: str) -> None:
    """Refuse a value of another type; `how` says where one comes from."""
    if not isinstance(value, kind):
        raise InvalidInput(f"{name} must be a {kind.__name__}, {how}; got {shown(value)}")


def listed(value: Any, name: str, error: type[InvalidInput] = InvalidInput) -> list[Any]:
    """Return a list, an array, a Series or another collection as a list.

    Text is refused: a list of its letters is seldom what a caller wants.
    """
    if isinstance(value, np.ndarray):
        return list(value.ravel().tolist())
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return list(value)
    one = f"; for one, write [{value!r}]" if isinstance(value, str | bytes) else ""
    raise error(f"{name} must be a list, got {shown(value)}{one}")


def path_of(value: Any, name: str = "path") -> Path:
    """Return a path or text as a path."""
    if isinstance(value, str | Path) and str(value).isprintable() and str(value):
        return Path(value)
    raise InvalidInput(f"{name} must be the path of a file, got {shown(value)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, NUMBERS) and not isinstance(value, bool | np.bool_)


def shown(value: Any) -> str:
    """Return a short number or text as it is, and the type of anything else."""
    if value is None or _is_number(value) or isinstance(value, str):
        text = ascii(value.item() if isinstance(value, np.generic) else value)
        if len(text) <= LONGEST:
            return text
    return f"a {type(value).__name__}"
