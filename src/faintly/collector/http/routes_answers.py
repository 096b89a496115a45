"""Routes of answers: estimates, top lists, history, noise floor."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from faintly.collector.http import answers, models
from faintly.collector.http.routes import (
    TEMPLATE,
    Digest,
    EpochQuery,
    Service,
    answer_reply,
    body_of,
    check_json,
    epoch_of,
    refusals,
    require,
)

SAME = {304: {"description": "Nothing changed since the answer with this ETag."}}
TABLE = {answers.ARROW: {"schema": {"type": "string", "format": "binary"}}}


def headers(if_none_match: Annotated[str | None, Header()] = None) -> None:
    """Document what the reader looks at."""


def answer_routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["answers"], dependencies=[require(service, "read"), Depends(headers)])
    tabular = refusals(404, 406, 409, 429, 503) | SAME | {200: {"content": TABLE}}
    plain = refusals(404, 406, 409, 429, 503) | SAME

    async def posted(request: Request, kind: str, digest: str) -> Response:
        """Return what a reader answers to the body of a request."""
        check_json(request)
        async with service.admission.body(request) as body:
            return answer_reply(await service.readers.ask(request, kind, digest, body=body))

    @router.post(
        TEMPLATE + "/estimates",
        response_model=models.Estimates,
        responses=tabular,
        summary="Estimate keys, with their error",
        openapi_extra=body_of(models.KeysAsked),
    )
    async def estimates(digest: Digest, request: Request) -> Response:
        return await posted(request, "estimates", digest)

    @router.get(
        TEMPLATE + "/top",
        response_model=models.Top,
        responses=tabular,
        summary="The largest means among all keys of the universe",
    )
    async def top(
        digest: Digest,
        request: Request,
        *,
        count: models.Rows = 20,
        epoch: EpochQuery = None,
        control: models.Control = "family",
        false_rate: models.FalseRate = 0.05,
        level: models.Level = 0.95,
        posterior: models.Posterior = False,
        above: models.Above = None,
    ) -> Response:
        fields: dict[str, Any] = {"count": count, "epoch": epoch_of(epoch), "level": level}
        fields |= {"control": control, "false_rate": false_rate}
        fields |= {"posterior": posterior, "above": above}
        return answer_reply(await service.readers.ask(request, "top", digest, fields=fields))

    @router.post(
        TEMPLATE + "/top",
        response_model=models.Top,
        responses=tabular,
        summary="The largest means among candidates",
        openapi_extra=body_of(models.TopAsked),
    )
    async def top_of(digest: Digest, request: Request) -> Response:
        return await posted(request, "top", digest)

    @router.post(
        TEMPLATE + "/history",
        response_model=models.History,
        responses=plain,
        summary="Estimate keys epoch by epoch",
        openapi_extra=body_of(models.HistoryAsked),
    )
    async def history(digest: Digest, request: Request) -> Response:
        return await posted(request, "history", digest)

    @router.get(
        TEMPLATE + "/noise-floor",
        response_model=models.NoiseFloor,
        responses=plain,
        summary="What a key that nobody holds may show",
    )
    async def noise_floor(
        digest: Digest,
        request: Request,
        epoch: EpochQuery = None,
        level: models.Level = 0.95,
        keys: Annotated[int, Query(ge=1, le=2**31, description="Keys looked at together.")] = 1,
    ) -> Response:
        fields = {"epoch": epoch_of(epoch), "level": level, "keys": keys}
        made = await service.readers.ask(request, "noise-floor", digest, fields=fields)
        return answer_reply(made)

    return router
