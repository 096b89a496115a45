"""The page at /docs: renders /openapi.json, and loads nothing from other servers."""

import base64
import hashlib
import re
from pathlib import Path

from fastapi import APIRouter, Response

PAGE = Path(__file__).with_name("docs.html")


def docs_routes() -> APIRouter:
    """Return the route of the page, which is not part of the documented interface."""
    router = APIRouter()
    page = PAGE.read_bytes()
    headers = {"content-security-policy": _policy(page)}

    @router.get("/docs", include_in_schema=False)
    def show_page() -> Response:
        return Response(page, media_type="text/html", headers=headers)

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
