"""Routes of a collection's epochs: close, open, issue tokens, seal."""

from typing import Annotated

from fastapi import APIRouter, Response

from faintly.collector.http import models
from faintly.collector.http.routes import (
    TEMPLATE,
    Digest,
    EpochPath,
    Service,
    asked,
    body_of,
    json_reply,
    refusals,
    require,
)
from faintly.collector.http.routes_collections import status_reply
from faintly.collector.storage.status import CollectionStatus


def epoch_routes(service: Service) -> APIRouter:
    """Return the routes."""
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
        return status_reply(store, digest)

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
        return status_reply(store, digest)

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
