"""The process: one folder, one socket, uvicorn; a signal seals everything and ends it with 0."""

import asyncio
import contextlib
import errno
import signal
import socket
import ssl
from collections.abc import Callable
from types import FrameType

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from faintly.collector import logs
from faintly.collector.answers import encode
from faintly.collector.app import Collector, build
from faintly.collector.limits import Limits
from faintly.collector.problems import BAD_REQUEST, Problem
from faintly.collector.settings import Settings
from faintly.collector.store import Store
from faintly.errors import InvalidInput

HEAD_BYTES = 65_536  # of a request's line and headers, or of what follows its body
ARRIVE_S = 60.0  # how long a request may take to arrive, and a connection to send its first
STALL_S = 60.0  # how often it is looked whether an answer is read
STALL_BYTES = 1 << 20  # of it that must have left since; a slow line takes ten times as many
DRAIN_S = 30  # how long requests under way may take once the collector is told to stop
KEEP_ALIVE_S = 20
BACKLOG = 2048
NOT_HTTP = "Invalid HTTP request received."


class Protocol(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, with limits on who sends slowly, and errors as everywhere else."""

    _head = 0  # bytes since headers were complete or a part of a body came
    _arriving = False  # a request began and is not complete
    _wish = False  # it asks for another protocol
    _timer: asyncio.TimerHandle | None = None
    _guard: asyncio.TimerHandle | None = None  # runs while an answer waits to be read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, but not for ever."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(ARRIVE_S, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_timer()
        self._stop_guard()
        super().connection_lost(exc)

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
        self._head += len(data)
        self._unset_keepalive_if_required()
        self._feed(data)
        if self._head > HEAD_BYTES:
            self.send_400_response("the headers are too large")
        elif self._arriving and self._timer is None:
            self._timer = self.loop.call_later(ARRIVE_S, self.transport.close)

    def _feed(self, data: bytes) -> None:
        rest: bytes | memoryview = data
        try:
            while rest:
                try:
                    self.parser.feed_data(rest)
                    return
                except httptools.HttpParserUpgrade as wish:
                    rest = memoryview(rest)[wish.args[0] :]
                    self._begin_anew()
        except httptools.HttpParserError:
            self.logger.warning(NOT_HTTP)
            self.send_400_response(NOT_HTTP)

    def _begin_anew(self) -> None:
        """Serve a request that asks for another protocol as if it did not, which HTTP allows.

        Some clients ask for HTTP/2 with every request. The parser takes what follows the headers
        for the other protocol's, so another parser is given them without the wish.
        """
        line = b"%s %s HTTP/%s\r\n" % (
            self.parser.get_method(),
            self.url,
            self.parser.get_http_version().encode("ascii"),
        )
        kept = [b"%s: %s\r\n" % each for each in self.headers if each[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        with contextlib.suppress(AttributeError):  # before httptools 0.6.3
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self.parser.feed_data(b"".join([line, *kept, b"\r\n"]))

    def on_message_begin(self) -> None:
        """Begin to wait."""
        self._arriving = True
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body, which has limits of its own."""
        self._head = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop waiting."""
        if self._wish:
            return
        self._head, self._arriving = 0, False
        self._stop_timer()
        super().on_message_complete()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def on_headers_complete(self) -> None:
        """Stop counting; refuse an address that cannot be read."""
        self._head = 0
        self._wish = self.parser.should_upgrade()
        if self._wish:
            if self.parser.get_method() == b"CONNECT":
                raise httptools.HttpParserError("a wish that cannot be ignored")
            return
        try:
            super().on_headers_complete()
        except (httptools.HttpParserInvalidURLError, UnicodeDecodeError, AttributeError):
            # Raised inside the parser it would be logged with the address in it.
            raise httptools.HttpParserError("bad address") from None

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        body = encode(Problem(BAD_REQUEST, msg, "Send HTTP/1.1.").document())
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            b"x-content-type-options: nosniff\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n" % len(body) + body
        )
        self.transport.close()


class Server(uvicorn.Server):
    """Uvicorn, told when it listens and when it is to stop."""

    def __init__(
        self, config: uvicorn.Config, collector: Collector, on_ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._collector, self._on_ready = collector, on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take no more reports from now on; what was taken is finished."""
        self._collector.stop()
        super().handle_exit(sig, frame)


def serve(settings: Settings, on_ready: Callable[[str], None]) -> None:
    """Serve a folder until a signal comes.

    Args:
        settings: everything there is to know.
        on_ready: called with the address once the collector listens.

    Raises:
        FolderInUse: another collector has the folder.
        InvalidInput: the address cannot be had, or would be open to anyone.
    """
    limits = Limits(
        body_bytes=settings.body_bytes,
        inbox_bytes=settings.inbox_bytes,
        waiting=settings.waiting,
        seal_reports=settings.seal_reports,
        seal_s=settings.seal_s,
        sketches=settings.sketches,
    )
    _check_tls(settings)
    store = Store.open(settings.data, limits)
    try:
        _check_exposure(settings, {role for _, role in store.credentials()})
        with _listen(settings.host, settings.port) as listener:
            _run(settings, store, listener, on_ready)
    finally:
        store.close()


def _run(
    settings: Settings, store: Store, listener: socket.socket, on_ready: Callable[[str], None]
) -> None:
    logs.configure(settings.log_level)
    log = logs.logger()
    collector = build(store, settings)
    config = uvicorn.Config(
        collector.front,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )
    address = _address(settings, listener)

    def ready() -> None:
        log.info("listening", url=address)
        on_ready(address)

    # uvicorn raises the signal once more when it is done, which must not kill us before sealing.
    before = {each: signal.signal(each, _ignore) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        Server(config, collector, ready).run(sockets=[listener])
        log.info("stopping")
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _ignore(sig: int, frame: FrameType | None) -> None:
    """Let a signal pass that was obeyed already."""


def _check_exposure(settings: Settings, roles: set[str]) -> None:
    if not settings.exposed or settings.allow_anyone or "admin" in roles:
        return
    way = "a proxy" if settings.loopback else f"listening on {settings.host}"
    raise InvalidInput(
        f"{way} lets others reach the collector, and nobody has a credential to administer it; "
        "add one with faintly credential add, let nobody but this machine reach it, or say "
        "--allow-anyone"
    )


def _check_tls(settings: Settings) -> None:
    if settings.tls_cert is None:
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "reason", None) or error.strerror or "unreadable"
        raise InvalidInput(f"the TLS certificate or key cannot be used: {reason}") from None


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens, or say in words why there is none."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidInput(f"there is no address {host!r} here: {error.strerror}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise InvalidInput(
                f"port {port} of {host} is in use; choose another with --port, or 0 for any"
            ) from None
        raise InvalidInput(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener


def _address(settings: Settings, listener: socket.socket) -> str:
    scheme = "http" if settings.tls_cert is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"
