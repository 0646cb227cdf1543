"""Prometheus metrics, in a registry of the service's own.

Several processes that serve one index share their numbers through prometheus_client's multiprocess mode
(`processes.shared_metrics`): then every process answers for all of them.
"""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

from onlinehash.serve.processes import METRICS_FOLDER
from onlinehash.serve.service import Service

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The metrics of a service."""

    def __init__(self, service: Service) -> None:
        self._service, self._registry = service, CollectorRegistry()
        registry = self._registry
        self._requests = Counter(
            "onlinehash_requests", "Requests answered.", ["route", "method", "status"], registry=registry
        )
        self._seconds = Histogram(
            "onlinehash_request_seconds", "Seconds from a request's headers to the end of its answer.", ["route"],
            registry=registry, buckets=_SECONDS,
        )  # fmt: skip
        # Only the writer sets these.
        self._gauges = {
            name: Gauge(f"onlinehash_{name}", text, registry=registry, multiprocess_mode="mostrecent")
            for name, text in (
                ("items", "Items in the index."),
                ("pairs", "Pairs that the learner has seen."),
                ("pairs_behind", "Pairs learned since the codes were computed."),
                ("refreshes", "Refreshes so far."),
                ("bits_flipped", "Bits of items that refreshes changed."),
                ("encoder_version", "Version of the encoder of the codes."),
                ("queue_length", "Changes that wait for the writer."),
                ("queue_limit", "Changes that may wait for the writer."),
                ("listeners", "Listeners to events."),
                ("held_out_map", "Mean average precision of held-out queries."),
            )
        }
        self._lag = Gauge(
            "onlinehash_reader_lag_seconds", "How far a reader process is behind the writer.", registry=registry,
            multiprocess_mode="livemax",
        )  # fmt: skip
        self._epoch = Gauge(
            "onlinehash_epoch", "Number of the last change that searches see; of several processes the least.",
            registry=registry, multiprocess_mode="livemin",
        )  # fmt: skip
        self._head_epoch, self._oldest = (
            Gauge(f"onlinehash_{name}", text, registry=registry, multiprocess_mode="livemax")
            for name, text in (
                ("head_epoch", "Number of the last change that is known of."),
                ("lag_seconds", "Age of the oldest change that is known of and that searches do not see."),
            )
        )
        self._uncounted: dict[tuple[str, str, int], list[float]] = {}

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Record a request; `route` is the pattern, of which there are few. Counting is left to `update`."""
        self._uncounted.setdefault((route, method, status), []).append(seconds)

    def _count(self) -> None:
        uncounted, self._uncounted = self._uncounted, {}
        for (route, method, status), times in uncounted.items():
            self._requests.labels(route, method, str(status)).inc(len(times))
            histogram = self._seconds.labels(route)
            for seconds in times:
                histogram.observe(seconds)

    def update(self) -> None:
        """Bring all metrics up to date; called in the event loop, and never waits."""
        service, index = self._service, self._service.index
        self._count()
        self._lag.set(service.lag)
        self._epoch.set(index.epoch)
        self._head_epoch.set(index.head_epoch)
        self._oldest.set(service.lag)
        if service.read_only:
            return
        measured = None if service.quality is None else service.quality.latest
        values = {
            "items": len(index),
            "pairs": service.n_pairs,
            "pairs_behind": service.pairs_behind,
            "refreshes": index.refreshes,
            "bits_flipped": index.bits_flipped,
            "encoder_version": 0 if index.encoder is None else index.encoder.version,
            "queue_length": len(service.writer),
            "queue_limit": service.limits.queue,
            "listeners": len(service.events),
            "held_out_map": float("nan") if measured is None else measured["map"],
        }
        for name, value in values.items():
            self._gauges[name].set(value)

    def text(self) -> bytes:
        """Everything in Prometheus's text format, as of the last `update`."""
        if METRICS_FOLDER not in os.environ:
            return generate_latest(self._registry)
        everybody = CollectorRegistry()
        multiprocess.MultiProcessCollector(everybody)  # type: ignore[no-untyped-call]
        return generate_latest(everybody)
