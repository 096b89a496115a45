"""Routes of answers: estimates, top lists, history, noise floor."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from faintly.collector.http import answers, models
from faintly.collector.http.admission import Admission
from faintly.collector.http.routes import (
    TEMPLATE,
    Digest,
    EpochQuery,
    Service,
    StrictRoute,
    answer_reply,
    epoch_of,
    refusals,
    require,
)

SAME = {304: {"description": "Nothing changed since the answer with this ETag."}}
TABLE = {answers.ARROW: {"schema": {"type": "string", "format": "binary"}}}


class Form:
    """The headers of a query: which media type, and which answer the client already has."""

    def __init__(
        self,
        request: Request,
        accept: Annotated[str | None, Header(include_in_schema=False)] = None,
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> None:
        self._request = request
        self._accept, self._known = accept or answers.JSON, if_none_match or ""

    async def reply(
        self,
        admission: Admission,
        digest: str,
        epoch: models.EpochChoice,
        level: float,
        answer: Callable[[answers.Query], answers.Response],
    ) -> Response:
        """Return what `answer` computes for the query, in a thread, once it is admitted."""

        def work(check: answers.Check) -> answers.Response:
            name = bytes.fromhex(digest)
            return answer(answers.Query(name, epoch, level, self._accept, self._known, check))

        return answer_reply(await admission.run(self._request, work))


Headers = Annotated[Form, Depends()]


def answer_routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(
        tags=["answers"], dependencies=[require(service, "read")], route_class=StrictRoute
    )
    source, admission = answers.Answers(service.store), service.admission
    tabular = refusals(404, 406, 409, 429, 503) | SAME | {200: {"content": TABLE}}
    plain = refusals(404, 406, 409, 429, 503) | SAME

    @router.post(
        TEMPLATE + "/estimates",
        response_model=models.Estimates,
        responses=tabular,
        summary="Estimate keys, with their error",
    )
    async def estimates(digest: Digest, query: models.KeysAsked, form: Headers) -> Response:
        answer = partial(
            source.estimates, keys=query.keys, posterior=query.posterior, above=query.above
        )
        return await form.reply(admission, digest, query.epoch, query.level, answer)

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
        posterior: models.Posterior = False,
        above: models.Above = None,
    ) -> Response:
        answer = partial(
            source.top,
            count=count,
            candidates=None,
            control=control,
            false_rate=false_rate,
            posterior=posterior,
            above=above,
        )
        return await form.reply(admission, digest, epoch_of(epoch), level, answer)

    @router.post(
        TEMPLATE + "/top",
        response_model=models.Top,
        responses=tabular,
        summary="The largest means among candidates",
    )
    async def top_of(digest: Digest, query: models.TopAsked, form: Headers) -> Response:
        answer = partial(
            source.top,
            count=query.count,
            candidates=query.candidates,
            control=query.control,
            false_rate=query.false_rate,
            posterior=query.posterior,
            above=query.above,
        )
        return await form.reply(admission, digest, query.epoch, query.level, answer)

    @router.post(
        TEMPLATE + "/history",
        response_model=models.History,
        responses=plain,
        summary="Estimate keys epoch by epoch",
    )
    async def history(digest: Digest, query: models.HistoryAsked, form: Headers) -> Response:
        answer = partial(source.history, keys=query.keys)
        return await form.reply(admission, digest, None, query.level, answer)

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
        answer = partial(source.noise_floor, keys=keys)
        return await form.reply(admission, digest, epoch_of(epoch), level, answer)

    return router
