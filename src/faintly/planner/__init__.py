"""From what a deployer wants to a plan that says so."""

from faintly.planner.build import make_plan
from faintly.planner.error_model import ErrorModel, predict

__all__ = ["ErrorModel", "make_plan", "predict"]
