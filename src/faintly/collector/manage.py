"""Routes that manage collections: create, list, look at, open and close, seal, delete."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response

from faintly.collector import models
from faintly.collector.problems import BAD_PLAN, BAD_REQUEST, Problem
from faintly.collector.registry import Collection
from faintly.collector.routes import (
    TEMPLATE,
    Digest,
    EpochQuery,
    Service,
    epoch_of,
    json_reply,
    need,
    refusals,
)
from faintly.collector.store import Store
from faintly.core import Plan
from faintly.errors import InvalidPlan
from faintly.wire.sketch_v1 import encode_sketch

OCTETS = "application/octet-stream"
FOREVER = "public, max-age=31536000, immutable"


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
        "reports": status.counted,
        "pending": status.pending,
        "bytes": status.bytes,
        "epochs": [
            {
                "epoch": each.epoch,
                "state": each.state,
                "reports": each.counted,
                "pending": each.pending,
                "segments": each.segments,
                "bytes": each.bytes,
            }
            for each in status.epochs
        ],
    }


def manage_routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["collections"])
    store = service.store
    read, admin = [need(service, "read")], [need(service, "admin")]

    def show(digest: str) -> Response:
        return json_reply(status_document(store, store.collection(bytes.fromhex(digest))))

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
        made = store.create(
            plan,
            name=wanted.name,
            retention=wanted.retention,
            tokens=wanted.tokens,
            epochs=wanted.epochs,
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
        return show(digest)

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

    @router.get(
        TEMPLATE + "/plan",
        dependencies=[need(service, "plan")],
        responses=refusals(404)
        | {
            200: {
                "description": "The canonical JSON that the digest is taken of.",
                "content": {"application/json": {"schema": {"type": "object"}}},
            },
            304: {"description": "The asker has it already."},
        },
        summary="Fetch the plan",
        response_model=None,
    )
    def fetch_plan(
        digest: Digest, if_none_match: Annotated[str | None, Header()] = None
    ) -> Response:
        plan = store.collection(bytes.fromhex(digest)).plan
        headers = {"etag": f'"{digest}"', "cache-control": FOREVER}
        if if_none_match is not None and f'"{digest}"' in if_none_match:
            return Response(status_code=304, headers=headers)
        return Response(plan.canonical, media_type="application/json", headers=headers)

    @router.post(
        TEMPLATE + "/close",
        dependencies=admin,
        response_model=models.CollectionStatus,
        responses=refusals(404, 503),
        summary="Take no more reports",
    )
    def close_collection(digest: Digest) -> Response:
        store.close_collection(bytes.fromhex(digest))
        return show(digest)

    @router.put(
        TEMPLATE + "/epochs/{epoch}",
        dependencies=admin,
        response_model=models.CollectionStatus,
        responses=refusals(404, 409, 410, 503),
        summary="Open or close an epoch",
    )
    def set_epoch(digest: Digest, epoch: models.EpochPath, wanted: models.EpochState) -> Response:
        change = store.open_epoch if wanted.state == "open" else store.close_epoch
        change(bytes.fromhex(digest), epoch)
        return show(digest)

    @router.post(
        TEMPLATE + "/tokens",
        dependencies=admin,
        response_model=models.Tokens,
        responses=refusals(404, 409, 410, 503),
        summary="Issue single-use tokens",
    )
    def issue_tokens(digest: Digest, wanted: models.TokensWanted) -> Response:
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

    @router.get(
        TEMPLATE + "/segments",
        dependencies=read,
        response_model=models.Segments,
        responses=refusals(404),
        summary="List the sealed files",
    )
    def list_segments(digest: Digest) -> Response:
        rows = [
            {
                "epoch": each.epoch,
                "number": each.number,
                "file": each.file,
                "reports": each.reports,
                "bytes": each.bytes,
                "checksum": each.checksum,
            }
            for each in store.segments(bytes.fromhex(digest))
        ]
        return json_reply({"segments": rows})

    @router.get(
        TEMPLATE + "/sketch",
        dependencies=read,
        responses=refusals(404, 409)
        | {
            200: {
                "description": "A sketch file, as faintly query and faintly merge read it.",
                "content": {OCTETS: {"schema": {"type": "string", "format": "binary"}}},
            }
        },
        summary="Download the sketch",
        response_model=None,
        response_class=Response,
    )
    def fetch_sketch(digest: Digest, epoch: EpochQuery = None) -> Response:
        name = bytes.fromhex(digest)
        chosen = epoch_of(epoch)
        if chosen is None:
            chosen = store.latest(name)
        sketch = store.sketch(name, None if chosen == "all" else chosen)
        return Response(encode_sketch(sketch), media_type=OCTETS)

    _add_reports(router, service)
    return router


def _plan_of(document: dict[str, Any]) -> Plan:
    """Return the plan of a JSON object; its text is read again, as strictly as a file's."""
    try:
        return Plan.from_json(json.dumps(document))
    except InvalidPlan as error:
        raise Problem(BAD_PLAN, str(error)) from None


def _add_reports(router: APIRouter, service: Service) -> None:
    """Add the hot path to the documentation; requests reach it before FastAPI sees them."""
    hexadecimal = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
    parameters = [
        {
            "name": "request",
            "in": "query",
            "required": True,
            "schema": hexadecimal,
            "description": "16 fresh random bytes; a retry repeats them and counts once.",
        },
        {
            "name": "epoch",
            "in": "query",
            "schema": {"type": "integer", "minimum": 0, "maximum": models.MAX_EPOCH},
            "description": "0 unless given.",
        },
        {
            "name": "Faintly-Token",
            "in": "header",
            "schema": {"type": "string"},
            "description": "The single-use token, where the collection needs one.",
        },
    ]
    body = {
        "required": True,
        "content": {OCTETS: {"schema": {"type": "string", "format": "binary"}}},
        "description": "One batch as the client encodes it; any content type will do.",
    }

    @router.post(
        TEMPLATE + "/reports",
        dependencies=[need(service, "submit")],
        response_model=models.Counted,
        responses=refusals(404, 409, 410, 429, 503),
        summary="Send reports",
        openapi_extra={"parameters": parameters, "requestBody": body},
    )
    async def send_reports(request: Request, digest: Digest) -> Response:  # noqa: ARG001 - checked
        status, headers, body = await service.ingest.reply_to(request.scope, request.receive)
        made = Response(body, status)
        made.raw_headers = headers
        return made
