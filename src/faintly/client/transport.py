"""Plans from a collector and reports to it, over HTTP, with the standard library alone.

A request is named by 16 fresh random bytes, and every retry repeats them, so that the collector
counts it once however often the network fails. Error messages name the collector's code and never
repeat what was sent or received.
"""

import http.client
import json
import os
import re
import secrets
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from faintly.client.policy import Policy, admit, read_plan
from faintly.core import Plan
from faintly.core.strict_json import no_repeats
from faintly.errors import InvalidInput, PlanRefused, SendFailed
from faintly.wire.http import DIGEST, REQUEST_ID_BYTES

RETRIES = 8  # with the pauses below, a collector may be away for about a minute
TIMEOUT_S = 30.0
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 30.0
LONGEST_RETRY_AFTER_S = 300.0  # fail at once if Retry-After is longer
MAX_ANSWER = 64 << 20  # a plan that lists its keys may be large; nothing here is larger
# Transient statuses. Repeating the request is safe because its id stays the same.
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
LONGEST_REASON = 300
CODE = re.compile(r"[A-Z][A-Z_]{0,39}")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a collector answered."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def code(self) -> str:
        """Return the code of a refusal, or one made from the status if it has none."""
        found = _object(self.body).get("code")
        known = isinstance(found, str) and CODE.fullmatch(found)
        return str(found) if known else f"HTTP_{self.status}"

    @property
    def reason(self) -> str:
        """Return the reason of a refusal for people, cut short and printable."""
        found = str(_object(self.body).get("message", ""))[:LONGEST_REASON]
        return "".join(each if each.isprintable() else "?" for each in found)

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object, or raise if it is not a collector's."""
        found = _object(self.body)
        if not found:
            raise _not_a_collector()
        return found


@dataclass(frozen=True, slots=True)
class Receipt:
    """The acknowledgement of a batch that is on the collector's disk."""

    reports: int
    replayed: bool  # an earlier attempt had arrived, and was counted then


class Connection:
    """One connection to a collector, kept open between requests; for one thread at a time."""

    def __init__(
        self,
        server: str,
        *,
        credential: str | None = None,
        retries: int = RETRIES,
        timeout: float = TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Set the collector's address; the first request connects.

        Args:
            server: its address, such as https://collect.example or http://127.0.0.1:8000.
            credential: the secret that the collector requires, if any.
            retries: how often a failed request is sent again, with growing pauses.
            timeout: how many seconds to wait for an answer.
            tls: how to check an https server; by default as the operating system does.
            pause: how to wait; tests replace it.
        """
        self._secure, self._host, self._port, self._root = _address(server)
        self._credential = None if credential is None else _header_text(credential, "credential")
        self._retries, self._timeout, self._pause = retries, timeout, pause
        self._tls = tls
        self._open: http.client.HTTPConnection | None = None

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def plan(self, digest: bytes | str, policy: Policy) -> Plan:
        """Return the plan of a collection, if it has this digest and the policy allows it.

        Raises:
            PlanRefused: the policy does not allow it, or it is not the plan requested.
            SendFailed: the collector does not have it, or cannot be reached.
        """
        name = digest.lower() if isinstance(digest, str) else digest.hex()
        answer = self.call("GET", f"{collection_path(name)}/plan")
        plan = read_plan(answer.body)
        if plan.digest.hex() != name:
            raise PlanRefused("the collector sent a plan other than the one requested")
        admit(plan, policy)
        return plan

    def send(
        self,
        digest: bytes,
        body: bytes,
        *,
        epoch: int = 0,
        request: bytes | None = None,
        token: str | None = None,
    ) -> Receipt:
        """Send one batch of reports; returns once the collector has it on its disk.

        Args:
            digest: the plan of the batch.
            body: the batch, as `Client.encode` makes it.
            epoch: which epoch of the collection it counts for.
            request: the name of this request. None draws a fresh one; pass one that was kept to
                send again after a crash.
            token: the single-use token, where the collection asks for one.

        Raises:
            SendFailed: refused, or unreachable after every retry; then it is not known whether
                it was counted, and sending it again with the same `request` is safe.
        """
        name = os.urandom(REQUEST_ID_BYTES) if request is None else request
        if len(name) != REQUEST_ID_BYTES:
            raise InvalidInput(f"a request id has {REQUEST_ID_BYTES} bytes")
        query = urlencode({"request": name.hex(), "epoch": epoch})
        headers = {"Content-Type": "application/octet-stream"}
        if token is not None:
            headers["Faintly-Token"] = _header_text(token, "token")
        path = f"{collection_path(digest.hex())}/reports?{query}"
        found = self.call("POST", path, body, headers).json()
        reports, status = found.get("reports"), found.get("status")
        # A captive portal also answers 200; only these fields mean that a report was kept.
        if type(reports) is not int or status not in ("counted", "replayed"):
            raise _not_a_collector()
        return Receipt(reports, status == "replayed")

    def ask(self, method: str, path: str, document: object = None) -> dict[str, Any]:
        """Return the JSON answer to a JSON request; see `call`."""
        body = None if document is None else json.dumps(document).encode()
        return self.call(method, path, body, {"Content-Type": "application/json"}).json()

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Return the answer to a request, repeating it after transient failures.

        Raises:
            SendFailed: with the collector's code, or UNREACHABLE.
        """
        sent = dict(headers or {})
        if self._credential is not None:
            sent["Authorization"] = f"Bearer {self._credential}"
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                answer = self._exchange(method, self._root + path, body, sent)
            except ssl.SSLCertVerificationError:
                self.close()
                raise SendFailed(
                    "UNREACHABLE", f"the certificate of {self._host} cannot be verified"
                ) from None
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if last:
                    raise _unreachable(self._host, attempt + 1, error) from None
                self._pause(_pause(attempt))
                continue
            if 200 <= answer.status < 300:
                return answer
            retry_after = _retry_after(answer.headers.get("retry-after", ""))
            if last or answer.status not in TRANSIENT or retry_after > LONGEST_RETRY_AFTER_S:
                message = f"the collector answered {answer.status} {answer.code}"
                raise SendFailed(answer.code, message, answer.reason)
            self._pause(retry_after + _pause(attempt))
        raise AssertionError("the last attempt returns or raises")

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        if self._open is None:
            self._open = self._connect()
        self._open.request(method, path, body, dict(headers))
        response = self._open.getresponse()
        content = response.read(MAX_ANSWER + 1)
        if len(content) > MAX_ANSWER:
            raise http.client.HTTPException("the answer is too long")
        if response.length:  # a read with a limit does not report a connection closed early
            raise http.client.IncompleteRead(b"", response.length)
        names = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, names, content)

    def _connect(self) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        context = self._tls or ssl.create_default_context()
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=self._timeout, context=context
        )


