"""Measure two things side by side: interleaved, warm, on one core, garbage collection off.

Other programs share the machine, so a time alone says little; the ratio of two minima from
alternating calls says how the two compare. Times are processor times, so waiting for a busy
machine does not count on either side.
"""

import gc
import math
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Work = Callable[[], object]
Clock = Callable[[], float]
WALL: Clock = time.perf_counter
# All threads of this process together; wall-clock time where its resolution is too coarse.
PROCESSOR: Clock = (
    time.process_time if time.get_clock_info("process_time").resolution <= 1e-6 else WALL
)
LARGEST_REUSED = 31 * 2**20  # bytes: glibc reuses no blocks beyond 32 MiB
TURN, CALLS = 0.004, 8  # most seconds and calls of one turn; longer work is called once
THREADS = "FAINTLY_THREADS"  # how many threads the kernels may use


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: the most rounds, and the seconds after which no round begins."""

    rounds: int
    seconds: float


FULL = Effort(rounds=50, seconds=6.0)
QUICK = Effort(rounds=25, seconds=0.7)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one thing over several rounds."""

    best: float
    median: float

    @classmethod
    def of(cls, seconds: list[float]) -> "Timing":
        """Return the summary of some rounds."""
        return cls(min(seconds), statistics.median(seconds))

    def times(self, factor: float) -> "Timing":
        """Return the timing of `factor` times the work, by linear scaling."""
        return Timing(self.best * factor, self.median * factor)


def compare(
    ours: Work,
    theirs: Work,
    effort: Effort,
    before: Work | None = None,
    clock: Clock = PROCESSOR,
) -> tuple[Timing, Timing]:
    """Return the timings of both, which alternate.

    The first round warms up the caches; it counts only if there is no time for another.

    Args:
        ours: what is measured.
        theirs: what it is measured against.
        effort: how long.
        before: restores the inputs before each call; not timed.
        clock: WALL where several threads should help.
    """
    rounds: list[tuple[float, float]] = []
    deadline = time.perf_counter() + effort.seconds
    with _settled():
        while len(rounds) <= effort.rounds:
            rounds.append((_seconds(ours, before, clock), _seconds(theirs, before, clock)))
            if time.perf_counter() >= deadline:
                break
    kept = rounds[1:] or rounds
    return Timing.of([pair[0] for pair in kept]), Timing.of([pair[1] for pair in kept])


def measure(work: Work, effort: Effort, clock: Clock = PROCESSOR) -> Timing:
    """Return the timing of one thing; the first round warms up, as in `compare`."""
    rounds: list[float] = []
    deadline = time.perf_counter() + effort.seconds
    with _settled():
        while len(rounds) <= effort.rounds:
            rounds.append(_seconds(work, None, clock))
            if time.perf_counter() >= deadline:
                break
    return Timing.of(rounds[1:] or rounds)


def _seconds(work: Work, before: Work | None, clock: Clock) -> float:
    """Return the best time of one turn: short work is called several times, with warm caches."""
    best, end = math.inf, WALL() + TURN
    for _ in range(CALLS):
        if before is not None:
            before()
        start = clock()
        work()
        best = min(best, clock() - start)
        if WALL() >= end:
            break
    return best


@contextmanager
def _settled() -> Iterator[None]:
    """Disable garbage collection, and put the allocator into the state of a long-running process.

    glibc maps each large block anew, and pays for its page faults, until one of that size has been
    freed; from then on memory is reused.
    """
    np.ones(LARGEST_REUSED, dtype=np.uint8)
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this thread, and those it starts, on one core, where the system can do that."""
    asked = os.environ.get(THREADS)
    os.environ[THREADS] = "1"
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    with suppress(OSError):
        if len(allowed) > 1:
            os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        with suppress(OSError):
            if len(allowed) > 1:
                os.sched_setaffinity(0, allowed)
        if asked is None:
            del os.environ[THREADS]
        else:
            os.environ[THREADS] = asked


def allocated_bytes(work: Work) -> int:
    """Return the most memory that Python and numpy held at once on behalf of one call."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def forget_peak() -> None:
    """Reset the peak of memory to the current use, on Linux."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_bytes() -> int:
    """Return the most memory that this process has held since `forget_peak`, or ever."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    try:
        import resource
    except ImportError:  # Windows has no such module
        return 0
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, others kilobytes
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
