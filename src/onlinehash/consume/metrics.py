"""Prometheus metrics of a consumer, on loopback."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from onlinehash.consume.consumer import Tally
from onlinehash.errors import MissingExtra, ServiceUnavailable


class TallyCollector:
    """Collects the current counters."""

    def __init__(self, tally: Tally, source: str) -> None:
        self._tally, self._source = tally, source

    def collect(self) -> Iterator[object]:
        """What prometheus_client asks for."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        tally = self._tally
        lag = math.nan if tally.lag is None else tally.lag
        figures = (
            (CounterMetricFamily, "messages", "Messages taken.", tally.messages),
            (CounterMetricFamily, "pairs", "Pairs learned.", tally.pairs),
            (CounterMetricFamily, "items", "Items added, updated or removed.", tally.items),
            (CounterMetricFamily, "dead_letters", "Messages that could not be used.", tally.dead_letters),
            (CounterMetricFamily, "repeats", "Messages that came again and were only acknowledged.", tally.repeats),
            (GaugeMetricFamily, "lag", "Messages that are still to be read.", lag),
            (GaugeMetricFamily, "idle_seconds", "Seconds since the last message.", tally.idle),
            (GaugeMetricFamily, "waiting", "1 while the broker is away, else 0.", int(bool(tally.problem))),
        )
        for kind, name, text, value in figures:
            family = kind(f"onlinehash_consume_{name}", text, labels=["source"])
            family.add_metric([self._source], value)
            yield family


@contextmanager
def served(tally: Tally, source: str, port: int | None) -> Iterator[int | None]:
    """Answer Prometheus on a port of loopback meanwhile (0: any that is free); the port, None if none is wanted."""
    if port is None:
        yield None
        return
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise MissingExtra("metrics", "prometheus-client", "serve") from None
    registry = CollectorRegistry()
    registry.register(TallyCollector(tally, source))  # type: ignore[arg-type]
    try:
        server, thread = start_http_server(port, "127.0.0.1", registry)
    except OSError as error:
        raise ServiceUnavailable(f"cannot serve metrics at 127.0.0.1 port {port}: {error.strerror}.") from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
