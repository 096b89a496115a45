"""Readers: a few processes that answer queries, so that queries cannot slow down reports.

The main process, which takes reports, forwards a query as bytes and gets the answer as bytes. Apart
from that it only tells a reader which sketch files to map. A reader is started when a query finds
none free, stays for later ones, and is replaced if it dies.

Each reader computes one answer at a time; waiting for a reader takes no thread. An answer that
reads reports one by one may take minutes, so it is cancelled as soon as its client disconnects.
"""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Pipe
from typing import Any, Literal

from starlette.requests import Request

from faintly.wire import problems
from faintly.wire.problems import Problem
from faintly_collector.http import logs
from faintly_collector.http.answers import START, Call, Counted, Question
from faintly_collector.storage.sketches import SketchFile
from faintly_collector.storage.store import Store

WAITING = 64  # queries that may wait for a reader,
WAIT_S = 10.0  # and for how long


class Shelf:
    """What readers may ask the main process about a collection."""

    def __init__(self, store: Store, digest: bytes) -> None:
        self._registry, self._sketches, self._digest = store.registry, store.sketches, digest

    def counted(self, epoch: int | Literal["all"] | None) -> Counted:
        """Return what an answer about an epoch would count; the latest epoch if none is given."""
        chosen = self._registry.sealed(self._digest)[-1].number if epoch is None else epoch
        found = self._registry.sealed(self._digest, None if chosen == "all" else chosen)
        every = self._registry.collection(self._digest).epochs.values()
        pending = sum(each.pending for each in (list(every) if chosen == "all" else found))
        return Counted(chosen, {each.number: self._sketches.mark(each) for each in found}, pending)

    def each(self) -> list[Counted]:
        """Return what an answer about each epoch with sealed reports would count."""
        epochs = self._registry.collection(self._digest).epochs
        return [self.counted(each) for each in sorted(epochs) if epochs[each].sealed]

    def file(self, number: int, rebuild: bool) -> SketchFile:
        """Return the sketch file of an epoch, rebuilt if it turned out to be damaged."""
        return self._sketches.file(self._digest, number, rebuild=rebuild)


def start(pipe: int, stops: int) -> subprocess.Popen[bytes]:
    """Return a new process that answers queries from these handles."""
    return subprocess.Popen(  # noqa: S603 - the arguments are our own
        # -P: a file in the working folder must not shadow a module.
        [sys.executable, "-P", "-c", START, str(pipe), str(stops)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(pipe, stops),
        process_group=0,  # Ctrl-C is for the main process alone
    )


class Seat:
    """A slot for one reader, which is started on demand, and our ends of the pipes to it."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._closed, self._lock = False, threading.Lock()
        self.given_up = -1  # the last cancelled query

    def ask(self, asked: Question, shelf: Shelf) -> Any:
        """Return the answer to a query, after serving the reader's calls."""
        self._start()
        if self.given_up == asked.number:  # cancelled before there was a reader to tell
            raise Problem(problems.ABANDONED)
        failure: Exception | None = None
        try:
            self._pipe.send(asked)
            while isinstance(told := self._pipe.recv(), Call):
                try:
                    reply = getattr(shelf, told.method)(*told.arguments)
                except Exception as error:
                    failure, reply = error, Problem(problems.INTERNAL)  # the reader gives up
                self._pipe.send(reply)
        except Exception:  # it died, or broke the protocol
            asked.file.unlink(missing_ok=True)
            self.end()
            if self._closed:
                raise Problem(problems.STOPPING) from None
            raise Problem(
                problems.READER_LOST, "the process that computed the answer ended"
            ) from None
        if failure is not None:
            raise failure
        if isinstance(told, Problem):
            raise told
        return told

    def _start(self) -> None:
        """Start a reader, unless one is running."""
        if self.process is not None and self.process.poll() is not None:
            self.end()
        with self._lock:
            if self._closed:
                raise Problem(problems.STOPPING)
            if self.process is not None:
                return
            self._pipe, theirs = Pipe()
            listening, self._stops = Pipe(duplex=False)
            try:
                with theirs, listening:
                    self.process = start(theirs.fileno(), listening.fileno())
            except OSError:
                words = "no process could be started to compute the answer"
                raise Problem(problems.READER_LOST, words) from None

    def give_up(self, number: int) -> None:
        """Tell the reader that a query was cancelled; never blocks."""
        self.given_up = number
        if self.process is not None:
            with suppress(OSError):  # the reader has ended
                self._stops.send(number)

    def end(self, *, close: bool = False) -> None:
        """Kill the reader, if there is one; a pending query then fails."""
        with self._lock:
            self._closed = self._closed or close
            process, self.process = self.process, None
        if process is not None:
            process.kill()
            status = process.wait()
            if not close:
                logs.error("reader died", status=status)


class Readers:
    """The readers of one collector."""

    def __init__(self, store: Store, most: int) -> None:
        """Run at most `most` readers."""
        self._store, self._numbers, self._waiting = store, count(), 0
        self._threads = ThreadPoolExecutor(most, "answers")
        self.seats = [Seat() for _ in range(most)]
        # Last in, first out: the reader used last may have the sketch cached.
        self._free: asyncio.LifoQueue[Seat] = asyncio.LifoQueue()
        for seat in self.seats:
            self._free.put_nowait(seat)

    async def ask(self, request: Request, kind: str, digest: str, body: bytes) -> Any:
        """Return the answer to a query, once a reader is free and has computed it.

        The kinds are those of `answers.answer`; the body is not parsed here. Raises `Problem` if
        no reader was free in time, the client disconnected, or the reader raised one.
        """
        if self._store.stopping:
            raise Problem(problems.STOPPING)
        head, spool = request.headers, self._store.folder / "spool"
        given = head.get("accept") or "*/*", head.get("if-none-match", "")
        asked = Question(next(self._numbers), kind, digest, *given, body, spool)
        answer = asyncio.create_task(self._answer(asked))
        gone = asyncio.create_task(_disconnection(request))
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() and gone.exception() is None:
                raise Problem(problems.ABANDONED)
            return await answer
        finally:
            answer.cancel()
            gone.cancel()

    async def _answer(self, asked: Question) -> Any:
        """Return a reader's answer; if this task is cancelled, the reader stops."""
        shelf, seat = Shelf(self._store, bytes.fromhex(asked.collection)), await self._seat()
        loop = asyncio.get_running_loop()
        answered = loop.run_in_executor(self._threads, seat.ask, asked, shelf)

        def leave(answered: asyncio.Future[Any]) -> None:
            self._free.put_nowait(seat)
            if seat.given_up == asked.number and not answered.cancelled():
                answered.exception()  # nobody else retrieves it,
                asked.file.unlink(missing_ok=True)  # or the file

        try:
            return await asyncio.shield(answered)
        except asyncio.CancelledError:
            seat.give_up(asked.number)
            raise
        finally:
            # Now or later: a seat stays taken until its thread is done.
            answered.add_done_callback(leave)

    async def _seat(self) -> Seat:
        """Return a seat, after waiting for it."""
        busy = Problem(problems.BUSY, "other answers are being computed")
        if self._waiting >= WAITING:
            raise busy
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_S):
                return await self._free.get()
        except TimeoutError:
            raise busy from None
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End all readers; pending queries are answered that the collector is stopping."""
        for seat in self.seats:
            seat.end(close=True)


async def _disconnection(request: Request) -> None:
    """Return when the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
