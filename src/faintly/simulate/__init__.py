"""How a plan does on data whose truth is known: what `faintly simulate` runs."""

from faintly.simulate.run import simulate
from faintly.simulate.scores import SCORES, Simulation

__all__ = ["SCORES", "Simulation", "simulate"]
