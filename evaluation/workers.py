"""Worker processes, each given one task at a time over a pipe.

A worker keeps one sample of data as long as there are tasks for it. When this process dies, its
pipes close and the workers end. When a worker dies, its task is retried once.
"""

import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from evaluation.datasets import Data
from evaluation.log import Record
from evaluation.measure import Task, run, setting

TRIES = 2  # a task whose process dies twice, perhaps out of memory, has failed
PATIENCE = 5  # seconds for a worker to notice its closed pipe
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Key = tuple[Data, int]


def records_of(
    tasks: list[Task], jobs: int, folder: str | None
) -> Iterator[tuple[Record, list[Task]]]:
    """Yield the record of each finished task, with the tasks that are left."""
    crew = _Crew(tasks, folder)
    try:
        crew.start(min(jobs, len(tasks)))
        while crew.busy:
            for worker in crew.ready():
                record = crew.finish(worker)
                if record is not None:
                    yield record, crew.left
    finally:
        crew.stop()


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    task: Task | None = None


class _Crew:
    """The workers and the tasks that wait for them, grouped by the sample that they need."""

    def __init__(self, tasks: list[Task], folder: str | None) -> None:
        self.folder = folder
        self.workers: list[_Worker] = []
        self.groups: dict[Key, list[Task]] = {}
        self.deaths: dict[str, int] = {}
        for task in tasks:
            self._add(task)

    def start(self, jobs: int) -> None:
        """Start `jobs` workers, each with its first task."""
        for _ in range(jobs):
            self.workers.append(_started(self.folder))
            self._give(self.workers[-1])

    @property
    def busy(self) -> list[Task]:
        """Return the tasks that are being worked on."""
        return [worker.task for worker in self.workers if worker.task is not None]

    @property
    def left(self) -> list[Task]:
        """Return the tasks that are not done."""
        return [task for group in self.groups.values() for task in group] + self.busy

    def ready(self) -> list[_Worker]:
        """Wait, and return the workers that have sent a record or died."""
        pipes = wait([worker.pipe for worker in self.workers if worker.task is not None])
        return [worker for worker in self.workers if worker.pipe in pipes]

    def finish(self, worker: _Worker) -> Record | None:
        """Return the worker's record and give it the next task; None if the task is retried."""
        task = worker.task
        assert task is not None
        try:
            record: Record | None = worker.pipe.recv()
        except (EOFError, OSError):
            record = self._replaced(worker, task)
        self._give(worker)
        return record

    def stop(self) -> None:
        """End every worker."""
        for worker in self.workers:
            worker.pipe.close()
        for worker in self.workers:
            worker.process.join(timeout=0 if worker.task else PATIENCE)
            if worker.process.is_alive():
                worker.process.terminate()

    def _add(self, task: Task) -> None:
        self.groups.setdefault(_key(task), []).append(task)

    def _replaced(self, worker: _Worker, task: Task) -> Record | None:
        """Replace a dead process; return a record of failure after the last try of its task."""
        fresh = _started(self.folder)
        worker.process, worker.pipe, worker.task = fresh.process, fresh.pipe, None
        self.deaths[task.name] = self.deaths.get(task.name, 0) + 1
        if self.deaths[task.name] < TRIES:
            self._add(task)
            return None
        error = "the process died twice; it may need more memory, or fewer jobs"
        return setting(task) | {
            "status": "failed",
            "error": error,
            "seconds": 0.0,
            "cpu_seconds": 0.0,
        }

    def _give(self, worker: _Worker) -> None:
        own = _key(worker.task) if worker.task else None
        worker.task = None
        if own not in self.groups:
            # Prefer a sample that no worker has: two workers would both have to make it.
            taken = {_key(task) for task in self.busy}
            own = next(iter([key for key in self.groups if key not in taken] or self.groups), None)
        if own is None:
            return
        worker.task = self.groups[own].pop(0)
        if not self.groups[own]:
            del self.groups[own]
        worker.pipe.send(worker.task)


def _key(task: Task) -> Key:
    return task.point.data, task.run


def _started(folder: str | None) -> _Worker:
    # A fresh interpreter inherits no pipes, so closing one is noticed at its other end.
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
            pipe.send(run(pipe.recv(), folder))
        except (EOFError, OSError, KeyboardInterrupt):
            return
