"""Prometheus metrics, in a registry of the service's own.

Several processes that serve one index share their numbers through files, as prometheus_client does it: then every
process answers for all of them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

if TYPE_CHECKING:
    from onlinehash.serve.service import Service

#: Where the processes of one service keep their numbers.
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"

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
        # The writer knows these; readers of the same index do not contradict it.
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
        self._untold: dict[tuple[str, str, int], list[float]] = {}

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """One more request; `route` is the pattern, so that there are few. It is counted when somebody looks."""
        seconds_so_far = self._untold.get((route, method, status))
        if seconds_so_far is None:
            seconds_so_far = self._untold[route, method, status] = []
        seconds_so_far.append(seconds)

    def _count(self) -> None:
        """Count what came since: many at once, which costs a tenth of counting each."""
        untold, self._untold = self._untold, {}
        for (route, method, status), seconds in untold.items():
            self._requests.labels(route, method, str(status)).inc(len(seconds))
            histogram = self._seconds.labels(route)
            numbers = np.bincount(np.searchsorted(_SECONDS, seconds), minlength=len(_SECONDS) + 1)
            for bucket, number in zip(histogram._buckets, numbers.tolist(), strict=True):  # `observe` takes one only
                if number:
                    bucket.inc(number)
            histogram._sum.inc(sum(seconds))

    def note(self) -> None:
        """Take down how things stand, in the thread that counts requests; cheap, as it asks nothing that waits."""
        service, index = self._service, self._service.index
        self._count()
        self._lag.set(service.lag)
        if service.read_only:
            return
        measured = None if service.monitor is None else service.monitor.latest
        values = {
            "items": len(index),
            "pairs": service.n_pairs,
            "pairs_behind": index.pairs_behind,
            "refreshes": index.refreshes,
            "bits_flipped": index.bits_flipped,
            "encoder_version": 0 if index.encoder is None else index.encoder.version,
            "queue_length": len(service.writer),
            "queue_limit": service.limits.queue,
            "listeners": len(service.hub),
            "held_out_map": float("nan") if measured is None else measured["map"],
        }
        for name, value in values.items():
            self._gauges[name].set(value)

    def text(self) -> bytes:
        """Everything in Prometheus's text format, as of the last `note`."""
        if SHARED_FOLDER not in os.environ:
            return generate_latest(self._registry)
        everybody = CollectorRegistry()
        multiprocess.MultiProcessCollector(everybody)  # type: ignore[no-untyped-call]
        return generate_latest(everybody)
