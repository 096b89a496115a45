"""faintly: locally differentially private sparse vector aggregation.

Each client speaks faintly, the crowd is heard clearly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from faintly.errors import FaintlyError

if TYPE_CHECKING:
    from faintly.client import Client, Ledger, Policy, randomize_all
    from faintly.core import (
        Budget,
        Estimate,
        Estimates,
        EventLevel,
        Guarantee,
        Plan,
        Report,
        ReportBatch,
        Sketch,
        SparseVector,
        Universe,
        UserLevel,
        VectorBatch,
        WithinL1,
        entry_vector,
    )
    from faintly.data import Columns, entries_from, vectors_from
    from faintly.engine import Reader, TopList, conditional_means
    from faintly.engine.aggregate import Aggregator, aggregate, decode
    from faintly.planner import key_value_plan, make_plan
    from faintly.simulate import Preview, try_

__version__ = "0.2.0"

__all__ = [
    "Aggregator",
    "Budget",
    "Client",
    "Columns",
    "Estimate",
    "Estimates",
    "EventLevel",
    "FaintlyError",
    "Guarantee",
    "Ledger",
    "Plan",
    "Policy",
    "Preview",
    "Reader",
    "Report",
    "ReportBatch",
    "Sketch",
    "SparseVector",
    "TopList",
    "Universe",
    "UserLevel",
    "VectorBatch",
    "WithinL1",
    "aggregate",
    "conditional_means",
    "decode",
    "entries_from",
    "entry_vector",
    "key_value_plan",
    "make_plan",
    "randomize_all",
    "try_",
    "vectors_from",
]
_PACKAGES = ("core", "data", "engine", "client", "planner", "simulate")


def __getattr__(name: str) -> Any:
    """Return a public name, imported when first used, so that commands start without numpy."""
    if name in _PACKAGES:
        return import_module(f"faintly.{name}")
    if name == "Sketch":
        import_module("faintly.engine")  # has what writes, reads and merges it
    if name in __all__:
        for home in map(__getattr__, _PACKAGES):
            if name in home.__all__:
                globals()[name] = getattr(home, name)
                return globals()[name]
    raise AttributeError(f"module 'faintly' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
