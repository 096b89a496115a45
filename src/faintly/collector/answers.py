"""Answers over HTTP: estimates, top lists, history and the noise floor, as JSON or Arrow.

Everything here computes, is called in threads, and stops where nobody waits for it. An answer has
an ETag of the version of what was counted and of what was asked, so that a page that asks again
learns cheaply that nothing changed.
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
from faintly.collector.store import Store
from faintly.core import Estimates, Key
from faintly.core.estimate import normal_quantile
from faintly.engine import Reader, TopList
from faintly.engine.documents import estimate_document, top_document
from faintly.errors import InvalidInput, UnknownKey

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
MOST_LISTED = 2**24  # keys of a universe that a top list looks through; some half a gigabyte
MOST_CELLS = 100_000  # keys times epochs of a history: as many rows as an answer has otherwise
MOST_HISTORY_BYTES = 32 << 20  # those rows take some 20 MiB, unless their keys are long
WEIGHT = re.compile(r"q=(0(\.\d{0,3})?|1(\.0{0,3})?)")  # of a media type, as HTTP writes it
EpochChoice = int | Literal["all"] | None
Check = Callable[[], None]


def unwatched() -> None:
    """Go on."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The bytes of an answer; empty and None where the asker has them already."""

    etag: str
    media: str
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request wants to know about which collection, and how it wants it."""

    digest: bytes
    epoch: EpochChoice
    level: float
    accept: str = JSON
    known: str = ""  # the header If-None-Match
    check: Check = unwatched  # called now and then; raises where nobody waits any more

    def media(self, offered: Sequence[str]) -> str:
        """Return the offered media type that the asker likes most, or names first."""
        wanted = _wanted(self.accept)

        def wish(media: str) -> tuple[float, int]:
            ranges = (media, media.partition("/")[0] + "/*", "*/*")
            return next((wanted[each] for each in ranges if each in wanted), (0.0, 0))

        best = max(offered, key=wish)
        if wish(best)[0] > 0:
            return best
        raise Problem(NOT_ACCEPTABLE, f"the answer is {' or '.join(offered)}")


def _wanted(accept: str) -> dict[str, tuple[float, int]]:
    """Return how much each media type of a header is wanted: by its weight, then by its place."""
    made = {}
    for place, part in enumerate(accept.split(",")):
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        weights = [each[2:] for each in parameters if WEIGHT.fullmatch(each)]
        made[name or "*/*"] = float(weights[0]) if weights else 1.0, -place
    return made


def encode(document: Mapping[str, Any]) -> bytes:
    """Return JSON in plain ASCII, in which a key cannot pass for anything but text."""
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")
    except ValueError:
        return json.dumps(_finite(document), allow_nan=False).encode("ascii")


def _finite(value: Any) -> Any:
    """Return a document with null where a number is not finite, which JSON cannot say."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return value


