"""Routes for people who watch: what arrives, how the collector fares, what leaves a device."""

import itertools
import time
from collections import Counter
from functools import lru_cache
from shutil import disk_usage
from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from faintly.collector.http.middleware import REPORTS
from faintly.collector.http.routes import ONE, Digest, Routes, Service, json_reply
from faintly.collector.storage.collection import CLOSED, OPEN, Collection, State
from faintly.collector.storage.status import UniverseKind
from faintly.core import Layout
from faintly.wire.report_v1 import CHECKSUM_BYTES, HEADER

OTHER = "OTHER"  # refused before it was known what for: no collection, credential or room


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
    """How the collector fares, since its start where it counts."""

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
    """Fields that follow each other and look alike."""

    count: int
    bits: int
    below: int = Field(description="Values are from 0 to this, less one.")


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


def activity_routes(service: Service) -> APIRouter:
    """Return the routes."""
    router, store = APIRouter(tags=["activity"]), service.store
    read, plan = (Routes(service, router, role, "") for role in ("read", "plan"))

    @read("GET /v1/activity", "What arrives, and how the collector fares", Activity)
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

    @plan(f"GET {ONE}/anatomy", "What leaves a device, byte by byte", Anatomy)
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

    return router


def _fields(layout: Layout) -> list[dict[str, int]]:
    """Return runs of equal fields: some reports are as long as the universe."""
    runs = itertools.groupby(zip(layout.widths, layout.limits, strict=True))
    return [
        {"count": len(list(run)), "bits": width, "below": limit} for (width, limit), run in runs
    ]


@lru_cache(maxsize=1024)
def _promise(collection: Collection) -> str:
    """Return the guarantee in one sentence; its exact logarithms take most of the time here."""
    return collection.mechanism.guarantee().short()


def _arriving(collection: Collection, hour: int) -> dict[str, Any]:
    arrived, epochs = collection.arrivals, list(collection.epochs.values())
    minute = arrived.last_minute
    return {
        "digest": collection.digest.hex(),
        "name": collection.name,
        "state": CLOSED if collection.closed else OPEN,
        "guarantee": _promise(collection),
        "universe": collection.plan.universe.kind,
        "keys": collection.plan.universe.size,
        "values": collection.plan.values,
        "reports": sum(each.sealed for each in epochs),
        "pending": sum(each.pending for each in epochs),
        "last_report": None if minute is None else 60 * minute,
        "hours": arrived.last_hours(hour),
    }


def _health(service: Service, rows: list[Collection]) -> dict[str, Any]:
    store, registry = service.store, service.store.registry
    counters, disk = store.counters, disk_usage(store.folder)
    refusals: Counter[str] = Counter()
    for each in rows:
        refusals.update(each.arrivals.refusals.copy())
    other = service.metrics.refused(REPORTS) - refusals.total()
    minute = counters.sealed_minute
    return {
        "reports": counters.reports,
        "commits": counters.commits,
        "refusals": dict(refusals.most_common()) | ({OTHER: other} if other > 0 else {}),
        "failed": counters.failed_commits + counters.failed_seals,
        "last_seal": None if minute is None else 60 * minute,
        "waiting": store.inbox.waiting,
        "pending": registry.pending,
        "pending_bytes": registry.pending_bytes,
        "disk_free": disk.free,
        "disk_total": disk.total,
        "waits": service.metrics.waits(REPORTS),
    }
