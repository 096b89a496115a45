"""Where a reader process finds sketches: it asks the collector, which sends open files.

A file is mapped, so its pages are shared by all readers and by the system's cache. Of table
decoding a reader keeps the transform that it made last, and nothing else.
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from faintly.collector.http.channel import Channel, Message, Stops
from faintly.collector.problems import ABANDONED, DAMAGED, Problem, no_room
from faintly.core import Sketch
from faintly.engine import Reader
from faintly.engine.answers import transform
from faintly.engine.files import map_sketch
from faintly.engine.merge import merge_all
from faintly.errors import FaintlyError, InvalidInput

EpochChoice = int | Literal["all"] | None


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

    def __init__(self, channel: Channel, stops: Stops) -> None:
        self._channel, self._stops = channel, stops
        self._number, self._digest, self._spool = 0, b"", Path()
        self._kept: tuple[str, Reader] | None = None

    def begin(self, number: int, digest: bytes, spool: Path) -> None:
        """Turn to a question about a collection; temporary files go to a folder."""
        self._number, self._digest, self._spool = number, digest, spool
        self.check()

    def check(self) -> None:
        """Raise `Problem` if nobody waits for the answer; long computations call this often."""
        if self._stops.reached(self._number):
            raise Problem(ABANDONED, "the client has disconnected")

    def counted(self, epoch: EpochChoice) -> Counted:
        """Return what an answer about an epoch would count: the latest if none is chosen."""
        told = self._call({"call": "counted", "epoch": epoch}).head
        marks = {int(number): mark for number, mark in told["marks"]}
        return Counted(told["epoch"], marks, told["pending"])

    def each(self) -> list[Counted]:
        """Return what answers about each epoch with sealed reports would count."""
        rows = self._call({"call": "each"}).head["rows"]
        return [Counted(number, {number: mark}, pending) for number, mark, pending in rows]

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

    def _merged(self, parts: Iterator[Sketch]) -> Sketch:
        try:
            return merge_all(parts, spool=self._spool)
        except InvalidInput:
            raise no_room() from None

    def _sketch(self, marks: dict[int, str], number: int) -> Sketch:
        """Return the sketch of an epoch, mapped, and note its mark."""
        self.check()
        for rebuild in (False, True):
            told = self._call({"call": "open", "epoch": number, "rebuild": rebuild})
            assert told.file is not None
            marks[number] = told.head["mark"]
            with told.file, suppress(FaintlyError):
                found = map_sketch(told.file)
                if found.plan.digest == self._digest and found.count == told.head["reports"]:
                    return found
        raise Problem(DAMAGED, "a sketch cannot be read")

    def _call(self, head: dict[str, object]) -> Message:
        """Return what the collector says to a call."""
        self._channel.send(Message(head))
        told = self._channel.receive()
        if "stop" in told.head:  # it has told the client why
            raise Problem(ABANDONED, "the collector could not go on")
        return told


def _reader(sketch: Sketch) -> Reader:
    if sketch.tables is None:
        return Reader(sketch)
    # The transform is all that is read, so neither the tables nor their file stay.
    return Reader(replace(sketch, tables=None), transformed=transform(sketch.tables))
