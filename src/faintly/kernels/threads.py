"""Slices of a range on several threads: C releases the interpreter lock, so they run at once.

FAINTLY_THREADS says how many; by default as many as this process may have cores.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from itertools import pairwise


def threads() -> int:
    """Return how many threads kernels may use."""
    asked = os.environ.get("FAINTLY_THREADS", "")
    if asked:
        if not asked.isdecimal() or int(asked) < 1:
            raise ValueError(f"FAINTLY_THREADS must be a positive integer, got {asked!r}")
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@lru_cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="faintly")


# Threads do not survive a fork: a child starts without a pool and makes its own on demand.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def pieces(count: int, least: int) -> int:
    """Return into how many slices of at least `least` a range of `count` is cut."""
    return min(threads(), count // least) if count >= 2 * least else 1


def parallel(work: Callable[[int, int], None], count: int, least: int) -> None:
    """Call work(start, stop) on slices of range(count), each of `least` or more, and wait.

    The slices depend on the number of threads, so `work` must not let a result depend on them.
    """
    slices = pieces(count, least)
    if slices == 1:
        work(0, count)
        return
    bounds = [count * part // slices for part in range(slices + 1)]
    pool = _pool(threads())
    others = [pool.submit(work, *pair) for pair in pairwise(bounds[1:])]
    try:
        work(bounds[0], bounds[1])  # the calling thread takes a share: it would only wait
    finally:
        wait(others)  # nothing may still write to the arrays when this returns
    for other in others:
        other.result()
