"""Routes of collections: create, show, send reports, open and close epochs, seal, delete."""

import math
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from faintly.collector.http import models
from faintly.collector.http.questions import MOST_SHOWN, parse, plan_of
from faintly.collector.http.routes import (
    OCTETS,
    SHORT_BYTES,
    TEMPLATE,
    Digest,
    EpochPath,
    Service,
    asked,
    body_of,
    check_json,
    json_reply,
    refusals,
    require,
)
from faintly.collector.problems import BAD_PLAN, BAD_REQUEST, Problem
from faintly.collector.storage.status import CollectionStatus, status_of
from faintly.collector.storage.store import Store
from faintly.core import Plan
from faintly.core.epochs import MAX_EPOCH
from faintly.errors import FaintlyError
from faintly.mechanisms import mechanism_of

CELL_BYTES = 4  # of a table; with very many reports a cell takes eight
HEXADECIMAL = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
PARAMETERS: list[dict[str, Any]] = [
    {
        "name": "request",
        "in": "query",
        "required": True,
        "schema": HEXADECIMAL,
        "description": "16 fresh random bytes; a retry repeats them and counts once.",
    },
    {
        "name": "epoch",
        "in": "query",
        "schema": {"type": "integer", "minimum": 0, "maximum": MAX_EPOCH},
        "description": "0 unless given.",
    },
    {
        "name": "Faintly-Token",
        "in": "header",
        "schema": {"type": "string"},
        "description": "The single-use token, where the collection needs one.",
    },
]
BODY = {
    "required": True,
    "content": {OCTETS: {"schema": {"type": "string", "format": "binary"}}},
    "description": "One batch as the client encodes it; any content type will do.",
}


def _status(store: Store, digest: str) -> Response:
    return json_reply(asdict(status_of(store.registry.collection(bytes.fromhex(digest)))))


def collection_routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["collections"])
    store = service.store
    read, admin = [require(service, "read")], [require(service, "admin")]

    @router.get(
        "/v1/collections",
        dependencies=read,
        response_model=models.Collections,
        responses=refusals(),
        summary="List the collections",
    )
    def list_collections() -> Response:
        rows = [status_of(each) for each in list(store.registry.collections.values())]
        return json_reply({"collections": [asdict(each) for each in rows]})

    @router.post(
        "/v1/collections",
        dependencies=admin,
        response_model=CollectionStatus,
        responses=refusals(409, 503)
        | {201: {"model": CollectionStatus, "description": "It is new."}},
        summary="Create a collection, or find it again",
        openapi_extra=body_of(models.NewCollection),
    )
    async def create_collection(request: Request) -> Response:
        check_json(request)
        async with service.admission.body(request) as body:
            if len(body) > SHORT_BYTES:  # a plan with names may be long, and must be a plan
                await service.readers.ask(request, "collections", body=body)
            return await run_in_threadpool(create, body)

    def create(body: bytes) -> Response:
        wanted = parse(models.NewCollection, body)
        plan = plan_of(wanted)
        known = plan.digest in store.registry.collections
        if not known:
            _check_size(plan, service.table_bytes)
        made = store.registry.create(
            plan,
            name=wanted.name,
            retention=wanted.retention,
            tokens=wanted.tokens,
            epochs=wanted.opened,
            period_s=wanted.period_s,
            grace_s=wanted.grace_s,
        )
        return json_reply(asdict(status_of(made)), 200 if known else 201)

    @router.get(
        TEMPLATE,
        dependencies=read,
        response_model=CollectionStatus,
        responses=refusals(404),
        summary="Look at a collection",
    )
    def show_collection(digest: Digest) -> Response:
        return _status(store, digest)

    @router.delete(
        TEMPLATE,
        dependencies=admin,
        response_model=models.Deleted,
        responses=refusals(404, 503),
        summary="Delete a collection and its reports for good",
    )
    def delete_collection(
        digest: Digest,
        confirm: Annotated[str, Query(description="The digest once more.")] = "",
    ) -> Response:
        if confirm != digest:
            raise Problem(
                BAD_REQUEST,
                "deleting needs confirm",
                "Add ?confirm= and the digest once more; what is deleted is gone.",
            )
        store.delete(bytes.fromhex(digest))
        return json_reply({"deleted": digest})

    @router.post(
        TEMPLATE + "/reports",
        dependencies=[require(service, "submit", strict=False)],
        response_model=models.Counted,
        responses=refusals(404, 409, 410, 429, 503),
        summary="Send reports",
        openapi_extra={"parameters": PARAMETERS, "requestBody": BODY},
    )
    async def send_reports(digest: Digest) -> Response:
        raise AssertionError(f"the middleware takes reports for {digest}")

    return router


def epoch_routes(service: Service) -> APIRouter:
    """Return the routes of epochs."""
    router = APIRouter(tags=["collections"])
    store, admin = service.store, [require(service, "admin")]

    @router.post(
        TEMPLATE + "/close",
        dependencies=admin,
        response_model=CollectionStatus,
        responses=refusals(404, 503),
        summary="Take no more reports",
    )
    def close_collection(digest: Digest) -> Response:
        store.close_collection(bytes.fromhex(digest))
        return _status(store, digest)

    @router.put(
        TEMPLATE + "/epochs/{epoch}",
        dependencies=admin,
        response_model=CollectionStatus,
        responses=refusals(404, 409, 410, 503),
        summary="Open or close an epoch",
        openapi_extra=body_of(models.EpochState),
    )
    def set_epoch(
        digest: Digest,
        epoch: EpochPath,
        wanted: Annotated[models.EpochState, asked(models.EpochState)],
    ) -> Response:
        change = store.registry.open_epoch if wanted.state == "open" else store.close_epoch
        change(bytes.fromhex(digest), epoch)
        return _status(store, digest)

    @router.post(
        TEMPLATE + "/tokens",
        dependencies=admin,
        response_model=models.Tokens,
        responses=refusals(404, 409, 410, 503),
        summary="Issue single-use tokens",
        openapi_extra=body_of(models.TokensWanted),
    )
    def issue_tokens(
        digest: Digest, wanted: Annotated[models.TokensWanted, asked(models.TokensWanted)]
    ) -> Response:
        made = store.issue_tokens(bytes.fromhex(digest), wanted.epoch, wanted.count)
        return json_reply({"epoch": wanted.epoch, "tokens": made})

    @router.post(
        TEMPLATE + "/seal",
        dependencies=admin,
        response_model=models.Sealed,
        responses=refusals(404, 503),
        summary="Seal now, so that answers hold everything",
    )
    def seal(digest: Digest) -> Response:
        return json_reply({"sealed": store.seal(bytes.fromhex(digest))})

    return router


def _check_size(plan: Plan, table_bytes: int) -> None:
    """Refuse a plan whose tables exceed the setting `table_bytes`."""
    try:
        tables = mechanism_of(plan).sketch_shape.tables
    except FaintlyError as error:
        raise Problem(BAD_PLAN, str(error)[:MOST_SHOWN]) from None
    size = 0 if tables is None else CELL_BYTES * math.prod(tables)
    if size > table_bytes:
        raise Problem(
            BAD_PLAN,
            f"the tables of this plan take {size:,} bytes, and here at most {table_bytes:,}",
            "Make a plan with smaller tables, or start the collector with a larger table_bytes.",
        )
