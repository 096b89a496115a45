"""Immutable types: no I/O, no clock, no randomness."""

from faintly.core.arrays import (
    AnyArray,
    ArrayOrScalar,
    FloatArray,
    IdArray,
    IntArray,
    NarrowArray,
    TableArray,
    WordArray,
)
from faintly.core.estimate import Estimate, Estimates, Posterior
from faintly.core.key_value import entry_vector
from faintly.core.plan import Hashing, Plan
from faintly.core.privacy import (
    Budget,
    EventLevel,
    Guarantee,
    Unit,
    UserLevel,
    WithinL1,
    parse_unit,
)
from faintly.core.projection import Tally
from faintly.core.reading_law import ReadingLaw
from faintly.core.report import Layout, Report, ReportBatch
from faintly.core.sketch import Cells, Sketch, SketchShape
from faintly.core.universe import Key, Universe
from faintly.core.vector import SparseVector, VectorBatch

__all__ = [
    "AnyArray",
    "ArrayOrScalar",
    "Budget",
    "Cells",
    "Estimate",
    "Estimates",
    "EventLevel",
    "FloatArray",
    "Guarantee",
    "Hashing",
    "IdArray",
    "IntArray",
    "Key",
    "Layout",
    "NarrowArray",
    "Plan",
    "Posterior",
    "ReadingLaw",
    "Report",
    "ReportBatch",
    "Sketch",
    "SketchShape",
    "SparseVector",
    "TableArray",
    "Tally",
    "Unit",
    "Universe",
    "UserLevel",
    "VectorBatch",
    "WithinL1",
    "WordArray",
    "entry_vector",
    "parse_unit",
]
