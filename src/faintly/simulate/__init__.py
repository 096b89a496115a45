"""How a plan does on data whose truth is known: what `faintly simulate` runs."""

from faintly.simulate.comparison import Compared, Comparison, Entrant, LeftOut, compare
from faintly.simulate.run import simulate
from faintly.simulate.scores import SCORES, Simulation

__all__ = [
    "SCORES",
    "Compared",
    "Comparison",
    "Entrant",
    "LeftOut",
    "Simulation",
    "compare",
    "simulate",
]
