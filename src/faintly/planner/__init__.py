"""From a deployer's request to a plan."""

from faintly.planner.bounds import lower_bound
from faintly.planner.build import make_plan
from faintly.planner.error_model import ErrorModel, predict
from faintly.planner.excess import Excess, carried_means, excess
from faintly.planner.explain import explain
from faintly.planner.key_value import entry_guarantee, key_value_plan
from faintly.planner.plan_request import PlanRequest, request_for
from faintly.planner.sample import Trials, try_sparsities
from faintly.planner.search import Candidate, Ranking, rank, survey
from faintly.planner.shuffle import amplified
from faintly.planner.solve import Solution, solve

__all__ = [
    "Candidate",
    "ErrorModel",
    "Excess",
    "PlanRequest",
    "Ranking",
    "Solution",
    "Trials",
    "amplified",
    "carried_means",
    "entry_guarantee",
    "excess",
    "explain",
    "key_value_plan",
    "lower_bound",
    "make_plan",
    "predict",
    "rank",
    "request_for",
    "solve",
    "survey",
    "try_sparsities",
]
