"""The page at `/`: its files, which the package has, and signing in to it.

Scripts, styles and data come from this collector alone. Every address in it is relative, so a
proxy may serve the page under any path.
"""

import gzip
import hashlib
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from faintly.collector.http.access import same_origin
from faintly.collector.http.models import Question
from faintly.collector.http.routes import Service, asked, json_reply
from faintly.collector.http.routes_pages import MEDIA
from faintly.collector.http.sessions import COOKIE, LIFE_S
from faintly.collector.problems import NOT_ALLOWED, NOT_FOUND, Problem
from faintly.errors import InvalidInput

FOLDER = Path(__file__).parents[1] / "page"
INDEX = "index.html"
FOREVER = "public, max-age=31536000, immutable"  # the name of a file has a hash of its content
# Charts are saved as pictures by drawing them, as data, on a canvas.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
}


class SignIn(Question):
    """Who signs in."""

    credential: str = Field(min_length=1, max_length=1000)


def page_routes(service: Service) -> APIRouter:
    """Return the routes, which are no part of the documented interface."""
    router = APIRouter(include_in_schema=False)
    sessions = service.sessions
    if not (FOLDER / INDEX).is_file():
        raise InvalidInput("the page is not installed; run make js, or install a wheel")
    # Only these are ever served, so that no request can name another file.
    files = {path.name: path.read_bytes() for path in (FOLDER / "assets").iterdir()}
    short = {name: gzip.compress(content, mtime=0) for name, content in files.items()}
    index = (FOLDER / INDEX).read_bytes()
    etag = f'"{hashlib.blake2s(index, digest_size=16).hexdigest()}"'

    @router.get("/")
    async def show_page(request: Request) -> Response:
        headers = {**HEADERS, "cache-control": "no-cache", "etag": etag}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(index, media_type=MEDIA[".html"], headers=headers)

    @router.get("/assets/{name}")
    async def show_file(name: str, request: Request) -> Response:
        if name not in files:
            raise Problem(NOT_FOUND, "the page has no such file", "Reload the page.")
        headers = {**HEADERS, "cache-control": FOREVER, "vary": "accept-encoding"}
        kept = files
        if "gzip" in request.headers.get("accept-encoding", ""):
            kept, headers["content-encoding"] = short, "gzip"
        return Response(kept[name], media_type=MEDIA[Path(name).suffix], headers=headers)

    @router.get("/session")
    async def show_session(request: Request) -> Response:
        return json_reply({"role": sessions.role(request.headers)})

    @router.post("/session")
    async def sign_in(request: Request, given: Annotated[SignIn, asked(SignIn)]) -> Response:
        _check_own(request)
        made = json_reply({"role": "read"})
        # Without a path, the cookie is sent to the folder of this address: that of a proxy, too.
        made.set_cookie(
            COOKIE,
            sessions.open(given.credential.strip()),
            max_age=int(LIFE_S),
            path=None,
            secure=_is_secure(request),
            httponly=True,
            samesite="strict",
        )
        return made

    @router.delete("/session")
    async def sign_out(request: Request) -> Response:
        _check_own(request)
        sessions.close(request.headers)
        made = json_reply({"role": None})
        made.set_cookie(COOKIE, "", max_age=0, path=None, httponly=True, samesite="strict")
        return made

    return router


def _check_own(request: Request) -> None:
    """Refuse to sign anybody in or out for the page of another site."""
    if not same_origin(dict(request.headers.raw)):
        raise Problem(NOT_ALLOWED, "only the collector's own page signs in", "Open its page.")


def _is_secure(request: Request) -> bool:
    """Return whether the browser speaks TLS, to us or to a proxy; its origin says so."""
    return request.headers.get("origin", "").startswith("https:") or request.url.scheme == "https"
