"""Routes that hand out what is stored: the plan, the list of sealed files, the sketch."""

from typing import Annotated

from fastapi import APIRouter, Header, Response

from faintly.collector import models
from faintly.collector.routes import (
    OCTETS,
    TEMPLATE,
    Digest,
    EpochQuery,
    Service,
    epoch_of,
    json_reply,
    need,
    refusals,
)
from faintly.wire.sketch_v1 import encode_sketch

FOREVER = "public, max-age=31536000, immutable"


def file_routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["files"])
    store = service.store

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

    @router.get(
        TEMPLATE + "/segments",
        dependencies=[need(service, "read")],
        response_model=models.Segments,
        responses=refusals(404, 503),
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
        dependencies=[need(service, "read")],
        responses=refusals(404, 409, 503)
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

    return router
