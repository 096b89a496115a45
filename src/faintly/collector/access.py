"""Who may do what: credentials by role, and which pages may call.

Without any credential in the folder everything is open to this machine; where others can reach
the collector, nothing can then be read or administered. Once there is one, reading and
administering need theirs; submitting needs one only where a credential to submit exists.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from faintly.collector.problems import BAD_REQUEST, NOT_ALLOWED, NOT_AUTHORISED, Problem

REFRESH_S = 0.25  # how long a credential that another process removed may still serve
REMEMBERED = 1024  # secrets looked up in that time
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
ALLOWED: Mapping[str, frozenset[str]] = {
    "submit": frozenset({"submit"}),
    "plan": frozenset({"submit", "read", "admin"}),
    "read": frozenset({"read", "admin"}),
    "admin": frozenset({"admin"}),
}
WORDS = {"plan": "read the plan", "admin": "administer"}  # where the name is no verb
# What is posted under these names changes nothing, or is a report; a test asks every route.
POSTED = {"estimates": "read", "top": "read", "history": "read", "reports": "submit"}
PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
    (b"access-control-allow-headers", b"authorization, content-type, faintly-token, if-none-match"),
    (b"access-control-max-age", b"3600"),
]
ONCE = (b"authorization", b"faintly-token", b"host", b"origin")  # headers that decide who calls
NOBODY = "Whoever runs the collector can add one with faintly credential add."
Headers = list[tuple[bytes, bytes]]


def check_headers(headers: Headers) -> None:
    """Refuse a header twice where a proxy before us may have acted on the other one."""
    names = [name for name, _ in headers if name in ONCE]
    if len(names) > len(set(names)):
        raise Problem(
            BAD_REQUEST,
            "a header is repeated",
            "Send Authorization, Faintly-Token, Host and Origin once each.",
        )


def role_for(method: str, path: str) -> str:
    """Return what a request that may have a body needs, before any route has looked at it."""
    return POSTED.get(path.rpartition("/")[2], "admin") if method == "POST" else "admin"


class Keyring(Protocol):
    """What is asked of the store."""

    def credentials(self) -> list[tuple[str, str]]:
        """Return label and role of each credential."""

    def role_of(self, secret: str) -> str | None:
        """Return the role of a secret, compared in constant time."""


class Access:
    """Checks credentials, and remembers for a moment what the store said of them.

    Secrets are remembered by their hash, so that how long a look-up takes tells nothing that a
    sender could aim at.
    """

    def __init__(
        self,
        keyring: Keyring,
        *,
        guarded: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check against a keyring.

        Args:
            keyring: the credentials there are.
            guarded: True where others than this machine reach the collector: whoever removes
                the last credential then shuts it, and does not open it to them.
            clock: seconds that never go back.
        """
        self._keyring, self._guarded, self._clock = keyring, guarded, clock
        self._until = 0.0
        self._roles: frozenset[str] = frozenset()
        self._known: dict[bytes, str | None] = {}

    @property
    def roles(self) -> frozenset[str]:
        """Return the roles that have a credential."""
        now = self._clock()
        if now >= self._until:
            self._roles = frozenset(role for _, role in self._keyring.credentials())
            self._known = {}
            self._until = now + REFRESH_S
        return self._roles

    def check(
        self, authorization: bytes | None, needed: str, roles: frozenset[str] | None = None
    ) -> None:
        """Raise `Problem` unless the header's credential allows what is needed.

        Args:
            authorization: the header.
            needed: what is asked for.
            roles: those that have a credential, where the caller has looked.
        """
        if roles is None:
            roles = self.roles
        if needed in {"submit", "plan"} and "submit" not in roles:
            return
        if not roles:
            if self._guarded:
                raise Problem(NOT_AUTHORISED, "this needs a credential, and there is none", NOBODY)
            return
        words = WORDS.get(needed, needed)
        role = self._role(authorization)
        if role is None:
            raise Problem(NOT_AUTHORISED, f"this needs a credential to {words}")
        if role not in ALLOWED[needed]:
            held = WORDS.get(role, role)
            raise Problem(NOT_ALLOWED, f"this needs a credential to {words}, not to {held}")

    def _role(self, authorization: bytes | None) -> str | None:
        scheme, _, secret = (authorization or b"").partition(b" ")
        if scheme.lower() != b"bearer" or not secret:
            return None
        name = hashlib.sha256(secret).digest()
        if name not in self._known:
            if len(self._known) >= REMEMBERED:
                self._known = {}
            self._known[name] = self._keyring.role_of(secret.strip().decode("latin-1"))
        return self._known[name]


class Pages:
    """Which web pages may call: those of the same address and of the allowed origins."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        """Allow origins, written as browsers send them: https://example.org."""
        self._origins = frozenset(origin.encode("ascii") for origin in origins)

    def check(self, method: str, host: bytes, origin: bytes | None, *, local: bool) -> None:
        """Refuse a call that a stranger's page makes in its reader's name.

        Args:
            method: of the request.
            host: the header, empty where there is none.
            origin: the header, which browsers alone send.
            local: True where this machine alone is served and no credential asked for. A name
                in `host` that is not this machine's is then refused, since a page could have
                pointed its own name here.
        """
        if local:
            name = host.decode("latin-1").lower()
            if name.rpartition(":")[0] not in LOCAL_NAMES and name not in LOCAL_NAMES:
                raise Problem(
                    NOT_ALLOWED,
                    "without credentials only this machine's own names are served",
                    "Call 127.0.0.1 or localhost, or add credentials with faintly credential add.",
                )
        if origin is None or method in SAFE or origin in self._origins:
            return
        if origin.partition(b"://")[2] != host:
            raise Problem(
                NOT_ALLOWED,
                "pages of this origin may not call",
                "Start the collector with --cors and the page's origin.",
            )

    def headers(self, origin: bytes | None) -> Headers:
        """Return what tells a browser that the page may read the answer."""
        if not self._origins:
            return []
        vary = (b"vary", b"origin")
        if origin not in self._origins or origin is None:
            return [vary]
        exposed = (b"access-control-expose-headers", b"etag, retry-after")
        return [vary, (b"access-control-allow-origin", origin), exposed]

    def preflight(self, origin: bytes) -> Headers:
        """Return the answer to a browser that asks first, or refuse."""
        if origin not in self._origins:
            raise Problem(
                NOT_ALLOWED,
                "pages of this origin may not call",
                "Start the collector with --cors and the page's origin.",
            )
        return [*self.headers(origin), *PREFLIGHT]
