"""Routes of whole collections: create, list, look at, delete, fetch the plan."""

import json
import math
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from faintly.collector import models
from faintly.collector.problems import BAD_PLAN, BAD_REQUEST, Problem
from faintly.collector.registry import Collection
from faintly.collector.routes import (
    TEMPLATE,
    Digest,
    Service,
    StrictRoute,
    json_reply,
    need,
    refusals,
)
from faintly.collector.store import Store
from faintly.core import Plan
from faintly.errors import FaintlyError, InvalidPlan
from faintly.mechanisms import mechanism_of

CELL_BYTES = 4  # of a table until its reports are so many that a cell takes eight
MOST_SHOWN = 300  # characters of what is wrong with a plan, which may quote it


def status_document(store: Store, collection: Collection) -> dict[str, Any]:
    """Return a collection and what is stored of it."""
    status = store.status(collection.digest)
    plan = collection.plan
    return {
        "digest": collection.digest.hex(),
        "name": collection.name,
        "state": status.state,
        "retention": collection.retention,
        "tokens": collection.tokens,
        "period_s": collection.period_s,
        "mechanism": plan.mechanism,
        "universe": plan.universe.kind,
        "protects": str(plan.unit),
        "guarantee": collection.mechanism.guarantee().words(),
        "record_bytes": collection.record_bytes,
        "reports": status.sealed,
        "pending": status.pending,
        "bytes": status.bytes,
        "epochs": [
            {
                "epoch": each.epoch,
                "state": each.state,
                "reports": each.sealed,
                "pending": each.pending,
                "segments": each.segments,
                "bytes": each.bytes,
            }
            for each in status.epochs
        ],
    }


def status_reply(store: Store, digest: str) -> Response:
    """Return the status of a collection as an answer."""
    return json_reply(status_document(store, store.collection(bytes.fromhex(digest))))


def collection_routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["collections"], route_class=StrictRoute)
    store = service.store
    read, admin = [need(service, "read")], [need(service, "admin")]

    @router.get(
        "/v1/collections",
        dependencies=read,
        response_model=models.Collections,
        responses=refusals(),
        summary="List the collections",
    )
    def list_collections() -> Response:
        rows = [status_document(store, each) for each in store.collections()]
        return json_reply({"collections": rows})

    @router.post(
        "/v1/collections",
        dependencies=admin,
        response_model=models.CollectionStatus,
        responses=refusals(409, 503)
        | {201: {"model": models.CollectionStatus, "description": "It is new."}},
        summary="Create a collection, or find it again",
    )
    def create_collection(wanted: models.NewCollection) -> Response:
        plan = _plan_of(wanted.plan)
        known = {each.digest for each in store.collections()}
        if plan.digest not in known:
            _check_size(plan, service.table_bytes)
        made = store.create(
            plan,
            name=wanted.name,
            retention=wanted.retention,
            tokens=wanted.tokens,
            epochs=wanted.opened,
            period_s=wanted.period_s,
        )
        return json_reply(status_document(store, made), 200 if plan.digest in known else 201)

    @router.get(
        TEMPLATE,
        dependencies=read,
        response_model=models.CollectionStatus,
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
    """Return the plan of a JSON object; its text is read again, as strictly as a file's."""
    try:
        return Plan.from_json(json.dumps(document))
    except InvalidPlan as error:
        raise Problem(BAD_PLAN, str(error)[:MOST_SHOWN]) from None


def _check_size(plan: Plan, table_bytes: int) -> None:
    """Refuse a plan whose tables would take more memory than the collector was given for one."""
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
