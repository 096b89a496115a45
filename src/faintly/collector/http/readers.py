"""Readers: a few processes that answer, so that whoever asks cannot slow down whoever sends.

The process that takes reports forwards a question as bytes and gets the answer as bytes. Beside
that it only opens the sketch files that a reader asks for. A reader is started when a question
finds none free, stays for later ones, and is replaced if it dies.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

from starlette.requests import Request

from faintly.collector.http import logs
from faintly.collector.http.admission import Admission, Job
from faintly.collector.http.answers import Response
from faintly.collector.http.channel import NUMBER, Channel, Message
from faintly.collector.http.middleware import unexpected
from faintly.collector.problems import READER_LOST, Kind, Problem, stopping
from faintly.collector.storage.store import Store

MODULE = "faintly.collector.http.reading"


class ReaderLost(Exception):
    """A reader died, or does not speak as it should."""


def start(end: int, pipe: int) -> subprocess.Popen[bytes]:
    """Return a new process that answers what comes through these handles."""
    return subprocess.Popen(  # noqa: S603 - the arguments are our own
        # -P: a file in the working folder must not take the place of a module.
        [sys.executable, "-P", "-m", MODULE, str(end), str(pipe)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(end, pipe),
        process_group=0,  # Ctrl-C is for the collector alone
    )


class ReaderProcess:
    """One reader, and our ends of the socket and of the pipe to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        pipe, stops = os.pipe()
        self._channel, self._stops = Channel(ours), os.fdopen(stops, "wb", buffering=0)
        self._lock = threading.Lock()  # held while the pipe is used or closed
        try:
            self._process = start(theirs.fileno(), pipe)
        except OSError:
            self._close()
            raise Problem(
                READER_LOST, "no process could be started to compute the answer"
            ) from None
        finally:
            theirs.close()
            os.close(pipe)

    def ask(self, asked: Message, serve: Callable[[dict[str, Any]], Message]) -> Message:
        """Return the answer to a question; `serve` answers what the reader asks meanwhile."""
        trouble: Exception | None = None
        try:
            self._channel.send(asked)
            while "call" in (told := self._channel.receive()).head:
                reply = Message({"stop": True})
                try:
                    reply = serve(told.head)
                except Exception as error:
                    trouble = error
                self._channel.send(reply)
                if reply.file is not None:
                    reply.file.close()
        except Exception as error:
            raise ReaderLost from error
        if trouble is not None:
            raise trouble
        return told

    @property
    def lives(self) -> bool:
        """Return whether the process has not ended."""
        return self._process.poll() is None

    def give_up(self, number: int) -> None:
        """Tell the reader that nobody waits for a question any more; never blocks."""
        with self._lock, suppress(OSError):  # it is gone itself
            if not self._stops.closed:
                self._stops.write(NUMBER.pack(number))

    def kill(self) -> None:
        """Kill the process; whoever waits for its answer sees that it is lost."""
        self._process.kill()

    def end(self) -> int:
        """End the process, and return its exit status."""
        self.kill()
        self._close()
        return self._process.wait()

    def _close(self) -> None:
        with self._lock:
            self._stops.close()
        self._channel.close()


class Readers:
    """The readers of one collector."""

    def __init__(self, store: Store, admission: Admission) -> None:
        self._store, self._admission = store, admission
        self._lock, self._numbers = threading.Lock(), count()
        self._free: list[ReaderProcess] = []
        self._busy: set[ReaderProcess] = set()
        self._closed = False
        self._log = logs.logger()

    async def ask(self, request: Request, head: dict[str, Any], body: bytes = b"") -> Response:
        """Return the answer to a question, or raise `Problem`.

        Args:
            request: the request that asks.
            head: as `answers.answer` takes it.
            body: of the request, not looked at.
        """
        return await self._admission.run(request, lambda job: self._answer(job, head, body))

    def _answer(self, job: Job, head: dict[str, Any], body: bytes) -> Response:
        number, digest = next(self._numbers), bytes.fromhex(head["collection"])
        head |= {"number": number, "spool": str(self._store.folder / "spool")}
        reader = self._take()
        job.give_up = lambda: reader.give_up(number)
        try:
            job.check()
            told = reader.ask(Message(head, body), lambda call: self._serve(digest, call))
        except ReaderLost:
            raise self._replace(reader) from None
        finally:
            self._release(reader)
        return self._response(told)

    def _response(self, told: Message) -> Response:
        head = told.head
        if "problem" in head:
            code, status, hint, message = head["problem"]
            raise Problem(Kind(code, status, hint), message)
        if "fault" in head:
            self._log.error("unexpected", **head["fault"])
            raise unexpected()
        return Response(head["etag"], head["media"], None if head["same"] else told.body)

    def _serve(self, digest: bytes, call: dict[str, Any]) -> Message:
        """Return what a reader asks of the store."""
        registry, sketches = self._store.registry, self._store.sketches
        if call["call"] == "open":
            found = sketches.open(digest, call["epoch"], rebuild=call["rebuild"])
            return Message({"mark": found.mark, "reports": found.reports}, file=found.file)
        every = [each for _, each in sorted(registry.collection(digest).epochs.items())]
        if call["call"] == "each":
            rows = [(each.number, sketches.mark(each), each.pending) for each in every]
            sealed = [row for row, each in zip(rows, every, strict=True) if each.sealed]
            return Message({"rows": sealed})
        chosen = registry.latest(digest) if call["epoch"] is None else call["epoch"]
        counted = registry.sealed(digest, None if chosen == "all" else chosen)
        marks = [(each.number, sketches.mark(each)) for each in counted]
        pending = sum(each.pending for each in (every if chosen == "all" else counted))
        return Message({"epoch": chosen, "marks": marks, "pending": pending})

    def _take(self) -> ReaderProcess:
        """Return a free reader, the one used last if there are several: it may have the sketch."""
        with self._lock:
            if self._closed:
                raise stopping()
            while self._free and not self._free[-1].lives:
                self._lost(self._free.pop())
            reader = self._free.pop() if self._free else ReaderProcess()
            self._busy.add(reader)
            return reader

    def _release(self, reader: ReaderProcess) -> None:
        with self._lock:
            if reader in self._busy:
                self._busy.discard(reader)
                self._free.append(reader)

    def _replace(self, reader: ReaderProcess) -> Problem:
        """Return what to tell who waits for a reader that died; another is started when needed."""
        with self._lock:
            self._busy.discard(reader)
            if self._closed:
                reader.end()
                return stopping()
        self._lost(reader)
        return Problem(READER_LOST, "the process that computed the answer ended")

    def _lost(self, reader: ReaderProcess) -> None:
        self._log.error("reader died", status=reader.end())

    def close(self) -> None:
        """End all readers; whoever still waits for one is told that the collector stops."""
        with self._lock:
            self._closed, free, self._free = True, self._free, []
            for reader in self._busy:
                reader.kill()
        for reader in free:
            reader.end()
