"""The documentation: /openapi.json, and /docs that renders it and loads nothing from others."""

import base64
import hashlib
import re
from pathlib import Path

from fastapi import APIRouter, FastAPI, Response

from faintly.collector.http.routes import json_reply

PAGE = Path(__file__).with_name("docs.html")


def docs_routes(app: FastAPI) -> APIRouter:
    """Return the routes, which are not part of the interface that they document."""
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
