"""Admission: only a few answers are computed at a time, and waiting for one takes no thread.

Answers may take minutes where reports are read one by one. So an answer is abandoned as soon as
its client disconnects, and it never takes the threads that serve health checks.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from starlette.requests import Request

from faintly.collector.http.answers import Check
from faintly.collector.problems import ABANDONED, BUSY, Problem, stopping

COMPUTING = 4  # answers computed at a time: more would not be faster, and each takes memory
WAITING = 64  # requests that may wait,
WAIT_S = 10.0  # and for how long
Result = TypeVar("Result")


class Job:
    """One answer that is waiting or being computed."""

    abandoned = False
    limit: asyncio.Timeout | None = None  # of its waiting, while it waits

    def abandon(self) -> None:
        """Note that the client is gone, and stop waiting."""
        self.abandoned = True
        if self.limit is not None:
            self.limit.reschedule(0)

    def check(self) -> None:
        """Raise `Problem` if the job is abandoned; long computations call this now and then."""
        if self.abandoned:
            raise Problem(ABANDONED, "the client has disconnected")


class Admission:
    """Limits how many answers are computed, and how many requests wait."""

    def __init__(self) -> None:
        self._free, self._waiting = asyncio.Semaphore(COMPUTING), 0
        self._threads = ThreadPoolExecutor(COMPUTING, "answers")
        self.stopping = False

    async def run(self, request: Request, work: Callable[[Check], Result]) -> Result:
        """Return what `work` returns; it runs in a thread once there is a free slot.

        Args:
            request: the request to be answered.
            work: is given a check to call now and then, which raises once the job is abandoned.

        Raises:
            Problem: no slot was free in time, the client disconnected, or `work` raised it.
        """
        job = Job()
        listener = asyncio.create_task(_listen(request, job))
        try:
            async with self._slot(job):
                job.check()
                if self.stopping:
                    raise stopping()
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._threads, work, job.check)
        finally:
            job.abandoned = True
            listener.cancel()

    @asynccontextmanager
    async def _slot(self, job: Job) -> AsyncIterator[None]:
        """Hold a slot, after waiting for it."""
        if self._waiting >= WAITING:
            raise _busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_S) as job.limit:
                await self._free.acquire()
        except TimeoutError:
            job.check()
            raise _busy() from None
        finally:
            job.limit = None
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()


async def _listen(request: Request, job: Job) -> None:
    """Abandon a job when its client disconnects."""
    with suppress(Exception):
        while (await request.receive())["type"] != "http.disconnect":
            pass
        job.abandon()


def _busy() -> Problem:
    return Problem(BUSY, "other answers are being computed")
