"""Metrics for Prometheus. No label names an address, a key or a person."""

from collections.abc import Iterator
from dataclasses import fields
from shutil import disk_usage

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from faintly.collector.storage.store import Store

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)

disable_created_metrics()  # type: ignore[no-untyped-call]  # when a route was first asked is nobody's business


class Metrics:
    """All metrics of a collector: what HTTP counts, and what the store does."""

    def __init__(self, store: Store) -> None:
        self._registry = registry = CollectorRegistry(auto_describe=False)
        words, labels = "HTTP requests answered.", ["route", "method", "status"]
        self._requests = Counter("faintly_http_requests", words, labels, registry=registry)
        words = "Seconds until an answer was ready."
        self._seconds = Histogram(
            "faintly_http_seconds", words, ["route"], buckets=BUCKETS, registry=registry
        )
        words = "Bytes of request bodies."
        self._body_bytes = Counter("faintly_http_body_bytes", words, registry=registry)
        words = "Seconds from a checked body to its commit."
        self.commit_wait = Histogram(
            "faintly_commit_wait_seconds", words, buckets=BUCKETS, registry=registry
        )
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        registry.register(StoreMetrics(store))

    def add(self, route: str, method: str, status: int, seconds: float, body_bytes: int) -> None:
        """Count one answered request."""
        key = route, method, status
        if key not in self._known:
            self._known[key] = self._requests.labels(*key), self._seconds.labels(route)
        counted, timed = self._known[key]
        counted.inc()
        timed.observe(seconds)
        self._body_bytes.inc(body_bytes)

    def waits(self, route: str) -> list[list[float | None]]:
        """Return pairs: so many seconds, None for any, and how many requests took at most that."""
        return [
            [None if each.labels["le"] == "+Inf" else float(each.labels["le"]), int(each.value)]
            for metric in self._seconds.collect()
            for each in metric.samples
            if each.name.endswith("_bucket") and each.labels["route"] == route
        ]

    def refused(self, route: str) -> int:
        """Return how many requests of a route were refused or failed."""
        return sum(
            int(each.value)
            for metric in self._requests.collect()
            for each in metric.samples
            if each.labels["route"] == route and int(each.labels["status"]) >= 400
        )

    def page(self) -> bytes:
        """Return the page for Prometheus."""
        return generate_latest(self._registry)


class StoreMetrics(Collector):
    """What a store counts in plain integers, which become metrics on request."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        counters = self._store.counters
        for each in fields(counters):
            if each.metadata:
                words = each.metadata["description"]
                value = getattr(counters, each.name)
                yield CounterMetricFamily(f"faintly_{each.name}", words, value=value)
        yield from self._gauges()
        yield from self._collections()

    def _gauges(self) -> Iterator[Metric]:
        store, registry, pending = self._store, self._store.registry, "that wait to be sealed."
        for name, words, value in (
            ("inbox_bytes", f"Bytes of reports {pending}", registry.pending_bytes),
            ("inbox_reports", f"Reports {pending}", registry.pending),
            ("log_bytes", "Bytes of the write-ahead log.", store.database.wal_bytes()),
            ("waiting_requests", "Requests that wait for a commit.", store.inbox.waiting),
            ("collections", "Collections.", len(registry.collections)),
            ("disk_free_bytes", "Bytes free on the disk.", disk_usage(store.folder).free),
            ("clock_jump_seconds", "How far the clock jumped.", registry.clock.jump_s),
        ):
            yield GaugeMetricFamily(f"faintly_{name}", words, value=value)
        if (minute := store.counters.sealed_minute) is not None:
            name, words = "faintly_last_seal_timestamp_seconds", "The minute of the last seal."
            yield GaugeMetricFamily(name, words, value=60 * minute)

    def _collections(self) -> Iterator[Metric]:
        """Yield what arrived for each collection."""
        prefix, labels = "faintly_collection", ["collection"]
        requests = CounterMetricFamily(f"{prefix}_requests", "Requests counted.", labels=labels)
        reports = CounterMetricFamily(f"{prefix}_reports", "Reports counted.", labels=labels)
        reasons = [*labels, "reason"]
        refusals = CounterMetricFamily(f"{prefix}_refusals", "Requests refused.", labels=reasons)
        words = "The minute of the last report."
        last = GaugeMetricFamily(f"{prefix}_last_report_timestamp_seconds", words, labels=labels)
        # Copies, since other threads go on counting.
        for digest, collection in sorted(self._store.registry.collections.copy().items()):
            name, arrived = digest.hex(), collection.arrivals
            requests.add_metric([name], arrived.requests)
            reports.add_metric([name], arrived.reports)
            for reason, count in sorted(arrived.refusals.copy().items()):
                refusals.add_metric([name, reason], count)
            if arrived.last_minute is not None:
                last.add_metric([name], 60 * arrived.last_minute)
        yield from (requests, reports, refusals, last)
