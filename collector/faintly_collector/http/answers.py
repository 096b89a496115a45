"""A reader process: parses queries, maps sketches and encodes answers, one query at a time.

It uses neither the database nor the network. One pipe brings queries, as clients sent them, and
another the numbers of cancelled ones. A reader asks the main process for sketch files, whose pages
all readers share through the system's cache. For table decoding it caches its latest transform.

Answers are JSON or Arrow. Their ETag covers the query and the version of the counted reports, so
asking again costs little while nothing changes.
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
from faintly.engine.merge import merge_all
from faintly.errors import FaintlyError, InvalidInput, UnknownKey
from faintly.mechanisms import mechanism_of
from faintly.wire import problems
from faintly.wire.problems import Problem
from faintly.wire.sketch_v1 import write_sketch
from faintly_collector.http import limits, logs, models
from faintly_collector.storage.sketches import load

START = f"from {__name__} import main; main()"  # the code of a new process
NICE = 10  # below the process that takes reports: at a tenth of its weight
ATTEMPTS = 5  # to open a file, since a newer one may replace it at any time
JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
POST_CANDIDATES = 'Use POST /v1/collections/{digest}/top with the keys to compare as "candidates".'
FREE_DISK = "Make room on the disk."
ENCODERS: dict[str, Callable[..., bytes]] = {
    JSON: lambda document, _: documents.encode_json(document),
    ARROW: documents.encode_arrow,
    PARQUET: documents.encode_parquet,
}
TABLES = tuple(ENCODERS)
QUERY_MODELS: dict[str, Any] = {  # of queries, by address
    "POST /estimates": models.KeysBody,
    "GET /estimates": models.KeysQuery,
    "GET /top": models.TopQuery,
    "POST /top": models.TopBody,
    "POST /history": models.HistoryBody,
    "GET /noise-floor": models.NoiseQuery,
    "GET /sketch": models.EpochQuery,
}
INDEX = re.compile("[0-9]{1,20}")  # a key in an address; longer ones are slow to parse
WEIGHT = re.compile(r"q=(0(\.\d{0,3})?|1(\.0{0,3})?)")  # of a media type in an Accept header


class Query(NamedTuple):
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
    """A reader's call to the main process: a method of `readers.SketchCatalog`."""

    method: str
    arguments: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Which sealed reports an answer counts: epochs, each with a version that seals change."""

    epoch: int | Literal["all"]
    versions: dict[int, str]
    pending: int  # reports that it does not count yet

    @property
    def version(self) -> str:
        """Return a name for exactly these reports."""
        text = ",".join(self.versions.values())
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class SketchSource:
    """The sketches of the collection that the current query is about."""

    def __init__(self, pipe: Connection, cancellations: Connection) -> None:
        self._pipe, self._cancellations = pipe, cancellations
        self._cancelled = -1  # the last cancelled query
        self._cached: tuple[str, Reader] | None = None

    def begin(self, query: Query) -> None:
        """Start on a query."""
        self._query = query
        self.check()

    def check(self) -> None:
        """Raise `Problem` if the query was cancelled; long computations call this often."""
        while self._cancellations.poll():  # `recv` raises EOFError if the main process is gone
            self._cancelled = self._cancellations.recv()
        if self._cancelled >= self._query.number:
            raise Problem(problems.ABANDONED)

    def reader(self, snapshot: Snapshot, level: float) -> tuple[Reader, Snapshot]:
        """Return a reader of the sketch, and what it counts: more, after a seal in between."""
        if self._cached is None or self._cached[0] != snapshot.version:
            self._cached = None  # first: there is room for only one
            snapshot = replace(snapshot, versions=dict(snapshot.versions))
            made = open_reader(self._load(snapshot.versions))
            self._cached = snapshot.version, made
        return self._cached[1].at(level).watched(self.check), snapshot

    def write_file(self, snapshot: Snapshot) -> Path:
        """Write the sketch to a new file for download, and return its path."""
        sketch = self._load(snapshot.versions)
        try:
            with self._query.file.open("wb") as file:
                write_sketch(sketch, file)
        except OSError:
            self._query.file.unlink(missing_ok=True)
            raise Problem(problems.CANNOT_STORE, hint=FREE_DISK) from None
        return self._query.file

    def _load(self, versions: dict[int, str]) -> Sketch:
        """Return the sketch of epochs, and note their versions."""
        parts = (self._map_epoch(versions, number) for number in list(versions))
        try:
            return next(parts) if len(versions) == 1 else merge_all(parts, spool=self._query.spool)
        except InvalidInput:
            raise Problem(problems.CANNOT_STORE, hint=FREE_DISK) from None

    def _map_epoch(self, versions: dict[int, str], number: int) -> Sketch:
        """Return the sketch of an epoch, mapped, and note its version."""
        self.check()
        rebuild = False
        for _ in range(ATTEMPTS):
            path, versions[number], reports = self.call("sketch_file", number, rebuild)
            try:
                return load(path, bytes.fromhex(self._query.collection), reports)
            except InvalidInput:
                pass  # a newer one has replaced it
            except FaintlyError:
                rebuild = True
        raise Problem(problems.DAMAGED)

    def call(self, method: str, *arguments: object) -> Any:
        """Return what the main process answers to a call."""
        self._pipe.send(Call(method, arguments))
        reply = self._pipe.recv()
        if isinstance(reply, Problem):
            raise reply
        return reply


def open_reader(sketch: Sketch) -> Reader:
    """Return a reader of a sketch; of tables, it keeps only the transform."""
    if sketch.tables is None:
        return Reader(sketch)
    mechanism = mechanism_of(sketch.plan)
    transformed = mechanism.tables.transform(sketch.tables)
    return Reader(replace(sketch, tables=None), transformed=transformed, mechanism=mechanism)


@dataclass(frozen=True, slots=True)
class EncodedAnswer:
    """An encoded answer; its body is None where the client already has it."""

    etag: str
    media: str
    body: bytes | None


def _negotiate(accept: str, offered: Sequence[str]) -> str:
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


def answer(source: SketchSource, query: Query) -> Any:
    """Return the answer to a query."""
    if query.kind not in QUERY_MODELS:  # a new collection, too long for the main process to parse
        return models.new_collection(query.body)
    given = models.parse(QUERY_MODELS[query.kind], query.body)
    if isinstance(given, models.HistoryBody):
        return _answer_history(source, query, given)
    if query.kind == "GET /sketch":
        return source.write_file(source.call("snapshot", given.epoch))
    media = _negotiate(query.accept, [JSON] if isinstance(given, models.NoiseQuery) else TABLES)
    snapshot = source.call("snapshot", given.epoch)
    etag = _etag_of(query, media, snapshot)
    if _client_has(query, etag):
        return EncodedAnswer(etag, media, None)
    document, found, snapshot = _compute(source, query, given, snapshot)
    try:
        body = ENCODERS[media](document, found)
    except InvalidInput as error:
        raise Problem(problems.BAD_REQUEST, str(error)) from None
    return EncodedAnswer(_etag_of(query, media, snapshot), media, body)


def _answer_history(source: SketchSource, query: Query, given: models.HistoryBody) -> EncodedAnswer:
    """Return the estimates of keys in every epoch that has sealed reports."""
    _negotiate(query.accept, [JSON])
    epochs = source.call("snapshots")
    if len(epochs) * len(given.keys) > limits.CELLS:
        counts = f"{len(given.keys):,} keys in {len(epochs):,} epochs"
        message = f"{counts} are more than {limits.CELLS:,} rows"
        hint = "Ask for fewer keys at a time, or for single epochs with estimates."
        raise Problem(problems.INVALID, message, hint)
    etag = _etag_of(query, JSON, *epochs)
    if _client_has(query, etag):
        return EncodedAnswer(etag, JSON, None)
    rows, size = [], 0
    for each in epochs:
        rows.append(documents.encode_json(_compute(source, query, given, each)[0]))
        size += len(rows[-1])
        if size > limits.HISTORY_BYTES:
            message = "the answer would be too long, since every epoch repeats the keys"
            raise Problem(problems.INVALID, message, "Ask for fewer or shorter keys.")
    start = b'{"collection":"%s","epochs":[' % query.collection.encode()
    return EncodedAnswer(etag, JSON, b"".join((start, b",".join(rows), b"]}")))


def _compute(
    source: SketchSource, query: Query, given: Any, snapshot: Snapshot
) -> tuple[dict[str, Any], Any, Snapshot]:
    """Return an answer as a document and as an object, and which reports it counts."""
    reader, snapshot = source.reader(snapshot, given.level)
    try:
        document, found = _ask_reader(reader, given)
    except UnknownKey as error:
        # The engine's message quotes the key, which must not be repeated; its position is last.
        place = str(error).rpartition(" at position ")[2]
        raise Problem(problems.UNKNOWN_KEY, f"the key at position {place}") from None
    except InvalidInput as error:
        raise Problem(problems.INVALID, str(error)) from None
    document |= {
        "collection": query.collection,
        "epoch": snapshot.epoch,
        "version": snapshot.version,
        "pending": snapshot.pending,
    }
    return document, found, snapshot


def _ask_reader(reader: Reader, given: Any) -> tuple[dict[str, Any], Estimates | TopList]:
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
        if candidates is None and (size is None or size > limits.LISTED_KEYS):
            raise Problem(problems.INVALID, "the universe is too large to list", POST_CANDIDATES)
        choice = given.count, candidates, given.control, given.false_rate
        top = reader.top(*choice, posterior=given.wants_posterior, above=given.above)
        return documents.top_document(top), top
    keys: Sequence[Key] = given.keys
    if isinstance(given, models.KeysQuery) and reader.sketch.plan.universe.kind == "indexed":
        keys = [int(key) if INDEX.fullmatch(key) else key for key in given.keys]
    if isinstance(given, models.EstimateQuery) and given.wants_posterior:
        found = reader.posterior(keys, given.above)
    else:
        found = reader.estimate(keys)
    return documents.estimate_document(found), found


def _client_has(query: Query, etag: str) -> bool:
    """Return whether the client already has an answer."""
    tags = {tag.strip().removeprefix("W/") for tag in query.known.split(",")}
    return etag in tags or "*" in tags


def _etag_of(query: Query, media: str, *snapshots: Snapshot) -> str:
    """Return the ETag of the answer to a query from these reports."""
    about = repr((query.kind, media, snapshots)).encode() + query.body
    return f'"{hashlib.blake2s(about, digest_size=16).hexdigest()}"'


def answer_all(pipe: Connection, cancellations: Connection) -> None:
    """Answer queries until the main process is gone."""
    source = SketchSource(pipe, cancellations)
    with suppress(EOFError, OSError):
        while True:
            query = pipe.recv()
            try:
                source.begin(query)
                reply = answer(source, query)
            except (EOFError, ConnectionError):
                raise
            except Problem as problem:
                reply = problem
            except Exception as error:
                logs.error("unexpected", **logs.place_of(error))
                reply = Problem(problems.INTERNAL)
            pipe.send(reply)


def main() -> None:
    """Run until the main process closes its ends."""
    # The main process decides when a reader ends; a signal to the whole group must not.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    os.nice(NICE)
    logs.configure("error")
    pipe, cancellations = map(int, sys.argv[1:])
    answer_all(Connection(pipe), Connection(cancellations, writable=False))
