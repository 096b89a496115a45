"""The values of options that take only a few: a shell completes them.

Every set belongs to another room. It is repeated here, so that --help need not import that room,
and a test compares the two.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

import typer

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


def one_of(names: Callable[[], Iterable[str]]) -> dict[str, Any]:
    """Return arguments that make an option take only these names, which are read when needed."""

    def check(given: Any) -> Any:
        known = list(names()) if given else []
        for name in [given] if isinstance(given, str) else given or []:
            if name not in known:
                raise typer.BadParameter(f"there is no {name}; there are {', '.join(known)}")
        return given

    return {"autocompletion": names, "callback": check}


def words(known: Any) -> dict[str, Any]:
    """Return what makes an option take the words of a Literal, and tell of others in our words."""
    offered = get_args(known)

    def check(given: Any) -> Any:
        if given not in offered:
            raise typer.BadParameter(f"{given} is none of {', '.join(offered)}")
        return given

    return {
        "parser": check,
        "metavar": f"<{'|'.join(offered)}>",
        "autocompletion": lambda: list(offered),
    }
