"""From what a deployer wants to a plan that says so."""

from faintly.planner.bounds import lower_bound
from faintly.planner.build import make_plan
from faintly.planner.error_model import ErrorModel, predict
from faintly.planner.explain import explain
from faintly.planner.key_value import EntryGuarantee, entry_guarantee, key_value_plan
from faintly.planner.search import Candidate, Ranking, rank, survey
from faintly.planner.shuffle import amplified
from faintly.planner.solve import Solution, solve
from faintly.planner.wish import Wish, wish_for

__all__ = [
    "Candidate",
    "EntryGuarantee",
    "ErrorModel",
    "Ranking",
    "Solution",
    "Wish",
    "amplified",
    "entry_guarantee",
    "explain",
    "key_value_plan",
    "lower_bound",
    "make_plan",
    "predict",
    "rank",
    "solve",
    "survey",
    "wish_for",
]
