"""The hot path: takes reports as a bare ASGI application, in front of FastAPI.

A request is checked without touching the disk, joins the next commit and waits for one future.
The thread that commits wakes the event loop once for all requests of a commit.
"""

import asyncio
import re
import time
from binascii import unhexlify
from functools import lru_cache

from faintly.collector import problems
from faintly.collector.http.access import Gate
from faintly.collector.http.middleware import Exchange, Reply, json_answer
from faintly.collector.problems import Problem, stopping
from faintly.collector.storage.credentials import TOKEN_BYTES
from faintly.collector.storage.database import NAME_BYTES
from faintly.collector.storage.inbox import COUNTED, Outcome
from faintly.collector.storage.store import Store
from faintly.core.epochs import MAX_EPOCH

THREAD_BYTES = 1 << 20  # larger bodies are checked in a thread, to keep the loop free
QUERY = re.compile(rb"request=([0-9a-fA-F]{32})(?:&epoch=([0-9]{1,15}))?")  # what clients send


class Ingest:
    """Takes the requests of one event loop."""

    def __init__(self, store: Store, gate: Gate) -> None:
        self._store, self._gate = store, gate
        self.stopping = False
        self.failed_at: float | None = None  # when the last commit failed, unless one passed since

    async def __call__(self, exchange: Exchange, digest: bytes) -> Reply:
        """Return the answer to reports under a plan's digest, or raise `Problem`."""
        if self.stopping:
            raise stopping()
        self._gate.check_role(exchange.headers.get(b"authorization"), "submit")
        request, epoch = _parse_query(exchange.scope["query_string"])
        token = exchange.headers.get(b"faintly-token")
        if token is not None:  # anything else is passed on and will not be found
            token = _parse_hex(token, TOKEN_BYTES) or token
        body = await exchange.body()
        take, given = self._store.take, (digest, epoch, request, body)
        waiter: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        try:
            if len(body) >= THREAD_BYTES or self._store.opens(digest, epoch):
                reports = await asyncio.to_thread(take, *given, waiter=waiter, token=token)
            else:
                reports = take(*given, waiter=waiter, token=token)
            outcome = await waiter
            if isinstance(outcome, Problem):
                raise outcome
        except Problem as problem:
            if problem.kind is problems.CANNOT_STORE:
                self.failed_at = time.monotonic()
            raise
        if outcome is COUNTED:  # a replay succeeds even on a full disk
            self.failed_at = None
        return _stored(outcome, reports)


@lru_cache(maxsize=64)
def _stored(outcome: str, reports: int) -> Reply:
    """Return the answer to reports that are stored; most requests get the same."""
    return json_answer(200, b'{"status":"%s","reports":%d}' % (outcome.encode(), reports))


def _parse_query(query: bytes) -> tuple[bytes, int]:
    """Return request id and epoch."""
    usual = QUERY.fullmatch(query)
    if usual is not None:
        return unhexlify(usual[1]), int(usual[2] or 0)
    given = [part.partition(b"=") for part in query.split(b"&") if part]
    fields = {name: value for name, _, value in given}
    if len(fields) < len(given) or not fields.keys() <= {b"request", b"epoch"}:
        raise Problem(
            problems.BAD_REQUEST, "the query has request and epoch, once each, and nothing else"
        )
    epoch = fields.get(b"epoch", b"0")
    # 16 digits suffice for every epoch, and longer numbers take long to parse.
    if not epoch.isdigit() or len(epoch) > 16 or int(epoch) > MAX_EPOCH:
        raise Problem(problems.BAD_REQUEST, "an epoch is an integer from 0 to 2^53 - 1")
    request = _parse_hex(fields.get(b"request", b""), NAME_BYTES)
    if request is None:
        raise Problem(problems.NO_REQUEST_ID, "a request has an id of 32 hexadecimal digits")
    return request, int(epoch)


def _parse_hex(text: bytes, size: int) -> bytes | None:
    """Return the bytes of hexadecimal digits, or None for any other text."""
    try:
        return unhexlify(text) if len(text) == 2 * size else None
    except ValueError:
        return None
