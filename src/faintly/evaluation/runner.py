"""Runs tasks in several processes, and goes on where an earlier run was stopped.

Each worker process is given one task at a time over a pipe, and stays with one sample of
data as long as there are tasks for it. Workers write nothing; this process logs every record
as it comes. When it dies, however hard, its pipes close and the workers end.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from faintly.evaluation.datasets import Stored
from faintly.evaluation.experiments import Experiment, Point
from faintly.evaluation.log import Log, Record
from faintly.evaluation.measure import Task, run
from faintly.evaluation.methods import METHODS

LOG = "tasks.jsonl"
TRIES = 2  # a task whose process dies twice, for want of memory perhaps, is given up
GUESS = 1.0  # seconds that a task takes, as long as none has been seen
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Plan:
    """What is to be run, what cannot be, and why."""

    tasks: list[Task]
    left_out: dict[str, str]  # method or dataset, and the reason


@dataclass
class Progress:
    """How far a run has come; `left` is a guess from the times of like tasks."""

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
            for name in _present(point, wanted, left_out):
                for number in range(runs):
                    task = Task(point, name, number)
                    tasks[task.name] = task
    return Plan(list(tasks.values()), left_out)


def _present(point: Point, wanted: set[str], left_out: dict[str, str]) -> Iterator[str]:
    for name in point.methods:
        if name not in wanted:
            continue
        if METHODS[name].available:
            yield name
        else:
            left_out[f"method {name}"] = "not available: no such mechanism is registered"


def run_all(
    tasks: list[Task],
    out: Path,
    *,
    jobs: int,
    folder: str | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> dict[str, Record]:
    """Return the record of every task by name, running those that the log does not have.

    Args:
        tasks: what to run.
        out: folder of the log.
        jobs: processes.
        folder: where stored datasets are; None: what FAINTLY_DATA says.
        on_progress: called after each task, and once before the first.
    """
    with Log(out / LOG) as log:
        todo = [task for task in tasks if task.name not in log.records]
        names = {task.name for task in tasks}
        clock = _Clock(log.records.values())
        progress = Progress(len(tasks), len(tasks) - len(todo))
        progress.left = clock.left(todo, jobs)
        on_progress(progress)
        failures: dict[str, Record] = {}
        for record, waiting in _records(todo, jobs, folder):
            log.add(record)
            clock.add(record)
            progress.done += 1
            if record["status"] == "failed":
                progress.failed += 1
                failures[record["task"]] = record
            progress.left = clock.left(waiting, jobs)
            on_progress(progress)
        return {name: record for name, record in log.records.items() if name in names} | failures


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    task: Task | None = None


@dataclass
class _Queue:
    """Tasks by the sample that they need; a worker stays with a sample while it lasts."""

    groups: dict[tuple[Any, int], list[Task]] = field(default_factory=dict)

    def add(self, task: Task) -> None:
        self.groups.setdefault((task.point.data, task.run), []).append(task)

    def take(self, last: Task | None, busy: set[tuple[Any, int]]) -> Task | None:
        own = (last.point.data, last.run) if last else None
        if own not in self.groups:
            # A sample that nobody works on comes first: two workers would both have to make it.
            free = [key for key in self.groups if key not in busy]
            own = next(iter(free or self.groups), None)
        if own is None:
            return None
        task = self.groups[own].pop(0)
        if not self.groups[own]:
            del self.groups[own]
        return task

    @property
    def waiting(self) -> list[Task]:
        return [task for group in self.groups.values() for task in group]


def _records(
    tasks: list[Task], jobs: int, folder: str | None
) -> Iterator[tuple[Record, list[Task]]]:
    """Yield the record of each task as it is done, with the tasks that are still to do."""
    queue, tries = _Queue(), dict[str, int]()
    for task in tasks:
        queue.add(task)
    workers = [_start(folder) for _ in range(min(jobs, len(tasks)))]
    try:
        for worker in workers:
            _next(worker, queue, workers)
        while any(worker.task for worker in workers):
            ready = wait([worker.pipe for worker in workers if worker.task])
            for worker in [each for each in workers if each.pipe in ready]:
                task = worker.task
                assert task is not None
                record = _received(worker)
                if record is None:
                    tries[task.name] = tries.get(task.name, 0) + 1
                    workers[workers.index(worker)] = worker = _start(folder)
                    if tries[task.name] < TRIES:
                        queue.add(task)
                    else:
                        record = _died(task)
                _next(worker, queue, workers)
                if record is not None:
                    busy = [each.task for each in workers if each.task]
                    yield record, queue.waiting + busy
    finally:
        for worker in workers:
            worker.pipe.close()
        for worker in workers:
            worker.process.join(timeout=5)
            if worker.process.is_alive():
                worker.process.terminate()


def _next(worker: _Worker, queue: _Queue, workers: list[_Worker]) -> None:
    busy = {(one.task.point.data, one.task.run) for one in workers if one.task and one != worker}
    worker.task = queue.take(worker.task, busy)
    if worker.task is not None:
        worker.pipe.send(worker.task)


def _received(worker: _Worker) -> Record | None:
    """Return the worker's record; None where the process has died."""
    try:
        record: Record = worker.pipe.recv()
    except (EOFError, OSError):
        return None
    return record


def _died(task: Task) -> Record:
    from faintly import __version__

    return {
        "task": task.name,
        "method": task.method,
        "run": task.run,
        "version": __version__,
        "status": "failed",
        "error": "the process died twice; it may need more memory, or fewer jobs",
        "seconds": 0.0,
    }


def _start(folder: str | None) -> _Worker:
    # A fresh interpreter inherits no pipe, so that a closed one is seen by whoever waits on it.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_work, args=(there, folder), daemon=True)
    process.start()
    there.close()
    return _Worker(process, here)


def _work(pipe: Connection, folder: str | None) -> None:
    """Answer tasks with records until the pipe closes."""
    for name in THREADS:
        os.environ[name] = "1"  # the processes are the parallelism
    while True:
        try:
            task = pipe.recv()
            pipe.send(run(task, folder))
        except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
            return


class _Clock:
    """Guesses how long tasks take, from like ones."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.times: dict[str, list[float]] = {}
        self.all: list[float] = []
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        self.times.setdefault(record["method"], []).append(record["seconds"])
        self.all.append(record["seconds"])

    def left(self, tasks: list[Task], jobs: int) -> float | None:
        """Return the seconds that these tasks should take; None where nothing is known."""
        if not self.all:
            return None
        overall = sum(self.all) / len(self.all)
        means = {name: sum(times) / len(times) for name, times in self.times.items()}
        return sum(means.get(task.method, overall) for task in tasks) / max(1, jobs)


def plain_time(seconds: float) -> str:
    """Return a duration for people.

    >>> plain_time(42), plain_time(200), plain_time(7300)
    ('42 s', '3 min', '2 h 2 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


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