class Answers:
    """Answers questions from the store's readers."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def estimates(self, asked: Asked, keys: Sequence[Key]) -> Answered:
        """Return the estimates of keys."""

        def compute(reader: Reader) -> tuple[dict[str, Any], Estimates]:
            found = reader.estimate(keys)
            return estimate_document(found), found

        return self._tabular(asked, ["estimates", *keys], compute)

    def top(
        self,
        asked: Asked,
        count: int,
        candidates: Sequence[Key] | None,
        control: str,
        false_rate: float,
    ) -> Answered:
        """Return the largest means among all keys, or among candidates."""

        def compute(reader: Reader) -> tuple[dict[str, Any], TopList]:
            if candidates is None and (reader.sketch.plan.universe.size or 0) > MOST_LISTED:
                raise InvalidInput("the universe is too large to list; post candidates")
            found = reader.top(count, candidates, control, false_rate)
            return top_document(found), found

        parameters = ["top", count, control, false_rate, *(candidates or ())]
        return self._tabular(asked, parameters, compute)

    def noise_floor(self, asked: Asked, keys: int) -> Answered:
        """Return what a key that nobody holds may show, alone and as the largest of `keys`."""
        asked.media([JSON])
        reader, about, etag = self._reader(asked, ["noise-floor", keys])
        if _known(asked, etag):
            return Answered(etag, JSON, None)
        found = reader.estimate_ids(np.zeros(0, dtype=np.uint64), [])
        document = estimate_document(found) | about | {"keys": keys}
        del document["estimates"]
        document["noise_floor_all"] = found.mean_at(normal_quantile(asked.level, keys))
        return Answered(etag, JSON, encode(document))

    def history(self, asked: Asked, keys: Sequence[Key]) -> Answered:
        """Return the estimates of keys in every epoch that has some."""
        asked.media([JSON])
        epochs = self._with_answers(asked.digest)
        if len(epochs) * len(keys) > MOST_CELLS:
            raise Problem(
                INVALID,
                f"{len(keys):,} keys in {len(epochs):,} epochs are more than {MOST_CELLS:,} rows",
                "Ask for fewer keys at a time, or for single epochs with estimates.",
            )
        versions = [self._store.version(asked.digest, epoch) for epoch in epochs]
        pending = [self._pending(asked.digest, epoch) for epoch in epochs]
        etag = _tag("history", asked.level, len(epochs), *epochs, *versions, *pending, *keys)
        if _known(asked, etag):
            return Answered(etag, JSON, None)
        body = bytearray(b'{"collection":"%s","epochs":[' % asked.digest.hex().encode())
        for number, epoch in enumerate(epochs):
            asked.check()
            body += b"," * (number > 0) + self._estimated(replace(asked, epoch=epoch), keys)
            if len(body) > MOST_HISTORY_BYTES:
                raise Problem(
                    INVALID,
                    "the answer would be too long, since every epoch repeats the keys",
                    "Ask for fewer or shorter keys.",
                )
        body += b"]}"
        return Answered(etag, JSON, bytes(body))

    def _estimated(self, asked: Asked, keys: Sequence[Key]) -> bytes:
        """Return the row of an epoch; all else about it is let go, since epochs may be many."""
        reader, about, _ = self._reader(asked, [])
        return encode(estimate_document(_asking(reader, keys)) | about)

    def _pending(self, digest: bytes, epoch: int | Literal["all"]) -> int:
        epochs = self._store.collection(digest).epochs
        if epoch == "all":
            return sum(each.pending for each in list(epochs.values()))
        if epoch not in epochs:  # the collection was deleted and made anew meanwhile
            raise Problem(UNKNOWN_EPOCH, f"the collection has no epoch {epoch}")
        return epochs[epoch].pending

    def _tabular(
        self, asked: Asked, parameters: Sequence[Any], compute: Callable[[Reader], Any]
    ) -> Answered:
        media = asked.media([JSON, ARROW])
        reader, about, etag = self._reader(asked, [media, *parameters])
        if _known(asked, etag):
            return Answered(etag, media, None)
        try:
            document, found = compute(reader)
        except InvalidInput as error:
            raise refused(error) from None
        document |= about
        body = encode(document) if media == JSON else _arrow(document, found)
        return Answered(etag, media, body)

    def _reader(
        self, asked: Asked, parameters: Sequence[Any]
    ) -> tuple[Reader, dict[str, Any], str]:
        """Return a reader, what every answer says of it, and the answer's ETag."""
        epoch = self._chosen(asked)
        merged = epoch == "all"
        reader, version = self._store.reader(
            asked.digest, None if merged else int(epoch), asked.level
        )
        pending = self._pending(asked.digest, epoch)
        about = {
            "collection": asked.digest.hex(),
            "epoch": epoch,
            "version": version,
            "pending": pending,
        }
        etag = _tag(version, pending, epoch, asked.level, *parameters)
        return reader.watched(asked.check), about, etag

    def _chosen(self, asked: Asked) -> int | Literal["all"]:
        return self._store.latest(asked.digest) if asked.epoch is None else asked.epoch

    def _with_answers(self, digest: bytes) -> list[int]:
        """Return the epochs that have sealed reports, in order."""
        status = self._store.status(digest)
        return sorted(each.epoch for each in status.epochs if each.sealed)


def refused(error: InvalidInput) -> Problem:
    """Return the problem of a question that the engine refuses."""
    if isinstance(error, UnknownKey):
        # The engine shows the key, whatever it holds, and says last where it stands.
        place = str(error).rpartition(" at position ")[2]
        return Problem(UNKNOWN_KEY, f"the key at position {place}")
    return Problem(INVALID, str(error))


def _asking(reader: Reader, keys: Sequence[Key]) -> Estimates:
    try:
        return reader.estimate(keys)
    except InvalidInput as error:
        raise refused(error) from None


def _tag(*parts: object) -> str:
    text = json.dumps([str(part) if not isinstance(part, int) else part for part in parts])
    return f'"{hashlib.blake2s(text.encode("ascii"), digest_size=16).hexdigest()}"'


def _known(asked: Asked, etag: str) -> bool:
    tags = {tag.strip().removeprefix("W/") for tag in asked.known.split(",")}
    return etag in tags or "*" in tags


def _arrow(document: Mapping[str, Any], found: Estimates | TopList) -> bytes:
    """Return an Arrow stream; what is not a column is JSON in the schema's metadata."""
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
