"""The application: the hot path beside FastAPI, with one shape for every error.

Endpoints run in threads, or wait for a reader, so the event loop is free for reports. They return
encoded bytes: response models are documentation, and tests check that answers match them.
"""

from dataclasses import dataclass

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from faintly.errors import FolderDamaged
from faintly.wire import problems
from faintly.wire.problems import Problem
from faintly_collector.http import logs
from faintly_collector.http.access import Access, Sessions
from faintly_collector.http.metrics import Metrics
from faintly_collector.http.middleware import Middleware, refusal
from faintly_collector.http.models import invalid
from faintly_collector.http.readers import Readers
from faintly_collector.http.routes import Service
from faintly_collector.http.routes_collections import (
    answer_routes,
    collection_routes,
    part_routes,
)
from faintly_collector.http.routes_operations import operation_routes
from faintly_collector.http.routes_page import demo_routes, docs_routes, page_routes
from faintly_collector.http.settings import Settings
from faintly_collector.storage.store import Store

DESCRIPTION = """\
Collects locally differentially private reports, keeps them, counts each once, and answers.
Every error is `{code, message, hint}`: programs compare the code, people read the rest.
"""
HANDLED = Problem, HTTPException, RequestValidationError, ClientDisconnect, FolderDamaged, Exception
BY_STATUS = {  # what the framework refuses, by status
    404: (problems.NOT_FOUND, "there is nothing at this address"),
    405: (problems.METHOD_NOT_ALLOWED, "this address has no such method"),
}


@dataclass(frozen=True, slots=True)
class Collector:
    """A collector: the application that uvicorn runs, and its parts."""

    middleware: Middleware
    control: FastAPI
    service: Service


def build(store: Store, settings: Settings) -> Collector:
    """Return the collector of an open store."""
    access, metrics = Access(store.credentials, settings), Metrics(store)
    service = Service(store, Sessions(access), metrics, Readers(store, settings.readers))
    app = FastAPI(
        title="faintly collector",
        version="1",
        description=DESCRIPTION,
        # FastAPI's page loads a script from a public server, and metrics would not know its routes.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # An installed tracing library must not see requests.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        exception_handlers=dict.fromkeys(HANDLED, _refuse),
    )
    app.state.registry = store.registry  # to find collections by their names
    for routes in (operation_routes, collection_routes, part_routes, answer_routes, page_routes):
        routes(app, service)
    docs_routes(app)
    if settings.demo is not None:
        demo_routes(app, settings.demo)
    return Collector(Middleware(store, app, access, metrics), app, service)


async def _refuse(request: Request, error: Exception) -> Response:
    """Return the answer to an exception."""
    problem, allowed = _problem_of(error), ""
    if problem.kind is problems.METHOD_NOT_ALLOWED:
        # Several routes may share an address.
        routes = [
            each for each in request.app.routes if each.matches(request.scope)[0] is not Match.NONE
        ]
        allowed = ", ".join(sorted({each for route in routes for each in route.methods}))
        # The route as documented: the requested address is not repeated.
        named = routes[0].path if routes[0].include_in_schema else "This address"
        problem.hint = f"{named} takes {allowed}."
    status, headers, body = refusal(problem)
    made = Response(body, status)
    made.raw_headers = headers + ([(b"allow", allowed.encode())] if allowed else [])
    return made


def _problem_of(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, RequestValidationError):
        return invalid(error.errors()[0])
    if isinstance(error, ClientDisconnect):
        return Problem(problems.ABANDONED)
    if isinstance(error, FolderDamaged):
        logs.error("damaged", what=str(error))
        return Problem(problems.DAMAGED)
    if isinstance(error, HTTPException):
        return Problem(*BY_STATUS.get(error.status_code, (problems.BAD_REQUEST, str(error.detail))))
    return Problem(problems.INTERNAL)
