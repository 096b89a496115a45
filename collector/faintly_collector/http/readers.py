"""Readers: processes that answer queries, so that queries cannot slow down reports.

The main process, which takes reports, forwards queries and answers as bytes, and tells a reader
which sketch files to map. A reader is started when a query finds none free, stays for later ones,
and is replaced if it dies. It computes one answer at a time; waiting for it takes no thread. An
answer may take minutes, so it is cancelled as soon as its client disconnects.
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
from faintly_collector.http import limits, logs
from faintly_collector.http.answers import START, Call, Query, Snapshot
from faintly_collector.storage.sketches import SketchFile
from faintly_collector.storage.store import Store


class SketchCatalog:
    """What readers may ask the main process about a collection."""

    def __init__(self, store: Store, digest: bytes) -> None:
        self._registry, self._sketches, self._digest = store.registry, store.sketches, digest

    def snapshot(self, epoch: int | Literal["all"] | None) -> Snapshot:
        """Return what an answer about an epoch would count; the latest epoch if none is given."""
        chosen = self._registry.sealed_epochs(self._digest)[-1].number if epoch is None else epoch
        found = self._registry.sealed_epochs(self._digest, None if chosen == "all" else chosen)
        every = self._registry.collection(self._digest).epochs.values()
        pending = sum(each.pending for each in (list(every) if chosen == "all" else found))
        versions = {each.number: self._sketches.version(each) for each in found}
        return Snapshot(chosen, versions, pending)

    def snapshots(self) -> list[Snapshot]:
        """Return what an answer about each epoch with sealed reports would count."""
        epochs = self._registry.collection(self._digest).epochs
        return [self.snapshot(each) for each in sorted(epochs) if epochs[each].sealed]

    def sketch_file(self, number: int, rebuild: bool) -> SketchFile:
        """Return the sketch file of an epoch, rebuilt if it turned out to be damaged."""
        return self._sketches.file(self._digest, number, rebuild=rebuild)


def start_reader(pipe: int, cancellations: int) -> subprocess.Popen[bytes]:
    """Return a new process that answers queries from these handles."""
    return subprocess.Popen(  # noqa: S603 - the arguments are our own
        # -P: a file in the working folder must not shadow a module.
        [sys.executable, "-P", "-c", START, str(pipe), str(cancellations)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(pipe, cancellations),
        process_group=0,  # Ctrl-C is for the main process alone
    )


class ReaderSlot:
    """A place for one reader, started on demand, and the main process's ends of its pipes."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._closed, self._lock = False, threading.Lock()
        self.cancelled = -1  # the last cancelled query

    def ask(self, query: Query, catalog: SketchCatalog) -> Any:
        """Return the answer to a query, after serving the reader's calls."""
        self._start()
        if self.cancelled == query.number:  # cancelled before there was a reader to tell
            raise Problem(problems.ABANDONED)
        failure: Exception | None = None
        try:
            self._pipe.send(query)
            while isinstance(message := self._pipe.recv(), Call):
                try:
                    reply = getattr(catalog, message.method)(*message.arguments)
                except Exception as error:
                    failure, reply = error, Problem(problems.INTERNAL)  # it ends the query
                self._pipe.send(reply)
        except Exception:  # it died, or broke the protocol
            query.file.unlink(missing_ok=True)
            self.end()
            if self._closed:
                raise Problem(problems.STOPPING) from None
            message = "the process that computed the answer ended"
            raise Problem(problems.READER_LOST, message) from None
        if failure is not None:
            raise failure
        if isinstance(message, Problem):
            raise message
        return message

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
            listening, self._cancellations = Pipe(duplex=False)
            try:
                with theirs, listening:
                    self.process = start_reader(theirs.fileno(), listening.fileno())
            except OSError:
                message = "no process could be started to compute the answer"
                raise Problem(problems.READER_LOST, message) from None

    def cancel(self, number: int) -> None:
        """Tell the reader that a query was cancelled; never blocks."""
        self.cancelled = number
        if self.process is not None:
            with suppress(OSError):  # the reader has ended
                self._cancellations.send(number)

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

    def __init__(self, store: Store, limit: int) -> None:
        """Run at most `limit` readers."""
        self._store, self._numbers, self.waiting = store, count(), 0
        self._threads = ThreadPoolExecutor(limit, "answers")
        self.slots = [ReaderSlot() for _ in range(limit)]
        # Last in, first out: the reader used last may have the sketch cached.
        self.free: asyncio.LifoQueue[ReaderSlot] = asyncio.LifoQueue()
        for slot in self.slots:
            self.free.put_nowait(slot)

    async def ask(self, request: Request, kind: str, digest: str, body: bytes) -> Any:
        """Return the answer to a query, once a reader is free and has computed it.

        The kinds are those of `answers.answer`; the body is not parsed here. Raises `Problem` if
        no reader was free in time, the client disconnected, or the reader raised one.
        """
        if self._store.stopping:
            raise Problem(problems.STOPPING)
        head, spool = request.headers, self._store.folder / "spool"
        given = head.get("accept") or "*/*", head.get("if-none-match", "")
        query = Query(next(self._numbers), kind, digest, *given, body, spool)
        answer = asyncio.create_task(self._answer(query))
        disconnected = asyncio.create_task(_wait_for_disconnect(request))
        try:
            await asyncio.wait({answer, disconnected}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() and disconnected.exception() is None:
                raise Problem(problems.ABANDONED)
            return await answer
        finally:
            answer.cancel()
            disconnected.cancel()

    async def _answer(self, query: Query) -> Any:
        """Return a reader's answer; if this task is cancelled, the reader stops."""
        catalog = SketchCatalog(self._store, bytes.fromhex(query.collection))
        loop, slot = asyncio.get_running_loop(), await self._acquire_slot()
        answered = loop.run_in_executor(self._threads, slot.ask, query, catalog)

        def release(answered: asyncio.Future[Any]) -> None:
            self.free.put_nowait(slot)
            if slot.cancelled == query.number and not answered.cancelled():
                answered.exception()  # nobody else retrieves it,
                query.file.unlink(missing_ok=True)  # or the file

        try:
            return await asyncio.shield(answered)
        except asyncio.CancelledError:
            slot.cancel(query.number)
            raise
        finally:
            # Now or later: a slot stays in use until its thread is done.
            answered.add_done_callback(release)

    async def _acquire_slot(self) -> ReaderSlot:
        """Return a free slot, after waiting for it."""
        busy = Problem(problems.BUSY, "other answers are being computed")
        if self.waiting >= limits.WAITING:
            raise busy
        self.waiting += 1
        try:
            async with asyncio.timeout(limits.WAIT_S):
                return await self.free.get()
        except TimeoutError:
            raise busy from None
        finally:
            self.waiting -= 1

    def close(self) -> None:
        """End all readers; pending queries are answered that the collector is stopping."""
        for slot in self.slots:
            slot.end(close=True)


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
