"""A reader process: parses queries, maps sketches, encodes answers, one at a time.

It uses neither the database nor the network. Queries come through a pipe, as their clients sent
them; the numbers of cancelled queries come through another. A reader asks the main process for
sketch files, whose pages all readers share through the system's cache. For table decoding it
caches only its latest transform.

Answers are estimates, top lists, history and the noise floor, as JSON or Arrow. The ETag of an
answer covers the version of the counted reports and the query, so asking again costs little while
nothing changes.
"""

import hashlib
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from faintly.core import Estimates, Key, Sketch
from faintly.core.estimate import normal_quantile
from faintly.engine import Reader, TopList, documents
from faintly.engine.files import load_sketch
from faintly.engine.merge import merge_all
from faintly.errors import FaintlyError, InvalidInput, UnknownKey
from faintly.mechanisms import mechanism_of
from faintly.wire import problems
from faintly.wire.problems import Problem
from faintly.wire.sketch_v1 import write_sketch
from faintly_collector.http import logs, models

START = f"from {__name__} import main; main()"  # the code of a new process
NICE = 10  # below the process that takes reports: at a tenth of its weight
ATTEMPTS = 5  # to open a file, since a newer one may replace it at any time
JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
MOST_LISTED = 2**24  # keys that a top list scans, using about half a gigabyte
POST_THEM = 'Use POST /v1/collections/{digest}/top with the keys to compare as "candidates".'
MAKE_ROOM = "Make room on the disk."
MOST_CELLS = 100_000  # keys times epochs of a history: the most rows of any answer
MOST_HISTORY_BYTES = 32 << 20  # that many rows take about 20 MiB, unless keys are long
ENCODERS: dict[str, Callable[..., bytes]] = {
    JSON: lambda document, _: documents.encode_json(document),
    ARROW: documents.encode_arrow,
    PARQUET: documents.encode_parquet,
}
TABLES = tuple(ENCODERS)
KINDS: dict[str, Any] = {  # of queries, by address
    "POST /estimates": models.KeysBody,
    "GET /estimates": models.KeysQuery,
    "GET /top": models.TopQuery,
    "POST /top": models.TopBody,
    "POST /history": models.HistoryBody,
    "GET /noise-floor": models.NoiseQuery,
    "GET /sketch": models.EpochQuery,
}
NUMBER = re.compile("[0-9]{1,20}")  # a key in an address; longer ones are slow to parse
WEIGHT = re.compile(r"q=(0(\.\d{0,3})?|1(\.0{0,3})?)")  # of a media type in an Accept header


class Question(NamedTuple):
    """A client's query, as the main process forwards it."""

    number: int
    kind: str
    collection: str  # its digest
    accept: str
    known: str  # the header If-None-Match
    body: bytes  # JSON, as sent or built from the address
    spool: Path  # a folder for temporary files

    @property
    def file(self) -> Path:
        """Return where to leave an answer that is a file; the main process deletes it."""
        return self.spool / f"{self.number}.fns"


