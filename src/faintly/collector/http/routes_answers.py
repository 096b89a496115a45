"""Routes of answers, which readers compute: estimates, top lists, history, noise floor, sketch."""

import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import IO, Annotated, Any

from fastapi import FastAPI, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from faintly.collector.http import answers, models, routes
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
TABULAR = (  # address, name, words, and what may come
    ("POST /estimates", "estimates", "Estimate keys, with their error", models.Estimates, TABLE),
    ("GET /estimates", "estimates_of", "Estimate a few keys", models.Estimates, TABLE),
    ("GET /top", "top", "The largest means among all keys", models.Top, TABLE),
    ("POST /top", "top_of", "The largest means among candidates", models.Top, TABLE),
    ("POST /history", "history", "Estimate keys epoch by epoch", models.History, SAME),
    (
        "GET /noise-floor",
        "noise_floor",
        "What a key that nobody holds may show",
        models.NoiseFloor,
        SAME,
    ),
)
Ask = Callable[[Request, str, str, bytes], Awaitable[Any]]
Endpoint = Callable[..., Awaitable[Response]]
Known = Annotated[str | None, Header(alias="if-none-match")]
PIECE = 1 << 20  # bytes of a file read at a time
DOWNLOADS = 16  # sketches downloaded at a time: each takes its size on the disk


def answer_routes(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    read = routes.Routes(app, service, "answers", "read", routes.ONE)
    ask, downloads = service.readers.ask, weakref.WeakSet[IO[bytes]]()
    for address, name, words, model, responses in TABULAR:
        options: dict[str, Any] = {"name": name, "responses": responses}
        asked = answers.KINDS[address]
        if address.startswith("GET"):
            read(address, words, model, **options)(_queried(ask, address, asked))
        else:
            read(address, words, model, body=asked, **options)(_posted(ask, address))

    @read("GET /sketch", "Download the sketch", responses=SKETCH, response_class=Response)
    async def fetch_sketch(
        digest: Digest, request: Request, query: Annotated[models.EpochAsked, Query()]
    ) -> Response:
        path = await ask(request, "GET /sketch", digest, _body(query))
        file = path.open("rb")
        path.unlink()  # it takes room on the disk until it is closed
        if sum(not each.closed for each in downloads) >= DOWNLOADS:
            raise Problem(BUSY, "too many sketches are being downloaded")
        downloads.add(file)
        headers = {"content-length": str(file.seek(0, 2))}
        return StreamingResponse(_pieces(file), media_type=OCTETS, headers=headers)


def _queried(ask: Ask, kind: str, model: Any) -> Endpoint:
    """Return an endpoint that has its question in the address."""

    async def answer(
        digest: Digest, request: Request, query: Annotated[model, Query()], _: Known = None
    ) -> Response:
        return _reply(await ask(request, kind, digest, _body(query)))

    return answer


def _posted(ask: Ask, kind: str) -> Endpoint:
    """Return an endpoint that has its question in the body."""

    async def answer(digest: Digest, request: Request, _: Known = None) -> Response:
        routes.check_json(request)
        return _reply(await ask(request, kind, digest, await request.body()))

    return answer


def _body(query: BaseModel) -> bytes:
    """Return the question in an address as readers take it."""
    return query.model_dump_json(by_alias=True).encode()


def _reply(made: answers.Response) -> Response:
    """Return an answer with its ETag, or 304 where the client already has it."""
    headers = {"etag": made.etag, "cache-control": "private, no-cache", "vary": "accept"}
    if made.body is None:
        return Response(status_code=304, headers=headers)
    return Response(memoryview(made.body), media_type=made.media, headers=headers)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while piece := file.read(PIECE):
            yield piece