def _address(server: str) -> tuple[bool, str, int | None, str]:
    """Return whether it is https, then host, port and path prefix."""
    try:
        parts = urlsplit(server)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    plain = not (parts.query or parts.fragment or parts.username or parts.password)
    plain = plain and _usable(parts.hostname or "", parts.path)
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise InvalidInput(
            "a server is an address such as https://collect.example or http://host:8000"
        )
    return parts.scheme == "https", parts.hostname, port, parts.path.rstrip("/")


def _usable(host: str, path: str) -> bool:
    """Return whether the host can be looked up and the path sent as they are."""
    try:
        host.encode("idna")  # each part of a name has 1 to 63 letters
    except UnicodeError:
        return False
    return path.isascii() and (host + path).isprintable() and " " not in host + path


def collection_path(digest: str) -> str:
    """Return the path of a collection, having checked its digest."""
    if not DIGEST.fullmatch(digest):
        raise InvalidInput("a plan's digest has 32 hexadecimal digits in lower case")
    return f"/v1/collections/{digest}"


def named_path(named: str) -> str:
    """Return the path of a collection that is given by its digest or by its name."""
    if not named or "/" in named or not named.isprintable():
        raise InvalidInput(
            "a collection is named by its digest, or by a name without slashes and line breaks"
        )
    return f"/v1/collections/{quote(named, safe='')}"


def _header_text(text: str, what: str) -> str:
    """Return a secret for a header, or refuse one that cannot be sent; no message shows it."""
    if not (text.isascii() and text.isprintable() and text and " " not in text):
        raise InvalidInput(f"the {what} is empty, or holds characters that cannot be sent")
    return text


def _pause(attempt: int) -> float:
    """Return how long to wait: exponential backoff with jitter."""
    longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**attempt)
    return longest * (0.5 + secrets.randbelow(1 << 20) / (1 << 21))


def _retry_after(text: str) -> float:
    """Return the seconds of a Retry-After header; 0 for a date or anything else."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body, object_pairs_hook=no_repeats)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _not_a_collector() -> SendFailed:
    return SendFailed(
        "NOT_A_COLLECTOR", "the answer is not from a collector; something else serves this address"
    )


def _unreachable(host: str, attempts: int, error: Exception) -> SendFailed:
    reason = getattr(error, "strerror", None) or type(error).__name__
    tried = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    return SendFailed("UNREACHABLE", f"{host} did not answer ({reason}) in {tried}")
