"""The process: one folder, one socket, uvicorn; on a signal it seals everything and exits."""

import gc
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, cast

import pyarrow.parquet  # noqa: F401 - sealing imports it late, which takes a file when they are scarce
import uvicorn

from faintly.errors import InvalidInput
from faintly_collector.http import limits, logs
from faintly_collector.http.app import build
from faintly_collector.http.middleware import Capacity
from faintly_collector.http.protocol import Protocol
from faintly_collector.http.settings import Settings
from faintly_collector.storage.store import Store

GC_THRESHOLD = 50_000  # objects between collections: they would keep scanning requests that wait
SWITCH_S = 0.0005  # a commit retakes the interpreter about eight times, and must not wait long


class Server(uvicorn.Server):
    """Uvicorn, with hooks for start and stop."""

    def __init__(self, config: uvicorn.Config, store: Store, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._store, self._on_ready = store, on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening."""
        await super().startup(sockets)
        self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Refuse new requests; accepted ones are completed."""
        self._store.stopping = True
        super().handle_exit(sig, frame)


def serve(settings: Settings, on_ready: Callable[[str], None]) -> None:
    """Serve a folder until a signal; `on_ready` gets the address once it listens.

    The process should exit then: signal handlers and garbage collection settings are not restored.
    Raises `FolderInUse` if another collector uses the folder, `InvalidInput` if the address is not
    available or would be open to anyone.
    """
    _check_tls(settings)
    with Store.open(settings.data, settings.limits) as store:
        if settings.exposed and not (settings.allow_anyone or "admin" in store.credentials.roles):
            way = "a proxy" if settings.loopback else f"listening on {settings.host}"
            raise InvalidInput(
                f"{way} lets others reach the collector, and nobody has a credential to "
                "administer it; add one with faintly credential add, let nobody but this machine "
                "reach it, or say --allow-anyone"
            )
        with _listen(settings.host, settings.port) as listener:
            _run(settings, store, listener, on_ready)


def _run(
    settings: Settings, store: Store, listener: socket.socket, on_ready: Callable[[str], None]
) -> None:
    logs.configure(settings.log_level)
    collector = build(store, settings)
    config = uvicorn.Config(
        collector.middleware,
        http=cast(Any, partial(Protocol, connections=Capacity(allow_files(settings.connections)))),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=limits.BACKLOG,
        timeout_keep_alive=limits.KEEP_ALIVE_S,
        timeout_graceful_shutdown=limits.DRAIN_S,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    scheme = "http" if settings.tls_cert is None else "https"
    address = f"{scheme}://{host}:{listener.getsockname()[1]}"

    def ready() -> None:
        logs.info("listening", url=address)
        on_ready(address)

    # Objects created so far are permanent; scanning them repeatedly would delay requests.
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    sys.setswitchinterval(SWITCH_S)
    # uvicorn raises the signal again at the end, which must not kill us before sealing.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: None)
    try:
        Server(config, store, ready).run(sockets=[listener])
        logs.info("stopping")
    finally:
        collector.service.readers.close()


def allow_files(wanted: int) -> int:
    """Raise the limit on open files as needed, and return how many connections it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = wanted + limits.OWN_FILES
    if soft != resource.RLIM_INFINITY and soft < need:
        soft = need if hard == resource.RLIM_INFINITY else min(need, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(1, soft - limits.OWN_FILES)
    return wanted


def _check_tls(settings: Settings) -> None:
    """Refuse an unusable certificate, before the folder is created."""
    if settings.tls_cert is None:
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except OSError as error:  # includes ssl.SSLError
        files = f"{settings.tls_cert} or its key {settings.tls_key}"
        reason = getattr(error, "reason", None) or error.strerror
        raise InvalidInput(f"the TLS certificate {files} cannot be used: {reason}") from None


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, or raise `InvalidInput` with the reason."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=limits.BACKLOG)
    except OSError as error:
        advice = "choose another --host, or --port, where 0 is any"
        raise InvalidInput(
            f"cannot listen on port {port} of {host}: {error.strerror}; {advice}"
        ) from None
