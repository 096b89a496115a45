"""The page under /demo, off unless asked for: the files of one folder, read when serving starts."""

import re
from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.responses import RedirectResponse

from faintly.collector.problems import NOT_FOUND, Problem
from faintly.errors import InvalidInput

INDEX = "index.html"
MEDIA = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
# The page runs its own files, and calls collectors; nothing comes from elsewhere.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src *; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def demo_routes(folder: Path) -> APIRouter:
    """Return the routes of a page, which are not part of the documented interface."""
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
