"""Runs the tasks of experiments, resuming an earlier run.

The experiments determine the tasks; the log says which are done. Workers write nothing: this
process logs every record as it arrives.
"""

import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path

from evaluation.datasets import Stored
from evaluation.experiments import Experiment
from evaluation.log import Log, Record
from evaluation.measure import Task
from evaluation.methods import METHODS
from evaluation.workers import records_of

LOG = "tasks.jsonl"


@dataclass(frozen=True)
class Plan:
    """What is to be run, what cannot be, and why."""

    tasks: list[Task]
    left_out: dict[str, str]  # dataset, and the reason


@dataclass
class Progress:
    """The progress of a run; `left` is estimated from the times of similar tasks."""

    total: int
    done: int = 0
    failed: int = 0
    left: float | None = None


def plan_tasks(
    chosen: Iterable[Experiment], runs: int, folder: str | None, only: Iterable[str] = ()
) -> Plan:
    """Return the tasks of the experiments, each once.

    Args:
        chosen: experiments.
        runs: independent runs of each.
        folder: where stored datasets are; None: what FAINTLY_DATA says.
        only: methods to run; all of them if empty.
    """
    tasks: dict[str, Task] = {}
    left_out: dict[str, str] = {}
    wanted = set(only) or set(METHODS)
    for experiment in chosen:
        for point in experiment.points:
            missing = point.data.missing(folder) if isinstance(point.data, Stored) else None
            if missing:
                left_out[f"data {point.data.name}"] = missing
                continue
            for name in [name for name in point.methods if name in wanted]:
                for number in range(runs):
                    task = Task(point, name, number)
                    tasks[task.name] = task
    # The first run of everything comes first: it shows how long the others will take.
    return Plan(sorted(tasks.values(), key=lambda task: task.run), left_out)


def run_all(
    tasks: list[Task],
    out: Path,
    *,
    jobs: int,
    folder: str | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_record: Callable[[Record], None] = lambda _: None,
) -> dict[str, Record]:
    """Return the record of every task by name, running those that the log does not have.

    Args:
        tasks: what to run.
        out: folder of the log.
        jobs: processes.
        folder: where stored datasets are; None: what FAINTLY_DATA says.
        on_progress: called after each task, and once before the first.
        on_record: called with each record once it is on disk.
    """
    with Log(out / LOG) as log:
        todo = [task for task in tasks if not _is_done(log.records.get(task.name), task, folder)]
        names = {task.name for task in tasks}
        clock = _Clock(log.records.values())
        progress = Progress(len(tasks), len(tasks) - len(todo))
        progress.left = clock.left(todo, jobs)
        on_progress(progress)
        failures: dict[str, Record] = {}
        for record, waiting in records_of(todo, jobs, folder):
            log.add(record)
            on_record(record)
            clock.add(record)
            progress.done += 1
            if record["status"] == "failed":
                progress.failed += 1
                failures[record["task"]] = record
            progress.left = clock.left(waiting, jobs)
            on_progress(progress)
        return {name: record for name, record in log.records.items() if name in names} | failures


def _is_done(record: Record | None, task: Task, folder: str | None) -> bool:
    """Return whether the log has the task, with the same data."""
    return record is not None and record.get("data_digest", "") == task.point.data.digest(folder)


class _Clock:
    """Estimates how long tasks take, from other runs of the task or from similar tasks."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.seconds: dict[Hashable, float] = {}
        self.work: dict[Hashable, float] = {}
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        """Learn from a finished task: about its own kind, its method, and all."""
        size = record["clients"] * record["sparsity"]
        own = record["data"], record["unit"], record["epsilon"], record["keys"], record["method"]
        for kind in (own, record["method"], None):
            self.seconds[kind] = self.seconds.get(kind, 0.0) + record["seconds"]
            self.work[kind] = self.work.get(kind, 0.0) + size

    def left(self, tasks: list[Task], jobs: int) -> float | None:
        """Return the seconds that these tasks should take; None without any data."""
        return sum(map(self._guess, tasks)) / max(1, jobs) if self.work else None

    def _guess(self, task: Task) -> float:
        point, data = task.point, task.point.data
        own = data.name, point.unit, point.epsilon, point.keys, task.method
        known = next(kind for kind in (own, task.method, None) if kind in self.work)
        return data.clients * data.sparsity * self.seconds[known] / self.work[known]


class Pace:
    """Says whether it is time for another line, so that a log file stays short."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.last = seconds, -seconds

    def due(self) -> bool:
        """Return whether `seconds` have passed since this last returned True."""
        now = time.monotonic()
        if now - self.last < self.seconds:
            return False
        self.last = now
        return True
