"""Routes that answer questions about what was counted."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response

from faintly.collector import models
from faintly.collector.answers import ARROW, JSON, Answers, Asked
from faintly.collector.routes import (
    TEMPLATE,
    Digest,
    EpochQuery,
    Service,
    answer_reply,
    epoch_of,
    need,
    refusals,
)

SAME = {304: {"description": "Nothing changed since the answer with this ETag."}}
TABLE = {ARROW: {"schema": {"type": "string", "format": "binary"}}}


class Form:
    """How the asker wants an answer, and what it has already."""

    def __init__(
        self,
        accept: Annotated[str | None, Header(include_in_schema=False)] = None,
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> None:
        self.accept, self.known = accept or JSON, if_none_match or ""

    def asked(self, digest: str, epoch: models.EpochChoice, level: float) -> Asked:
        """Return the whole question."""
        return Asked(bytes.fromhex(digest), epoch, level, self.accept, self.known)


Wanted = Annotated[Form, Depends()]


def question_routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["answers"], dependencies=[need(service, "read")])
    answers = Answers(service.store, service.slots)
    tabular = refusals(404, 406, 409, 503) | SAME | {200: {"content": TABLE}}
    plain = refusals(404, 406, 409, 503) | SAME

    @router.post(
        TEMPLATE + "/estimates",
        response_model=models.Estimates,
        responses=tabular,
        summary="Estimate keys, with their error",
    )
    def estimates(digest: Digest, asked: models.KeysAsked, form: Wanted) -> Response:
        question = form.asked(digest, asked.epoch, asked.level)
        return answer_reply(answers.estimates(question, asked.keys))

    @router.get(
        TEMPLATE + "/top",
        response_model=models.Top,
        responses=tabular,
        summary="The largest means among all keys of the universe",
    )
    def top(
        digest: Digest,
        form: Wanted,
        *,
        count: models.Rows = 20,
        epoch: EpochQuery = None,
        control: models.Control = "family",
        false_rate: models.FalseRate = 0.05,
        level: models.Level = 0.95,
    ) -> Response:
        question = form.asked(digest, epoch_of(epoch), level)
        return answer_reply(answers.top(question, count, None, control, false_rate))

    @router.post(
        TEMPLATE + "/top",
        response_model=models.Top,
        responses=tabular,
        summary="The largest means among candidates",
    )
    def top_of(digest: Digest, asked: models.TopAsked, form: Wanted) -> Response:
        question = form.asked(digest, asked.epoch, asked.level)
        made = answers.top(question, asked.count, asked.candidates, asked.control, asked.false_rate)
        return answer_reply(made)

    @router.post(
        TEMPLATE + "/history",
        response_model=models.History,
        responses=plain,
        summary="Estimate keys epoch by epoch",
    )
    def history(digest: Digest, asked: models.HistoryAsked, form: Wanted) -> Response:
        return answer_reply(answers.history(form.asked(digest, None, asked.level), asked.keys))

    @router.get(
        TEMPLATE + "/noise-floor",
        response_model=models.NoiseFloor,
        responses=plain,
        summary="What a key that nobody holds may show",
    )
    def noise_floor(
        digest: Digest,
        form: Wanted,
        epoch: EpochQuery = None,
        level: models.Level = 0.95,
        keys: Annotated[int, Query(ge=1, le=2**31, description="Keys looked at together.")] = 1,
    ) -> Response:
        question = form.asked(digest, epoch_of(epoch), level)
        return answer_reply(answers.noise_floor(question, keys))

    return router
