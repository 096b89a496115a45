"""The application: the hot path beside FastAPI, with one shape for every error.

Endpoints run in threads, some after waiting for admission, so the event loop is free for reports.
They return encoded bytes: response models serve as documentation, and tests check that answers
match them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from faintly.collector import problems
from faintly.collector.http import logs
from faintly.collector.http.access import Access, Pages
from faintly.collector.http.ingest import Ingest
from faintly.collector.http.metrics import Metrics, Traffic
from faintly.collector.http.middleware import Middleware, refusal, unexpected
from faintly.collector.http.routes import Service
from faintly.collector.http.routes_answers import answer_routes
from faintly.collector.http.routes_collections import collection_routes
from faintly.collector.http.routes_demo import demo_routes
from faintly.collector.http.routes_docs import docs_routes
from faintly.collector.http.routes_epochs import epoch_routes
from faintly.collector.http.routes_files import file_routes
from faintly.collector.http.routes_operations import operation_routes, store_metrics
from faintly.collector.http.routes_reports import report_routes
from faintly.collector.http.settings import Settings
from faintly.collector.problems import Kind, Problem
from faintly.collector.storage.store import Store
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
RULES = {"keys": KEY_RULE, "candidates": KEY_RULE}  # lists whose members have one of two types


@dataclass(frozen=True, slots=True)
class Collector:
    """A collector: the application that uvicorn runs, and its parts."""

    middleware: Middleware
    control: FastAPI
    service: Service

    @property
    def ingest(self) -> Ingest:
        """Return the hot path."""
        return self.service.ingest

    def stop(self) -> None:
        """Refuse new reports and queries."""
        self.service.ingest.stopping = self.service.admission.stopping = True


def build(store: Store, settings: Settings) -> Collector:
    """Return the collector of an open store."""
    guarded = settings.exposed and not settings.allow_anyone
    access, pages, traffic = (
        Access(store.credentials, guarded=guarded),
        Pages(settings.cors),
        Traffic(),
    )
    local = not settings.exposed and not settings.allow_anyone
    ingest = Ingest(store, access, pages, traffic, body_bytes=settings.body_bytes, local=local)
    metrics = Metrics(traffic, lambda: store_metrics(store, ingest))
    service = Service(store, access, ingest, metrics, settings.table_bytes)
    control = control_plane(service)
    if settings.demo is not None:
        control.include_router(demo_routes(settings.demo))
    middleware = Middleware(
        ingest,
        control,
        access=access,
        pages=pages,
        traffic=traffic,
        body_bytes=settings.body_bytes,
        local=local,
    )
    return Collector(middleware, control, service)


def control_plane(service: Service) -> FastAPI:
    """Return the FastAPI application."""
    app = FastAPI(
        title="faintly collector",
        version="1",
        description=DESCRIPTION,
        docs_url=None,  # FastAPI's own page loads a script from a public server
        redoc_url=None,
        redirect_slashes=False,
        # An installed tracing library must not see requests.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        exception_handlers={
            Problem: _problem,
            HTTPException: _http,
            RequestValidationError: _invalid,
            FolderDamaged: _damaged,
            Exception: _unexpected,
        },
    )
    for routes in (
        operation_routes,
        collection_routes,
        epoch_routes,
        report_routes,
        answer_routes,
        file_routes,
    ):
        app.include_router(routes(service))
    app.include_router(docs_routes())
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
    """Return the place of an error and the rule it breaks, without quoting the request."""
    names = list(error["loc"])
    rule = error["msg"]
    if error["type"] == UNKNOWN_FIELD:
        names.pop()  # the name is part of the body as well
        rule = "it has a field that is not known here"
    elif len(names) > 3 and names[1] in RULES:
        names, rule = names[:3], RULES[names[1]]  # else it would name only the first of the types
    return ".".join(map(str, names)), rule


async def _damaged(_: Request, error: Any) -> Response:
    logs.logger().error("damaged", what=str(error))
    return _reply(Problem(problems.DAMAGED, "stored reports or sketches cannot be read"))


async def _unexpected(_: Request, __: Any) -> Response:
    return _reply(unexpected())
