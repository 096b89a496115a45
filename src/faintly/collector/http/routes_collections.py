"""Routes of collections: create, show, send reports, open and close epochs, seal, delete."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from faintly.collector.http import models
from faintly.collector.http.models import new_collection
from faintly.collector.http.routes import (
    OCTETS,
    SHORT_BYTES,
    TEMPLATE,
    Answers,
    Digest,
    EpochPath,
    PlanDigest,
    Routes,
    Service,
    asked,
    check_json,
    json_reply,
)
from faintly.collector.problems import BAD_REQUEST, Problem
from faintly.collector.storage.status import CollectionStatus, segments_of, status_of
from faintly.collector.storage.store import Store
from faintly.core import Plan
from faintly.core.epochs import MAX_EPOCH

FOREVER = "public, max-age=31536000, immutable"
CREATED: Answers = {201: {"model": CollectionStatus, "description": "It is new."}}
PLAN: Answers = {
    200: {
        "description": "The canonical JSON that the digest is taken of.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    },
    304: {"description": "The asker has it already."},
}
Confirm = Annotated[str, Query(description="The digest once more.")]
RequestId = Annotated[
    str,
    Query(
        alias="request",
        pattern="^[0-9a-f]{32}$",
        description="16 fresh random bytes; a retry repeats them and counts once.",
    ),
]
EpochNumber = Annotated[
    int, Query(alias="epoch", ge=0, le=MAX_EPOCH, description="0 unless given.")
]
Token = Annotated[
    str | None,
    Header(
        alias="Faintly-Token",
        description="The single-use token, where the collection needs one.",
    ),
]
BATCH = {  # not a parameter: FastAPI would read it before it checks the credential
    "requestBody": {
        "required": True,
        "content": {OCTETS: {"schema": {"type": "string", "format": "binary"}}},
        "description": "One batch as the client encodes it; any content type will do.",
    }
}


def _status(store: Store, digest: str) -> Response:
    return json_reply(asdict(status_of(store.registry.collection(bytes.fromhex(digest)))))


def collection_routes(service: Service) -> APIRouter:
    """Return the routes."""
    route, store = Routes(service, "collections"), service.store

    @route("GET /v1/collections", "List the collections", "read", models.Collections)
    def list_collections() -> Response:
        rows = [status_of(each) for each in list(store.registry.collections.values())]
        return json_reply({"collections": [asdict(each) for each in rows]})

    @route(
        "POST /v1/collections",
        "Create a collection, or find it again",
        "admin",
        CollectionStatus,
        body=models.NewCollection,
        responses=CREATED,
    )
    async def create_collection(request: Request) -> Response:
        check_json(request)
        async with service.readers.body(request) as body:
            if len(body) <= SHORT_BYTES:
                return await run_in_threadpool(create, *new_collection(body))
            # A plan with names may be long. A reader parses it, so that nobody else waits.
            return await run_in_threadpool(
                create, *await service.readers.ask(request, "collections", body=body)
            )

    def create(wanted: models.NewCollection, plan: Plan) -> Response:
        known = plan.digest in store.registry.collections
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

    @route(f"GET {TEMPLATE}", "Look at a collection", "read", CollectionStatus)
    def show_collection(digest: Digest) -> Response:
        return _status(store, digest)

    @route(
        f"DELETE {TEMPLATE}",
        "Delete a collection and its reports for good",
        "admin",
        models.Deleted,
    )
    def delete_collection(digest: Digest, confirm: Confirm = "") -> Response:
        if confirm != digest:
            raise Problem(
                BAD_REQUEST,
                "deleting needs confirm",
                "Add ?confirm= and the digest once more; what is deleted is gone.",
            )
        store.delete(bytes.fromhex(digest))
        return json_reply({"deleted": digest})

    @route(
        f"POST {TEMPLATE}/reports",
        "Send reports",
        "submit",
        models.Counted,
        strict=False,
        openapi_extra=BATCH,
    )
    async def send_reports(
        digest: PlanDigest, _request: RequestId, _epoch: EpochNumber = 0, _token: Token = None
    ) -> Response:
        raise AssertionError(f"the middleware takes reports for {digest}")

    return route.router


def part_routes(service: Service) -> APIRouter:
    """Return the routes of what belongs to a collection: plan, epochs, tokens, sealed files."""
    route, store = Routes(service, "collections"), service.store

    @route(f"GET {TEMPLATE}/plan", "Fetch the plan", "plan", None, responses=PLAN)
    def fetch_plan(
        digest: Digest, if_none_match: Annotated[str | None, Header()] = None
    ) -> Response:
        plan = store.registry.collection(bytes.fromhex(digest)).plan
        headers = {"etag": f'"{digest}"', "cache-control": FOREVER}
        if if_none_match is not None and f'"{digest}"' in if_none_match:
            return Response(status_code=304, headers=headers)
        return Response(plan.canonical, media_type="application/json", headers=headers)

    @route(f"POST {TEMPLATE}/close", "Take no more reports", "admin", CollectionStatus)
    def close_collection(digest: Digest) -> Response:
        store.close_collection(bytes.fromhex(digest))
        return _status(store, digest)

    @route(
        f"PUT {TEMPLATE}/epochs/{{epoch}}",
        "Open or close an epoch",
        "admin",
        CollectionStatus,
        body=models.EpochState,
    )
    def set_epoch(
        digest: Digest,
        epoch: EpochPath,
        wanted: Annotated[models.EpochState, asked(models.EpochState)],
    ) -> Response:
        change = store.registry.open_epoch if wanted.state == "open" else store.close_epoch
        change(bytes.fromhex(digest), epoch)
        return _status(store, digest)

    @route(
        f"POST {TEMPLATE}/tokens",
        "Issue single-use tokens",
        "admin",
        models.Tokens,
        body=models.TokensWanted,
    )
    def issue_tokens(
        digest: Digest, wanted: Annotated[models.TokensWanted, asked(models.TokensWanted)]
    ) -> Response:
        made = store.issue_tokens(bytes.fromhex(digest), wanted.epoch, wanted.count)
        return json_reply({"epoch": wanted.epoch, "tokens": made})

    @route(
        f"POST {TEMPLATE}/seal", "Seal now, so that answers hold everything", "admin", models.Sealed
    )
    def seal(digest: Digest) -> Response:
        return json_reply({"sealed": store.seal(bytes.fromhex(digest))})

    @route(f"GET {TEMPLATE}/segments", "List the sealed files", "read", models.Segments)
    def list_segments(digest: Digest) -> Response:
        rows = segments_of(store, bytes.fromhex(digest))
        return json_reply({"segments": [asdict(each) for each in rows]})

    return route.router
