"""How fast, as ratios: every kernel and the whole decode beside what they compare with."""

from faintly.bench import samples
from faintly.bench.measure import FULL, QUICK, Effort, Timing, compare, measure
from faintly.bench.result import Row
from faintly.bench.run import BENCHMARKS, QUICK_BENCHMARKS, document, run

__all__ = [
    "BENCHMARKS",
    "FULL",
    "QUICK",
    "QUICK_BENCHMARKS",
    "Effort",
    "Row",
    "Timing",
    "compare",
    "document",
    "measure",
    "run",
    "samples",
]
