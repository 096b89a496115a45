"""Tasks are planned once, logged at once, and never run twice."""

import json
import os

import pytest

from evaluation.datasets import Stored, Synthetic
from evaluation.experiments import Experiment, Point, experiments
from evaluation.grids import QUICK
from evaluation.log import Log
from evaluation.measure import Task, run, setting
from evaluation.runner import LOG, Progress, _Clock, plan_tasks, run_all
from faintly.errors import InvalidInput

METHODS = ("ours", "paper")
POINTS = tuple(Point(Synthetic(300, 64, k), "user", 2.0, "all", METHODS) for k in (2, 4))
SMALL = Experiment(
    name="small", title="", question="", axis="sparsity", measures=("mse",), points=POINTS
)


def timeless(record: dict) -> dict:
    return {name: value for name, value in record.items() if "seconds" not in name}


def test_a_task_of_two_experiments_is_run_once():
    known = experiments(QUICK)
    both = plan_tasks([known["user-eps"], known["headline"]], 2, None, ["ours", "paper"])
    names = [task.name for task in both.tasks]
    alone = plan_tasks([known["user-eps"]], 2, None, METHODS).tasks
    more = plan_tasks([known["headline"]], 2, None, METHODS).tasks
    assert len(names) == len(set(names)) < len(alone) + len(more)


def test_one_run_of_everything_comes_first():
    tasks = plan_tasks([SMALL], 3, None).tasks
    assert [task.run for task in tasks] == sorted(task.run for task in tasks)
    assert len(tasks) == 3 * len(POINTS) * len(METHODS)


def test_the_time_left_is_known_from_other_runs_and_guessed_by_size():
    first, other = (Task(point, "paper", 0) for point in POINTS)  # two and four items a client
    clock = _Clock([setting(first) | {"seconds": 6.0}])
    assert _Clock([]).left([first], 1) is None
    assert clock.left([Task(POINTS[0], "paper", 1)], 2) == pytest.approx(3)
    assert clock.left([other], 1) == pytest.approx(12)
    assert clock.left([Task(POINTS[1], "ours", 0)], 1) == pytest.approx(12)  # no like task yet
    clock.add(setting(other) | {"seconds": 2.0})
    assert clock.left([other, first], 1) == pytest.approx(8)
    assert clock.left([], 1) == 0


def test_what_is_not_there_is_left_out_with_a_reason(tmp_path):
    plan = plan_tasks([experiments(QUICK)["clothing"]], 1, str(tmp_path))
    assert plan.tasks == []
    assert "no file or dataset 'clothing'" in plan.left_out["data clothing"]


def test_processes_give_what_one_would_and_finished_tasks_stay(tmp_path):
    tasks = plan_tasks([SMALL], 1, None).tasks
    states: list[Progress] = []
    keep = lambda state: states.append(Progress(**vars(state)))  # noqa: E731
    records = run_all(tasks, tmp_path, jobs=2, on_progress=keep)
    expected = {task.name: timeless(run(task, None)) for task in tasks}
    assert {name: timeless(record) for name, record in records.items()} == expected
    assert [state.done for state in states] == list(range(len(tasks) + 1))
    assert states[0].left is None
    assert states[-1].left == 0
    before = (tmp_path / LOG).read_bytes()
    assert run_all(tasks, tmp_path, jobs=2) == records
    assert (tmp_path / LOG).read_bytes() == before


@pytest.mark.long
@pytest.mark.parametrize("cut", [1, 30, 10**9])
def test_a_torn_line_is_cut_off_and_its_task_run_again(tmp_path, cut):
    tasks = [Task(POINTS[0], "paper", number) for number in range(2)]
    records = run_all(tasks, tmp_path, jobs=1)
    whole = (tmp_path / LOG).read_bytes()
    last = len(whole.splitlines(keepends=True)[-1])
    (tmp_path / LOG).write_bytes(whole[: -min(cut, last)])
    with Log(tmp_path / LOG) as log:
        assert set(log.records) == {tasks[0].name}
    again = run_all(tasks, tmp_path, jobs=1)
    assert {name: timeless(r) for name, r in again.items()} == {
        name: timeless(r) for name, r in records.items()
    }
    lines = (tmp_path / LOG).read_bytes().splitlines()
    assert len(lines) == 2
    assert all(json.loads(line) for line in lines)


def test_failures_and_other_versions_are_tried_again(tmp_path):
    task = Task(POINTS[0], "paper", 0)
    good = run(task, None)
    with Log(tmp_path / LOG) as log:
        log.add(good | {"status": "failed", "error": "x"})
        log.add(good | {"version": "0.0.1"})
        assert log.records == {}
        log.add(good)
    with Log(tmp_path / LOG) as log:
        assert set(log.records) == {task.name}


def test_a_file_that_is_no_log_is_left_alone(tmp_path):
    (tmp_path / LOG).write_text("dear diary\nline two\n")
    with pytest.raises(InvalidInput, match="is not a log of results"):
        Log(tmp_path / LOG)
    assert (tmp_path / LOG).read_text() == "dear diary\nline two\n"


def test_one_process_at_a_time(tmp_path):
    with Log(tmp_path / LOG), pytest.raises(InvalidInput, match="another process is writing"):
        Log(tmp_path / LOG)
    with Log(tmp_path / LOG):
        pass


def _die(task: Task, folder: str | None) -> dict:
    os._exit(9)


@pytest.mark.long
def test_a_task_that_kills_its_process_is_given_up_and_the_others_are_done(tmp_path, monkeypatch):
    """The worker is replaced; a task gets two tries. Another process is started by fork here,
    so that it sees the murderous function."""
    import multiprocessing

    from evaluation import workers

    honest = workers.run
    bad = Task(POINTS[0], "paper", 0).name
    monkeypatch.setattr(workers, "run", lambda t, f: _die(t, f) if t.name == bad else honest(t, f))
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(workers.multiprocessing, "get_context", lambda _: fork)
    tasks = plan_tasks([SMALL], 1, None).tasks
    records = run_all(tasks, tmp_path, jobs=1)
    assert len(records) == len(tasks)
    failed = [record for record in records.values() if record["status"] == "failed"]
    assert [record["task"] for record in failed] == [bad]
    assert "died twice" in failed[0]["error"]


def test_results_of_other_data_are_not_taken_for_these(tmp_path):
    file = tmp_path / "tiny.dat"
    file.write_text(100 * "0 1\n")
    task = Task(Point(Stored("tiny.dat", 100, 4, 2), "user", 2.0, "all", ("paper",)), "paper", 0)
    first = run_all([task], tmp_path / "out", jobs=1, folder=str(tmp_path))[task.name]
    again = run_all([task], tmp_path / "out", jobs=1, folder=str(tmp_path))[task.name]
    assert again == first  # with its seconds: nothing was run
    file.write_text(100 * "2\n")
    other = run_all([task], tmp_path / "out", jobs=1, folder=str(tmp_path))[task.name]
    assert other["data_digest"] != first["data_digest"]
    assert (first["zero_mse"], other["zero_mse"]) == (0.5, 0.25)
