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


class Form:
    """A question: its headers, and the request that it came with."""

    def __init__(
        self,
        request: Request,
        accept: Annotated[str | None, Header(include_in_schema=False)] = None,
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> None:
        self._request = request
        self._headers = {"accept": accept or answers.JSON, "known": if_none_match or ""}

    async def reply(self, service: Service, kind: str, digest: str, **fields: Any) -> Response:
        """Return what a reader answers to the fields, or to the body where there are none."""
        head = {"kind": kind, "collection": digest, "fields": fields} | self._headers
        if fields:
            return answer_reply(await service.readers.ask(self._request, head))
        check_json(self._request)
        async with service.admission.body(self._request) as body:
            return answer_reply(await service.readers.ask(self._request, head, body))


Headers = Annotated[Form, Depends()]


def answer_routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["answers"], dependencies=[require(service, "read")])
    tabular = refusals(404, 406, 409, 429, 503) | SAME | {200: {"content": TABLE}}
    plain = refusals(404, 406, 409, 429, 503) | SAME

    @router.post(
        TEMPLATE + "/estimates",
        response_model=models.Estimates,
        responses=tabular,
        summary="Estimate keys, with their error",
        openapi_extra=body_of(models.KeysAsked),
    )
    async def estimates(digest: Digest, form: Headers) -> Response:
        return await form.reply(service, "estimates", digest)

    @router.get(
        TEMPLATE + "/top",
        response_model=models.Top,
        responses=tabular,
        summary="The largest means among all keys of the universe",
    )
    async def top(
        digest: Digest,
        form: Headers,
        *,
        count: models.Rows = 20,
        epoch: EpochQuery = None,
        control: models.Control = "family",
        false_rate: models.FalseRate = 0.05,
        level: models.Level = 0.95,
    ) -> Response:
        fields = {"count": count, "epoch": epoch_of(epoch), "level": level}
        rule = {"control": control, "false_rate": false_rate}
        return await form.reply(service, "top", digest, **fields, **rule)

    @router.post(
        TEMPLATE + "/top",
        response_model=models.Top,
        responses=tabular,
        summary="The largest means among candidates",
        openapi_extra=body_of(models.TopAsked),
    )
    async def top_of(digest: Digest, form: Headers) -> Response:
        return await form.reply(service, "top", digest)

    @router.post(
        TEMPLATE + "/history",
        response_model=models.History,
        responses=plain,
        summary="Estimate keys epoch by epoch",
        openapi_extra=body_of(models.HistoryAsked),
    )
    async def history(digest: Digest, form: Headers) -> Response:
        return await form.reply(service, "history", digest)

    @router.get(
        TEMPLATE + "/noise-floor",
        response_model=models.NoiseFloor,
        responses=plain,
        summary="What a key that nobody holds may show",
    )
    async def noise_floor(
        digest: Digest,
        form: Headers,
        epoch: EpochQuery = None,
        level: models.Level = 0.95,
        keys: Annotated[int, Query(ge=1, le=2**31, description="Keys looked at together.")] = 1,
    ) -> Response:
        fields = {"epoch": epoch_of(epoch), "level": level, "keys": keys}
        return await form.reply(service, "noise-floor", digest, **fields)

    return router
