"""The cost model agrees with a simulation task by task, and says where the bottleneck moves."""

import json
from pathlib import Path

import pytest

from benchmarks.sizing import Constants, Job, cost, factors, most_useful, simulate
from benchmarks.spark import CONSTANTS

RESULT = Path(__file__).parents[3] / "benchmarks" / "results" / "spark.json"


def test_constants_are_as_measured():
    measured = json.loads(RESULT.read_text(encoding="utf-8"))
    for name, (_, row) in CONSTANTS.items():
        if row:
            assert getattr(Constants(), name) == pytest.approx(measured[row], rel=0.05), name


def test_the_model_knows_the_tree():
    small = Job(reports=1e6, entries=2**20, executors=8)
    assert small.levels == [32]
    large = Job(reports=1e6, entries=2**20, executors=1000)
    assert large.levels == [4000, 125, 4]
    assert large.shuffle_bytes == 4129 * 2**22


@pytest.mark.parametrize("executors", [10, 1000])
@pytest.mark.parametrize("reports", [1e9, 1e12])
@pytest.mark.parametrize("entries", [2**18, 2**22, 2**26])
def test_ten_and_a_thousand_executors_cost_what_the_simulation_takes(executors, reports, entries):
    job = Job(reports=reports, entries=entries, executors=executors)
    simulated = simulate(job, factors(10_007))
    assert cost(job).seconds == pytest.approx(simulated, rel=0.15)


def test_the_simulation_would_notice_a_wrong_model():
    job = Job(reports=1e12, entries=2**22, executors=10)
    wrong = Constants(report_s=2 * Constants().report_s)
    assert cost(job, wrong).seconds != pytest.approx(simulate(job, factors(10_007)), rel=0.15)


def test_shuffling_does_not_depend_on_the_reports():
    few, many = (Job(reports=n, entries=2**22, executors=10) for n in (1e6, 1e12))
    assert few.shuffle_bytes == many.shuffle_bytes


def test_more_executors_help_until_tables_and_driver_take_over():
    assert most_useful(1e9, 2**22) < most_useful(1e12, 2**22)
    best = most_useful(1e10, 2**24)
    at = [cost(Job(reports=1e10, entries=2**24, executors=n)).seconds for n in (best, 8 * best)]
    assert at[0] < at[1]
