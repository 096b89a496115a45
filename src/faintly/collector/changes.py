"""Routes that change what a collection takes: reports, epochs, tokens, seals."""

from fastapi import APIRouter, Request, Response

from faintly.collector import models
from faintly.collector.manage import status_reply
from faintly.collector.routes import (
    OCTETS,
    TEMPLATE,
    Digest,
    Service,
    StrictRoute,
    json_reply,
    need,
    refusals,
)


def change_routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["collections"], route_class=StrictRoute)
    store, admin = service.store, [need(service, "admin")]

    @router.post(
        TEMPLATE + "/close",
        dependencies=admin,
        response_model=models.CollectionStatus,
        responses=refusals(404, 503),
        summary="Take no more reports",
    )
    def close_collection(digest: Digest) -> Response:
        store.close_collection(bytes.fromhex(digest))
        return status_reply(store, digest)

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
        return status_reply(store, digest)

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

    _add_reports(router, service)
    return router


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
        dependencies=[need(service, "submit", strict=False)],
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
