"""Routes of answers, which readers compute: estimates, top lists, history, noise floor, sketch."""

import weakref
from collections.abc import Iterator
from functools import partial
from typing import IO, Annotated

from fastapi import FastAPI, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from faintly.collector.http import answers, models, routes
from faintly.collector.http.models import EpochQuery
from faintly.collector.http.readers import Readers
from faintly.collector.http.routes import OCTETS, Answers, Digest, Service
from faintly.collector.problems import BUSY, Problem

SAME: Answers = {304: {"description": "Nothing changed since the answer with this ETag."}}
BINARY = {"schema": {"type": "string", "format": "binary"}}
TABLE = SAME | {200: {"content": {answers.ARROW: BINARY, answers.PARQUET: BINARY}}}
SKETCH: Answers = {
    200: {
        "description": "A sketch file, as faintly query and faintly merge read it.",
        "content": {OCTETS: BINARY},
    }
}
Known = Annotated[str | None, Header(alias="if-none-match")]
PIECE = 1 << 20  # bytes of a file read at a time
DOWNLOADS = 16  # sketches downloaded at a time: each takes its size on the disk


def answer_routes(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    made = partial(_made, service.readers)
    read = routes.Routes(app, service, "answers", "read", routes.ONE)
    downloads: weakref.WeakSet[IO[bytes]] = weakref.WeakSet()

    words = "Estimate keys, with their error"

    @read("POST /estimates", words, models.Estimates, body=models.KeysAsked, responses=TABLE)
    async def estimates(digest: Digest, request: Request, _: Known = None) -> Response:
        return await made(request, "estimates", digest)

    @read("GET /estimates", "Estimate a few keys", models.Estimates, responses=TABLE)
    async def estimates_of(
        digest: Digest,
        request: Request,
        query: Annotated[models.KeysQuery, Query()],
        _: Known = None,
    ) -> Response:
        return await made(request, "few estimates", digest, query)

    @read("GET /top", "The largest means among all keys", models.Top, responses=TABLE)
    async def top(
        digest: Digest,
        request: Request,
        query: Annotated[models.TopQuery, Query()],
        _: Known = None,
    ) -> Response:
        return await made(request, "top", digest, query)

    words = "The largest means among candidates"

    @read("POST /top", words, models.Top, body=models.TopAsked, responses=TABLE)
    async def top_of(digest: Digest, request: Request, _: Known = None) -> Response:
        return await made(request, "top of candidates", digest)

    words = "Estimate keys epoch by epoch"

    @read("POST /history", words, models.History, body=models.HistoryAsked, responses=SAME)
    async def history(digest: Digest, request: Request, _: Known = None) -> Response:
        return await made(request, "history", digest)

    words = "What a key that nobody holds may show"

    @read("GET /noise-floor", words, models.NoiseFloor, responses=SAME)
    async def noise_floor(
        digest: Digest,
        request: Request,
        query: Annotated[models.NoiseQuery, Query()],
        _: Known = None,
    ) -> Response:
        return await made(request, "noise-floor", digest, query)

    @read("GET /sketch", "Download the sketch", responses=SKETCH, response_class=Response)
    async def fetch_sketch(
        digest: Digest, request: Request, query: Annotated[EpochQuery, Query()]
    ) -> Response:
        path = await service.readers.ask(request, "sketch", digest, _body(query))
        file = path.open("rb")
        path.unlink()  # it takes room on the disk until it is closed
        if sum(not each.closed for each in downloads) >= DOWNLOADS:
            raise Problem(BUSY, "too many sketches are being downloaded")
        downloads.add(file)
        headers = {"content-length": str(file.seek(0, 2))}
        return StreamingResponse(_pieces(file), media_type=OCTETS, headers=headers)


async def _made(
    readers: Readers, request: Request, kind: str, digest: str, query: EpochQuery | None = None
) -> Response:
    """Return what a reader answers to an address, or else to a body, with its ETag."""
    if query is None:
        routes.check_json(request)
    body = await request.body() if query is None else _body(query)
    found = await readers.ask(request, kind, digest, body)
    headers = {"etag": found.etag, "cache-control": "private, no-cache", "vary": "accept"}
    if found.body is None:  # the client already has it
        return Response(status_code=304, headers=headers)
    return Response(memoryview(found.body), media_type=found.media, headers=headers)


def _body(query: EpochQuery) -> bytes:
    """Return a question in an address as readers take it."""
    return query.model_dump_json(by_alias=True).encode()


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while piece := file.read(PIECE):
            yield piece
