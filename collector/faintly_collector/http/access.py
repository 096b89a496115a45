"""Access: credentials by role, page sessions, which origins may call, how much they may send.

While a folder has no credential, everything is allowed if only this machine can reach the
collector; if others can, reading and administering are refused. Once it has one, reading and
administering require theirs; submitting requires one only if a credential to submit exists.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping

from starlette.requests import Request

from faintly.wire.problems import BAD_REQUEST, NOT_ALLOWED, NOT_AUTHORISED, TOO_LARGE, Problem
from faintly_collector.http import limits
from faintly_collector.http.settings import Settings
from faintly_collector.storage.credentials import Credentials, hash_of

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOCAL_NAMES = frozenset({b"localhost", b"127.0.0.1", b"[::1]"})
ROLES_FOR: Mapping[str, frozenset[str]] = {
    "submit": frozenset({"submit"}),
    "plan": frozenset({"submit", "read", "admin"}),
    "read": frozenset({"read", "admin"}),
    "admin": frozenset({"admin"}),
}
ROLE_VERBS = {"plan": "read the plan", "admin": "administer"}  # where the name is not a verb
PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
    (b"access-control-allow-headers", b"authorization, content-type, faintly-token, if-none-match"),
    (b"access-control-max-age", b"3600"),
]
UNIQUE_HEADERS = (b"authorization", b"faintly-token", b"host", b"origin")  # who calls
ADD_ONE = "The operator can add one with faintly credential add."
SEND_ONCE = "Send Authorization, Faintly-Token, Host and Origin once each."
USE_LOCAL = "Call 127.0.0.1 or localhost, or add credentials with faintly credential add."
USE_CORS = "Start the collector with --cors and the page's origin."
COOKIE = "faintly-session"
Headers = list[tuple[bytes, bytes]]


def same_origin(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether the calling page, if any, is the collector's own.

    Browsers say so in Sec-Fetch-Site, which no page can set, and which is right even if a proxy's
    name differs from Host. They omit it if the address is neither local nor TLS; then the origin
    must match the host. Other programs can send anything, but all they have is a credential.
    """
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site is not None:
        return site in {b"same-origin", b"none"}
    return origin is None or origin.partition(b"://")[2] == headers.get(b"host", b"")


