"""Routes of collections: create, show, send reports, open and close epochs, seal, delete.

Readers compute the answers: estimates, top lists, history, noise floor, sketch.
"""

import weakref
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import IO, Annotated, Any

from fastapi import FastAPI, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from faintly.core import Plan
from faintly.wire.problems import BAD_REQUEST, BUSY, Problem
from faintly_collector.http import answers, limits, models, routes
from faintly_collector.http.models import new_collection
from faintly_collector.http.readers import Readers
from faintly_collector.http.routes import FOREVER, OCTETS, Digest, Responses, Service, json_reply
from faintly_collector.storage.collection import OPEN, CollectionStatus, status_of
from faintly_collector.storage.store import Store

TAG = "collections"
BINARY = {"schema": {"type": "string", "format": "binary"}}
CREATED: Responses = {201: {"model": CollectionStatus, "description": "It is new."}}
PLAN: Responses = {
    200: {
        "description": "The canonical JSON that the digest is taken of.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    },
    304: {"description": "The client already has it."},
}
SINGLE_USE = "The single-use token, where the collection needs one."
Token = Annotated[str | None, Header(alias="Faintly-Token", description=SINGLE_USE)]
BATCH = {  # not a parameter: FastAPI would read it before it checks the credential
    "requestBody": {
        "required": True,
        "content": {OCTETS: BINARY},
        "description": "One batch as the client encodes it; any content type will do.",
    }
}
SAME: Responses = {304: {"description": "Nothing changed since the answer with this ETag."}}
TABLE = SAME | {200: {"content": {answers.ARROW: BINARY, answers.PARQUET: BINARY}}}
SKETCH: Responses = {
    200: {
        "description": "A sketch file, as faintly query and faintly merge read it.",
        "content": {OCTETS: BINARY},
    }
}
ANSWERS = (  # address, name, summary, model and responses
    ("POST /estimates", "estimates", "Estimate keys, with their error", models.Estimates, TABLE),
    ("GET /estimates", "estimates_of", "Estimate a few keys", models.Estimates, TABLE),
    ("GET /top", "top", "The largest means among all keys", models.Top, TABLE),
    ("POST /top", "top_of", "The largest means among candidates", models.Top, TABLE),
    ("POST /history", "history", "Estimate keys epoch by epoch", models.History, SAME),
    ("GET /noise-floor", "noise_floor", "What an absent key may show", models.NoiseFloor, SAME),
)
Endpoint = Callable[..., Awaitable[Response]]
IfNoneMatch = Annotated[str | None, Header(alias="if-none-match")]


def _status(store: Store, digest: str) -> Response:
    return json_reply(asdict(status_of(store.registry.collection(bytes.fromhex(digest)))))


def collection_routes(app: FastAPI, service: Service) -> None:
    """Add the routes of collections."""
    store = service.store
    every = partial(routes.Routes, app, service, TAG, prefix=routes.COLLECTIONS)
    read, admin, submit = map(every, ("read", "admin", "submit"))

    @read("GET /", "List the collections", models.Collections)
    def list_collections() -> Response:
        rows = [status_of(each) for each in list(store.registry.collections.values())]
        return json_reply({"collections": [asdict(each) for each in rows]})

    summary = "Create a collection, or find it again"

    @admin("POST /", summary, CollectionStatus, body=models.NewCollection, responses=CREATED)
    async def create_collection(request: Request) -> Response:
        routes.check_json(request)
        body = await request.body()
        if len(body) <= limits.SHORT_BYTES:
            parsed = new_collection(body)
        else:  # A plan with names may be long. A reader parses it, to keep this process free.
            parsed = await service.readers.ask(request, "collections", "", body)
        return await run_in_threadpool(create, *parsed)

    def create(wanted: models.NewCollection, plan: Plan) -> Response:
        known = plan.digest in store.registry.collections
        settings = wanted.model_dump(exclude={"plan", "epochs"})
        made = store.registry.create(plan, epochs=wanted.initial_epochs, **settings)
        return json_reply(asdict(status_of(made)), 200 if known else 201)

    @read("GET /{digest}", "Look at a collection", CollectionStatus)
    def show_collection(digest: Digest) -> Response:
        return _status(store, digest)

    @admin("DELETE /{digest}", "Delete a collection and its reports for good", models.Deleted)
    def delete_collection(
        digest: Digest, query: Annotated[models.DeletionQuery, Query()]
    ) -> Response:
        if query.confirm != digest:
            hint = "Add ?confirm= and the digest once more; what is deleted is gone."
            raise Problem(BAD_REQUEST, "deleting needs confirm", hint)
        store.delete(bytes.fromhex(digest))
        return json_reply({"deleted": digest})

    @submit("POST /{digest}/reports", "Send reports", models.Counted, openapi_extra=BATCH)
    async def send_reports(
        digest: routes.PlanDigest,
        _: Annotated[models.ReportsQuery, Query()],
        _token: Token = None,
    ) -> Response:
        raise AssertionError(f"the middleware takes reports for {digest}")


def part_routes(app: FastAPI, service: Service) -> None:
    """Add the routes of a collection's parts: plan, epochs, tokens, sealed files."""
    store, one = service.store, partial(routes.Routes, app, service, TAG, prefix=routes.COLLECTION)
    read, admin, anybody = map(one, ("read", "admin", "plan"))

    @anybody("GET /plan", "Fetch the plan", responses=PLAN)
    def fetch_plan(
        digest: Digest, if_none_match: Annotated[str | None, Header()] = None
    ) -> Response:
        plan = store.registry.collection(bytes.fromhex(digest)).plan
        headers = {"etag": f'"{digest}"', "cache-control": FOREVER}
        if if_none_match is not None and f'"{digest}"' in if_none_match:
            return Response(status_code=304, headers=headers)
        return Response(plan.canonical, media_type="application/json", headers=headers)

    @admin("POST /close", "Take no more reports", CollectionStatus)
    def close_collection(digest: Digest) -> Response:
        store.close_collection(bytes.fromhex(digest))
        return _status(store, digest)

    state = models.EpochState

    @admin("PUT /epochs/{epoch}", "Open or close an epoch", CollectionStatus, body=state)
    def set_epoch(digest: Digest, epoch: routes.EpochPath, body: routes.ShortBody) -> Response:
        wanted = models.parse(state, body)
        if wanted.state == OPEN:
            store.registry.open_epoch(bytes.fromhex(digest), epoch)
        else:
            store.close_epoch(store.registry.epoch(bytes.fromhex(digest), epoch))
        return _status(store, digest)

    @admin("POST /tokens", "Issue single-use tokens", models.Tokens, body=models.TokensRequest)
    def issue_tokens(digest: Digest, body: routes.ShortBody) -> Response:
        wanted = models.parse(models.TokensRequest, body)
        made = store.issue_tokens(bytes.fromhex(digest), wanted.epoch, wanted.count)
        return json_reply({"epoch": wanted.epoch, "tokens": made})

    @admin("POST /seal", "Seal now, so that answers hold everything", models.Sealed)
    def seal(digest: Digest) -> Response:
        return json_reply({"sealed": store.seal(bytes.fromhex(digest))})

    @read("GET /segments", "List the sealed files", models.Segments)
    def list_segments(digest: Digest) -> Response:
        rows = store.manifest.segments(bytes.fromhex(digest))
        return json_reply({"segments": [asdict(each) for each in rows]})


def answer_routes(app: FastAPI, service: Service) -> None:
    """Add the routes of answers."""
    read = routes.Routes(app, service, "answers", "read", routes.COLLECTION)
    readers, downloads = service.readers, weakref.WeakSet[IO[bytes]]()
    for address, name, summary, model, responses in ANSWERS:
        options: dict[str, Any] = {"name": name, "responses": responses}
        query = answers.QUERY_MODELS[address]
        if address.startswith("GET"):
            read(address, summary, model, **options)(_get_endpoint(readers, address, query))
        else:
            read(address, summary, model, body=query, **options)(_post_endpoint(readers, address))

    @read("GET /sketch", "Download the sketch", responses=SKETCH, response_class=Response)
    async def fetch_sketch(
        digest: Digest, request: Request, query: Annotated[models.EpochQuery, Query()]
    ) -> Response:
        path = await readers.ask(request, "GET /sketch", digest, query.to_json())
        file = path.open("rb")
        path.unlink()  # it takes up disk space until it is closed
        if sum(not each.closed for each in downloads) >= limits.DOWNLOADS:
            raise Problem(BUSY, "too many sketches are being downloaded")
        downloads.add(file)
        headers = {"content-length": str(file.seek(0, 2))}
        return StreamingResponse(read_chunks(file), media_type=OCTETS, headers=headers)


def _get_endpoint(readers: Readers, kind: str, model: Any) -> Endpoint:
    """Return an endpoint that takes its query from the address."""

    async def answer(
        digest: Digest, request: Request, query: Annotated[model, Query()], _: IfNoneMatch = None
    ) -> Response:
        return _reply(await readers.ask(request, kind, digest, query.to_json()))

    return answer


def _post_endpoint(readers: Readers, kind: str) -> Endpoint:
    """Return an endpoint that takes its query from the body."""

    async def answer(digest: Digest, request: Request, _: IfNoneMatch = None) -> Response:
        routes.check_json(request)
        return _reply(await readers.ask(request, kind, digest, await request.body()))

    return answer


def _reply(made: answers.EncodedAnswer) -> Response:
    """Return an answer with its ETag, or 304 where the client already has it."""
    headers = {"etag": made.etag, "cache-control": "private, no-cache", "vary": "accept"}
    if made.body is None:
        return Response(status_code=304, headers=headers)
    return Response(memoryview(made.body), media_type=made.media, headers=headers)


def read_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield a file in chunks, and close it."""
    with file:
        file.seek(0)
        while chunk := file.read(limits.DOWNLOAD_CHUNK_BYTES):
            yield chunk
