"""How long a run took, in sessions, stored beside its results.

A run that was stopped and resumed has several sessions. Each is written after every task, so a
killed one counts up to its last task. The report gives their sum.
"""

import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from evaluation.formatting import plain_time
from evaluation.log import Record
from faintly.engine.files import atomic_write

RUN = "run.json"


@dataclass(frozen=True, slots=True)
class Session:
    """One start of the command, until it ended or was stopped."""

    tasks: int
    seconds: float
    cpu_seconds: float
    jobs: int
    cores: int


class Stopwatch:
    """Measures the session that is running, and keeps those before it."""

    def __init__(self, out: Path, jobs: int) -> None:
        self.path = out / RUN
        self.earlier = read(self.path)
        self.began, self.own = time.monotonic(), time.process_time()
        self.now = Session(0, 0.0, 0.0, jobs, cores())

    def add(self, record: Record) -> None:
        """Count a finished task and its worker's processor time."""
        spent = self.now.cpu_seconds + record["cpu_seconds"]
        self.now = replace(self.now, tasks=self.now.tasks + 1, cpu_seconds=spent)
        self._write(self.sessions)

    def stop(self) -> list[Session]:
        """Return all sessions that ran a task, with the processor time of this process added."""
        used = self.now.cpu_seconds + time.process_time() - self.own
        self.now = replace(self.now, cpu_seconds=used)
        found = self.sessions
        if self.now.tasks:
            self._write(found)
        return found

    @property
    def sessions(self) -> list[Session]:
        """Return the sessions so far."""
        if not self.now.tasks:
            return self.earlier
        return [*self.earlier, replace(self.now, seconds=time.monotonic() - self.began)]

    def _write(self, found: list[Session]) -> None:
        text = json.dumps({"sessions": [asdict(one) for one in found]}, indent=1)
        with atomic_write(self.path) as stream:
            stream.write(f"{text}\n".encode())


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read(path: Path) -> list[Session]:
    """Return the sessions of a run.json; none where there is no file."""
    if not path.is_file():
        return []
    found = json.loads(path.read_text(encoding="utf-8"))["sessions"]
    return [Session(**one) for one in found]


def describe(sessions: Iterable[Session]) -> str:
    """Return the total time of the sessions as text; empty where there are none.

    >>> describe([Session(900, 2640.0, 5100.0, 2, 2)])
    '900 tasks took 44 min on 2 cores with 2 jobs, 85 min of processor time'
    >>> describe([Session(5, 1200.0, 2300.0, 2, 2), Session(4, 1500.0, 1400.0, 1, 2)])[:47]
    '9 tasks took 45 min in 2 sessions together on 2'
    """
    listed = list(sessions)
    if not listed:
        return ""
    wall, spent = (plain_time(sum(getattr(one, name) for one in listed))
                   for name in ("seconds", "cpu_seconds"))  # fmt: skip
    parts = f" in {len(listed)} sessions together" if len(listed) > 1 else ""
    size, jobs = (_range([getattr(one, name) for one in listed]) for name in ("cores", "jobs"))
    tasks = sum(one.tasks for one in listed)
    return (
        f"{tasks:,} tasks took {wall}{parts} on {size} cores with {jobs} jobs, "
        f"{spent} of processor time"
    )


def _range(values: list[int]) -> str:
    return " to ".join(str(one) for one in dict.fromkeys((min(values), max(values))))