class Call(NamedTuple):
    """A reader's call to the main process: a method of `readers.Shelf`."""

    method: str
    arguments: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """Which sealed reports an answer counts: epochs, each with a mark that every seal changes."""

    epoch: int | Literal["all"]
    marks: dict[int, str]
    pending: int  # reports that it does not count yet

    @property
    def version(self) -> str:
        """Return a name for exactly these reports."""
        text = ",".join(self.marks.values())
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class Source:
    """The sketches of the collection that the current query is about."""

    def __init__(self, pipe: Connection, stops: Connection) -> None:
        self._pipe, self._stops = pipe, stops
        self._given_up = -1
        self._kept: tuple[str, Reader] | None = None

    def begin(self, asked: Question) -> None:
        """Start on a query."""
        self._asked = asked
        self.check()

    def check(self) -> None:
        """Raise `Problem` if the query was cancelled; long computations call this often."""
        while self._stops.poll():  # `recv` raises EOFError if the main process is gone
            self._given_up = self._stops.recv()
        if self._given_up >= self._asked.number:
            raise Problem(problems.ABANDONED)

    def reader(self, counted: Counted, level: float) -> tuple[Reader, Counted]:
        """Return a reader of the sketch, and what it counts: more, after a seal in between."""
        if self._kept is None or self._kept[0] != counted.version:
            self._kept = None  # first: there is room for only one
            counted = replace(counted, marks=dict(counted.marks))
            made = _reader(self._sketch(counted.marks))
            self._kept = counted.version, made
        return self._kept[1].at(level).watched(self.check), counted

    def sketch_file(self, counted: Counted) -> Path:
        """Write the sketch to a new file for download, and return its path."""
        sketch = self._sketch(counted.marks)
        try:
            with self._asked.file.open("wb") as file:
                write_sketch(sketch, file)
        except OSError:
            self._asked.file.unlink(missing_ok=True)
            raise Problem(problems.CANNOT_STORE, hint=MAKE_ROOM) from None
        return self._asked.file

    def _sketch(self, marks: dict[int, str]) -> Sketch:
        """Return the sketch of epochs, and note their marks."""
        parts = (self._mapped(marks, number) for number in list(marks))
        try:
            return next(parts) if len(marks) == 1 else merge_all(parts, spool=self._asked.spool)
        except InvalidInput:
            raise Problem(problems.CANNOT_STORE, hint=MAKE_ROOM) from None

    def _mapped(self, marks: dict[int, str], number: int) -> Sketch:
        """Return the sketch of an epoch, mapped, and note its mark."""
        self.check()
        rebuild = False
        for _ in range(ATTEMPTS):
            path, marks[number], reports = self.call("file", number, rebuild)
            try:
                found = load_sketch(path)
                if (found.plan.digest.hex(), found.count) == (self._asked.collection, reports):
                    return found
                rebuild = True
            except InvalidInput:
                pass  # a newer one has replaced it
            except FaintlyError:
                rebuild = True
        raise Problem(problems.DAMAGED)

    def call(self, method: str, *arguments: object) -> Any:
        """Return what the main process answers to a call."""
        self._pipe.send(Call(method, arguments))
        told = self._pipe.recv()
        if isinstance(told, Problem):
            raise told
        return told


def _reader(sketch: Sketch) -> Reader:
    if sketch.tables is None:
        return Reader(sketch)
    # Only the transform is read, so neither the tables nor their file are kept.
    mechanism = mechanism_of(sketch.plan)
    transformed = mechanism.tables.transform(sketch.tables)
    return Reader(replace(sketch, tables=None), transformed=transformed, mechanism=mechanism)


@dataclass(frozen=True, slots=True)
class Response:
    """An encoded answer; its body is None where the client already has it."""

    etag: str
    media: str
    body: bytes | None


def _media(accept: str, offered: Sequence[str]) -> str:
    """Return the offered media type that an Accept header prefers: by weight, then by order."""
    wanted = {}
    for place, part in enumerate(accept.split(",")):
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        weights = [each[2:] for each in parameters if WEIGHT.fullmatch(each)]
        wanted[name or "*/*"] = float(weights[0]) if weights else 1.0, -place

    def preference(media: str) -> tuple[float, int]:
        ranges = (media, media.partition("/")[0] + "/*", "*/*")
        return next((wanted[each] for each in ranges if each in wanted), (0.0, 0))

    best = max(offered, key=preference)
    if preference(best)[0] > 0:
        return best
    raise Problem(problems.NOT_ACCEPTABLE, f"the answer is {' or '.join(offered)}")


def answer(source: Source, asked: Question) -> Any:
    """Return the answer to a query."""
    if asked.kind not in KINDS:  # a new collection, too long for the main process to parse
        return models.new_collection(asked.body)
    given = models.parse(KINDS[asked.kind], asked.body)
    if isinstance(given, models.HistoryBody):
        return _history(source, asked, given)
    if asked.kind == "GET /sketch":
        return source.sketch_file(source.call("counted", given.epoch))
    media = _media(asked.accept, [JSON] if isinstance(given, models.NoiseQuery) else TABLES)
    counted = source.call("counted", given.epoch)
    etag = _tag(asked, media, counted)
    if _has(asked, etag):
        return Response(etag, media, None)
    document, found, counted = _computed(source, asked, given, counted)
    try:
        body = ENCODERS[media](document, found)
    except InvalidInput as error:
        raise Problem(problems.BAD_REQUEST, str(error)) from None
    return Response(_tag(asked, media, counted), media, body)


