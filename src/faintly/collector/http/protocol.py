"""What a connection may cost: limits around uvicorn's own HTTP protocol.

uvicorn bounds neither the time a request takes to arrive, nor the size of its head, nor how slowly
an answer is read. So a second parser of the same library sees the bytes first. Nothing depends on
how uvicorn works inside: its protocol is made as uvicorn makes it, and is called as asyncio does.
"""

import asyncio
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

import httptools
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from faintly.collector.http.middleware import refusal
from faintly.collector.problems import BAD_REQUEST, BUSY, Problem

HEAD_BYTES = 65_536  # of a request's line and headers, or of what follows its body
BODY_BYTES = 2 << 30  # of a body that is refused, and read before the connection is used again
ARRIVE_S = 60.0  # how long a request may take to arrive, and a connection to send its first
STALL_S = 60.0  # how often to check that an answer is being read
STALL_BYTES = 1 << 20  # of it that must have left since; a slow line takes ten times as many
TOGETHER_BYTES = 4096  # of a write that waits for the next one
UPGRADE = re.compile(rb"(?i)\r\nupgrade:[^\r\n]*")
TOLD = 64  # connections above the limit that are told so
TELL_S = 1.0  # how long they have to read it


@dataclass(slots=True)
class Room:
    """How many connections a process may have, and has."""

    most: int
    taken: int = 0


