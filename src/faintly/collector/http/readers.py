"""Readers: a few processes that answer, so that whoever asks cannot slow down whoever sends.

The main process, which takes reports, forwards a question as bytes and gets the answer as bytes.
Beside that it only tells a reader which sketch files to map. A reader is started when a question
finds none free, stays for later ones, and is replaced if it dies.
"""

import subprocess
import sys
import threading
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Pipe
from typing import Any

from starlette.requests import Request

from faintly.collector.http import logs
from faintly.collector.http.admission import Admission, Job
from faintly.collector.http.answers import Response
from faintly.collector.http.middleware import unexpected
from faintly.collector.http.source import Call, Counted, EpochChoice, Question
from faintly.collector.problems import READER_LOST, Problem, stopping
from faintly.collector.storage.sketches import SketchFile
from faintly.collector.storage.store import Store

MODULE = "faintly.collector.http.reading"


class ReaderLost(Exception):
    """A reader died, or does not speak as it should."""


class Shelf:
    """What readers may ask about a collection."""

    def __init__(self, store: Store, digest: bytes) -> None:
        self._registry, self._sketches, self._digest = store.registry, store.sketches, digest

    def counted(self, epoch: EpochChoice) -> Counted:
        """Return what an answer about an epoch would count: the latest if none is chosen."""
        chosen = self._registry.latest(self._digest) if epoch is None else epoch
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
        [sys.executable, "-P", "-m", MODULE, str(pipe), str(stops)],
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


class Readers:
    """The readers of one collector."""

    def __init__(self, store: Store, admission: Admission) -> None:
        self._store, self._admission = store, admission
        self._lock, self._numbers = threading.Lock(), count()
        self._free: list[ReaderProcess] = []
        self._busy: set[ReaderProcess] = set()
        self._closed = False
        self._log = logs.logger()

    async def ask(
        self,
        request: Request,
        kind: str,
        digest: str = "",
        *,
        fields: dict[str, Any] | None = None,
        body: bytes = b"",
    ) -> Response:
        """Return the answer to a question, or raise `Problem`.

        Args:
            request: the request that asks.
            kind: of the question, see `answers.answer`.
            digest: names the collection.
            fields: of a question without a body.
            body: of the request, which is not looked at here.
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
        return await self._admission.run(request, lambda job: self._answer(job, asked))

    def _answer(self, job: Job, asked: Question) -> Response:
        reader = self._take()
        job.give_up = lambda: reader.give_up(asked.number)
        try:
            job.check()
            told = reader.ask(asked, Shelf(self._store, bytes.fromhex(asked.collection)))
        except ReaderLost:
            raise self._replace(reader) from None
        finally:
            self._release(reader)
        if isinstance(told, Problem):
            raise told
        if not isinstance(told, Response):
            self._log.error("unexpected", **told)
            raise unexpected()
        return told

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
            return stopping()
        self._lost(reader)
        return Problem(READER_LOST, "the process that computed the answer ended")

    def _lost(self, reader: ReaderProcess) -> None:
        self._log.error("reader died", status=reader.end())

    def close(self) -> None:
        """End all readers; whoever still waits for one is told that the collector stops."""
        with self._lock:
            self._closed = True
            ended, self._free = [*self._free, *self._busy], []
        for reader in ended:
            reader.end()
