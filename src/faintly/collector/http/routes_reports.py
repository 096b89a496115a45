"""The route of reports, as FastAPI documents it; `ingest` serves it."""

from fastapi import APIRouter, Request, Response

from faintly.collector.http import models
from faintly.collector.http.routes import (
    OCTETS,
    TEMPLATE,
    Digest,
    Service,
    refusals,
    require,
)
from faintly.core.epochs import MAX_EPOCH


def report_routes(service: Service) -> APIRouter:
    """Return the route of reports, for its documentation: the middleware takes most requests."""
    router = APIRouter(tags=["collections"])
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
    body = {
        "required": True,
        "content": {OCTETS: {"schema": {"type": "string", "format": "binary"}}},
        "description": "One batch as the client encodes it; any content type will do.",
    }

    @router.post(
        TEMPLATE + "/reports",
        dependencies=[require(service, "submit", strict=False)],
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

    return router
