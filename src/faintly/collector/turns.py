"""Turns: few answers are made at a time, and whoever waits for one takes no thread.

Answers may take minutes where reports are read one by one. So each is stopped as soon as nobody
waits for it any more, and threads are left to those who ask whether the collector is well.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from starlette.requests import Request

from faintly.collector.answers import Check
from faintly.collector.problems import ABANDONED, BUSY, Problem, stopping

COMPUTING = 4  # answers made at a time: more would not be sooner, and each takes memory
WAITING = 64  # who may wait for a turn
WAIT_S = 10.0  # and for how long
Made = TypeVar("Made")


class Turn:
    """One answer that is being made."""

    over = False  # nobody waits for it any more
    limit: asyncio.Timeout | None = None  # of its waiting, while it waits

    def end(self) -> None:
        """Note that nobody waits for it, and make room for another that waits."""
        self.over = True
        if self.limit is not None:
            self.limit.reschedule(0)

    def check(self) -> None:
        """Raise `Problem` where going on is of no use; whoever computes asks now and then."""
        if self.over:
            raise Problem(ABANDONED, "nobody waits for this answer")


class Turns:
    """Who computes, and who waits for it."""

    def __init__(self) -> None:
        self._free, self._waiting = asyncio.Semaphore(COMPUTING), 0
        self._threads = ThreadPoolExecutor(COMPUTING, "answers")
        self.stopping = False

    async def take(self, request: Request, work: Callable[[Check], Made]) -> Made:
        """Return what `work` returns, which runs in a thread once it has a turn.

        Args:
            request: whose answer it is.
            work: called with what it is to call now and then, and to let raise.

        Raises:
            Problem: there was no turn in time, the asker is gone, or `work` raised it.
        """
        turn = Turn()
        listener = asyncio.create_task(_listen(request, turn))
        try:
            async with self._place(turn):
                turn.check()
                if self.stopping:
                    raise stopping()
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._threads, work, turn.check)
        finally:
            turn.over = True
            listener.cancel()

    @asynccontextmanager
    async def _place(self, turn: Turn) -> AsyncIterator[None]:
        """Wait until it is its turn, and end it."""
        if self._waiting >= WAITING:
            raise _busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_S) as turn.limit:
                await self._free.acquire()
        except TimeoutError:
            turn.check()
            raise _busy() from None
        finally:
            turn.limit = None
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()


async def _listen(request: Request, turn: Turn) -> None:
    """Note that the asker hung up."""
    with suppress(Exception):
        while (await request.receive())["type"] != "http.disconnect":
            pass
        turn.end()


def _busy() -> Problem:
    return Problem(BUSY, "other answers are being made")
