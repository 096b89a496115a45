"""Admission: only a few answers are computed at a time, and waiting for one takes no thread.

Answers may take minutes where reports are read one by one. So an answer is abandoned as soon as
its client disconnects, and it never takes the threads that serve health checks.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

from faintly.collector.problems import ABANDONED, BUSY, Problem, stopping

WAITING = 64  # requests that may wait,
WAIT_S = 10.0  # and for how long
HELD_BYTES = 128 << 20  # of bodies of questions, until they are answered
Result = TypeVar("Result")


class Job:
    """One answer that is waiting or being computed."""

    abandoned = False
    limit: asyncio.Timeout | None = None  # of its waiting, while it waits
    give_up: Callable[[], object] = staticmethod(lambda: None)  # tells who computes it

    def abandon(self) -> None:
        """Note that the client is gone, and stop waiting."""
        self.abandoned = True
        self.give_up()
        if self.limit is not None:
            self.limit.reschedule(0)

    def check(self) -> None:
        """Raise `Problem` if the job is abandoned; long computations call this now and then."""
        if self.abandoned:
            raise _abandoned()


class Admission:
    """Limits how many answers are computed, and how many requests wait."""

    def __init__(self, most: int, body_bytes: int) -> None:
        """Let so many answers be computed at a time, and take bodies of so many bytes."""
        self.most, self._waiting = most, 0
        self._held, self._most_held = 0, max(HELD_BYTES, body_bytes)
        self._free = asyncio.Semaphore(most)
        self._threads = ThreadPoolExecutor(most, "answers")
        self.stopping = False

    async def run(self, request: Request, work: Callable[[Job], Result]) -> Result:
        """Return what `work` returns; it runs in a thread once there is a free slot.

        Args:
            request: the request to be answered.
            work: is given the job, and checks now and then whether it is abandoned.

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
                return await loop.run_in_executor(self._threads, work, job)
        finally:
            job.abandon()
            listener.cancel()

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the body of a question, which counts as held until it is answered."""
        held, pieces = 0, []
        try:
            async for piece in request.stream():
                held += len(piece)
                self._held += len(piece)
                if self._held > self._most_held:
                    raise Problem(BUSY, "too many long questions wait")
                pieces.append(piece)
            yield b"".join(pieces)
        except ClientDisconnect:
            raise _abandoned() from None
        finally:
            self._held -= held

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


def _abandoned() -> Problem:
    return Problem(ABANDONED, "the client has disconnected")


def _busy() -> Problem:
    return Problem(BUSY, "other answers are being computed")
