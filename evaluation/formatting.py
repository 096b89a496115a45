"""Numbers and durations as text for people."""

import math
from collections.abc import Iterable

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
KEYS = {"all": "all keys", "each": "all keys", "top": "top 100 keys", "some": "1,000 keys"}
NUMERIC = frozenset("0123456789(+−≤≥")  # first characters of a cell that is a number
PLAIN = range(-2, 6)  # powers of ten of numbers that are written out


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with this many digits; an empty string where it is not known.

    >>> number(0.04567), number(9.712e-5), number(23400, 7), number(-0.5)
    ('0.0457', '9.71·10⁻⁵', '23,400', '−0.5')
    """
    if value is None or math.isnan(value):
        return ""
    power = _power(value)
    if power in PLAIN:
        text = f"{value:,.{max(digits, power + 1)}g}"
    else:
        text = f"{value / 10.0**power:.{digits}g}·10{_raised(power)}"
    return text.replace("-", "−")


def plus_minus(value: float, error: float) -> str:
    """Return a number and its standard error, to two digits of the error.

    >>> plus_minus(0.03774, 0.0044), plus_minus(9.712e-5, 2.4e-6), plus_minus(1234.5, 12.0)
    ('0.0377 ± 0.0044', '(9.71 ± 0.24)·10⁻⁵', '1,234 ± 12')
    >>> plus_minus(0.5, 0.0), plus_minus(0.5, float("nan"))
    ('0.5', '0.5')
    """
    if math.isnan(error) or error == 0 or math.isnan(value):
        return number(value)
    power = _power(value)
    scale = 1.0 if power in PLAIN else 10.0**power
    places = max(0, 1 - _power(error / scale))
    text = f"{value / scale:,.{places}f} ± {error / scale:,.{places}f}".replace("-", "−")
    return text if scale == 1.0 else f"({text})·10{_raised(power)}"


def times(value: float | None) -> str:
    """Return a ratio.

    >>> times(39.42), times(1234.5), times(None)
    ('39.4×', '1,234×', '')
    """
    return "" if value is None or math.isnan(value) else f"{number(value)}×"


def span(values: list[float]) -> str:
    """Return the range of some ratios.

    >>> span([2.0, 39.4]), span([2.0]), span([2.0, 2.001]), span([])
    ('2× to 39.4×', '2×', '2×', '')
    """
    if not values:
        return ""
    low, high = times(min(values)), times(max(values))
    return low if low == high else f"{low} to {high}"


def plain_time(seconds: float) -> str:
    """Return a duration for people.

    >>> plain_time(42), plain_time(200), plain_time(7300)
    ('42 s', '3 min', '2 h 2 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def is_words(column: Iterable[str]) -> bool:
    """Return whether a column of a table holds text rather than numbers.

    >>> is_words(["user", "event"]), is_words(["1.9×", "", "not run"]), is_words(["yes", "not run"])
    (True, False, True)
    """
    filled = [text for text in column if text not in ("", "not run")]
    return not all(text[0] in NUMERIC for text in filled) or any(" (" in text for text in filled)


def _power(value: float) -> int:
    return math.floor(math.log10(abs(value))) if value else 0


def _raised(power: int) -> str:
    return str(power).translate(RAISED)
