"""Readers: a few processes that answer, so that whoever asks cannot slow down whoever sends.

The main process, which takes reports, forwards a question as bytes and gets the answer as bytes.
Beside that it only tells a reader which sketch files to map. A reader is started when a question
finds none free, stays for later ones, and is replaced if it dies.

As many answers are computed at a time as there may be readers; waiting for one takes no thread.
An answer may take minutes where reports are read one by one, so it is abandoned as soon as its
client disconnects.
"""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from itertools import count
from multiprocessing.connection import Pipe
from typing import Any

from starlette.requests import ClientDisconnect, Request

from faintly.collector.http import logs, models
from faintly.collector.http.answers import START, Call, Counted, Fault, Question
from faintly.collector.http.middleware import unexpected
from faintly.collector.problems import BUSY, READER_LOST, Problem, abandoned, stopping
from faintly.collector.storage.sketches import SketchFile
from faintly.collector.storage.store import Store

WAITING = 64  # questions that may wait,
WAIT_S = 10.0  # and for how long
HELD_BYTES = 128 << 20  # of bodies of questions, until they are answered


class ReaderLost(Exception):
    """A reader died, or does not speak as it should."""


class Shelf:
    """What readers may ask about a collection."""

    def __init__(self, store: Store, digest: bytes) -> None:
        self._registry, self._sketches, self._digest = store.registry, store.sketches, digest

    def counted(self, epoch: models.EpochChoice) -> Counted:
        """Return what an answer about an epoch would count: the latest if none is chosen."""
        chosen = self._registry.sealed(self._digest)[-1].number if epoch is None else epoch
        found = self._registry.sealed(self._digest, None if chosen == "all" else chosen)
        every = self._registry.collection(self._digest).epochs.values()
        pending = sum(each.pending for each in (list(every) if chosen == "all" else found))
        return Counted(chosen, {each.number: self._sketches.mark(each) for each in found}, pending)

    def each(self) -> list[Counted]:
        """Return what answers about each epoch with sealed reports would count."""
        epochs = sorted(self._registry.collection(self._digest).epochs.items())
        return [
            Counted(number, {number: self._sketches.mark(each)}, each.pending)
            for number, each in epochs
            if each.sealed
        ]

    def file(self, number: int, rebuild: bool) -> SketchFile:
        """Return the sketch file of an epoch, made anew if it turned out to be damaged."""
        return self._sketches.file(self._digest, number, rebuild=rebuild)


