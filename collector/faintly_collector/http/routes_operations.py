"""Routes for operators: liveness, readiness, metrics, what arrives, what leaves a device."""

import itertools
import os
import tempfile
import time
from collections import Counter
from functools import lru_cache, partial
from shutil import disk_usage
from typing import Any, Literal

from fastapi import FastAPI, Response
from prometheus_client import generate_latest
from pydantic import BaseModel, Field

from faintly.core import Layout
from faintly.wire.problems import CANNOT_STORE, STOPPING, Problem
from faintly.wire.report_v1 import CHECKSUM_BYTES, HEADER
from faintly_collector.http import models
from faintly_collector.http.middleware import REPORTS
from faintly_collector.http.routes import COLLECTION, Digest, Responses, Routes, Service, json_reply
from faintly_collector.storage.collection import Collection, State, UniverseKind
from faintly_collector.storage.store import Store

PROBE = bytes(4096)  # written to test whether the folder is writable
LONG_PROBE = bytes(1 << 20)  # written and synced once a commit has failed
FAILED_S = 10.0  # how long a failed commit outweighs a probe
TEXT = "text/plain; version=0.0.4"
PAGE: Responses = {
    200: {
        "description": "Metrics for Prometheus.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}
OTHER = "OTHER"  # refused before the collection was known: no such one, no credential, no room


class Arriving(BaseModel):
    """What arrives for a collection."""

    digest: str
    name: str
    state: State
    guarantee: str = Field(description="In one sentence.")
    universe: UniverseKind
    keys: int | None = Field(description="Of the universe, unless it is open.")
    values: Literal["signed", "nonnegative", "set"]
    reports: int = Field(description="Sealed.")
    pending: int
    last_report: int | None = Field(
        description="The minute of the last one since the start, in seconds since 1970."
    )
    hours: list[int] = Field(description="Reports in each of the last hours, this one last.")


class Health(BaseModel):
    """How the collector is doing; counts are since its start."""

    reports: int
    commits: int
    refusals: dict[str, int] = Field(description="Requests to send, by code.")
    failed: int = Field(description="Commits and seals.")
    last_seal: int | None = Field(description="Its minute, in seconds since 1970.")
    waiting: int = Field(description="Requests that wait for a commit.")
    pending: int = Field(description="Reports that wait for a seal.")
    pending_bytes: int
    disk_free: int
    disk_total: int
    waits: list[tuple[float | None, int]] = Field(
        description="Requests to send that took at most so many seconds; null is any time."
    )


class Activity(BaseModel):
    """All collections, and the collector itself."""

    now: float = Field(description="Seconds since 1970.")
    health: Health
    collections: list[Arriving]


class Fields(BaseModel):
    """A run of equal fields."""

    count: int
    bits: int
    below: int = Field(description="Values are at least 0 and below this.")


class Anatomy(BaseModel):
    """What leaves a device, and what it promises."""

    unit: str
    epsilon: float
    delta: float
    strength: str = Field(description="sound, weak or none.")
    short: str
    guarantee: str
    theorem: str
    conditions: list[str]
    header_bytes: int = Field(description="Of a request, before its reports.")
    seed_bytes: int = Field(description="Public randomness at the start of a report.")
    fields: list[Fields] = Field(description="Of a report, after its seed, low bit first.")
    record_bytes: int
    checksum_bytes: int


def operation_routes(app: FastAPI, service: Service) -> None:
    """Add the routes; the first ones take any query, like other probes."""
    store = service.store
    route, probe = map(partial(Routes, app, service, "operation"), (None, "read"))
    read, plan = map(partial(Routes, app, service, "activity"), ("read", "plan"))

    @route("GET /healthz", "Is the process alive?", models.Alive)
    async def healthz() -> Response:  # no thread: all of them may be busy
        return json_reply({"status": "alive"})

    @route("GET /readyz", "Can reports be stored?", models.Ready)
    def readyz() -> Response:
        check_ready(store)
        return json_reply({"status": "ready", "warnings": warnings(store)})

    @probe("GET /metrics", "Metrics", responses=PAGE, response_class=Response)
    def metrics() -> Response:
        return Response(generate_latest(service.metrics), headers={"content-type": TEXT})

    @read("GET /v1/activity", "What arrives, and how the collector is doing", Activity)
    def activity() -> Response:
        now = time.time()
        rows = list(store.registry.collections.values())
        return json_reply(
            {
                "now": now,
                "health": _health(service, rows),
                "collections": [_arriving(each, int(now // 3600)) for each in rows],
            }
        )

    @plan(f"GET {COLLECTION}/anatomy", "What leaves a device, byte by byte", Anatomy)
    def anatomy(digest: Digest) -> Response:
        mechanism = store.registry.collection(bytes.fromhex(digest)).mechanism
        promise, layout = mechanism.guarantee(), mechanism.layout
        return json_reply(
            {
                "unit": str(promise.unit),
                "epsilon": promise.budget.epsilon,
                "delta": promise.budget.delta,
                "strength": promise.strength,
                "short": promise.short(),
                "guarantee": promise.describe(),
                "theorem": promise.theorem,
                "conditions": list(promise.conditions),
                "header_bytes": HEADER.size,
                "seed_bytes": layout.seed_bytes,
                "fields": _fields(layout),
                "record_bytes": layout.record_bytes,
                "checksum_bytes": CHECKSUM_BYTES,
            }
        )


def check_ready(store: Store) -> None:
    """Raise `Problem` unless a report could be stored now.

    A collector that is not ready may get no requests, so no commit would show that the disk
    works again. So some time after the last failure, a probe decides.
    """
    if store.stopping:
        raise Problem(STOPPING)
    try:
        store.check_capacity()
    except Problem as problem:
        if problem.kind is STOPPING:
            raise
        raise Problem(CANNOT_STORE, "the inbox is full, and senders are told to wait") from None
    failed_at = store.inbox.failed_at
    if failed_at is not None and time.monotonic() - failed_at < FAILED_S:
        raise Problem(CANNOT_STORE, "the last reports could not be stored")
    try:
        with tempfile.TemporaryFile(dir=store.folder / "spool") as probe:
            probe.write(PROBE if failed_at is None else LONG_PROBE)
            probe.flush()
            if failed_at is not None:
                os.fsync(probe.fileno())
    except OSError:
        raise Problem(CANNOT_STORE) from None


def warnings(store: Store) -> list[str]:
    """Return what an operator should fix, although reports are stored."""
    jump_s = store.registry.clock.jump_s
    if not jump_s:
        return []
    what = f"the clock jumped by {jump_s:+,.0f} s since the start"
    return [f"{what}; epochs of both times take reports. Put it right, then restart the collector"]


def _fields(layout: Layout) -> list[dict[str, int]]:
    """Return runs of equal fields: some reports are as long as the universe."""
    runs = itertools.groupby(zip(layout.widths, layout.limits, strict=True))
    return [
        {"count": len(list(run)), "bits": width, "below": limit} for (width, limit), run in runs
    ]


@lru_cache(maxsize=1024)
def _short_guarantee(collection: Collection) -> str:
    """Return the guarantee in one sentence; its exact logarithms are the slow part here."""
    return collection.mechanism.guarantee().short()


def _arriving(collection: Collection, hour: int) -> dict[str, Any]:
    arrived, epochs = collection.arrivals, list(collection.epochs.values())
    return {
        "digest": collection.digest.hex(),
        "name": collection.name,
        "state": collection.state,
        "guarantee": _short_guarantee(collection),
        "universe": collection.plan.universe.kind,
        "keys": collection.plan.universe.size,
        "values": collection.plan.values,
        "reports": sum(each.sealed for each in epochs),
        "pending": sum(each.pending for each in epochs),
        "last_report": arrived.last_report,
        "hours": arrived.last_hours(hour),
    }


def _health(service: Service, rows: list[Collection]) -> dict[str, Any]:
    store, registry = service.store, service.store.registry
    counters, disk = store.counters, disk_usage(store.folder)
    refusals: Counter[str] = Counter()
    for each in rows:
        refusals.update(each.arrivals.refusals.copy())
    other = service.metrics.refusals(REPORTS) - refusals.total()
    return {
        "reports": counters.reports,
        "commits": counters.commits,
        "refusals": dict(refusals.most_common()) | ({OTHER: other} if other > 0 else {}),
        "failed": counters.failed_commits + counters.failed_seals,
        "last_seal": counters.last_seal,
        "waiting": store.inbox.waiting,
        "pending": registry.pending,
        "pending_bytes": registry.pending_bytes,
        "disk_free": disk.free,
        "disk_total": disk.total,
        "waits": service.metrics.durations(REPORTS),
    }
