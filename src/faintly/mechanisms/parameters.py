"""Checks of parameters, options and values that mechanisms share."""

import math
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from faintly.core import EventLevel, FloatArray, Hashing, Plan, Unit, WithinL1
from faintly.core.plan import SEED_BYTES, check_between
from faintly.errors import BoundDoesNotApply, InvalidPlan, InvalidVector, UnsupportedUnit
from faintly.mechanisms.request import Request
from faintly.primitives import noise

# Nobody can rule out that some 64-bit seed fails for two vectors, so a delta that is a probability
# over seeds is never stated as less than that of one seed.
ONE_SEED = Fraction(1, 2 ** (8 * SEED_BYTES["blake2s"]))
# What a theorem with such a delta needs of clients.
SEED_CONDITIONS = (
    "the client draws its own fresh 64-bit seed for every report and nobody else chooses it",
    "keyed BLAKE2s behaves as a random function",
)


def named(plan: Plan, names: Collection[str]) -> dict[str, Any]:
    """Return a plan's parameters, which must have exactly these names."""
    if set(plan.parameters) != set(names):
        raise InvalidPlan(f"{plan.mechanism} has the parameters {', '.join(names)}")
    return dict(plan.parameters)


def protects(given: Request | Plan, kind: type[EventLevel | WithinL1], owner: str) -> None:
    """Refuse a request or a plan that protects another kind of unit."""
    if not isinstance(given.unit, kind):
        known = "event" if kind is EventLevel else "l1:DISTANCE"
        refusal = UnsupportedUnit if isinstance(given, Request) else InvalidPlan
        raise refusal(f"{owner} protects {known}, not {given.unit}")


def integer(value: Any, name: str, least: int, most: int) -> int:
    """Return the value if it is an integer between two bounds."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidPlan(f"{name} must be an integer between {least} and {most}, got {value!r}")
    check_between(name, value, least, most)
    return value


def integers(values: Any, name: str, count: range, least: int, most: int) -> tuple[int, ...]:
    """Return a list of integers between two bounds, of an allowed length."""
    if not isinstance(values, list) or len(values) not in count:
        many = f"{count[0]}" if len(count) == 1 else f"{count[0]} to {count[-1]}"
        raise InvalidPlan(f"{name} must be a list of {many} integers")
    return tuple(integer(one, f"{name}[{place}]", least, most) for place, one in enumerate(values))


def power_of_two(value: Any, name: str, most: int) -> int:
    """Return the value if it is a power of two up to a bound."""
    integer(value, name, 1, most)
    if value & (value - 1):
        nearest = 1 << round(math.log2(value))
        raise InvalidPlan(f"{name} must be a power of two, got {value}; the nearest is {nearest}")
    return int(value)


def one_of(value: Any, name: str, choices: Iterable[Any]) -> Any:
    """Return the value if it is one of the choices."""
    choices = tuple(choices)
    if value not in choices:
        raise InvalidPlan(f"{name} must be one of {', '.join(map(str, choices))}, got {value!r}")
    return value


def none_left(options: Mapping[str, Any], owner: str, known: str = "") -> None:
    """Refuse options that are left after a mechanism took its own."""
    if options:
        also = f"; it has {known}" if known else ""
        raise InvalidPlan(f"{owner} has no option {min(options)!r}{also}")


def no_tables(request: Request, owner: str) -> None:
    """Refuse the sizes of public maps where reports are read one by one."""
    if request.maps or request.bits:
        raise InvalidPlan(f"maps and bits belong to the linear family; {owner} has neither")


def direct(given: Request | Plan, owner: str, family: str) -> Hashing:
    """Return the only hash there is, or refuse tables and other families."""
    named = given.family or family if isinstance(given, Request) else given.hashing.family
    if given.decode != "direct" or named != family:
        raise InvalidPlan(f"{owner} needs --decode direct --family {family}")
    if isinstance(given, Request):
        no_tables(given, owner)
    return Hashing(family=family)


def l1_distance(unit: Unit) -> float:
    """Return the L1 distance that a unit hides, for plans known to protect one."""
    assert isinstance(unit, WithinL1)
    return unit.distance


def few_items(sparsity: int) -> str:
    """Return the condition of a theorem that needs at most k items."""
    return f"a vector has at most {sparsity} items (more are refused on the device)"


def seeds_delta(delta: float) -> Fraction:
    """Return a delta that is a probability over seeds, or refuse one that no seed allows."""
    if noise.exact(delta) < ONE_SEED:
        raise BoundDoesNotApply(
            "delta is here a probability over 64-bit seeds, of which a single one is 5.43e-20; "
            f"give a delta of at least that, got {delta:g}"
        )
    return noise.exact(delta)


def nonnegative(values: FloatArray) -> None:
    """Refuse a negative value, for mechanisms that have no report of one."""
    if (values < 0).any():
        position = int(np.argmax(values < 0))
        raise InvalidVector(
            f"value at position {position} is negative; the plan needs values in [0, 1]"
        )
