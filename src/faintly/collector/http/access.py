"""Access: credentials by role, which web pages may call, and how much they may send.

While a folder has no credential, everything is allowed if only this machine can reach the
collector; if others can, reading and administering are refused. Once it has one, reading and
administering require theirs; submitting requires one only if a credential to submit exists.
"""

from collections.abc import Iterable, Mapping, Sequence

from faintly.collector.problems import BAD_REQUEST, NOT_ALLOWED, NOT_AUTHORISED, TOO_LARGE, Problem
from faintly.collector.storage.credentials import Credentials

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
ALLOWED: Mapping[str, frozenset[str]] = {
    "submit": frozenset({"submit"}),
    "plan": frozenset({"submit", "read", "admin"}),
    "read": frozenset({"read", "admin"}),
    "admin": frozenset({"admin"}),
}
WORDS = {"plan": "read the plan", "admin": "administer"}  # where the name is not a verb
PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
    (b"access-control-allow-headers", b"authorization, content-type, faintly-token, if-none-match"),
    (b"access-control-max-age", b"3600"),
]
ONCE = (b"authorization", b"faintly-token", b"host", b"origin")  # headers that identify the caller
NOBODY = "The operator can add one with faintly credential add."
Headers = list[tuple[bytes, bytes]]


class Access:
    """Checks credentials by role."""

    def __init__(self, keyring: Credentials, *, guarded: bool = False) -> None:
        """Check against a keyring.

        Args:
            keyring: the credentials.
            guarded: True where other machines can reach the collector: while there are no
                credentials, reading and administering are then refused, not open to all.
        """
        self.keyring, self._guarded = keyring, guarded

    def check(self, authorization: bytes | None, needed: str) -> None:
        """Raise `Problem` unless the credential in the header allows what is needed."""
        roles = self.keyring.roles
        if needed in {"submit", "plan"} and "submit" not in roles:
            return
        if not roles:
            if self._guarded:
                raise Problem(NOT_AUTHORISED, "this needs a credential, and there is none", NOBODY)
            return
        words = WORDS.get(needed, needed)
        scheme, _, secret = (authorization or b"").partition(b" ")
        known = scheme.lower() == b"bearer" and secret
        role = self.keyring.role_of(secret.strip().decode("latin-1")) if known else None
        if role is None:
            raise Problem(NOT_AUTHORISED, f"this needs a credential to {words}")
        if role not in ALLOWED[needed]:
            held = WORDS.get(role, role)
            raise Problem(NOT_ALLOWED, f"this needs a credential to {words}, not to {held}")


class Gate:
    """What every request has to pass, whatever it asks for."""

    def __init__(
        self, access: Access, origins: Iterable[str], body_bytes: int, *, local: bool
    ) -> None:
        """Set the rules.

        Args:
            access: knows the credentials.
            origins: of the pages that may call beside those of the same address, written as
                browsers send them: https://example.org.
            body_bytes: of the largest body.
            local: True where only this machine is served. While there are no credentials, the
                Host header must then name this machine: a page could have pointed its own name
                here.
        """
        self._access, self.body_bytes, self._local = access, body_bytes, local
        self._origins = frozenset(origin.encode("ascii") for origin in origins)

    def check(self, method: str, raw: Headers, headers: Mapping[bytes, bytes]) -> None:
        """Raise `Problem` unless a request may go on.

        Args:
            method: of the request.
            raw: its headers as they came.
            headers: the same by name.
        """
        if len(headers) < len(raw):
            _check_repeated([name for name, _ in raw if name in ONCE])
        host, origin = headers.get(b"host", b""), headers.get(b"origin")
        if self._local and not self._access.keyring.roles:
            _check_local(host.decode("latin-1").lower())
        # Browsers tell the origin. What a foreign page reads they keep from it; what it changes
        # on behalf of its visitor would be done.
        foreign = origin is not None and origin.partition(b"://")[2] != host
        foreign = foreign and headers.get(b"sec-fetch-site") != b"same-origin"  # a proxy's name
        if foreign and method not in SAFE and origin not in self._origins:
            raise _foreign()
        length = headers.get(b"content-length")
        # More digits take long to parse; with zeros before them, the body is counted as it comes.
        if length is not None and (not length.isdigit() or int(length[:20]) > self.body_bytes):
            raise self.too_large()

    def too_large(self) -> Problem:
        """Return the refusal of a body over the limit."""
        return Problem(TOO_LARGE, f"a body has at most {self.body_bytes:,} bytes")

    def page_headers(self, origin: bytes | None) -> Headers:
        """Return the headers that let a page read the answer."""
        if not self._origins:
            return []
        vary = (b"vary", b"origin")
        if origin not in self._origins or origin is None:
            return [vary]
        exposed = (b"access-control-expose-headers", b"etag, retry-after")
        return [vary, (b"access-control-allow-origin", origin), exposed]

    def check_preflight(self, origin: bytes) -> None:
        """Raise `Problem` unless pages of an origin may call."""
        if origin not in self._origins:
            raise _foreign()


def _check_repeated(names: Sequence[bytes]) -> None:
    """Refuse repeated headers: a proxy may have acted on the other value."""
    if len(names) > len(set(names)):
        raise Problem(
            BAD_REQUEST,
            "a header is repeated",
            "Send Authorization, Faintly-Token, Host and Origin once each.",
        )


def _check_local(host: str) -> None:
    if host.rpartition(":")[0] not in LOCAL_NAMES and host not in LOCAL_NAMES:
        raise Problem(
            NOT_ALLOWED,
            "without credentials only this machine's own names are served",
            "Call 127.0.0.1 or localhost, or add credentials with faintly credential add.",
        )


def _foreign() -> Problem:
    return Problem(
        NOT_ALLOWED,
        "pages of this origin may not call",
        "Start the collector with --cors and the page's origin.",
    )
