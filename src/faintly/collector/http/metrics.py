"""Metrics for Prometheus. No label names an address, a key or a person.

The hot path counts in plain integers, which become metrics on request.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class Durations:
    """A histogram of seconds; to be added to from one thread only."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return cumulative counts by upper bound, as Prometheus expects them."""
        made, seen = [], 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self.counts, strict=True):
            seen += count
            made.append((bound, float(seen)))
        return made


class Traffic:
    """HTTP requests by route, method and status; only the event loop adds to it."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, int], int] = {}
        self.seconds: dict[str, Durations] = {}
        self.body_bytes = 0

    def add(self, route: str, method: str, status: int, seconds: float, body_bytes: int) -> None:
        """Count one answered request."""
        key = (route, method, status)
        self.requests[key] = self.requests.get(key, 0) + 1
        if route not in self.seconds:
            self.seconds[route] = Durations()
        self.seconds[route].add(seconds)
        self.body_bytes += body_bytes

    def families(self) -> Iterator[Metric]:
        """Yield the metrics."""
        counted = CounterMetricFamily(
            "faintly_http_requests",
            "HTTP requests answered.",
            labels=["route", "method", "status"],
        )
        # Copies, since another thread reads while the event loop counts.
        for (route, method, status), count in sorted(dict(self.requests).items()):
            counted.add_metric([route, method, str(status)], count)
        yield counted
        timed = HistogramMetricFamily(
            "faintly_http_seconds", "Seconds until an answer was ready.", labels=["route"]
        )
        for route, seconds in sorted(dict(self.seconds).items()):
            timed.add_metric([route], seconds.buckets(), seconds.total)
        yield timed
        yield CounterMetricFamily(
            "faintly_http_body_bytes", "Bytes of request bodies.", value=self.body_bytes
        )


class Metrics(Collector):
    """All metrics, as one page of text."""

    def __init__(self, traffic: Traffic, stored: Callable[[], Sequence[Metric]]) -> None:
        self._traffic, self._stored = traffic, stored
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield from self._traffic.families()
        yield from self._stored()

    def page(self) -> bytes:
        """Return the page for Prometheus."""
        return generate_latest(self._registry)


def families(
    counters: Mapping[str, tuple[str, float]], gauges: Mapping[str, tuple[str, float]]
) -> list[Metric]:
    """Return counters and gauges given as name: (help, value)."""
    made: list[Metric] = [
        CounterMetricFamily(name, words, value=value) for name, (words, value) in counters.items()
    ]
    made += [GaugeMetricFamily(name, words, value=value) for name, (words, value) in gauges.items()]
    return made


def histogram(name: str, words: str, seconds: Any) -> Metric:
    """Return a histogram of `Durations`."""
    made = HistogramMetricFamily(name, words)
    made.add_metric([], seconds.buckets(), seconds.total)
    return made
