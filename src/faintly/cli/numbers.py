"""Numbers as people write them: 50k, 1e6, 50_000 and 50,000 are whole numbers."""

import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import typer

_GROUPED = re.compile(r"-?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}
MOST_DIGITS = 30  # a larger exponent would be a typing error, and take long


def number(text: str) -> Decimal | None:
    """Return the number that a text means; None if it means none, or one that is not finite."""
    plain = text.strip().replace("_", "")
    if _GROUPED.fullmatch(plain):
        plain = plain.replace(",", "")
    factor = _SUFFIXES.get(plain[-1:].lower(), 1)
    try:
        found = Decimal(plain[:-1] if factor > 1 else plain)
    except InvalidOperation:
        return None
    return found * factor if found.is_finite() and found.adjusted() < MOST_DIGITS else None


def whole_number(text: str) -> int | None:
    """Return the whole number that a text means; None if it means none."""
    found = number(text)
    return int(found) if found is not None and found == found.to_integral_value() else None


def whole(least: int | None = None, most: int | None = None) -> Callable[[Any], int]:
    """Return a parser of whole numbers within bounds, for an option."""

    def integer(given: Any) -> int:  # the help calls the option's value by this name
        found = whole_number(given) if isinstance(given, str) else int(given)
        if found is None:
            raise typer.BadParameter(
                f"{given} is not a whole number; write it like 50000, 50k or 1e6"
            )
        return int(_within(found, least, most))

    return integer


def real(least: float | None = None, most: float | None = None) -> Callable[[Any], float]:
    """Return a parser of finite numbers within bounds, for an option."""

    def float_(given: Any) -> float:
        found = number(given) if isinstance(given, str) else given
        if found is None or not math.isfinite(found):
            raise typer.BadParameter(f"{given} is not a number; write it like 0.5, 2 or 1e-6")
        return float(_within(float(found), least, most))

    float_.__name__ = "float"
    return float_


def _within(found: float, least: float | None, most: float | None) -> float:
    if least is not None and found < least:
        raise typer.BadParameter(f"{found:,} is too small; the least is {least:,}")
    if most is not None and found > most:
        raise typer.BadParameter(f"{found:,} is too large; the most is {most:,}")
    return found
