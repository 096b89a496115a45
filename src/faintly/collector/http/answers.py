"""A reader process: parses questions, reads sketches, encodes answers, one at a time.

It uses neither the database nor the network. Questions come through a pipe, as their clients sent
them, and through another one the numbers of those that nobody waits for any more. Answers are
estimates, top lists, history and the noise floor, as JSON or Arrow. The ETag of an answer covers
the version of the counted reports and the query, so asking again costs little while nothing
changes.
"""

import hashlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from faintly.collector import problems
from faintly.collector.http import logs, models
from faintly.collector.http.models import new_collection, parse
from faintly.collector.http.reading import Counted, EpochChoice, Fault, Question, Source
from faintly.collector.problems import Problem
from faintly.core import Estimates, Key
from faintly.core.estimate import normal_quantile
from faintly.engine import Reader, TopList
from faintly.engine.documents import (
    encode_arrow,
    encode_json,
    encode_parquet,
    estimate_document,
    top_document,
)
from faintly.errors import InvalidInput, UnknownKey

START = f"from {__name__} import main; main()"  # the code of a new process
NICE = 10  # below the process that takes reports: at a tenth of its weight
JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
MOST_LISTED = 2**24  # keys that a top list scans, with about half a gigabyte
POST_THEM = 'Use POST /v1/collections/{digest}/top with the keys to compare as "candidates".'
MOST_CELLS = 100_000  # keys times epochs of a history: the most rows of any answer
MOST_HISTORY_BYTES = 32 << 20  # so many rows take about 20 MiB, unless keys are long
ENCODERS: dict[str, Callable[..., bytes]] = {
    JSON: lambda document, _: encode_json(document),
    ARROW: encode_arrow,
    PARQUET: encode_parquet,
}
WEIGHT = re.compile(r"q=(0(\.\d{0,3})?|1(\.0{0,3})?)")  # of a media type in an Accept header


@dataclass(frozen=True, slots=True)
class Response:
    """An encoded answer; its body is None where the client already has it."""

    etag: str
    media: str
    body: bytes | None


def _media(accept: str, offered: Sequence[str]) -> str:
    """Return the offered media type that an Accept header prefers."""
    wanted = _wanted(accept)

    def preference(media: str) -> tuple[float, int]:
        ranges = (media, media.partition("/")[0] + "/*", "*/*")
        return next((wanted[each] for each in ranges if each in wanted), (0.0, 0))

    best = max(offered, key=preference)
    if preference(best)[0] > 0:
        return best
    raise Problem(problems.NOT_ACCEPTABLE, f"the answer is {' or '.join(offered)}")


def _wanted(accept: str) -> dict[str, tuple[float, int]]:
    """Return the preference of each media type of a header: its weight, then its place."""
    made = {}
    for place, part in enumerate(accept.split(",")):
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        weights = [each[2:] for each in parameters if WEIGHT.fullmatch(each)]
        made[name or "*/*"] = float(weights[0]) if weights else 1.0, -place
    return made


def answer(source: Source, asked: Question) -> Any:
    """Return the answer to a question, whose kind is the last part of its address."""
    if asked.kind == "collections":  # no question: a body that is too long for the main process
        return new_collection(asked.body)
    if asked.kind == "sketch":
        return source.sketch_file(source.counted(asked.fields["epoch"]))
    if asked.kind == "estimates":
        known = asked.fields and models.KeysAsked(**asked.fields)
        keys = known or parse(models.KeysAsked, asked.body)
        return Answers(source, asked, keys.level).estimates(keys, typed=bool(known))
    if asked.kind == "history":
        followed = parse(models.HistoryAsked, asked.body)
        return Answers(source, asked, followed.level).history(followed.keys)
    if asked.kind == "noise-floor":
        return Answers(source, asked, asked.fields["level"]).noise_floor(**asked.fields)
    top = models.TopFields(**asked.fields) if asked.fields else parse(models.TopAsked, asked.body)
    return Answers(source, asked, top.level).top(top)


