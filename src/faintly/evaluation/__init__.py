"""How accurate: runs on data whose truth is known."""

from faintly.evaluation.simulate import Simulation, simulate

__all__ = ["Simulation", "simulate"]
