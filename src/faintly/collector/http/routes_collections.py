"""Routes of collections: create, list, show, delete."""

import json
import math
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from faintly.collector.http import models
from faintly.collector.http.routes import (
    TEMPLATE,
    Digest,
    Service,
    StrictRoute,
    json_reply,
    refusals,
    require,
)
from faintly.collector.problems import BAD_PLAN, BAD_REQUEST, Problem
from faintly.collector.storage.status import CollectionStatus, status_of
from faintly.collector.storage.store import Store
from faintly.core import Plan
from faintly.errors import FaintlyError, InvalidPlan
from faintly.mechanisms import mechanism_of

CELL_BYTES = 4  # of a table; with very many reports a cell takes eight
MOST_SHOWN = 300  # characters of an error about a plan, which may quote it


def status_reply(store: Store, digest: str) -> Response:
    """Return a reply with the status of a collection."""
    return json_reply(asdict(status_of(store.registry.collection(bytes.fromhex(digest)))))


def collection_routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["collections"], route_class=StrictRoute)
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
    )
    def create_collection(wanted: models.NewCollection) -> Response:
        plan = _plan_of(wanted.plan)
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


def _plan_of(document: dict[str, Any]) -> Plan:
    """Return the plan of a JSON object, read as strictly as a file."""
    try:
        return Plan.from_json(json.dumps(document))
    except InvalidPlan as error:
        raise Problem(BAD_PLAN, str(error)[:MOST_SHOWN]) from None


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
