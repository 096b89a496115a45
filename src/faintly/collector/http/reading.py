"""Where a reader process finds sketches: it asks the main process for files, and maps them.

The pages of a mapped file are shared by all readers and by the system's cache. Of table decoding
a reader keeps the transform that it made last, and nothing else.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, NamedTuple

from faintly.collector.problems import ABANDONED, DAMAGED, Problem, no_room
from faintly.core import Sketch
from faintly.engine import Reader
from faintly.engine.files import load_sketch
from faintly.engine.merge import merge_all
from faintly.errors import FaintlyError, InvalidInput
from faintly.mechanisms import mechanism_of
from faintly.wire.sketch_v1 import write_sketch

ATTEMPTS = 5  # to open a file, which a newer one may replace at any time
EpochChoice = int | Literal["all"] | None


class Question(NamedTuple):
    """What a client asks, as the main process forwards it."""

    number: int
    kind: str
    collection: str  # its digest
    fields: dict[str, Any]  # empty where there is a body
    accept: str
    known: str  # the header If-None-Match
    body: bytes
    spool: Path  # a folder for temporary files

    @property
    def file(self) -> Path:
        """Return where an answer that is a file is left, for the main process to delete."""
        return self.spool / f"{self.number}.fns"


class Fault(NamedTuple):
    """What a reader answers when it fails: the place in its code."""

    place: dict[str, Any]


class Call(NamedTuple):
    """What a reader asks of the main process: a method of `readers.Shelf`."""

    method: str
    arguments: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Counted:
    """Which sealed reports an answer counts: the epochs, each with a mark that seals change."""

    epoch: int | Literal["all"]
    marks: dict[int, str]
    pending: int  # reports that it does not count yet

    @property
    def version(self) -> str:
        """Return a name for exactly these reports."""
        text = ",".join(self.marks.values())
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class Source:
    """The sketches of the collection that the present question is about."""

    def __init__(self, pipe: Connection, stops: Connection) -> None:
        self._pipe, self._stops = pipe, stops
        self._given_up = -1
        self._kept: tuple[str, Reader] | None = None

    def begin(self, asked: Question) -> None:
        """Turn to a question."""
        self._asked = asked
        self.check()

    def check(self) -> None:
        """Raise `Problem` if nobody waits for the answer; long computations call this often."""
        while self._stops.poll():  # raises EOFError on `recv` if the main process is gone
            self._given_up = self._stops.recv()
        if self._given_up >= self._asked.number:
            raise Problem(ABANDONED, "the client has disconnected")

    def counted(self, epoch: EpochChoice) -> Counted:
        """Return what an answer about an epoch would count: the latest if none is chosen."""
        found: Counted = self._call("counted", epoch)
        return found

    def each(self) -> list[Counted]:
        """Return what answers about each epoch with sealed reports would count."""
        found: list[Counted] = self._call("each")
        return found

    def reader(self, counted: Counted, level: float) -> tuple[Reader, Counted]:
        """Return a reader of the sketch, and what it counts: sealed meanwhile, it may be more."""
        if self._kept is None or self._kept[0] != counted.version:
            self._kept = None  # before the next is made: there is room for one
            marks = dict(counted.marks)
            parts = (self._sketch(marks, number) for number in counted.marks)
            made = _reader(next(parts) if len(marks) == 1 else self._merged(parts))
            counted = replace(counted, marks=marks)
            self._kept = counted.version, made
        return self._kept[1].at(level).watched(self.check), counted

    def sketch_file(self, counted: Counted) -> Path:
        """Return a new file of the sketch, for who downloads it."""
        parts = (self._sketch(dict(counted.marks), number) for number in counted.marks)
        sketch = next(parts) if len(counted.marks) == 1 else self._merged(parts)
        try:
            with self._asked.file.open("wb") as file:
                write_sketch(sketch, file)
        except OSError:
            self._asked.file.unlink(missing_ok=True)
            raise no_room() from None
        return self._asked.file

    def _merged(self, parts: Iterator[Sketch]) -> Sketch:
        try:
            return merge_all(parts, spool=self._asked.spool)
        except InvalidInput:
            raise no_room() from None

    def _sketch(self, marks: dict[int, str], number: int) -> Sketch:
        """Return the sketch of an epoch, mapped, and note its mark."""
        self.check()
        rebuild = False
        for _ in range(ATTEMPTS):
            path, marks[number], reports = self._call("file", number, rebuild)
            try:
                found = load_sketch(path)
                if (found.plan.digest.hex(), found.count) == (self._asked.collection, reports):
                    return found
                rebuild = True
            except InvalidInput:
                pass  # a newer one has replaced it
            except FaintlyError:
                rebuild = True
        raise Problem(DAMAGED, "a sketch cannot be read")

    def _call(self, method: str, *arguments: object) -> Any:
        """Return what the main process answers to a call."""
        self._pipe.send(Call(method, arguments))
        told = self._pipe.recv()
        if isinstance(told, Problem):
            raise told
        return told


def _reader(sketch: Sketch) -> Reader:
    if sketch.tables is None:
        return Reader(sketch)
    # The transform is all that is read, so neither the tables nor their file stay.
    mechanism = mechanism_of(sketch.plan)
    transformed = mechanism.transform(sketch.tables)
    return Reader(replace(sketch, tables=None), transformed=transformed, mechanism=mechanism)