def _history(source: Source, asked: Question, given: models.HistoryBody) -> Response:
    """Return the estimates of keys in every epoch that has sealed reports."""
    _media(asked.accept, [JSON])
    epochs = source.call("each")
    if len(epochs) * len(given.keys) > MOST_CELLS:
        raise Problem(
            problems.INVALID,
            f"{len(given.keys):,} keys in {len(epochs):,} epochs are more than {MOST_CELLS:,} rows",
            "Ask for fewer keys at a time, or for single epochs with estimates.",
        )
    etag = _tag(asked, JSON, *epochs)
    if _has(asked, etag):
        return Response(etag, JSON, None)
    rows, size = [], 0
    for each in epochs:
        rows.append(documents.encode_json(_computed(source, asked, given, each)[0]))
        size += len(rows[-1])
        if size > MOST_HISTORY_BYTES:
            words = "the answer would be too long, since every epoch repeats the keys"
            raise Problem(problems.INVALID, words, "Ask for fewer or shorter keys.")
    start = b'{"collection":"%s","epochs":[' % asked.collection.encode()
    return Response(etag, JSON, b"".join((start, b",".join(rows), b"]}")))


def _computed(
    source: Source, asked: Question, given: Any, counted: Counted
) -> tuple[dict[str, Any], Any, Counted]:
    """Return an answer as a document and as an object, and which reports it counts."""
    reader, counted = source.reader(counted, given.level)
    try:
        document, found = _compute(reader, given)
    except UnknownKey as error:
        # The engine's message quotes the key, which must not be repeated; its position is last.
        place = str(error).rpartition(" at position ")[2]
        raise Problem(problems.UNKNOWN_KEY, f"the key at position {place}") from None
    except InvalidInput as error:
        raise Problem(problems.INVALID, str(error)) from None
    document |= {
        "collection": asked.collection,
        "epoch": counted.epoch,
        "version": counted.version,
        "pending": counted.pending,
    }
    return document, found, counted


def _compute(reader: Reader, given: Any) -> tuple[dict[str, Any], Estimates | TopList]:
    """Return an answer as a document and as an object."""
    if isinstance(given, models.NoiseQuery):
        found = reader.estimate_ids(np.zeros(0, dtype=np.uint64), [])
        document = documents.estimate_document(found) | {"keys": given.keys}
        del document["estimates"]
        document["noise_floor_all"] = found.mean_at(normal_quantile(given.level, given.keys))
        return document, found
    if isinstance(given, models.TopQuery):
        candidates = given.candidates if isinstance(given, models.TopBody) else None
        size = reader.sketch.plan.universe.size
        if candidates is None and (size is None or size > MOST_LISTED):
            raise Problem(problems.INVALID, "the universe is too large to list", POST_THEM)
        choice = given.count, candidates, given.control, given.false_rate
        top = reader.top(*choice, posterior=given.crowd, above=given.above)
        return documents.top_document(top), top
    keys: Sequence[Key] = given.keys
    if isinstance(given, models.KeysQuery) and reader.sketch.plan.universe.kind == "indexed":
        keys = [int(key) if NUMBER.fullmatch(key) else key for key in given.keys]
    if isinstance(given, models.EstimateQuery) and given.crowd:
        found = reader.posterior(keys, given.above)
    else:
        found = reader.estimate(keys)
    return documents.estimate_document(found), found


def _has(asked: Question, etag: str) -> bool:
    """Return whether the client already has an answer."""
    tags = {tag.strip().removeprefix("W/") for tag in asked.known.split(",")}
    return etag in tags or "*" in tags


def _tag(asked: Question, media: str, *counted: Counted) -> str:
    """Return the ETag of the answer to a query from these reports."""
    about = repr((asked.kind, media, counted)).encode() + asked.body
    return f'"{hashlib.blake2s(about, digest_size=16).hexdigest()}"'


def answer_all(pipe: Connection, stops: Connection) -> None:
    """Answer queries until the main process is gone."""
    source = Source(pipe, stops)
    with suppress(EOFError, OSError):
        while True:
            asked = pipe.recv()
            try:
                source.begin(asked)
                told = answer(source, asked)
            except (EOFError, ConnectionError):
                raise
            except Problem as problem:
                told = problem
            except Exception as error:
                logs.error("unexpected", **logs.place_of(error))
                told = Problem(problems.INTERNAL)
            pipe.send(told)


def main() -> None:
    """Run until the main process closes its ends."""
    # The main process decides when a reader ends; a signal to the whole group must not.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    os.nice(NICE)
    logs.configure("error")
    pipe, stops = map(int, sys.argv[1:])
    answer_all(Connection(pipe), Connection(stops, writable=False))