def start(pipe: int, stops: int) -> subprocess.Popen[bytes]:
    """Return a new process that answers what comes through these handles."""
    return subprocess.Popen(  # noqa: S603 - the arguments are our own
        # -P: a file in the working folder must not take the place of a module.
        [sys.executable, "-P", "-c", START, str(pipe), str(stops)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(pipe, stops),
        process_group=0,  # Ctrl-C is for the main process alone
    )


class ReaderProcess:
    """One reader, and our ends of the pipes to it."""

    def __init__(self) -> None:
        self._pipe, theirs = Pipe()
        listening, self._stops = Pipe(duplex=False)
        try:
            with theirs, listening:
                self._process = start(theirs.fileno(), listening.fileno())
        except OSError:
            words = "no process could be started to compute the answer"
            raise Problem(READER_LOST, words) from None

    @property
    def lives(self) -> bool:
        """Return whether the process has not ended."""
        return self._process.poll() is None

    def ask(self, asked: Question, shelf: Shelf) -> Any:
        """Return the answer to a question, after what the reader needs to know for it."""
        trouble: Exception | None = None
        try:
            self._pipe.send(asked)
            while isinstance(told := self._pipe.recv(), Call):
                try:
                    reply = getattr(shelf, told.method)(*told.arguments)
                except Exception as error:
                    trouble, reply = error, unexpected()  # the reader gives up
                self._pipe.send(reply)
        except Exception as error:
            raise ReaderLost from error
        if trouble is not None:
            raise trouble
        return told

    def give_up(self, number: int) -> None:
        """Tell the reader that nobody waits for a question any more; never blocks."""
        with suppress(OSError):  # it is gone itself
            self._stops.send(number)

    def end(self) -> int:
        """Kill the process, and return its exit status; whoever waits for it sees it lost."""
        self._process.kill()
        return self._process.wait()


class Seat:
    """Room for one reader, which is started when it is needed."""

    reader: ReaderProcess | None = None


class Readers:
    """The readers of one collector."""

    def __init__(self, store: Store, most: int, body_bytes: int) -> None:
        """Have at most so many readers, and take bodies of so many bytes."""
        self._store, self._numbers, self._waiting = store, count(), 0
        self._held, self._most_held = 0, max(HELD_BYTES, body_bytes)
        self._threads, self._lock = ThreadPoolExecutor(most, "answers"), threading.Lock()
        self.seats = [Seat() for _ in range(most)]
        # The one used last comes first: it may have the sketch.
        self._free: asyncio.LifoQueue[Seat] = asyncio.LifoQueue()
        for seat in self.seats:
            self._free.put_nowait(seat)
        self.stopping = self._closed = False

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
            raise abandoned() from None
        finally:
            self._held -= held

    async def ask(
        self,
        request: Request,
        kind: str,
        digest: str = "",
        *,
        fields: dict[str, Any] | None = None,
        body: bytes = b"",
    ) -> Any:
        """Return the answer to a question, once a reader is free and has computed it.

        The kinds are those of `answers.answer`; a body is not looked at here. Raises `Problem` if
        no reader was free in time, the client disconnected, or the reader says so.
        """
        head = request.headers
        asked = Question(
            number=next(self._numbers),
            kind=kind,
            collection=digest,
            fields=fields or {},
            accept=head.get("accept") or "*/*",
            known=head.get("if-none-match", ""),
            body=body,
            spool=self._store.folder / "spool",
        )
        answer = asyncio.create_task(self._answer(asked))
        gone = asyncio.create_task(_disconnection(request))
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() and gone.exception() is None:
                raise abandoned()
            return await answer
        finally:
            answer.cancel()
            gone.cancel()

    async def _answer(self, asked: Question) -> Any:
        """Return what a reader answers; if this task is cancelled, the reader gives up."""
        seat, left = await self._seat(), threading.Event()
        loop = asyncio.get_running_loop()
        answered = loop.run_in_executor(self._threads, self._compute, seat, asked, left)

        def leave(answered: asyncio.Future[Any]) -> None:
            self._free.put_nowait(seat)
            if left.is_set() and not answered.cancelled():
                answered.exception()  # nobody else looks at it,
                asked.file.unlink(missing_ok=True)  # or takes the file

        try:
            return await asyncio.shield(answered)
        except asyncio.CancelledError:
            left.set()
            if seat.reader is not None:
                seat.reader.give_up(asked.number)
            raise
        finally:
            # Now or later: a seat is taken until its thread is done.
            answered.add_done_callback(leave)

    async def _seat(self) -> Seat:
        """Return a seat, after waiting for it."""
        busy = Problem(BUSY, "other answers are being computed")
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

    def _compute(self, seat: Seat, asked: Question, left: threading.Event) -> Any:
        reader = self._reader(seat)
        if left.is_set():  # before there was a reader to tell
            raise abandoned()
        try:
            told = reader.ask(asked, Shelf(self._store, bytes.fromhex(asked.collection)))
        except ReaderLost:
            asked.file.unlink(missing_ok=True)
            with self._lock:
                if self._closed:
                    raise stopping() from None
                self._lost(seat)
            raise Problem(READER_LOST, "the process that computed the answer ended") from None
        if isinstance(told, Problem):
            raise told
        if isinstance(told, Fault):
            logs.error("unexpected", **told.place)
            raise unexpected()
        return told

    def _reader(self, seat: Seat) -> ReaderProcess:
        """Return the reader of a seat, a new one if it has none that lives."""
        with self._lock:
            if self.stopping:
                raise stopping()
            if seat.reader is not None and not seat.reader.lives:
                self._lost(seat)
            seat.reader = seat.reader or ReaderProcess()
            return seat.reader

    def _lost(self, seat: Seat) -> None:
        assert seat.reader is not None
        logs.error("reader died", status=seat.reader.end())
        seat.reader = None

    def close(self) -> None:
        """End all readers; whoever still waits for one is told that the collector stops."""
        with self._lock:
            self.stopping = self._closed = True
            readers = [seat.reader for seat in self.seats if seat.reader is not None]
            for seat in self.seats:
                seat.reader = None
        for reader in readers:
            reader.end()


async def _disconnection(request: Request) -> None:
    """Return when the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
