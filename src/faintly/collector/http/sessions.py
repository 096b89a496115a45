"""Sessions of the page: a credential is exchanged once for a cookie that scripts cannot read.

A cookie is an opaque random name. What it stands for is in memory only: the hash of a credential,
so that removing the credential ends its sessions. A session reads and does nothing else, whatever
its credential may do; so a request that another page forges could not change anything.
"""

import secrets
import time
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers

from faintly.collector.http.access import ALLOWED, Gate, same_origin
from faintly.collector.problems import NOT_ALLOWED, NOT_AUTHORISED, Problem
from faintly.collector.storage.credentials import hash_of

COOKIE = "faintly-session"
LIFE_S = 12 * 3600.0  # a day's work; then the credential is asked for again
MOST = 1000  # sessions at a time; the oldest ends where there would be more
READING = frozenset({"plan", "read"})


class Sessions:
    """Who is signed in."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._open: OrderedDict[bytes, tuple[float, bytes]] = OrderedDict()

    def check(self, headers: Headers, needed: str) -> None:
        """Raise `Problem` unless a header or a session allows what is needed."""
        given = headers.get("authorization")
        if given is None and needed in READING and self.role(headers) is not None:
            return
        self._gate.check_role(None if given is None else given.encode("latin-1"), needed)

    def open(self, secret: str) -> str:
        """Return the cookie's value for a credential, or raise `Problem`."""
        hashed = hash_of(secret)
        role = self._gate.keyring.role_of_hash(hashed)
        if role is None:
            raise Problem(NOT_AUTHORISED, "there is no such credential", "Ask for one.")
        if role not in ALLOWED["read"]:
            raise Problem(NOT_ALLOWED, f"this credential is to {role}; the page needs one to read")
        while len(self._open) >= MOST:
            self._open.popitem(last=False)
        name = secrets.token_urlsafe(32)
        self._open[hash_of(name)] = time.monotonic() + LIFE_S, hashed
        return name

    def close(self, headers: Headers) -> None:
        """End the session of a request, if it has one."""
        self._open.pop(_name(headers), None)

    def role(self, headers: Headers) -> str | None:
        """Return the role of a request's session; None without one, or for another site's page."""
        ends, hashed = self._open.get(_name(headers), (0.0, b""))
        if ends <= time.monotonic() or not same_origin(dict(headers.raw)):
            return None
        role = self._gate.keyring.role_of_hash(hashed)
        return role if role in ALLOWED["read"] else None


def _name(headers: Headers) -> bytes:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        found = None
    return hash_of(found.value if found is not None else "")
