"""Answers over HTTP: estimates, top lists, history and the noise floor, as JSON or Arrow.

Everything here computes, runs in threads, and stops when the client disconnects. The ETag of an
answer covers the version of the counted reports and the query, so asking again costs little while
nothing changes.
"""

import hashlib
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from faintly.collector.problems import (
    BAD_REQUEST,
    INVALID,
    NOT_ACCEPTABLE,
    UNKNOWN_EPOCH,
    UNKNOWN_KEY,
    Problem,
)
from faintly.collector.storage.store import Store
from faintly.core import Estimates, Key
from faintly.core.estimate import normal_quantile
from faintly.engine import Reader, TopList
from faintly.engine.documents import estimate_document, top_document
from faintly.errors import InvalidInput, UnknownKey

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
MOST_LISTED = 2**24  # keys that a top list scans, with about half a gigabyte
MOST_CELLS = 100_000  # keys times epochs of a history: the most rows of any answer
MOST_HISTORY_BYTES = 32 << 20  # so many rows take about 20 MiB, unless keys are long
WEIGHT = re.compile(r"q=(0(\.\d{0,3})?|1(\.0{0,3})?)")  # of a media type in an Accept header
EpochChoice = int | Literal["all"] | None
Check = Callable[[], None]


def no_check() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Response:
    """An encoded answer; its body is None where the client already has it."""

    etag: str
    media: str
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Query:
    """What is common to all queries: collection, epoch, level and representation."""

    digest: bytes
    epoch: EpochChoice
    level: float
    accept: str = JSON
    known: str = ""  # the header If-None-Match
    check: Check = no_check  # called now and then; raises once the client has disconnected

    def media(self, offered: Sequence[str]) -> str:
        """Return the offered media type that the client prefers."""
        wanted = _wanted(self.accept)

        def preference(media: str) -> tuple[float, int]:
            ranges = (media, media.partition("/")[0] + "/*", "*/*")
            return next((wanted[each] for each in ranges if each in wanted), (0.0, 0))

        best = max(offered, key=preference)
        if preference(best)[0] > 0:
            return best
        raise Problem(NOT_ACCEPTABLE, f"the answer is {' or '.join(offered)}")


def _wanted(accept: str) -> dict[str, tuple[float, int]]:
    """Return the preference of each media type of a header: its weight, then its place."""
    made = {}
    for place, part in enumerate(accept.split(",")):
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        weights = [each[2:] for each in parameters if WEIGHT.fullmatch(each)]
        made[name or "*/*"] = float(weights[0]) if weights else 1.0, -place
    return made


def encode(document: Mapping[str, Any]) -> bytes:
    """Return JSON in plain ASCII; any text is safe in it."""
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")
    except ValueError:
        return json.dumps(_finite(document), allow_nan=False).encode("ascii")