class Protocol(asyncio.Protocol):
    """One connection: uvicorn's protocol behind limits."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        room: Room,
    ) -> None:
        """Take what uvicorn gives to its own protocol, and the room that connections share."""
        self._loop = _loop or asyncio.get_running_loop()
        self._inner = HttpToolsProtocol(config, server_state, app_state, _loop)
        self._room = room
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None  # runs until a request is complete
        self._guard: asyncio.TimerHandle | None = None  # runs while an answer waits to be read
        self._served = False  # by uvicorn
        self._deaf = False  # nothing more is read
        self._kept = b""  # what came with a head that is not complete: uvicorn gets it later
        self._begun = 0  # requests that began in it, or before it and were not complete
        self._arriving = self._in_head = self._completed = False
        self._unended = 0  # bytes since headers were complete or a part of a body came
        self._body = 0  # bytes of it so far
        self._parser = self._new_parser()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, but not for ever."""
        # It has every method of a transport.
        self._transport = cast(asyncio.Transport, Together(transport, self._loop))
        self._room.taken += 1
        over = self._room.taken - self._room.most
        if over <= 0:
            self._served = True
            self._inner.connection_made(self._transport)
            self._set_timer(ARRIVE_S)
        elif over <= TOLD:
            self._refuse(Problem(BUSY, "too many connections are open"))
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave nothing behind."""
        self._room.taken -= 1
        self._stop_timer()
        self._stop_guard()
        if self._served:
            self._inner.connection_lost(exc)
        del self._parser  # which refers to this object, and garbage is seldom looked for

    def data_received(self, data: bytes) -> None:
        """Take bytes, unless headers never end or the rest of a request does not come."""
        while data and not self._deaf:
            # In pieces: a head that is too large may come with its end, in one read.
            most = HEAD_BYTES - self._unended
            if not most:
                words = "the headers are too large"
                self._refuse(Problem(BAD_REQUEST, words, "Send fewer of them."))
                return
            self._take(data[:most])
            data = data[most:]

    def _take(self, data: bytes) -> None:
        self._completed = False
        self._unended += len(data)
        try:
            self._follow(data)
        except httptools.HttpParserError:
            self._refuse(Problem(BAD_REQUEST, "this is not HTTP", "Send HTTP/1.1."))
            return
        if self._body > BODY_BYTES:
            self._deaf = True
            self._transport.close()
            return
        if not self._in_head:
            data, self._kept = self._kept, b""
            self._inner.data_received(data)
        if self._timer is None and (self._arriving or not self._completed):
            self._set_timer(ARRIVE_S)

    def _follow(self, data: bytes) -> None:
        """Parse what came, and keep it for uvicorn."""
        if not self._kept:
            self._begun = int(self._arriving)
        while True:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                end = upgrade.args[0]
                self._ignore_upgrade(self._kept + data[:end])
                data = data[end:]
            else:
                self._kept += data
                return

    def _ignore_upgrade(self, head: bytes) -> None:
        """Serve a request that asks for another protocol as if it did not, which HTTP allows.

        Some clients ask for HTTP/2 with every request. The parser takes what follows the headers
        for the other protocol's, so it is given them anew, without that header.
        """
        if self._begun != 1:  # where the head begins is not known
            raise httptools.HttpParserError("an upgrade in a row of requests")
        self._parser, self._kept, self._begun = self._new_parser(), b"", 0
        plain = UPGRADE.sub(b"", head)
        self._parser.feed_data(plain)
        self._inner.data_received(plain)
        self._begun = int(self._arriving)

    def _new_parser(self) -> httptools.HttpRequestParser:
        made = httptools.HttpRequestParser(self)
        # As uvicorn's: nothing that follows the last request of a connection is an error.
        made.set_dangerous_leniencies(lenient_data_after_close=True)
        return made

    def on_message_begin(self) -> None:
        """Begin to wait for the rest of a request."""
        self._arriving = self._in_head = True
        self._begun += 1
        self._body = 0

    def on_headers_complete(self) -> None:
        """Stop counting bytes of the head."""
        self._unended = 0
        self._in_head = self._parser.should_upgrade()
        if self._in_head and self._parser.get_method() == b"CONNECT":
            raise httptools.HttpParserError("an upgrade that cannot be ignored")

    def on_body(self, body: bytes) -> None:
        """Count a part of a body."""
        self._unended = 0
        self._body += len(body)

    def on_message_complete(self) -> None:
        """Stop waiting."""
        if self._parser.should_upgrade():
            return
        self._unended, self._arriving, self._completed = 0, False, True
        self._stop_timer()
        if not self._parser.should_keep_alive():  # it may say so behind its body
            self._deaf = True

    def pause_writing(self) -> None:
        """Begin to look whether the answer is read."""
        self._inner.pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Stop looking: it was."""
        self._stop_guard()
        self._inner.resume_writing()

    def _watch(self, before: int | None = None) -> None:
        """Cut off who lets an answer lie in memory, where less than it should has left."""
        left = self._transport.get_write_buffer_size()
        if before is not None and left > before - STALL_BYTES:
            self._transport.abort()
            return
        self._guard = self._loop.call_later(STALL_S, self._watch, left)

    def _stop_guard(self) -> None:
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None

    def _set_timer(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, problem: Problem) -> None:
        """Answer instead of uvicorn, and close soon: to close while more comes would reset it."""
        if self._served:
            self._served = False
            self._inner.connection_lost(ConnectionAbortedError())
        self._deaf = True
        status, headers, body = refusal(problem)
        lines = [b"%s: %s\r\n" % each for each in headers]
        first = b"HTTP/1.1 %d %s\r\n" % (status, HTTPStatus(status).phrase.encode())
        self._transport.write(b"".join((first, *lines, b"connection: close\r\n\r\n", body)))
        if self._transport.can_write_eof():  # not with TLS
            self._transport.write_eof()
        self._stop_timer()
        self._set_timer(TELL_S)


class Together:
    """The transport of a connection, on which the head of an answer leaves with its body.

    uvicorn writes them one by one. Each would be a packet, which costs a call of the system here
    and often one where they are read: an eighth of all that a single report takes.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._first = transport, loop, b""
        self.is_closing = transport.is_closing  # asked with every answer, so found at once

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: "bytes | memoryview[Any]") -> None:
        """Write, or wait for more until the event loop has done what is due."""
        if self._first or len(data) > TOGETHER_BYTES:
            first, self._first = self._first, b""
            self._transport.write(first + data)
        elif data:
            self._first = bytes(data)
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._first:
            self.write(b"")

    def write_eof(self) -> None:
        """Write what is left, and tell that no more comes."""
        self._flush()
        self._transport.write_eof()

    def close(self) -> None:
        """Write what is left, and close."""
        self._flush()
        self._transport.close()
