"""Mechanisms by name: the only way from a plan to the mechanism that it describes.

The mechanisms of this package register themselves when it is imported. A baseline is a module of
`faintly.baselines` that has its name, and is loaded when somebody names it.
"""

import importlib
import math
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

from faintly.core import Plan
from faintly.errors import InvalidPlan
from faintly.mechanisms.base import Mechanism

MAX_ENTRIES = 2**32  # an entry of the tables has a 32-bit number; this many take 16 GiB

BASELINES = "faintly.baselines"  # above this room, so that no import statement names it

_REGISTRY: dict[str, type[Mechanism]] = {}


def register(name: str) -> Callable[[type[Mechanism]], type[Mechanism]]:
    """Return a class decorator that makes a mechanism known under `name`."""

    def add(mechanism: type[Mechanism]) -> type[Mechanism]:
        mechanism.name = name
        _REGISTRY[name] = mechanism
        return mechanism

    return add


def mechanism_names(*, baselines: bool = True) -> list[str]:
    """Return the names of all mechanisms, sorted; without baselines, of those to choose from."""
    if baselines:
        for module in _baseline_modules():
            importlib.import_module(module)
    return sorted(name for name, one in _REGISTRY.items() if baselines or not one.baseline)


@cache
def _baseline_modules() -> frozenset[str]:
    """Return the modules of the baselines, without importing any."""
    spec = find_spec(BASELINES)
    assert spec is not None
    found = pkgutil.iter_modules(spec.submodule_search_locations, prefix=f"{BASELINES}.")
    return frozenset(module.name for module in found)


def mechanism_class(name: str) -> type[Mechanism]:
    """Return the mechanism of that name."""
    module = f"{BASELINES}.{name.replace('-', '_')}"
    if name not in _REGISTRY and module in _baseline_modules():
        importlib.import_module(module)
    if name not in _REGISTRY:
        raise InvalidPlan(f"mechanism must be one of {', '.join(mechanism_names())}, got {name!r}")
    return _REGISTRY[name]


def mechanism_of(plan: Plan) -> Mechanism:
    """Return the plan's mechanism, having checked that its integers keep the plan's promise."""
    try:
        mechanism = mechanism_class(plan.mechanism).from_plan(plan)
        proven = mechanism.guarantee().budget
    except (ArithmeticError, TypeError) as error:
        # A stranger's plan may hold numbers that no calibration would make.
        raise InvalidPlan(f"the plan's parameters do not work together: {error}") from None
    if not plan.budget.covers(proven):
        raise InvalidPlan(
            f"the plan promises {plan.budget}, but its thresholds only keep {proven}; do not use it"
        )
    if plan.hashing.family == "linear" and math.prod(mechanism.table_shape) > MAX_ENTRIES:
        raise InvalidPlan(f"tables have at most {MAX_ENTRIES} entries; use fewer bits or maps")
    return mechanism
