"""Solving backwards lands on the smallest value that reaches the target."""

import pytest

from faintly.errors import InvalidPlan
from faintly.planner import request_for, solve, survey
from faintly.planner.solve import first, three_digits

COMMON = {"protect": "event", "universe": 1_000}


def best_error(**wanted):
    found = survey(request_for(**wanted)).candidates
    return min(one.stderr for one in found if not one.drawbacks)


def test_bisection_finds_the_edge_and_says_when_there_is_none():
    grid = three_digits(1, 100)
    assert first(grid, lambda value: value >= 17.3) == 17.3
    assert first(grid, lambda value: True) == 1
    assert first(grid, lambda value: 2 <= value < 80) == 2
    assert first(grid, lambda value: False) is None
    assert len(three_digits(0.01, 16)) == 900 * 3 + 61


def test_clients_shrink_the_error_to_the_target():
    found = solve(0.01, epsilon=1.0, sparsity=8, clients=None, **COMMON)
    assert found.unknown == "clients"
    assert found.pick.stderr <= 0.01
    assert found.pick.plan.clients == found.value
    fewer = int(found.value * 0.98)
    assert best_error(epsilon=1.0, sparsity=8, clients=fewer, **COMMON) > 0.01


def test_epsilon_is_the_smallest_of_three_digits():
    found = solve(0.01, epsilon=None, sparsity=8, clients=50_000, **COMMON)
    assert found.pick.stderr <= 0.01
    assert found.pick.plan.budget.epsilon == found.value
    below = three_digits(0.01, 16)[three_digits(0.01, 16).index(found.value) - 1]
    assert best_error(epsilon=below, sparsity=8, clients=50_000, **COMMON) > 0.01
    assert "bisection" in found.description


def test_sparsity_is_the_largest_that_the_target_allows():
    wanted = {"protect": "user", "universe": 1_000, "epsilon": 1.0, "clients": 200_000}
    found = solve(0.05, sparsity=None, **wanted)
    assert found.pick.stderr <= 0.05
    assert best_error(sparsity=int(found.value) + 1, **wanted) > 0.05
    within = solve(1.0, sparsity=None, **{**wanted, "protect": "l1:7"})
    assert within.value >= 4


def test_nothing_missing_means_the_smallest_report():
    wanted = {"epsilon": 1.0, "sparsity": 30, "clients": 100_000, **COMMON}
    found = solve(0.05, **wanted)
    reaching = [one for one in survey(request_for(**wanted)).candidates if one.stderr <= 0.05]
    clean = [one for one in reaching if not one.drawbacks]
    assert found.unknown is None
    assert found.pick.bytes == min(one.bytes for one in clean)
    assert found.ranking.pick is found.pick
    assert len(found.ranking.candidates) == len(survey(request_for(**wanted)).candidates)


def test_the_byte_limit_is_kept_while_solving():
    wanted = {"epsilon": None, "sparsity": 30, "clients": 100_000, **COMMON}
    free = solve(0.005, **wanted)
    tight = solve(0.005, max_bytes=free.pick.bytes, **wanted)
    assert tight.pick.bytes <= free.pick.bytes
    assert tight.value >= free.value
    with pytest.raises(InvalidPlan, match="more than the limit of 1"):
        solve(0.005, max_bytes=1, **wanted)


def test_an_impossible_target_names_the_nearest():
    with pytest.raises(InvalidPlan, match=r"nearest is .*clients [\d,]+ or epsilon .* would"):
        solve(0.01, epsilon=1.0, sparsity=8, clients=1_000, **COMMON)
    with pytest.raises(InvalidPlan, match=r"no epsilon from 0\.01 to 16 .* the nearest is .* at"):
        solve(1e-4, epsilon=None, sparsity=8, clients=1_000, decode="table", **COMMON)
    with pytest.raises(InvalidPlan, match="below the lower bound for any mechanism"):
        solve(1e-7, epsilon=1.0, sparsity=None, clients=1_000, **COMMON)


def test_questions_with_no_answer_are_refused():
    with pytest.raises(InvalidPlan, match="only one of"):
        solve(0.01, epsilon=None, sparsity=8, clients=None, **COMMON)
    with pytest.raises(InvalidPlan, match="above 0"):
        solve(0.0, epsilon=1.0, sparsity=8, clients=None, **COMMON)
    with pytest.raises(InvalidPlan, match="must be one of"):
        solve(0.1, epsilon=1.0, sparsity=8, clients=None, mechanism="magic", **COMMON)