def _finite(value: Any) -> Any:
    """Return a document with null for numbers that are not finite, which JSON lacks."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return value


class Answers:
    """Answers queries from the store's sketches."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def estimates(
        self,
        query: Query,
        keys: Sequence[Key],
        *,
        posterior: bool = False,
        above: float | None = None,
    ) -> Response:
        """Return the estimates of keys, with their posterior if that is asked for."""
        crowd = posterior or above is not None

        def compute(reader: Reader) -> tuple[dict[str, Any], Estimates]:
            found = reader.posterior(keys, above) if crowd else reader.estimate(keys)
            return estimate_document(found), found

        return self._tabular(query, ["estimates", crowd, above, *keys], compute)

    def top(
        self,
        query: Query,
        count: int,
        candidates: Sequence[Key] | None,
        control: str,
        false_rate: float,
        *,
        posterior: bool = False,
        above: float | None = None,
    ) -> Response:
        """Return the largest means among all keys, or among candidates."""

        def compute(reader: Reader) -> tuple[dict[str, Any], TopList]:
            if candidates is None and (reader.sketch.plan.universe.size or 0) > MOST_LISTED:
                raise InvalidInput("the universe is too large to list; post candidates")
            crowd = posterior or above is not None
            found = reader.top(count, candidates, control, false_rate, posterior=crowd, above=above)
            return top_document(found), found

        parameters = ["top", count, control, false_rate, posterior, above, *(candidates or ())]
        return self._tabular(query, parameters, compute)

    def noise_floor(self, query: Query, keys: int) -> Response:
        """Return what a key that nobody holds may show, alone and as the largest of `keys`."""
        query.media([JSON])
        reader, about, etag = self._reader(query, ["noise-floor", keys])
        if _known(query, etag):
            return Response(etag, JSON, None)
        found = reader.estimate_ids(np.zeros(0, dtype=np.uint64), [])
        document = estimate_document(found) | about | {"keys": keys}
        del document["estimates"]
        document["noise_floor_all"] = found.mean_at(normal_quantile(query.level, keys))
        return Response(etag, JSON, encode(document))

    def history(self, query: Query, keys: Sequence[Key]) -> Response:
        """Return the estimates of keys in every epoch that has sealed reports."""
        query.media([JSON])
        epochs = self._with_answers(query.digest)
        if len(epochs) * len(keys) > MOST_CELLS:
            raise Problem(
                INVALID,
                f"{len(keys):,} keys in {len(epochs):,} epochs are more than {MOST_CELLS:,} rows",
                "Ask for fewer keys at a time, or for single epochs with estimates.",
            )
        versions = [self._store.sketches.version(query.digest, epoch) for epoch in epochs]
        pending = [self._pending(query.digest, epoch) for epoch in epochs]
        etag = _tag("history", query.level, len(epochs), *epochs, *versions, *pending, *keys)
        if _known(query, etag):
            return Response(etag, JSON, None)
        body = bytearray(b'{"collection":"%s","epochs":[' % query.digest.hex().encode())
        for number, epoch in enumerate(epochs):
            query.check()
            body += b"," * (number > 0) + self._encoded_epoch(replace(query, epoch=epoch), keys)
            if len(body) > MOST_HISTORY_BYTES:
                raise Problem(
                    INVALID,
                    "the answer would be too long, since every epoch repeats the keys",
                    "Ask for fewer or shorter keys.",
                )
        body += b"]}"
        return Response(etag, JSON, bytes(body))

    def _encoded_epoch(self, query: Query, keys: Sequence[Key]) -> bytes:
        """Return the encoded estimates of an epoch; its reader is not kept."""
        reader, about, _ = self._reader(query, [])
        return encode(estimate_document(_estimate(reader, keys)) | about)

    def _pending(self, digest: bytes, epoch: int | Literal["all"]) -> int:
        epochs = self._store.registry.collection(digest).epochs
        if epoch == "all":
            return sum(each.pending for each in list(epochs.values()))
        if epoch not in epochs:  # the collection was deleted and recreated meanwhile
            raise Problem(UNKNOWN_EPOCH, f"the collection has no epoch {epoch}")
        return epochs[epoch].pending

    def _tabular(
        self, query: Query, parameters: Sequence[Any], compute: Callable[[Reader], Any]
    ) -> Response:
        media = query.media([JSON, ARROW])
        reader, about, etag = self._reader(query, [media, *parameters])
        if _known(query, etag):
            return Response(etag, media, None)
        try:
            document, found = compute(reader)
        except InvalidInput as error:
            raise refused(error) from None
        document |= about
        body = encode(document) if media == JSON else _arrow(document, found)
        return Response(etag, media, body)

    def _reader(
        self, query: Query, parameters: Sequence[Any]
    ) -> tuple[Reader, dict[str, Any], str]:
        """Return a reader, what every answer says of it, and the answer's ETag."""
        epoch = self._chosen(query)
        merged = epoch == "all"
        reader, version = self._store.sketches.reader(
            query.digest, None if merged else int(epoch), query.level
        )
        pending = self._pending(query.digest, epoch)
        about = {
            "collection": query.digest.hex(),
            "epoch": epoch,
            "version": version,
            "pending": pending,
        }
        etag = _tag(version, pending, epoch, query.level, *parameters)
        return reader.watched(query.check), about, etag

    def _chosen(self, query: Query) -> int | Literal["all"]:
        return self._store.registry.latest(query.digest) if query.epoch is None else query.epoch

    def _with_answers(self, digest: bytes) -> list[int]:
        """Return the epochs that have sealed reports, in order."""
        epochs = self._store.registry.collection(digest).epochs
        return sorted(number for number, each in list(epochs.items()) if each.sealed)


def refused(error: InvalidInput) -> Problem:
    """Return the problem for a query that the engine refuses."""
    if isinstance(error, UnknownKey):
        # The engine quotes the key, which must not be repeated here; its position comes last.
        place = str(error).rpartition(" at position ")[2]
        return Problem(UNKNOWN_KEY, f"the key at position {place}")
    return Problem(INVALID, str(error))


def _estimate(reader: Reader, keys: Sequence[Key]) -> Estimates:
    try:
        return reader.estimate(keys)
    except InvalidInput as error:
        raise refused(error) from None


def _tag(*parts: object) -> str:
    text = json.dumps([str(part) if not isinstance(part, int) else part for part in parts])
    return f'"{hashlib.blake2s(text.encode("ascii"), digest_size=16).hexdigest()}"'


def _known(query: Query, etag: str) -> bool:
    tags = {tag.strip().removeprefix("W/") for tag in query.known.split(",")}
    return etag in tags or "*" in tags


def _arrow(document: Mapping[str, Any], found: Estimates | TopList) -> bytes:
    """Return an Arrow stream; everything but the columns is JSON in the schema's metadata."""
    import pyarrow

    top = found if isinstance(found, TopList) else None
    estimates = found.estimates if isinstance(found, TopList) else found
    columns = estimates.columns()
    if top is not None:
        columns |= {"significant": top.significant, "verdict": top.verdicts}
    kinds = set(map(type, columns["key"]))
    if len(kinds) > 1:
        raise Problem(BAD_REQUEST, "an Arrow column has keys of one type; ask for JSON")
    columns["key"] = pyarrow.array(
        columns["key"], pyarrow.string() if kinds == {str} else pyarrow.uint64()
    )
    rest = {name: value for name, value in document.items() if name != "estimates"}
    table = pyarrow.table(columns).replace_schema_metadata({"faintly": encode(rest)})
    stream = io.BytesIO()
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()
