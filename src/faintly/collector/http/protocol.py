"""HTTP as uvicorn speaks it, with limits on who sends or reads slowly.

Some things are done in fewer steps than uvicorn's. The head of an answer leaves together with its
body. And a short request to the hot path is handed over as a whole once its body is here, with
what to call when it is answered, where uvicorn would start a task and pass messages to it and
back; whatever is unusual about a request leaves it to uvicorn. Where its head is, byte for byte,
one that was read before, but for the digits of its id, it is not even read again.
"""

import asyncio
from functools import lru_cache, partial
from typing import cast

import httptools
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from faintly.collector.http.access import Headers
from faintly.collector.http.answers import encode
from faintly.collector.http.middleware import LENGTH, PREFIX, Hot, is_hot
from faintly.collector.problems import BAD_REQUEST, Problem
from faintly.collector.storage.database import NAME_BYTES

HEAD_BYTES = 65_536  # of a request's line and headers, or of what follows its body
ARRIVE_S = 60.0  # how long a request may take to arrive, and a connection to send its first
STALL_S = 60.0  # how often to check that an answer is being read
STALL_BYTES = 1 << 20  # of it that must have left since; a slow line takes ten times as many
SHORT_BYTES = 1 << 12  # of a body that is buffered before the sender is checked
SHORT_DIGITS = len(str(SHORT_BYTES))  # no more are read: zeros may stand before a large number
START = b"POST " + PREFIX
ID_NAME = b"?request="
ID_NAME_AT = len(b"POST ") + LENGTH
ID_AT = ID_NAME_AT + len(ID_NAME)  # where the id is, if it comes first in a query
ID_END = ID_AT + 2 * NAME_BYTES
HEAD_END = b"\r\n\r\n"
KNOWN_BYTES = 1 << 11  # of a head that is remembered
RENDERED = 64  # answers that are kept ready
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
NOT_HTTP = "Invalid HTTP request received."


