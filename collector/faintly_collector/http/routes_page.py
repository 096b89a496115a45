"""Pages for people, outside the documented interface; they load nothing from other servers.

`/` is the collector's page, with sign-in. Its addresses are relative, so a proxy may serve it under
any path. /docs renders /openapi.json. /demo, off by default, serves the files of one folder.
"""

import base64
import gzip
import hashlib
import re
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import Field

from faintly.errors import InvalidInput
from faintly.wire.problems import NOT_ALLOWED, NOT_FOUND, Problem
from faintly_collector.http import limits
from faintly_collector.http.access import COOKIE, same_origin
from faintly_collector.http.models import RequestModel, parse
from faintly_collector.http.routes import FOREVER, Service, ShortBody, json_reply

FOLDER = Path(__file__).parents[1] / "page"
DOCS = Path(__file__).with_name("docs.html")
INDEX = "index.html"
MEDIA = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


class SignIn(RequestModel):
    """A sign-in."""

    credential: str = Field(min_length=1, max_length=limits.CREDENTIAL_LENGTH)


def _headers(
    calls: str = "'self'", script: str = "'self'", style: str = "'self'"
) -> dict[str, str]:
    """Return headers that let browsers run only these sources, and call only these addresses."""
    # data: saving a chart as a picture draws it on a canvas.
    policy = (
        f"default-src 'none'; script-src {script}; style-src {style}; img-src 'self' data:; "
        f"connect-src {calls}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {"content-security-policy": policy, "referrer-policy": "no-referrer"}


def docs_routes(app: FastAPI) -> None:
    """Add the routes of the documentation."""
    page = DOCS.read_bytes()
    headers = _headers(script=_hash(page, b"script"), style=_hash(page, b"style"))

    @app.get("/docs", include_in_schema=False)
    def show_page() -> Response:
        return Response(page, media_type=MEDIA[".html"], headers=headers)

    @app.get("/openapi.json", include_in_schema=False)
    def show_document() -> Response:
        return json_reply(app.openapi())


def _hash(page: bytes, tag: bytes) -> str:
    found = re.search(b"<%s>(.*?)</%s>" % (tag, tag), page, re.DOTALL)
    assert found is not None, "the page has one of each"
    return f"'sha256-{base64.b64encode(hashlib.sha256(found[1]).digest()).decode('ascii')}'"


def demo_routes(app: FastAPI, folder: Path) -> None:
    """Add the routes of a folder's page, which may call any collector."""
    if not (folder / INDEX).is_file():
        raise InvalidInput(f"demo: there is no page {folder / INDEX}")
    # Only these are served, so no request can name another file.
    files = {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.suffix in MEDIA and NAME.fullmatch(path.name)
    }

    @app.get("/demo", include_in_schema=False)
    def show_folder() -> Response:
        return RedirectResponse("/demo/")

    @app.get("/demo/{name:path}", include_in_schema=False)
    def show_file(name: str) -> Response:
        name = name or INDEX
        if name not in files:
            raise Problem(NOT_FOUND, "the page has no such file")
        return Response(files[name], media_type=MEDIA[Path(name).suffix], headers=_headers("*"))


def page_routes(app: FastAPI, service: Service) -> None:
    """Add the routes of the collector's own page."""
    sessions = service.sessions
    if not (FOLDER / INDEX).is_file():
        raise InvalidInput("the page is not installed; run make js, or install a wheel")
    files = {path.name: path.read_bytes() for path in (FOLDER / "assets").iterdir()}
    short = {name: gzip.compress(content, mtime=0) for name, content in files.items()}
    index = (FOLDER / INDEX).read_bytes()
    etag = f'"{hashlib.blake2s(index, digest_size=16).hexdigest()}"'
    alone = ("cross-origin-opener-policy", "cross-origin-resource-policy")
    common = _headers() | dict.fromkeys(alone, "same-origin")

    @app.get("/", include_in_schema=False)
    async def show_page(request: Request) -> Response:
        headers = {**common, "cache-control": "no-cache", "etag": etag}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(index, media_type=MEDIA[".html"], headers=headers)

    @app.get("/assets/{name}", include_in_schema=False)
    async def show_file(name: str, request: Request) -> Response:
        if name not in files:
            raise Problem(NOT_FOUND, "the page has no such file", "Reload the page.")
        headers, chosen = {**common, "cache-control": FOREVER, "vary": "accept-encoding"}, files
        if "gzip" in request.headers.get("accept-encoding", ""):
            chosen, headers["content-encoding"] = short, "gzip"
        return Response(chosen[name], media_type=MEDIA[Path(name).suffix], headers=headers)

    @app.get("/session", include_in_schema=False)
    async def show_session(request: Request) -> Response:
        return json_reply({"role": sessions.role(request)})

    @app.post("/session", include_in_schema=False)
    async def sign_in(request: Request, body: ShortBody) -> Response:
        secret = parse(SignIn, body).credential.strip()
        _check_own(request)
        return _cookie(request, "read", sessions.open(secret), int(limits.SESSION_S))

    @app.delete("/session", include_in_schema=False)
    async def sign_out(request: Request) -> Response:
        _check_own(request)
        sessions.close(request)
        return _cookie(request, None, "", 0)


def _check_own(request: Request) -> None:
    """Refuse to sign in or out on behalf of another site's page."""
    if not same_origin(dict(request.headers.raw)):
        raise Problem(NOT_ALLOWED, "only the collector's own page can sign in", "Open its page.")


def _cookie(request: Request, role: str | None, value: str, life_s: int) -> Response:
    made = json_reply({"role": role})
    # The origin tells whether the browser uses TLS, to us or to a proxy.
    origin, scheme = request.headers.get("origin", ""), request.url.scheme
    # Without a path, the cookie applies to the folder of this address, behind a proxy too.
    made.set_cookie(
        COOKIE,
        value,
        max_age=life_s,
        path=None,
        secure=origin.startswith("https:") or scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return made
