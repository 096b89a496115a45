"""Routes of answers, which readers compute: estimates, top lists, history, noise floor, sketch."""

import weakref
from collections.abc import Iterator
from typing import IO, Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from faintly.collector.http import answers, models, routes
from faintly.collector.http.routes import OCTETS, Answers, Digest, EpochQuery, Service, epoch_of
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
FewKeys = Annotated[
    list[Annotated[str, Query(max_length=1_000)]],  # a head of a request is bounded
    Query(alias="key", min_length=1, max_length=20, description="A key; repeat it for more."),
]
KeyCount = Annotated[int, Query(ge=1, le=2**31, description="Keys looked at together.")]
PIECE = 1 << 20  # bytes of a file read at a time
DOWNLOADS = 16  # sketches downloaded at a time: each takes its size on the disk


def answer_routes(service: Service) -> APIRouter:
    """Return the routes."""
    router, ask = APIRouter(tags=["answers"]), service.readers.ask
    read = routes.Routes(service, router, "read", routes.ONE)
    downloads: weakref.WeakSet[IO[bytes]] = weakref.WeakSet()

    async def posted(request: Request, kind: str, digest: str) -> Response:
        """Return what a reader answers to the body of a request."""
        routes.check_json(request)
        async with service.readers.body(request) as body:
            return _reply(await ask(request, kind, digest, body=body))

    words = "Estimate keys, with their error"

    @read("POST /estimates", words, models.Estimates, body=models.KeysAsked, responses=TABLE)
    async def estimates(digest: Digest, request: Request, _: Known = None) -> Response:
        return await posted(request, "estimates", digest)

    @read("GET /estimates", "Estimate a few keys", models.Estimates, responses=TABLE)
    async def estimates_of(
        digest: Digest,
        request: Request,
        keys: FewKeys,
        *,
        epoch: EpochQuery = None,
        level: models.Level = 0.95,
        posterior: models.Posterior = False,
        above: models.Above = None,
        _: Known = None,
    ) -> Response:
        fields: dict[str, Any] = {"keys": keys, "epoch": epoch_of(epoch), "level": level}
        fields |= {"posterior": posterior, "above": above}
        return _reply(await ask(request, "estimates", digest, fields=fields))

    @read("GET /top", "The largest means among all keys", models.Top, responses=TABLE)
    async def top(
        digest: Digest,
        request: Request,
        *,
        count: models.Rows = 20,
        epoch: EpochQuery = None,
        control: models.Control = "family",
        false_rate: models.FalseRate = 0.05,
        level: models.Level = 0.95,
        posterior: models.Posterior = False,
        above: models.Above = None,
        _: Known = None,
    ) -> Response:
        fields: dict[str, Any] = {"count": count, "epoch": epoch_of(epoch), "level": level}
        fields |= {"control": control, "false_rate": false_rate}
        fields |= {"posterior": posterior, "above": above}
        return _reply(await ask(request, "top", digest, fields=fields))

    words = "The largest means among candidates"

    @read("POST /top", words, models.Top, body=models.TopAsked, responses=TABLE)
    async def top_of(digest: Digest, request: Request, _: Known = None) -> Response:
        return await posted(request, "top", digest)

    words = "Estimate keys epoch by epoch"

    @read("POST /history", words, models.History, body=models.HistoryAsked, responses=SAME)
    async def history(digest: Digest, request: Request, _: Known = None) -> Response:
        return await posted(request, "history", digest)

    words = "What a key that nobody holds may show"

    @read("GET /noise-floor", words, models.NoiseFloor, responses=SAME)
    async def noise_floor(
        digest: Digest,
        request: Request,
        epoch: EpochQuery = None,
        level: models.Level = 0.95,
        keys: KeyCount = 1,
        _: Known = None,
    ) -> Response:
        fields = {"epoch": epoch_of(epoch), "level": level, "keys": keys}
        return _reply(await ask(request, "noise-floor", digest, fields=fields))

    @read("GET /sketch", "Download the sketch", responses=SKETCH, response_class=Response)
    async def fetch_sketch(digest: Digest, request: Request, epoch: EpochQuery = None) -> Response:
        path = await ask(request, "sketch", digest, fields={"epoch": epoch_of(epoch)})
        file = path.open("rb")
        path.unlink()  # it takes room on the disk until it is closed
        if sum(not each.closed for each in downloads) >= DOWNLOADS:
            raise Problem(BUSY, "too many sketches are being downloaded")
        downloads.add(file)
        headers = {"content-length": str(file.seek(0, 2))}
        return StreamingResponse(_pieces(file), media_type=OCTETS, headers=headers)

    return router


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
