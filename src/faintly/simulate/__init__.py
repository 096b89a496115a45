"""How a plan performs on data whose truth is known: what `faintly simulate` runs."""

from faintly.simulate.comparison import Compared, Comparison, compare
from faintly.simulate.preview import Preview, try_
from faintly.simulate.run import simulate
from faintly.simulate.scores import SCORES, Simulation

__all__ = [
    "SCORES",
    "Compared",
    "Comparison",
    "Preview",
    "Simulation",
    "compare",
    "simulate",
    "try_",
]
