"""Pages for people, apart from the documented interface.

/docs renders /openapi.json and loads nothing from others. /demo, off unless asked for, has the
files of one folder, read when serving starts.
"""

import base64
import hashlib
import re
from pathlib import Path

from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import RedirectResponse

from faintly.collector.http.routes import json_reply
from faintly.collector.problems import NOT_FOUND, Problem
from faintly.errors import InvalidInput

PAGE = Path(__file__).with_name("docs.html")
INDEX = "index.html"
MEDIA = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
# The page runs its own files, and calls collectors; nothing comes from elsewhere.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src *; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def docs_routes(app: FastAPI) -> APIRouter:
    """Return the routes of the documentation."""
    router = APIRouter()
    page = PAGE.read_bytes()
    headers = {"content-security-policy": _policy(page)}

    @router.get("/docs", include_in_schema=False)
    def show_page() -> Response:
        return Response(page, media_type="text/html", headers=headers)

    @router.get("/openapi.json", include_in_schema=False)
    def show_document() -> Response:
        return json_reply(app.openapi())

    return router


def _policy(page: bytes) -> str:
    """Return a policy under which browsers run only this script, and call only this server."""
    script, style = (_hash(page, tag) for tag in (b"script", b"style"))
    return (
        f"default-src 'none'; connect-src 'self'; img-src data:; "
        f"script-src '{script}'; style-src '{style}'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _hash(page: bytes, tag: bytes) -> str:
    found = re.search(b"<%s>(.*?)</%s>" % (tag, tag), page, re.DOTALL)
    assert found is not None, "the page has one of each"
    return "sha256-" + base64.b64encode(hashlib.sha256(found[1]).digest()).decode("ascii")


def demo_routes(folder: Path) -> APIRouter:
    """Return the routes of a page."""
    if not (folder / INDEX).is_file():
        raise InvalidInput(f"demo: there is no page {folder / INDEX}")
    # Only these are ever served, so that no request can name another file.
    files = {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.suffix in MEDIA and NAME.fullmatch(path.name)
    }
    router = APIRouter(prefix="/demo", include_in_schema=False)

    @router.get("")
    def show_folder() -> Response:
        return RedirectResponse("/demo/")

    @router.get("/")
    def show_page() -> Response:
        return show_file(INDEX)

    @router.get("/{name}")
    def show_file(name: str) -> Response:
        if name not in files:
            raise Problem(NOT_FOUND, "the page has no such file")
        headers = {"content-security-policy": POLICY, "referrer-policy": "no-referrer"}
        return Response(files[name], media_type=MEDIA[Path(name).suffix], headers=headers)

    return router
