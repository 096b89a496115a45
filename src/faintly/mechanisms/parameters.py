"""What every mechanism asks of its parameters and options; messages name the nearest that fits."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from faintly.core import Hashing, Plan
from faintly.errors import InvalidPlan
from faintly.mechanisms.base import Request


def named(plan: Plan, names: Collection[str]) -> dict[str, Any]:
    """Return a plan's parameters, which must have exactly these names."""
    if set(plan.parameters) != set(names):
        raise InvalidPlan(f"{plan.mechanism} has the parameters {', '.join(names)}")
    return dict(plan.parameters)


def integer(value: Any, name: str, least: int, most: int) -> int:
    """Return the value if it is an integer between two bounds."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidPlan(f"{name} must be an integer between {least} and {most}, got {value!r}")
    if not least <= value <= most:
        raise InvalidPlan(
            f"{name} must be between {least} and {most}, got {value}; "
            f"the nearest is {min(max(value, least), most)}"
        )
    return value


def one_of(value: Any, name: str, choices: Iterable[Any]) -> Any:
    """Return the value if it is one of the choices."""
    choices = tuple(choices)
    if value not in choices:
        raise InvalidPlan(f"{name} must be one of {', '.join(map(str, choices))}, got {value!r}")
    return value


def no_more(options: Mapping[str, Any], owner: str, known: str = "") -> None:
    """Refuse options that are left after a mechanism took its own."""
    if options:
        also = f"; it has {known}" if known else ""
        raise InvalidPlan(f"{owner} has no option {min(options)!r}{also}")


def no_tables(request: Request, owner: str) -> None:
    """Refuse the sizes of public maps where reports are read one by one."""
    if request.maps or request.bits:
        raise InvalidPlan(f"maps and bits belong to the linear family; {owner} has neither")


def only_direct(request: Request, owner: str, family: str) -> Hashing:
    """Return the only hash there is, or refuse a request for another one or for tables."""
    if request.decode != "direct" or request.family not in (None, family):
        raise InvalidPlan(f"{owner} needs --decode direct --family {family}")
    no_tables(request, owner)
    return Hashing(family=family)


def direct(plan: Plan, owner: str, family: str) -> None:
    """Refuse a plan of another decoding or hash family than the only one there is."""
    if plan.decode != "direct" or plan.hashing.family != family:
        raise InvalidPlan(f"{owner} needs --decode direct --family {family}")
