"""Metrics for Prometheus. No label names an address, a key or a person.

What happens is counted in plain integers, which become metrics on request: a request for reports
must not wait for locks and labels.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from itertools import accumulate
from shutil import disk_usage

from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from faintly.collector.storage.store import Store

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
BOUNDS = (*map(str, BUCKETS), "+Inf")


@dataclass(slots=True)
class Durations:
    """How often something took how long."""

    counts: list[int] = field(default_factory=lambda: [0] * len(BOUNDS))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return how many took at most each bound."""
        return list(zip(BOUNDS, accumulate(self.counts), strict=True))


class Metrics(Collector):
    """All metrics of a collector: what HTTP counts, and what the store does."""

    def __init__(self, store: Store) -> None:
        self._store, self._body_bytes = store, 0
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: defaultdict[str, Durations] = defaultdict(Durations)

    def add(self, route: str, method: str, status: int, seconds: float, body_bytes: int) -> None:
        """Count one answered request; only the event loop calls."""
        self._requests[route, method, status] += 1
        self._seconds[route].add(seconds)
        self._body_bytes += body_bytes

    def waits(self, route: str) -> list[tuple[float | None, int]]:
        """Return pairs: so many seconds, None for any, and how many requests took at most that."""
        took = self._seconds.get(route, Durations())
        return list(zip((*BUCKETS, None), accumulate(took.counts), strict=True))

    def refused(self, route: str) -> int:
        """Return how many requests of a route were refused or failed."""
        kinds = self._requests.copy().items()
        return sum(count for (at, _, status), count in kinds if at == route and status >= 400)

    def page(self) -> bytes:
        """Return the page for Prometheus."""
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, from copies, since other threads go on counting."""
        labels = ["route", "method", "status"]
        answered = CounterMetricFamily(
            "faintly_http_requests", "HTTP requests answered.", labels=labels
        )
        for (route, method, status), count in self._requests.copy().items():
            answered.add_metric([route, method, str(status)], count)
        words = "Seconds until an answer was ready."
        seconds = HistogramMetricFamily("faintly_http_seconds", words, labels=["route"])
        for route, took in self._seconds.copy().items():
            seconds.add_metric([route], took.buckets(), took.total)
        words = "Bytes of request bodies."
        size = CounterMetricFamily("faintly_http_body_bytes", words, value=self._body_bytes)
        yield from (answered, seconds, size)
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
        for digest, collection in sorted(self._store.registry.collections.copy().items()):
            name, arrived = digest.hex(), collection.arrivals
            requests.add_metric([name], arrived.requests)
            reports.add_metric([name], arrived.reports)
            for reason, count in sorted(arrived.refusals.copy().items()):
                refusals.add_metric([name, reason], count)
            if arrived.last_minute is not None:
                last.add_metric([name], 60 * arrived.last_minute)
        yield from (requests, reports, refusals, last)
