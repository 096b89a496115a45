"""Records that look as if tasks had run, for everything that comes after them."""

from dataclasses import asdict
from typing import Any

import pytest

from evaluation.experiments import Experiment, experiments
from evaluation.grids import QUICK
from evaluation.log import Record
from evaluation.measure import Measured, Task, setting
from evaluation.results import Results

ERRORS = {"ours": 1e-3, "paper": 4e-2, "published": 2e-3, "sampling": 5e-1}


def record_of(task: Task, **changes: Any) -> Record:
    """Return a record whose errors depend on the method and a little on the run."""
    mse = ERRORS.get(task.method, 1.0) * (1 + 0.01 * task.run)
    measured = Measured(
        mechanism="made-up",
        options="",
        decode="table",
        digest="00",
        bytes=7,
        linf=mse**0.5,
        mse=mse,
        n_mse=mse * 20_000,
        predicted=mse * 20_000,
        agreement=1.0,
        compared=500,
        bias_spread=0.01,
        bias=0.01,
        claimed_bias=0.0,
        recall=0.5,
        signal=3.0,
        bound=2.0,
        ratio=mse * 10_000,
        zero_linf=0.9,
        zero_mse=0.01,
        mean_square=4.0,
        aggregate=False,
        epsilon_proven=1.0,
        delta_proven=0.0,
    )
    return (
        setting(task)
        | {"status": "done", **asdict(measured), "seconds": 0.1, "cpu_seconds": 0.1}
        | changes
    )


@pytest.fixture
def made_up():
    """Return a maker of results: experiments by name, records by task, changed where wanted."""

    def make(*names: str, runs: int = 3, methods=tuple(ERRORS), **changes: Any) -> Results:
        chosen: tuple[Experiment, ...] = tuple(experiments(QUICK)[name] for name in names)
        tasks = [
            Task(point, method, run)
            for experiment in chosen
            for point in experiment.points
            for method in point.methods
            if method in methods
            for run in range(runs)
        ]
        return Results(chosen, {task.name: record_of(task, **changes) for task in tasks}, runs)

    return make
