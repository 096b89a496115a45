"""How a plan performs on data whose truth is known: what `faintly simulate` runs."""

from faintly.simulate.comparison import Compared, Comparison, LeftOut, compare
from faintly.simulate.preview import Held, More, Preview, try_
from faintly.simulate.run import simulate
from faintly.simulate.scores import SCORES, Simulation

__all__ = [
    "SCORES",
    "Compared",
    "Comparison",
    "Held",
    "LeftOut",
    "More",
    "Preview",
    "Simulation",
    "compare",
    "simulate",
    "try_",
]
