"""How accurate: runs on data whose truth is known, and the paper's experiments."""

from faintly.evaluation.simulate import Simulation, simulate

__all__ = ["Simulation", "simulate"]
