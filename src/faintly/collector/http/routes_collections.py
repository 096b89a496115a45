"""Routes of collections: create, list, show, delete."""

import math
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from faintly.collector.http import models
from faintly.collector.http.questions import MOST_SHOWN, parse, plan_of
from faintly.collector.http.routes import (
    SHORT_BYTES,
    TEMPLATE,
    Digest,
    Service,
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
from faintly.errors import FaintlyError
from faintly.mechanisms import mechanism_of

CELL_BYTES = 4  # of a table; with very many reports a cell takes eight


def status_reply(store: Store, digest: str) -> Response:
    """Return a reply with the status of a collection."""
    return json_reply(asdict(store.status(bytes.fromhex(digest))))


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
        return status_reply(store, digest)

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
