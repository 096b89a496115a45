"""What an aggregation costs on a cluster: a model of a few constants, and a simulation to check it.

    reading    n·report / cores                      every report is read and counted once
    tables     tasks·T·byte / cores of the level     partial tables are written, shuffled, added up
    network    the same bytes / bandwidth
    driver     started tasks·start + T·collect       what no executor can share

T is the size of the tables and n the number of reports. A stage ends with its slowest task. Reading
shrinks with the cores and nothing else grows with n. The tables grow with the tasks, so beyond some
size more executors cost more time than they save: `most_useful` says where.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from faintly.spark.pieces import FAN_IN, SPAN, TOGETHER

ENTRY_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Seconds of one core, as `python -m benchmarks.spark` fits them, and what a cluster has."""

    report_s: float = 9.4e-07  # read from Parquet, hand to Python, count
    byte_s: float = 3.8e-08  # of a partial table: written, shuffled, added up
    start_s: float = 0.016  # the driver starts a task
    collect_s: float = 1.1e-08  # the driver takes a byte of the result
    session_s: float = 15.0  # until executors run
    bandwidth: float = 1.25e9  # bytes a second into one executor: 10 Gbit/s
    spread: float = 0.25  # of the tasks' times: the standard deviation of their logarithms
    core_hour: float = 0.05  # money: a core of a cloud's general machines, with its memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be aggregated, and on what."""

    reports: float
    entries: int  # of the tables: maps · blocks · 2^bits
    executors: int
    cores: int = 4  # of an executor, each with one task

    @property
    def tasks(self) -> int:
        """Return the tasks that make partial tables: one for each core."""
        return self.executors * self.cores

    @property
    def table_bytes(self) -> int:
        """Return the size of the tables."""
        return ENTRY_BYTES * self.entries

    @property
    def levels(self) -> list[int]:
        """Return how many partial tables each level of the tree adds up."""
        parts = [self.tasks]
        while parts[-1] > FAN_IN:
            parts.append(-(-parts[-1] // FAN_IN))
        return parts

    @property
    def shuffle_bytes(self) -> int:
        """Return what is shuffled, before compression: it does not depend on the reports."""
        return sum(self.levels) * self.table_bytes

    @property
    def adding(self) -> list[tuple[int, int]]:
        """Return the tasks of each level, and the bytes that they add up."""
        pieces = -(-self.entries // SPAN) + 1
        groups = ((-(-parts // FAN_IN), parts * self.table_bytes) for parts in self.levels)
        return [(-(-many * pieces // TOGETHER), size) for many, size in groups]

    @property
    def started(self) -> int:
        """Return how many tasks the driver starts."""
        return self.tasks + sum(tasks for tasks, _ in self.adding)

    @property
    def executor_bytes(self) -> int:
        """Return the memory of an executor's Python workers: a partial table and some pieces."""
        return self.cores * (self.table_bytes + FAN_IN * TOGETHER * min(self.table_bytes, 4 * SPAN))


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds by where they go, the network and the money."""

    reading_s: float
    tables_s: float
    network_s: float
    driver_s: float
    session_s: float
    shuffle_bytes: int
    money: float

    @property
    def seconds(self) -> float:
        """Return how long it takes."""
        return self.reading_s + self.tables_s + self.network_s + self.driver_s + self.session_s

    @property
    def bottleneck(self) -> str:
        """Return what takes longest."""
        parts = ("reading", "tables", "network", "driver", "session")
        return max(parts, key=lambda part: getattr(self, f"{part}_s"))


def cost(job: Job, constants: Constants | None = None) -> Cost:
    """Return what a job costs.

    >>> cost(Job(reports=1e8, entries=2**22, executors=10)).bottleneck
    'session'
    >>> cost(Job(reports=1e12, entries=2**22, executors=10)).bottleneck
    'reading'
    """
    c = constants or Constants()

    def slowest(tasks: int) -> float:
        likely = NormalDist().inv_cdf(1 - 1 / (tasks + 1))
        return math.exp(c.spread * likely - c.spread**2 / 2)

    reading = job.reports * c.report_s / job.tasks * slowest(job.tasks)
    each = sum(
        size / tasks * (max(0, tasks / job.tasks - 1) + slowest(min(tasks, job.tasks)))
        for tasks, size in job.adding
    )
    tables, network = each * c.byte_s, each * job.cores / c.bandwidth  # which cores share
    driver = job.started * c.start_s + job.table_bytes * c.collect_s
    seconds = reading + tables + network + driver + c.session_s
    money = seconds / 3600 * job.tasks * c.core_hour
    return Cost(reading, tables, network, driver, c.session_s, job.shuffle_bytes, money)


def most_useful(reports: float, entries: int, constants: Constants | None = None) -> int:
    """Return the number of executors that is fastest; more would slow the job down."""

    def seconds(executors: int) -> float:
        job = Job(reports=reports, entries=entries, executors=executors)
        return cost(job, constants).seconds

    # Up to 16,384.
    return min(sorted({round(2 ** (step / 4)) for step in range(57)}), key=seconds)


def simulate(job: Job, draws: Sequence[float], constants: Constants | None = None) -> float:
    """Return the seconds of a job, task by task: one driver, cores that take the next task.

    The driver starts one task after another; a task waits for a free core; a level of the tree
    begins when the level before has ended. `draws` are factors of the tasks' times, of mean 1,
    used in turn.
    """
    c = constants or Constants()
    number, clock = 0, c.session_s
    byte = c.byte_s + job.cores / c.bandwidth
    stages = [(job.tasks, job.reports * c.report_s), *((k, size * byte) for k, size in job.adding)]
    for tasks, work in stages:
        free = [clock] * job.tasks
        heapq.heapify(free)
        started = ended = clock
        for _ in range(tasks):
            started += c.start_s
            done = max(started, heapq.heappop(free)) + work / tasks * draws[number % len(draws)]
            number += 1
            heapq.heappush(free, done)
            ended = max(ended, done)
        clock = ended
    return clock + job.table_bytes * c.collect_s


def factors(count: int, seed: int = 1, sigma: float = Constants().spread) -> list[float]:
    """Return lognormal factors of mean 1, by a fixed sequence: tasks differ on real machines."""
    points = ((seed + number * (math.sqrt(5) - 1) / 2) % 1 for number in range(1, count + 1))
    normal = NormalDist()
    return [math.exp(sigma * normal.inv_cdf(0.001 + 0.998 * p) - sigma**2 / 2) for p in points]
