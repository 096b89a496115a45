"""Speed, as ratios: every kernel and the whole decode against a yardstick.

`make bench` runs all of it.
"""

from benchmarks import samples
from benchmarks.measure import FULL, QUICK, Effort, Timing, compare, measure
from benchmarks.result import Row
from benchmarks.run import BENCHMARKS, QUICK_BENCHMARKS, document, run

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