class Access:
    """Which requests are allowed: by role, host, origin and size."""

    def __init__(self, credentials: Credentials, settings: Settings) -> None:
        self.credentials, self.body_bytes = credentials, settings.body_bytes
        self.origins = frozenset(origin.encode("ascii") for origin in settings.cors)
        # Without credentials, a collector that serves only this machine requires Host to name it:
        # a page could have pointed its own name here.
        self._local = not settings.allow_anyone and not settings.exposed
        self._refuse_all = not settings.allow_anyone and settings.exposed

    def check_role(self, authorization: bytes | None, needed: str) -> None:
        """Raise `Problem` unless the credential in the header allows what is needed."""
        roles = self.credentials.roles
        if needed in {"submit", "plan"} and "submit" not in roles:
            return
        if not roles:
            if self._refuse_all:
                raise Problem(NOT_AUTHORISED, "this needs a credential, and there is none", ADD_ONE)
            return
        wanted = ROLE_VERBS.get(needed, needed)
        scheme, _, secret = (authorization or b"").partition(b" ")
        hashed = hash_of(secret.strip().decode("latin-1"))
        known = scheme.lower() == b"bearer" and secret
        role = self.credentials.role_of(hashed) if known else None
        if role is None:
            raise Problem(NOT_AUTHORISED, f"this needs a credential to {wanted}")
        if role not in ROLES_FOR[needed]:
            held = ROLE_VERBS.get(role, role)
            raise Problem(NOT_ALLOWED, f"this needs a credential to {wanted}, not to {held}")

    def check(self, method: str, raw: Headers, headers: Mapping[bytes, bytes]) -> None:
        """Raise `Problem` unless a request may proceed, whatever its route.

        Headers are given twice: as they were sent, and by name.
        """
        if len(headers) < len(raw):
            unique = [name for name, _ in raw if name in UNIQUE_HEADERS]
            if len(unique) > len(set(unique)):  # a proxy may have acted on the other value
                raise Problem(BAD_REQUEST, "a header is repeated", SEND_ONCE)
        host, origin = headers.get(b"host", b""), headers.get(b"origin")
        if self._local and not self.credentials.roles:
            name = host.lower()
            if name not in LOCAL_NAMES and name.rpartition(b":")[0] not in LOCAL_NAMES:
                message = "without credentials only this machine's own names are served"
                raise Problem(NOT_ALLOWED, message, USE_LOCAL)
        # Browsers hide answers from a foreign page, but its writes for a visitor would take effect.
        if origin is not None and method not in SAFE_METHODS and not same_origin(headers):
            self.check_origin(origin)
        length = headers.get(b"content-length")
        # Long numbers are slow to parse; after leading zeros, the body is counted as it arrives.
        if length is not None and (not length.isdigit() or int(length[:20]) > self.body_bytes):
            raise self.too_large()

    def check_origin(self, origin: bytes) -> None:
        """Raise `Problem` unless pages of an origin may call."""
        if origin not in self.origins:
            raise Problem(NOT_ALLOWED, "pages of this origin may not call", USE_CORS)

    def too_large(self) -> Problem:
        """Return the refusal of a body over the limit."""
        return Problem(TOO_LARGE, f"a body has at most {self.body_bytes:,} bytes")

    def page_headers(self, origin: bytes | None) -> Headers:
        """Return the headers that let a page read the answer."""
        vary = (b"vary", b"origin")
        if origin not in self.origins or origin is None:
            return [vary]
        exposed = (b"access-control-expose-headers", b"etag, retry-after")
        return [vary, (b"access-control-allow-origin", origin), exposed]


class Sessions:
    """Who is signed in to the page: a credential is exchanged once for a cookie.

    Scripts cannot read the cookie, an opaque random name. It stands for the hash of a credential,
    kept in memory only, so removing the credential ends its sessions. A session can only read,
    whatever its credential may do, so a request forged by another page cannot change anything.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._open: OrderedDict[bytes, tuple[float, bytes]] = OrderedDict()

    def check(self, request: Request, needed: str) -> None:
        """Raise `Problem` unless a header or a session allows what is needed."""
        given = request.headers.get("authorization")
        if given is None and needed in {"plan", "read"} and self.role(request) is not None:
            return
        self._access.check_role(None if given is None else given.encode("latin-1"), needed)

    def open(self, secret: str) -> str:
        """Return the cookie's value for a credential, or raise `Problem`."""
        hashed = hash_of(secret)
        role = self._access.credentials.role_of(hashed)
        if role is None:
            raise Problem(NOT_AUTHORISED, "there is no such credential", "Ask for one.")
        if role not in ROLES_FOR["read"]:
            raise Problem(NOT_ALLOWED, f"this credential is to {role}; the page needs one to read")
        while len(self._open) >= limits.SESSIONS:
            self._open.popitem(last=False)
        name = secrets.token_urlsafe(32)
        self._open[hash_of(name)] = time.monotonic() + limits.SESSION_S, hashed
        return name

    def close(self, request: Request) -> None:
        """End the session of a request, if it has one."""
        self._open.pop(hash_of(request.cookies.get(COOKIE, "")), None)

    def role(self, request: Request) -> str | None:
        """Return the role of a request's session; None without one, or for another site's page."""
        ends, hashed = self._open.get(hash_of(request.cookies.get(COOKIE, "")), (0.0, b""))
        if ends <= time.monotonic() or not same_origin(dict(request.headers.raw)):
            return None
        role = self._access.credentials.role_of(hashed)
        return role if role in ROLES_FOR["read"] else None
