"""Which columns of a table hold client, key and value.

Names are compared without case, blanks, dashes and underscores: user_id is User ID. A name that
the caller gives wins; then faintly's own (client, item or key, value); then an obvious one, if it
is the only one. A column of values is never guessed: what it measures is not known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from faintly.errors import InvalidData, InvalidInput

HEADER = "must name the columns client, item (or key) and optionally value"
NO_VALUES = "none"  # in place of a column's name: read sets, whatever columns there are
DUPLICATES = ("refuse", "once", "sum")

_THINGS = "site url domain page product sku song track movie film book word term tag app package"
_PEOPLE = "user person customer member account device visitor respondent subscriber"
OWN = {"client": ("client",), "key": ("item", "key"), "value": ("value",)}
OBVIOUS = {
    "client": ("clientid", "uid", *(one + end for one in _PEOPLE.split() for end in ("", "id"))),
    "key": ("itemid", "keyid", *(one + end for one in _THINGS.split() for end in ("", "id"))),
    "value": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns to read, and what to do with repeated rows; None: decide by the names.

    Attributes:
        client: column of the clients.
        key: column of the keys.
        value: column of the values; none where every row counts as 1.
        duplicates: what to do with rows that repeat an item of their client: refuse them, count
            the first of them once, or sum their values, clipped to [-1, 1].
    """

    client: str | None = None
    key: str | None = None
    value: str | None = None
    duplicates: str = DUPLICATES[0]

    def __post_init__(self) -> None:
        if not isinstance(self.duplicates, str) or self.duplicates not in DUPLICATES:
            raise InvalidInput(f"duplicates is one of {', '.join(DUPLICATES)}")
        for part, name in (("client", self.client), ("key", self.key), ("value", self.value)):
            if name is not None and not isinstance(name, str):
                raise InvalidInput(f"{part} is the name of a column, as text")

    @property
    def named(self) -> bool:
        """Return whether the caller named any column."""
        return any(name is not None for name in (self.client, self.key, self.value))

    def find(self, names: Sequence[str], where: str, *, public: bool = False) -> "Found":
        """Return which columns to read, or raise with what is wrong.

        Args:
            names: the columns of the table.
            where: the table or line, as errors name it.
            public: show the names in errors. In a text file without a header they are somebody's
                data.
        """
        client, key, value = (self._find(part, names, where) for part in OWN)
        if client is None or key is None:
            parts = {"client": client, "item (or key)": key}
            missing = [part for part, name in parts.items() if name is None]
            listed = f"; it has {', '.join(map(str, names))}" if public else ""
            raise InvalidData(
                f"{where} has no column {' and no '.join(missing)}; it {HEADER}, or say which "
                f"column is meant (--client, --key){listed}"
            )
        return Found(client, key, value)

    def _find(self, part: str, names: Sequence[str], where: str) -> str | None:
        given = getattr(self, part)
        if part == "value" and given == NO_VALUES:
            return None
        if given is not None:
            chosen = [name for name in names if name == given] or _alike(names, (given,))
            if not chosen:
                raise InvalidData(f"{where} has no column {given}; say which column is the {part}")
            return _only(chosen, part, where)
        taken = {getattr(self, other) for other in OWN if other != part}
        for known in (OWN[part], OBVIOUS[part]):
            chosen = [name for name in _alike(names, known) if name not in taken]
            if chosen:
                return _only(chosen, part, where)
        return None


class Found(NamedTuple):
    """The columns of one table."""

    client: str
    key: str
    value: str | None

    @property
    def names(self) -> list[str]:
        """Return the columns to read."""
        return [name for name in self if name is not None]


def _alike(names: Sequence[str], spellings: Sequence[str]) -> list[str]:
    known = {_plain(one) for one in spellings}
    return [name for name in names if _plain(name) in known]


def _plain(name: object) -> str:
    return "".join(letter for letter in str(name).casefold() if letter not in " _-")


def _only(chosen: list[str], part: str, where: str) -> str:
    if len(chosen) == 1:
        return chosen[0]
    if len(set(chosen)) < len(chosen) or part == "value":
        raise InvalidData(f"{where} has a column twice; keep one of them")
    raise InvalidData(
        f"{where} has {len(chosen)} columns that could be the {part}; keep one of them, or say "
        f"which is meant (--{part})"
    )
