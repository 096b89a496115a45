"""Metrics for Prometheus. No label names an address, a key or a person.

Events are counted in plain integers, which become metrics on request: a request that sends reports
must not wait for locks and labels.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from itertools import accumulate
from shutil import disk_usage

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from faintly_collector.storage.store import Store

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
BOUNDS = (*map(str, BUCKETS), "+Inf")
COUNTER, GAUGE = "counter", "gauge"
SUFFIXES = {COUNTER: "_total", GAUGE: ""}  # of samples
Samples = list[tuple[dict[str, str], float]]  # labels and values


@dataclass(slots=True)
class Durations:
    """How often something took how long."""

    counts: list[int] = field(default_factory=lambda: [0] * len(BOUNDS))
    total: float = 0.0


class Metrics(Collector):
    """All metrics of a collector: what HTTP counts, and what the store does."""

    def __init__(self, store: Store) -> None:
        self._store, self._body_bytes = store, 0
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: defaultdict[str, Durations] = defaultdict(Durations)

    def add(self, route: str, method: str, status: int, seconds: float, body_bytes: int) -> None:
        """Count one answered request; only the event loop calls this."""
        self._requests[route, method, status] += 1
        took = self._seconds[route]
        took.counts[bisect_left(BUCKETS, seconds)] += 1
        took.total += seconds
        self._body_bytes += body_bytes

    def durations(self, route: str) -> list[tuple[float | None, int]]:
        """Return pairs: a bound in seconds, None for any, and how many requests met it."""
        took = self._seconds.get(route, Durations())
        return list(zip((*BUCKETS, None), accumulate(took.counts), strict=True))

    def refusals(self, route: str) -> int:
        """Return how many requests of a route were refused or failed."""
        kinds = self._requests.copy().items()
        return sum(count for (at, _, status), count in kinds if at == route and status >= 400)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        for kind, name, text, samples in self._families():
            made = Metric(f"faintly_{name}", text, kind)
            for labels, value in samples:
                made.add_sample(made.name + SUFFIXES[kind], labels, value)
            yield made
        text = "Seconds until an answer was ready."
        seconds = HistogramMetricFamily("faintly_http_seconds", text, labels=["route"])
        for route, took in self._seconds.copy().items():
            counts = zip(BOUNDS, accumulate(took.counts), strict=True)
            seconds.add_metric([route], list(counts), took.total)
        yield seconds

    def _families(self) -> Iterator[tuple[str, str, str, Samples]]:
        """Yield kind, name, text and values, from copies: other threads keep counting."""
        requests = self._requests.copy().items()
        answered: Samples = [
            ({"route": route, "method": method, "status": str(status)}, count)
            for (route, method, status), count in requests
        ]
        yield COUNTER, "http_requests", "HTTP requests answered.", answered
        yield COUNTER, "http_body_bytes", "Bytes of request bodies.", [({}, self._body_bytes)]
        store, registry, counters = self._store, self._store.registry, self._store.counters
        for each in fields(counters):
            if each.metadata:
                value = getattr(counters, each.name)
                yield COUNTER, each.name, each.metadata["description"], [({}, value)]
        pending = "that wait to be sealed."
        for name, text, value in (
            ("inbox_bytes", f"Bytes of reports {pending}", registry.pending_bytes),
            ("inbox_reports", f"Reports {pending}", registry.pending),
            ("log_bytes", "Bytes of the write-ahead log.", store.database.wal_bytes()),
            ("waiting_requests", "Requests that wait for a commit.", store.inbox.waiting),
            ("collections", "Collections.", len(registry.collections)),
            ("disk_free_bytes", "Bytes free on the disk.", disk_usage(store.folder).free),
            ("clock_jump_seconds", "How far the clock jumped.", registry.clock.jump_s),
            ("last_seal_timestamp_seconds", "The minute of the last seal.", counters.last_seal),
        ):
            yield GAUGE, name, text, [] if value is None else [({}, value)]
        arrived = [
            ({"collection": digest.hex()}, each.arrivals)
            for digest, each in sorted(registry.collections.copy().items())
        ]
        for name, text in (("requests", "Requests counted."), ("reports", "Reports counted.")):
            counts: Samples = [(label, getattr(each, name)) for label, each in arrived]
            yield COUNTER, f"collection_{name}", text, counts
        refused: Samples = [
            (label | {"reason": reason}, count)
            for label, each in arrived
            for reason, count in sorted(each.refusals.copy().items())
        ]
        yield COUNTER, "collection_refusals", "Requests refused.", refused
        minutes = [(label, each.last_report) for label, each in arrived]
        last: Samples = [(label, minute) for label, minute in minutes if minute is not None]
        name, text = "collection_last_report_timestamp_seconds", "The minute of the last report."
        yield GAUGE, name, text, last
