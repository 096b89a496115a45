"""faintly: locally differentially private sparse vector aggregation.

Each client speaks faintly, the crowd is heard clearly.
"""

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
)
from faintly.data import vectors_from
from faintly.engine import Aggregator, Reader, aggregate, decode
from faintly.errors import FaintlyError
from faintly.planner import make_plan

__version__ = "0.1.0"

__all__ = [
    "Aggregator",
    "Budget",
    "Client",
    "Estimate",
    "Estimates",
    "EventLevel",
    "FaintlyError",
    "Guarantee",
    "Ledger",
    "Plan",
    "Policy",
    "Reader",
    "Report",
    "ReportBatch",
    "Sketch",
    "SparseVector",
    "Universe",
    "UserLevel",
    "VectorBatch",
    "WithinL1",
    "aggregate",
    "decode",
    "make_plan",
    "randomize_all",
    "vectors_from",
]
