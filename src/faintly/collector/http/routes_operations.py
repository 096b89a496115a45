"""Routes for operators: liveness, readiness, metrics."""

import os
import tempfile
import time

from fastapi import APIRouter, Response

from faintly.collector.http import models
from faintly.collector.http.ingest import Ingest
from faintly.collector.http.routes import Answers, Routes, Service, json_reply
from faintly.collector.problems import CANNOT_STORE, Problem, stopping
from faintly.collector.storage.store import Store

PROBE = bytes(4096)  # written to test whether the folder is writable
LONG_PROBE = bytes(1 << 20)  # written and synced once a commit has failed
FAILED_S = 10.0  # how long a failed commit counts more than a probe
TEXT = "text/plain; version=0.0.4"
PAGE: Answers = {
    200: {
        "description": "Metrics for Prometheus.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


def operation_routes(service: Service) -> APIRouter:
    """Return the routes, which take any query, like other probes."""
    router = APIRouter(tags=["operation"])
    route, read = (Routes(service, router, role, "") for role in (None, "read"))

    @route("GET /healthz", "Does the process live?", models.Alive)
    async def healthz() -> Response:  # no thread: all of them may be busy
        return json_reply({"status": "alive"})

    @route("GET /readyz", "Can reports be stored?", models.Ready)
    def readyz() -> Response:
        check_ready(service.store, service.ingest)
        return json_reply({"status": "ready", "warnings": warnings(service.store)})

    @read("GET /metrics", "Metrics", strict=False, responses=PAGE, response_class=Response)
    def metrics() -> Response:
        return Response(service.metrics.page(), headers={"content-type": TEXT})

    return router


def check_ready(store: Store, ingest: Ingest) -> None:
    """Raise `Problem` unless a report could be stored now.

    A collector that is not ready may get no requests, so no commit would show that the disk
    works again. Therefore a probe decides some time after the last failure.
    """
    if ingest.stopping:
        raise stopping()
    limits = store.limits
    registry, inbox = store.registry, store.inbox
    if registry.pending_bytes >= limits.inbox_bytes or inbox.waiting >= limits.waiting:
        raise Problem(CANNOT_STORE, "the inbox is full, and senders are told to wait")
    failed_at = ingest.failed_at
    if failed_at is not None and time.monotonic() - failed_at < FAILED_S:
        raise Problem(CANNOT_STORE, "the last reports could not be stored")
    try:
        with tempfile.TemporaryFile(dir=store.folder / "spool") as probe:
            probe.write(PROBE if failed_at is None else LONG_PROBE)
            probe.flush()
            if failed_at is not None:
                os.fsync(probe.fileno())
    except OSError:
        raise Problem(CANNOT_STORE, "the data folder cannot be written to") from None


def warnings(store: Store) -> list[str]:
    """Return what an operator should put right although reports are stored."""
    jump_s = store.registry.clock.jump_s
    if not jump_s:
        return []
    what = f"the clock jumped by {jump_s:+,.0f} s since the start"
    return [f"{what}; epochs of both times take reports. Put it right, then restart the collector"]
