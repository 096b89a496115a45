"""The collector put together: the hot path beside FastAPI, with one shape for every error.

Endpoints are plain functions, which FastAPI runs in threads, or wait for a turn and run in one:
the event loop is left to reports.
They answer with bytes that are ready, so response models are documentation, which the tests hold
the answers to.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from faintly.collector import logs, problems
from faintly.collector.access import Access, Pages
from faintly.collector.changes import change_routes
from faintly.collector.files import file_routes
from faintly.collector.front import Front, refusal, unexpected
from faintly.collector.ingest import Ingest
from faintly.collector.manage import collection_routes
from faintly.collector.metrics import Metrics, Traffic
from faintly.collector.page import page_routes
from faintly.collector.problems import Kind, Problem
from faintly.collector.questions import question_routes
from faintly.collector.routes import Service
from faintly.collector.settings import Settings
from faintly.collector.store import Store
from faintly.collector.watch import store_metrics, watch_routes
from faintly.errors import FolderDamaged

DESCRIPTION = """\
Collects locally differentially private reports, keeps them, counts each once, and answers.
Every error is `{code, message, hint}`: programs compare the code, people read the rest.
"""
KINDS: Mapping[int, Kind] = {
    404: problems.NOT_FOUND,
    405: problems.METHOD_NOT_ALLOWED,
    413: problems.TOO_LARGE,
}
WORDS = {404: "there is nothing at this address", 405: "this address has no such method"}
KEY_RULE = (
    "a key is an integer from 0 to 2^64 - 1, or text of at most 65,536 characters "
    "without half of a surrogate pair"
)
UNKNOWN_FIELD = "extra_forbidden"  # as pydantic calls it
RULES = {"keys": KEY_RULE, "candidates": KEY_RULE}  # of lists whose members may be two things


@dataclass(frozen=True, slots=True)
class Collector:
    """One collector: what uvicorn runs, and its parts."""

    front: Front
    control: FastAPI
    service: Service

    @property
    def ingest(self) -> Ingest:
        """Return what takes reports."""
        return self.service.ingest

    def stop(self) -> None:
        """Take no more reports and questions."""
        self.service.ingest.stopping = self.service.turns.stopping = True


def build(store: Store, settings: Settings) -> Collector:
    """Return the collector of an open store."""
    guarded = settings.exposed and not settings.allow_anyone
    access, pages, traffic = Access(store, guarded=guarded), Pages(settings.cors), Traffic()
    local = not settings.exposed and not settings.allow_anyone
    ingest = Ingest(store, access, pages, traffic, body_bytes=settings.body_bytes, local=local)
    metrics = Metrics(traffic, lambda: store_metrics(store, ingest))
    service = Service(store, access, ingest, metrics, settings.table_bytes)
    control = control_plane(service)
    front = Front(
        ingest,
        control,
        access=access,
        pages=pages,
        traffic=traffic,
        body_bytes=settings.body_bytes,
        local=local,
    )
    return Collector(front, control, service)


def control_plane(service: Service) -> FastAPI:
    """Return the FastAPI application."""
    app = FastAPI(
        title="faintly collector",
        version="1",
        description=DESCRIPTION,
        docs_url=None,  # FastAPI's own pages load their script from a public server
        redoc_url=None,
        redirect_slashes=False,
        # Nothing about a request may leave by a tracing library that happens to be installed.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        exception_handlers={
            Problem: _problem,
            HTTPException: _http,
            RequestValidationError: _invalid,
            FolderDamaged: _damaged,
            Exception: _unexpected,
        },
    )
    for routes in (watch_routes, collection_routes, change_routes, question_routes, file_routes):
        app.include_router(routes(service))
    app.include_router(page_routes())
    return app


def _reply(problem: Problem, extra: Mapping[str, str] | None = None) -> Response:
    status, headers, body = refusal(problem)
    made = Response(body, status, dict(extra or {}))
    made.raw_headers = [*headers, *((n, v) for n, v in made.raw_headers if n != b"content-length")]
    return made


async def _problem(_: Request, error: Any) -> Response:
    return _reply(error)


async def _http(_: Request, error: Any) -> Response:
    kind = KINDS.get(error.status_code, problems.BAD_REQUEST)
    message = WORDS.get(error.status_code, str(error.detail))
    return _reply(Problem(kind, message), error.headers)


async def _invalid(_: Request, error: Any) -> Response:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return _reply(Problem(problems.BAD_REQUEST, "the body is not JSON"))
    place, rule = _place(first)
    hint = None
    if place == "body" and first["type"] != UNKNOWN_FIELD:
        hint = "Send a JSON object with the header Content-Type: application/json."
    return _reply(Problem(problems.INVALID, f"{place}: {rule}", hint))


def _place(error: Mapping[str, Any]) -> tuple[str, str]:
    """Return where an error is and which rule it breaks, in no words of the request's."""
    names = list(error["loc"])
    rule = error["msg"]
    if error["type"] == UNKNOWN_FIELD:
        names.pop()  # the name of a field is as much a part of the body as its value
        rule = "it has a field that is not known here"
    elif len(names) > 3 and names[1] in RULES:
        names, rule = names[:3], RULES[names[1]]  # else it would name the first thing it is not
    return ".".join(map(str, names)), rule


async def _damaged(_: Request, error: Any) -> Response:
    logs.logger().error("damaged", what=str(error))
    return _reply(Problem(problems.DAMAGED, "stored reports or sketches cannot be read"))


async def _unexpected(_: Request, __: Any) -> Response:
    return _reply(unexpected())
