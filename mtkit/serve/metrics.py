"""Metrics of the server in the format of Prometheus, without text, addresses or keys."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ServerMetrics:
    """Counters and histograms; names end with their units."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "mtkit_http_requests", "Requests by endpoint and status.", ["endpoint", "status"], registry=self.registry
        )
        self.request_seconds = Histogram(
            "mtkit_http_request_duration_seconds",
            "Seconds from a request to the end of its answer.",
            ["endpoint"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.characters = Counter(
            "mtkit_source_characters", "Characters to translate.", ["source", "target"], registry=self.registry
        )
        self.cache_hits = Counter("mtkit_cache_hits", "Texts that the cache had.", registry=self.registry)
        self.cache_misses = Counter("mtkit_cache_misses", "Texts that the cache lacked.", registry=self.registry)
        self.batch_texts = Histogram(
            "mtkit_batch_texts", "Texts of a batch.", buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256), registry=self.registry
        )
        self.batch_seconds = Histogram(
            "mtkit_batch_duration_seconds", "Seconds of a batch.", buckets=SECONDS, registry=self.registry
        )
        self.lost_workers = Counter(
            "mtkit_lost_workers", "Worker processes that ended while they translated.", registry=self.registry
        )
        self.model_loads = Counter("mtkit_model_loads", "Models that were loaded.", ["model"], registry=self.registry)

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Add a value that is asked for when the metrics are read."""
        Gauge(name, text, registry=self.registry).set_function(value)
