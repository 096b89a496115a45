"""The process: one folder, one socket, uvicorn; a signal seals everything and ends it with 0."""

import errno
import gc
import signal
import socket
import ssl
from collections.abc import Callable
from types import FrameType

import uvicorn

from faintly.collector import logs
from faintly.collector.app import Collector, build
from faintly.collector.limits import Limits
from faintly.collector.protocol import Protocol
from faintly.collector.settings import Settings
from faintly.collector.store import Store
from faintly.errors import InvalidInput

DRAIN_S = 30  # how long requests under way may take once the collector is told to stop
KEEP_ALIVE_S = 20
BACKLOG = 2048
GARBAGE = 50_000, 20, 50  # objects before it is looked for: requests under way are none


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

    # What is there by now stays; looking through it time and again would hold requests up.
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    # uvicorn raises the signal once more when it is done, which must not kill us before sealing.
    before = {each: signal.signal(each, _ignore) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        Server(config, collector, ready).run(sockets=[listener])
        log.info("stopping")
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        gc.set_threshold(*thresholds)
        gc.unfreeze()


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
