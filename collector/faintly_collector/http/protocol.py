"""Limits for connections, on top of uvicorn's own HTTP protocol.

uvicorn limits neither the time a request takes to arrive, nor the size of its head, nor how slowly
an answer is read. This module overrides and uses only public names of its protocol.
"""

import asyncio
from http import HTTPStatus
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from faintly.wire.problems import BAD_REQUEST, BUSY, Problem
from faintly_collector.http import limits
from faintly_collector.http.middleware import Capacity, refusal


class Protocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, connections: Capacity, **kwargs: Any) -> None:
        """Take uvicorn's own arguments, and the capacity that connections share."""
        super().__init__(*args, **kwargs)
        self._connections = connections
        self._timer: asyncio.TimerHandle | None = None  # until a request is complete
        self._stall_timer: asyncio.TimerHandle | None = None  # while an answer waits to be read
        self._ignoring = False  # ignore all further input
        self._completed = False  # whether the latest bytes completed a request
        self._head_bytes = 0  # bytes since the headers ended or a part of a body arrived
        self._body_bytes = 0  # bytes of the body so far

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, with a timeout."""
        self._connections.used += 1
        over = self._connections.used - self._connections.limit
        # The wrapper has every method of a transport.
        self.transport = cast(asyncio.Transport, CoalescingTransport(transport))
        if over <= 0:
            super().connection_made(self.transport)
            self._set_timer(limits.ARRIVE_S)
        elif over <= limits.REFUSED_CONNECTIONS:
            self._refuse(Problem(BUSY, "too many connections are open"))
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers and free the capacity."""
        self._connections.used -= 1
        self._stop_timer()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes; refuse headers that never end, and time out a request that stalls."""
        while data and not self._ignoring:
            # In chunks: a single read may hold all of a head that is too large.
            left = limits.HEAD_BYTES - self._head_bytes
            if not left:
                message = "the headers are too large"
                self._refuse(Problem(BAD_REQUEST, message, "Send fewer of them."))
                return
            if self.timeout_keep_alive_task is not None:
                self.timeout_keep_alive_task.cancel()
                self.timeout_keep_alive_task = None
            self._completed = False
            self._head_bytes += min(len(data), left)
            try:
                self.parser.feed_data(data[:left])
                data = data[left:]
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
            except httptools.HttpParserError:
                self._refuse(Problem(BAD_REQUEST, "this is not HTTP", "Send HTTP/1.1."))
                return
            if self._body_bytes > limits.REFUSED_BODY_BYTES:
                self._ignoring = True
                self.transport.close()
            elif self._timer is None and not self._completed:
                self._set_timer(limits.ARRIVE_S)

    def _head_without_upgrade(self) -> bytes:
        """Return the head of a request for a protocol upgrade, without the upgrade.

        HTTP allows ignoring it, and some clients ask for HTTP/2 with every request. The parser
        assumes that what follows is in the other protocol, so a new parser takes over.
        """
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        lines += [b"%s: %s" % each for each in self.headers if each[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        # As in uvicorn: data after the last request of a connection is not an error.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return b"\r\n".join((*lines, b"", b""))

    def on_headers_complete(self) -> None:
        """Stop counting bytes of the head, and start waiting for the rest of the request."""
        self._head_bytes, self._body_bytes, self._completed = 0, 0, False
        if not self.parser.should_upgrade():
            super().on_headers_complete()
        elif self.parser.get_method() == b"CONNECT":
            raise httptools.HttpParserError("an upgrade that cannot be ignored")

    def on_body(self, body: bytes) -> None:
        """Count a part of a body."""
        self._head_bytes = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop waiting."""
        if self.parser.should_upgrade():  # the new parser will call this again
            return
        self._head_bytes, self._completed = 0, True
        self._stop_timer()
        self._ignoring = not self.parser.should_keep_alive()  # trailers after the body may say so
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Send an answer that has only a head."""
        self.transport.write(b"")
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Start checking that the client reads the answer."""
        super().pause_writing()
        self._check_progress()

    def resume_writing(self) -> None:
        """Stop checking: the client has read it."""
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        super().resume_writing()

    def _check_progress(self, before: int | None = None) -> None:
        """Abort the connection if the client reads its answer too slowly."""
        left = self.transport.get_write_buffer_size()
        if before is not None and left > before - limits.STALL_BYTES:
            self.transport.abort()
            return
        self._stall_timer = self.loop.call_later(limits.STALL_S, self._check_progress, left)

    def _set_timer(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, problem: Problem) -> None:
        """Answer instead of uvicorn, and close soon: closing during input would reset it."""
        self._ignoring = True
        self._stop_timer()
        cycle = self.cycle
        due = cycle is not None and not cycle.response_complete
        if due and (self.pipeline or not cycle.more_body):
            # Complete requests came before: answer those, and nothing else.
            cycle.keep_alive, cycle.disconnected = False, cycle.more_body
            self._set_timer(limits.ARRIVE_S)
            return
        super().connection_lost(ConnectionAbortedError())  # for uvicorn the connection ends here
        if not (due and cycle.response_started):
            status, headers, body = refusal(problem)
            lines = [b"%s: %s\r\n" % each for each in headers]
            first = b"HTTP/1.1 %d %s\r\n" % (status, HTTPStatus(status).phrase.encode())
            self.transport.write(b"".join((first, *lines, b"connection: close\r\n\r\n")))
            self.transport.write(body)
        if self.transport.can_write_eof():  # not with TLS
            self.transport.write_eof()
        self._set_timer(limits.REFUSAL_S)


class CoalescingTransport:
    """The transport of a connection, which sends the head of an answer together with its body.

    uvicorn writes them separately. Each would be a packet, and cost a system call here and often
    another one at the client: an eighth of the total cost of a single report.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._head = transport, b""
        self.is_closing = transport.is_closing  # used by every answer, so looked up once

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: "bytes | memoryview[Any]") -> None:
        """Write; a head waits for the next write, which is empty at the end of an answer."""
        head, self._head = self._head, b""
        if not head and data[:9] == b"HTTP/1.1 " and data[9:10] != b"1":  # 100 is not an answer
            self._head = bytes(data)
        elif head or data:
            self._transport.write(head + data if head else data)

    def close(self) -> None:
        """Write what is left, and close."""
        self.write(b"")
        self._transport.close()