class Joined:
    """The transport of one answer: its head leaves together with the first part of its body.

    uvicorn writes them one by one, which costs a call of the system here, and often another one
    where they are read.
    """

    __slots__ = ("_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head: bytes | None = None  # not seen yet; empty once it has left

    def write(self, data: bytes) -> None:
        """Write, or keep the head until there is more."""
        if self._head:
            data, self._head = self._head + data, b""
        elif self._head is None and data != CONTINUE:
            self._head = data
            return
        self._transport.write(data)

    def close(self) -> None:
        """Write what was kept, and hang up."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the other side is gone, or about to be."""
        return self._transport.is_closing()


class Silent:
    """An event that nobody waits for."""

    def set(self) -> None:
        """Do nothing."""


class Pending:
    """A request that was handed over: what uvicorn asks and tells about one under way."""

    __slots__ = ("disconnected", "keep_alive", "response_complete")
    message_event = Silent()

    def __init__(self) -> None:
        self.disconnected = self.response_complete = False
        self.keep_alive = True  # until the server stops


@lru_cache(RENDERED)
def render(status: int, headers: tuple[tuple[bytes, bytes], ...], body: bytes) -> bytes:
    """Return a whole answer as bytes; most of them are the same."""
    lines = [b"%s: %s\r\n" % each for each in headers]
    return b"".join((STATUS_LINE[status], *lines, b"\r\n", body))


class Protocol(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, with limits on who sends slowly, and errors as everywhere else."""

    _unended = 0  # bytes since headers were complete or a part of a body came
    _arriving = False  # a request began and is not complete
    _upgrade = False  # it asks for another protocol
    _short: bytearray | None = None  # the body so far of a request to be handed over
    _key: bytes | None = None  # the first head of what is being read, its id cut out,
    _left = 0  # and how much follows it
    _hot: Hot | None = None
    _rested: float | None = None  # since when there was nothing to do, by the loop's clock
    _timer: asyncio.TimerHandle | None = None
    _guard: asyncio.TimerHandle | None = None  # runs while an answer waits to be read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, but not for ever."""
        super().connection_made(transport)
        self._hot = getattr(self.app, "hot", None)
        self._timer = self.loop.call_later(ARRIVE_S, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        self._stop_timer()
        self._stop_guard()
        super()._unset_keepalive_if_required()
        super().connection_lost(exc)

    def _unset_keepalive_if_required(self) -> None:
        """Begin to do something. The timer that closes an idle connection runs on.

        When it ends it looks how long there was nothing to do, which costs less than to set it
        and to take it back with each request.
        """
        self._rested = None

    def on_response_complete(self) -> None:
        """Be ready for the next request, which may be here already."""
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._rest()

    def _rest(self) -> None:
        """Wait for the next request, but not for ever."""
        self._rested = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._look_later(self.timeout_keep_alive)

    def _look_later(self, seconds: float) -> None:
        look = self.timeout_keep_alive_handler
        self.timeout_keep_alive_task = self.loop.call_later(seconds, look)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if there was nothing to do for as long as it is kept."""
        self.timeout_keep_alive_task = None
        if self._rested is None:
            return
        left = self._rested + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._look_later(left)
        else:
            super().timeout_keep_alive_handler()

    def pause_writing(self) -> None:
        """Begin to look whether the answer is read."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Stop looking: it was."""
        self._stop_guard()
        super().resume_writing()

    def _watch(self, before: int | None = None) -> None:
        """Cut off who lets an answer lie in memory, where less than it should has left."""
        left = self.transport.get_write_buffer_size()
        if before is not None and left > before - STALL_BYTES:
            self.transport.abort()
            return
        self._guard = self.loop.call_later(STALL_S, self._watch, left)

    def _stop_guard(self) -> None:
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None

    def data_received(self, data: bytes) -> None:
        """Take bytes, unless headers never end or the rest of a request does not come."""
        self._unset_keepalive_if_required()
        if not self._arriving and self._recall(data):
            return
        self._unended += len(data)
        self._feed(data)
        self._key = None
        if self._unended > HEAD_BYTES:
            self.send_400_response("the headers are too large")
        elif self._timer is None:
            if self._arriving:
                self._timer = self.loop.call_later(ARRIVE_S, self.transport.close)
            elif self._is_free():  # it was the rest of what is answered already, or nothing at all
                self._rest()

    def _recall(self, data: bytes) -> bool:
        """Hand over a request whose head was read before; return False if it was not.

        The parser would make the same of the same bytes; and of another id another id, since to
        it all digits are alike.
        """
        if self._hot is None or not self._is_free():
            return False
        # From the start: what stands where an id belongs may end a head as well.
        end = data.find(HEAD_END, 0, KNOWN_BYTES) + len(HEAD_END)
        self._left = len(data) - end
        if end < ID_END or not 0 < self._left <= SHORT_BYTES:
            return False
        self._key = key = data[:ID_AT] + data[ID_END:end]
        head = self._hot.recall(key)
        if head is None:
            return False
        pending = Pending()
        done = partial(self._answer, pending)
        if not self._hot.again(head, data[ID_AT:ID_END], data[end:], done):
            return False
        self._key, self._unended = None, 0
        self._stop_timer()
        self.cycle = cast(RequestResponseCycle, pending)
        return True

    def _learned(self, body: bytes) -> bytes | None:
        """Return what to remember the head of a request by, or None where it is not clear.

        What came began where a request does, without a line before it. That request is all of it
        if its body is all that follows the first head: one that is not the first, or followed by
        another, has a body too short for that.
        """
        key = self._key
        if key is None or len(body) != self._left:
            return None
        if not key.startswith(START) or key[ID_NAME_AT:ID_AT] != ID_NAME:
            return None
        return key

    def _is_free(self) -> bool:
        """Return whether no request is under way, and answers are read."""
        idle = self.cycle is None or self.cycle.response_complete
        return idle and not (self.flow.write_paused or self.transport.is_closing())

    def _feed(self, data: bytes) -> None:
        rest: bytes | memoryview = data
        try:
            while rest:
                try:
                    self.parser.feed_data(rest)
                    return
                except httptools.HttpParserUpgrade as upgrade:
                    rest = memoryview(rest)[upgrade.args[0] :]
                    self._begin_anew()
        except httptools.HttpParserError:
            self.logger.warning(NOT_HTTP)
            self.send_400_response(NOT_HTTP)

    def _begin_anew(self) -> None:
        """Serve a request that asks for another protocol as if it did not, which HTTP allows.

        Some clients ask for HTTP/2 with every request. The parser takes what follows the headers
        for the other protocol's, so another parser is given them without that header.
        """
        line = b"%s %s HTTP/%s\r\n" % (
            self.parser.get_method(),
            self.url,
            self.parser.get_http_version().encode("ascii"),
        )
        self._key = None  # another head is read than the one that came
        kept = [b"%s: %s\r\n" % each for each in self.headers if each[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self.parser.feed_data(b"".join([line, *kept, b"\r\n"]))

    def on_message_begin(self) -> None:
        """Begin to wait."""
        self._arriving = True
        # The one before may have been answered just now, and this one may take its time.
        self._unset_keepalive_if_required()
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_body(self, body: bytes) -> None:
        """Take a part of a body, which has limits of its own."""
        self._unended = 0
        if self._short is None:
            super().on_body(body)
        else:
            self._short += body

    def on_message_complete(self) -> None:
        """Stop waiting."""
        if self._upgrade:
            return
        self._unended, self._arriving = 0, False
        self._stop_timer()
        short, self._short = self._short, None
        if short is not None:
            self._hand_over(bytes(short))
            return
        super().on_message_complete()
        if not self.parser.should_keep_alive():  # it may say so behind its body: no more is read
            self.cycle.keep_alive = False
            if self.cycle.response_complete:
                self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def on_headers_complete(self) -> None:
        """Stop counting; refuse an address that cannot be read."""
        self._unended = 0
        self._upgrade = self.parser.should_upgrade()
        if self._upgrade:
            if self.parser.get_method() == b"CONNECT":
                raise httptools.HttpParserError("an upgrade that cannot be ignored")
            return
        if self._hot is not None and self._is_short():
            self._short = bytearray()
        else:
            self._begin()

    def _begin(self, body: bytes = b"") -> None:
        """Let uvicorn serve a request from here on, of whose body so much has come."""
        url, headers, expected = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()  # which makes what a short request does without
        self.url, self.expect_100_continue = url, expected
        self.headers.extend(headers)
        try:
            super().on_headers_complete()
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError, AttributeError):
            # Raised inside the parser it would be logged with the address in it.
            raise httptools.HttpParserError("bad address") from None
        if self.scope["method"] != "HEAD":  # where no body follows that a head could wait for
            # Only what an answer needs of a transport is used of it.
            self.cycle.transport = cast(asyncio.Transport, Joined(self.transport))
        if body:
            super().on_body(body)

    def _is_short(self) -> bool:
        """Return whether this is a plain request to the hot path, and the only one under way."""
        if not is_hot(self.url.partition(b"?")[0]) or b"%" in self.url or b"#" in self.url:
            return False
        if not self._is_free():
            return False
        parser, length = self.parser, dict(self.headers).get(b"content-length", b"")
        plain = parser.get_method() == b"POST" and parser.get_http_version() == "1.1"
        if not plain or self.expect_100_continue or not parser.should_keep_alive():
            return False
        return length.isdigit() and len(length) <= SHORT_DIGITS and int(length) <= SHORT_BYTES

    def _hand_over(self, body: bytes) -> None:
        """Have a complete request answered without a task, unless that might wait."""
        assert self._hot is not None
        path, _, query = self.url.partition(b"?")
        pending = Pending()
        done = partial(self._answer, pending)
        key = self._learned(body)
        if self._hot.quick(path.decode("ascii"), query, self.headers, body, done, key=key):
            self.cycle = cast(RequestResponseCycle, pending)
        else:
            self._begin(body)
            super().on_message_complete()

    def _answer(self, pending: Pending, status: int, headers: Headers, body: bytes) -> None:
        """Write a whole answer, and be ready for the next request."""
        pending.response_complete = True
        if not (pending.disconnected or self.transport.is_closing()):
            if not pending.keep_alive:
                headers = [*headers, (b"connection", b"close")]
            self.transport.write(render(status, tuple(headers), body))
            if not pending.keep_alive:
                self.transport.close()
        self.on_response_complete()

    def shutdown(self) -> None:
        """Finish what is under way, a short request that is half here included."""
        if self._short is not None:
            body, self._short = bytes(self._short), None
            self._begin(body)
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        body = encode(Problem(BAD_REQUEST, msg, "Send HTTP/1.1.").document())
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            b"x-content-type-options: nosniff\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n" % len(body) + body
        )
        self.transport.close()
