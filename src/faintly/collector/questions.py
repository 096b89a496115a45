"""Routes that answer questions about what was counted."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from faintly.collector import models
from faintly.collector.answers import ARROW, JSON, Answered, Answers, Asked, Check
from faintly.collector.routes import (
    TEMPLATE,
    Digest,
    EpochQuery,
    Service,
    StrictRoute,
    answer_reply,
    epoch_of,
    need,
    refusals,
)
from faintly.collector.turns import Turns

SAME = {304: {"description": "Nothing changed since the answer with this ETag."}}
TABLE = {ARROW: {"schema": {"type": "string", "format": "binary"}}}


class Form:
    """How the asker wants an answer, and what it has already."""

    def __init__(
        self,
        request: Request,
        accept: Annotated[str | None, Header(include_in_schema=False)] = None,
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> None:
        self._request = request
        self._accept, self._known = accept or JSON, if_none_match or ""

    async def reply(
        self,
        turns: Turns,
        digest: str,
        epoch: models.EpochChoice,
        level: float,
        answer: Callable[[Asked], Answered],
    ) -> Response:
        """Return what `answer` makes of the whole question, in a thread, when it has its turn."""

        def work(check: Check) -> Answered:
            name = bytes.fromhex(digest)
            return answer(Asked(name, epoch, level, self._accept, self._known, check))

        return answer_reply(await turns.take(self._request, work))


Wanted = Annotated[Form, Depends()]


def question_routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(
        tags=["answers"], dependencies=[need(service, "read")], route_class=StrictRoute
    )
    answers, turns = Answers(service.store), service.turns
    tabular = refusals(404, 406, 409, 429, 503) | SAME | {200: {"content": TABLE}}
    plain = refusals(404, 406, 409, 429, 503) | SAME

    @router.post(
        TEMPLATE + "/estimates",
        response_model=models.Estimates,
        responses=tabular,
        summary="Estimate keys, with their error",
    )
    async def estimates(digest: Digest, asked: models.KeysAsked, form: Wanted) -> Response:
        answer = partial(answers.estimates, keys=asked.keys)
        return await form.reply(turns, digest, asked.epoch, asked.level, answer)

    @router.get(
        TEMPLATE + "/top",
        response_model=models.Top,
        responses=tabular,
        summary="The largest means among all keys of the universe",
    )
    async def top(
        digest: Digest,
        form: Wanted,
        *,
        count: models.Rows = 20,
        epoch: EpochQuery = None,
        control: models.Control = "family",
        false_rate: models.FalseRate = 0.05,
        level: models.Level = 0.95,
    ) -> Response:
        answer = partial(
            answers.top, count=count, candidates=None, control=control, false_rate=false_rate
        )
        return await form.reply(turns, digest, epoch_of(epoch), level, answer)

    @router.post(
        TEMPLATE + "/top",
        response_model=models.Top,
        responses=tabular,
        summary="The largest means among candidates",
    )
    async def top_of(digest: Digest, asked: models.TopAsked, form: Wanted) -> Response:
        answer = partial(
            answers.top,
            count=asked.count,
            candidates=asked.candidates,
            control=asked.control,
            false_rate=asked.false_rate,
        )
        return await form.reply(turns, digest, asked.epoch, asked.level, answer)

    @router.post(
        TEMPLATE + "/history",
        response_model=models.History,
        responses=plain,
        summary="Estimate keys epoch by epoch",
    )
    async def history(digest: Digest, asked: models.HistoryAsked, form: Wanted) -> Response:
        answer = partial(answers.history, keys=asked.keys)
        return await form.reply(turns, digest, None, asked.level, answer)

    @router.get(
        TEMPLATE + "/noise-floor",
        response_model=models.NoiseFloor,
        responses=plain,
        summary="What a key that nobody holds may show",
    )
    async def noise_floor(
        digest: Digest,
        form: Wanted,
        epoch: EpochQuery = None,
        level: models.Level = 0.95,
        keys: Annotated[int, Query(ge=1, le=2**31, description="Keys looked at together.")] = 1,
    ) -> Response:
        answer = partial(answers.noise_floor, keys=keys)
        return await form.reply(turns, digest, epoch_of(epoch), level, answer)

    return router