class Answers:
    """Answers one question from sketches, with intervals of a level."""

    def __init__(self, source: Source, asked: Question, level: float) -> None:
        self._source, self._asked, self._level = source, asked, level

    def estimates(self, asked: models.KeysAsked, *, typed: bool = False) -> Response:
        """Return the estimates of keys, with their posterior if that is asked for.

        Args:
            asked: the keys, and how to answer.
            typed: True where they are part of an address, which has text alone: where the
                universe has numbers, they are read as such.
        """
        crowd = asked.posterior or asked.above is not None

        def compute(reader: Reader) -> tuple[dict[str, Any], Estimates]:
            indexed = typed and reader.sketch.plan.universe.kind == "indexed"
            keys = [_number(key) for key in asked.keys] if indexed else asked.keys
            found = reader.posterior(keys, asked.above) if crowd else reader.estimate(keys)
            return estimate_document(found), found

        parameters = ["estimates", crowd, asked.above, *asked.keys]
        return self._tabular(asked.epoch, parameters, compute)

    def top(self, asked: models.TopFields) -> Response:
        """Return the largest means among all keys, or among candidates."""
        candidates = asked.candidates if isinstance(asked, models.TopAsked) else None

        def compute(reader: Reader) -> tuple[dict[str, Any], TopList]:
            size = reader.sketch.plan.universe.size
            if candidates is None and (size is None or size > MOST_LISTED):
                raise Problem(problems.INVALID, "the universe is too large to list", POST_THEM)
            found = reader.top(
                asked.count,
                candidates,
                asked.control,
                asked.false_rate,
                posterior=asked.posterior or asked.above is not None,
                above=asked.above,
            )
            return top_document(found), found

        about = [asked.count, asked.control, asked.false_rate, asked.posterior, asked.above]
        return self._tabular(asked.epoch, ["top", *about, *(candidates or ())], compute)

    def noise_floor(self, epoch: EpochChoice, level: float, keys: int) -> Response:
        """Return what a key that nobody holds may show, alone and as the largest of `keys`."""

        def compute(reader: Reader) -> tuple[dict[str, Any], Estimates]:
            found = reader.estimate_ids(np.zeros(0, dtype=np.uint64), [])
            document = estimate_document(found) | {"keys": keys}
            del document["estimates"]
            document["noise_floor_all"] = found.mean_at(normal_quantile(level, keys))
            return document, found

        return self._tabular(epoch, ["noise-floor", keys], compute, [JSON])

    def history(self, keys: Sequence[Key]) -> Response:
        """Return the estimates of keys in every epoch that has sealed reports."""
        _media(self._asked.accept, [JSON])
        epochs = self._source.each()
        if len(epochs) * len(keys) > MOST_CELLS:
            raise Problem(
                problems.INVALID,
                f"{len(keys):,} keys in {len(epochs):,} epochs are more than {MOST_CELLS:,} rows",
                "Ask for fewer keys at a time, or for single epochs with estimates.",
            )
        states = [part for each in epochs for part in (each.epoch, each.version, each.pending)]
        etag = _tag("history", self._level, len(epochs), *states, *keys)
        if self._has(etag):
            return Response(etag, JSON, None)
        body = bytearray(b'{"collection":"%s","epochs":[' % self._asked.collection.encode())
        for number, each in enumerate(epochs):
            body += b"," * (number > 0) + self._encoded_epoch(each, keys)
            if len(body) > MOST_HISTORY_BYTES:
                raise Problem(
                    problems.INVALID,
                    "the answer would be too long, since every epoch repeats the keys",
                    "Ask for fewer or shorter keys.",
                )
        body += b"]}"
        return Response(etag, JSON, bytes(body))

    def _encoded_epoch(self, counted: Counted, keys: Sequence[Key]) -> bytes:
        reader, counted = self._source.reader(counted, self._level)
        try:
            document = estimate_document(reader.estimate(keys))
        except InvalidInput as error:
            raise refused(error) from None
        return encode_json(document | self._about(counted))

    def _tabular(
        self,
        epoch: EpochChoice,
        parameters: Sequence[Any],
        compute: Callable[[Reader], Any],
        offered: Sequence[str] = (JSON, ARROW, PARQUET),
    ) -> Response:
        media = _media(self._asked.accept, offered)
        counted = self._source.counted(epoch)
        etag = self._etag(counted, media, *parameters)
        if self._has(etag):
            return Response(etag, media, None)
        reader, counted = self._source.reader(counted, self._level)
        try:
            document, found = compute(reader)
        except InvalidInput as error:
            raise refused(error) from None
        document |= self._about(counted)
        try:
            body = ENCODERS[media](document, found)
        except InvalidInput as error:
            raise Problem(problems.BAD_REQUEST, str(error)) from None
        return Response(self._etag(counted, media, *parameters), media, body)

    def _about(self, counted: Counted) -> dict[str, Any]:
        """Return what every answer says of the reports that it counts."""
        return {
            "collection": self._asked.collection,
            "epoch": counted.epoch,
            "version": counted.version,
            "pending": counted.pending,
        }

    def _etag(self, counted: Counted, *parameters: object) -> str:
        return _tag(counted.version, counted.pending, counted.epoch, self._level, *parameters)

    def _has(self, etag: str) -> bool:
        """Return whether the client already has an answer."""
        tags = {tag.strip().removeprefix("W/") for tag in self._asked.known.split(",")}
        return etag in tags or "*" in tags


def _number(key: Key) -> Key:
    """Return the number that a text is, or the text."""
    return int(key) if str(key).isascii() and str(key).isdigit() and len(str(key)) <= 20 else key


def refused(error: InvalidInput) -> Problem:
    """Return the problem for a query that the engine refuses."""
    if isinstance(error, UnknownKey):
        # The engine quotes the key, which must not be repeated here; its position comes last.
        place = str(error).rpartition(" at position ")[2]
        return Problem(problems.UNKNOWN_KEY, f"the key at position {place}")
    return Problem(problems.INVALID, str(error))


def _tag(*parts: object) -> str:
    text = json.dumps([str(part) if not isinstance(part, int) else part for part in parts])
    return f'"{hashlib.blake2s(text.encode("ascii"), digest_size=16).hexdigest()}"'


def answer_all(pipe: Connection, stops: Connection) -> None:
    """Answer question after question, until the main process is gone."""
    source = Source(pipe, stops)
    with suppress(EOFError, OSError):
        while True:
            pipe.send(_answer(pipe.recv(), source))


def _answer(asked: Question, source: Source) -> Any:
    """Return the answer, what is wrong with the question, or a fault of ours."""
    try:
        source.begin(asked)
        return answer(source, asked)
    except Problem as problem:
        return problem
    except (EOFError, ConnectionError):
        raise
    except Exception as error:
        return Fault(logs.place_of(error))


def main() -> None:
    """Run until the main process closes its ends."""
    # It decides when a reader ends; a signal to all processes must not.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    os.nice(NICE)
    pipe, stops = map(int, sys.argv[1:])
    answer_all(Connection(pipe), Connection(stops, writable=False))
