"""Mechanisms by name: how a plan becomes the mechanism that it describes.

The mechanisms of this package register themselves when it is imported. Another package offers one
by an entry point of the group `faintly.mechanisms`, or `faintly.baselines` for a method to compare
with: the name, and the class that registers under it. It is loaded when it is named. The planner,
which ranks all mechanisms, loads those of the first group.
"""

import math
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from faintly.core import Plan
from faintly.errors import InvalidPlan
from faintly.mechanisms.base import Mechanism

MAX_ENTRIES = 2**32  # an entry of the tables has a 32-bit number; this many take 16 GiB

MECHANISMS, BASELINES = "faintly.mechanisms", "faintly.baselines"  # groups of entry points

_REGISTRY: dict[str, type[Mechanism]] = {}


def register(name: str) -> Callable[[type[Mechanism]], type[Mechanism]]:
    """Return a class decorator that registers a mechanism under an unused `name`."""

    def add(mechanism: type[Mechanism]) -> type[Mechanism]:
        owner, own = _REGISTRY.get(name), mechanism.__module__
        if owner is not None and owner.__module__ != own:
            raise InvalidPlan(
                f"{own} registers a mechanism {name!r}, which is the name of one in "
                f"{owner.__module__}; give it another name"
            )
        mechanism.name = name
        _REGISTRY[name] = mechanism
        return mechanism

    return add


def mechanism_names(*, baselines: bool = True) -> list[str]:
    """Return the names of all mechanisms, sorted, with or without baselines."""
    if baselines:
        offered = _entries(MECHANISMS) + _entries(BASELINES)
        return sorted({*_REGISTRY, *(entry.name for entry in offered)})
    for entry in _entries(MECHANISMS):  # only the class says whether it is a baseline
        _load(entry)
    return sorted(name for name, one in _REGISTRY.items() if not one.baseline)


@cache
def _entries(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of installed packages; cached, as a search takes milliseconds."""
    return tuple(entry_points(group=group))


def _load(entry: EntryPoint) -> None:
    """Load a mechanism of another package, which registers under the name of its entry point."""
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as error:
        raise InvalidPlan(f"the mechanism {entry.name!r} of {entry.value}: {error}") from error
    if _REGISTRY.get(entry.name) is not loaded:
        raise InvalidPlan(
            f"an installed package offers the mechanism {entry.name!r}, but {entry.value} does "
            f"not register under that name; correct the entry point, or uninstall the package"
        )


def mechanism_class(name: str) -> type[Mechanism]:
    """Return the mechanism of that name."""
    if name not in _REGISTRY:
        for entry in _entries(MECHANISMS) + _entries(BASELINES):
            if entry.name == name:
                _load(entry)
    if name not in _REGISTRY:
        known = ", ".join(mechanism_names())
        hint = "" if _entries(BASELINES) else "; published methods are in faintly-baselines"
        raise InvalidPlan(f"mechanism must be one of {known}, got {name!r}{hint}")
    return _REGISTRY[name]


def mechanism_of(plan: Plan) -> Mechanism:
    """Return the plan's mechanism, having checked that its integers keep the plan's promise."""
    try:
        mechanism = mechanism_class(plan.mechanism).from_plan(plan)
        proven = mechanism.guarantee().budget
        _ = mechanism.forecast, mechanism.law  # refused here if they lack a verb, not when used
    except (ArithmeticError, TypeError) as error:
        # A plan from elsewhere may hold numbers that no calibration makes.
        raise InvalidPlan(f"the plan's parameters do not work together: {error}") from None
    if not plan.budget.covers(proven):
        raise InvalidPlan(
            f"the plan promises {plan.budget}, but its thresholds only keep {proven}; do not use it"
        )
    if plan.hashing.linear and math.prod(mechanism.tables.shape) > MAX_ENTRIES:
        raise InvalidPlan(f"tables have at most {MAX_ENTRIES} entries; use fewer bits or maps")
    return mechanism
