"""The parts of options: numbers as people write them, words from a list, and shared options.

50k, 1e6, 50_000 and 50,000 are whole numbers. The lists of words belong to other packages. They
are repeated here, so that --help need not import those packages, and a test compares the two.
"""

import inspect
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal, get_args

import typer

from faintly.errors import InvalidPlan

Control = Literal["family", "fdr"]
Decode = Literal["table", "direct"]
Duplicates = Literal["refuse", "once", "sum"]
Family = Literal["linear", "prf", "blake2s"]
LogLevel = Literal["debug", "info", "warning", "error"]
Rank = Literal["worst", "typical"]
Retention = Literal["keep", "drop"]
Role = Literal["submit", "read", "admin"]
Row = Literal["event", "l1", "squeeze", "user"]
Values = Literal["signed", "nonnegative", "set"]

_GROUPED = re.compile(r"-?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}
MOST_DIGITS = 30  # a larger exponent would be a typing error, and take long


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the fields of a dataclass instead of a parameter of that type.

    So commands share options, and the code that uses them.
    """

    def call(**given: Any) -> None:
        for name, kind in groups.items():
            own = {each.name: given.pop(each.name) for each in fields(kind)}
            given[name] = kind(**own)
        command(**given)

    parameters = list(inspect.signature(command).parameters.values())
    groups: dict[str, Any] = {
        each.name: each.annotation for each in parameters if is_dataclass(each.annotation)
    }
    options: list[inspect.Parameter] = []
    for parameter in parameters:
        shared = groups.get(parameter.name)
        options += [parameter] if shared is None else inspect.signature(shared).parameters.values()
    options = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in options]
    call.__name__, call.__doc__ = command.__name__, command.__doc__
    call.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return call


def group(text: str) -> typer.Typer:
    """Return a command that has subcommands."""
    return typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)


def argument(text: str, **more: Any) -> Any:
    """Return an argument with this help."""
    return typer.Argument(help=text, **more)


def option(text: str, *names: str, **more: Any) -> Any:
    """Return an option with this help; its names follow from the parameter's unless given."""
    return typer.Option(*names, help=text, **more)


def whole(
    text: str, *names: str, least: int | None = None, most: int | None = None, **more: Any
) -> Any:
    """Return an option that takes a whole number within bounds."""

    def integer(given: Any) -> int:  # the help shows this name for the option's value
        found = whole_number(given) if isinstance(given, str) else int(given)
        if found is None:
            raise typer.BadParameter(
                f"{given} is not a whole number; write it like 50000, 50k or 1e6"
            )
        return int(_within(found, least, most))

    return option(text, *names, parser=integer, **more)


def real(text: str, *names: str, least: float | None = None, **more: Any) -> Any:
    """Return an option that takes a finite number, no smaller than the least."""

    def float_(given: Any) -> float:
        found = number(given) if isinstance(given, str) else given
        if found is None or not math.isfinite(found):
            raise typer.BadParameter(f"{given} is not a number; write it like 0.5, 2 or 1e-6")
        return _within(float(found), least, None)

    float_.__name__ = "float"
    return option(text, *names, parser=float_, **more)


def word(text: str, known: Any, *names: str, **more: Any) -> Any:
    """Return an option that takes the words of a Literal, and lists them where it refuses one."""
    offered = get_args(known)

    def check(given: Any) -> Any:
        if given not in offered:
            raise typer.BadParameter(f"{given} is not one of {', '.join(offered)}")
        return given

    more |= {"metavar": f"<{'|'.join(offered)}>", "autocompletion": lambda: list(offered)}
    return option(text, *names, parser=check, **more)


def one_of(names: Callable[[], Iterable[str]]) -> dict[str, Any]:
    """Return arguments that make an option take only these names, which are read when needed."""

    def check(given: Any) -> Any:
        known = list(names()) if given else []
        for name in [given] if isinstance(given, str) else given or []:
            if name not in known:
                raise typer.BadParameter(f"there is no {name}; there are {', '.join(known)}")
        return given

    return {"autocompletion": names, "callback": check}


def number(text: str) -> Decimal | None:
    """Return the number in a text; None if it is not a finite number."""
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
    """Return the whole number in a text; None if it is not one."""
    found = number(text)
    return int(found) if found is not None and found == found.to_integral_value() else None


def _within(found: float, least: float | None, most: float | None) -> float:
    if least is not None and found < least:
        raise typer.BadParameter(f"{found:,} is too small; the least is {least:,}")
    if most is not None and found > most:
        raise typer.BadParameter(f"{found:,} is too large; the most is {most:,}")
    return found


def mechanisms() -> list[str]:
    """Return every mechanism, baselines included."""
    from faintly.mechanisms import mechanism_names

    return mechanism_names()


def _unit(text: str) -> str:
    """Return the text, if it names a unit."""
    if text in ("event", "user"):  # without the parser, which imports numpy
        return text
    from faintly.core import parse_unit

    try:
        parse_unit(text)
    except InvalidPlan as error:
        raise typer.BadParameter(str(error)) from None
    return text


Protect = Annotated[
    str,
    option(
        "What is hidden: event, user or l1:DISTANCE.",
        autocompletion=lambda: ["event", "user", "l1:"],
        callback=_unit,
    ),
]
