"""Slices of a range on several threads: C releases the interpreter lock, so they run at once.

FAINTLY_THREADS sets their number; by default one for each core that this process may use.
"""

import os
from collections.abc import Callable
from itertools import pairwise
from threading import Thread

import numpy as np

from faintly.core.arrays import IntArray
from faintly.errors import InvalidInput

# Least work for a thread of its own: each some tens of microseconds.
ENTRIES = 2**16  # of a table, transformed
KEYS = 2**15  # mapped, hashed or looked up
PAIRS = 2**15  # of a report and a key, where each is hashed
SLICED_PAIRS = 2**22  # of a cell and a code, where words hold 64 of them
LONG = 2**22  # entries of a row that threads share


def threads() -> int:
    """Return how many threads kernels may use."""
    setting = os.environ.get("FAINTLY_THREADS", "")
    if setting:
        if not setting.isdecimal() or int(setting) < 1:
            raise InvalidInput(f"FAINTLY_THREADS must be a positive integer, got {setting!r}")
        return int(setting)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def pieces(count: int, least: int) -> int:
    """Return how many slices, each of at least `least`, a range of `count` is cut into."""
    return min(threads(), count // least) if count >= 2 * least else 1


def parallel(work: Callable[[int, int], None], count: int, least: int) -> None:
    """Call work(start, stop) on slices of range(count), each of `least` or more, and wait for all.

    The slices depend on the number of threads, so `work` must not let a result depend on them.
    """
    slices = pieces(count, least)
    if slices == 1:
        work(0, count)
        return
    bounds = [count * part // slices for part in range(slices + 1)]
    failed: list[BaseException] = []
    others: list[Thread] = []

    def run(start: int, stop: int) -> None:
        try:
            work(start, stop)
        except BaseException as error:  # raised again in the calling thread
            failed.append(error)

    try:
        mine = [(bounds[0], bounds[1])]  # the calling thread works as well
        for pair in pairwise(bounds[1:]):
            others.append(Thread(target=run, args=pair, name="faintly"))
            try:
                others[-1].start()
            except RuntimeError:  # no thread could be started: the calling thread takes its slice
                others.pop()
                mine.append(pair)
        for pair in mine:
            run(*pair)
    finally:
        failed += _join(others)
    if failed:
        raise failed[0]


def _join(others: list[Thread]) -> list[BaseException]:
    """Wait for all threads to end, even if interrupted: they write to the caller's arrays."""
    interrupted: list[BaseException] = []
    while any(other.is_alive() for other in others):
        try:
            for other in others:
                if other.ident is not None:
                    other.join()
        except BaseException as error:
            interrupted.append(error)
    return interrupted


def read_in_slices(
    read: Callable[[slice, slice, IntArray], None],
    reports: int,
    keys: int,
    pairs: int,
    *,
    sums: int = 1,
) -> IntArray:
    """Return `sums` totals for each key, from read(reports, keys, totals) on slices of both.

    A slice has at least `pairs` pairs of a report and a key. Slices of keys write to their own
    totals. Where there are fewer keys than reports, slices of reports have totals of their own
    that are added up; integers give the same sum in any order.
    """
    totals = np.zeros((sums, keys), dtype=np.int64)
    if keys >= reports:
        parallel(
            lambda start, stop: read(slice(reports), slice(start, stop), totals[:, start:stop]),
            keys,
            -(-pairs // max(1, reports)),
        )
        return totals
    parts: list[IntArray] = []

    def work(start: int, stop: int) -> None:
        part = np.zeros_like(totals)
        read(slice(start, stop), slice(keys), part)
        parts.append(part)

    parallel(work, reports, -(-pairs // max(1, keys)))
    for part in parts:
        totals += part
    return totals
