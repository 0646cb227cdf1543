"""Runs a consumer until it is stopped or nothing is left, and retries when a broker goes away."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import Event

from onlinehash.consume.address import Address
from onlinehash.consume.consumer import Consumer, Tally
from onlinehash.consume.source import Source
from onlinehash.errors import ServiceUnavailable

#: Seconds until a broker that went away is tried again: the first time, and at most, after doubling.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
#: Seconds between two questions of how many messages are left.
BETWEEN_LOOKS = 1.0
#: Seconds to wait for a message before signals are looked at.
WAIT = 0.5


def open_source(address: Address, settings: Mapping[str, str], name: str | None = None) -> Source:
    """The source at an address; `settings` are those of its client. Nothing is connected before the first `begin`."""
    if address.scheme.startswith("redis"):
        from onlinehash.consume.redis_streams import RedisStream

        return RedisStream(address, settings, name)
    from onlinehash.consume.kafka_topics import KafkaTopic

    return KafkaTopic(address, settings, name)


def run(
    consumer: Consumer, stop: Event, until_empty: bool = False, watch: Callable[[Tally], None] = lambda tally: None
) -> Tally:
    """Take batches until `stop` is set or, with `until_empty`, until nothing is left; `watch` is told how it goes.

    A broker or an index that is away is waited for; `Source.check` tells before whether the broker is there at all.
    """
    tally, pause, looked_at = consumer.tally, FIRST_PAUSE, 0.0
    while not stop.is_set():
        try:
            n = consumer.step(WAIT)
            if until_empty and n == 0 and consumer.source.at_end:
                tally.lag = 0
                break
            if time.monotonic() - looked_at > BETWEEN_LOOKS:
                tally.lag, looked_at = consumer.source.lag(), time.monotonic()
            tally.problem, pause = "", FIRST_PAUSE
        except ServiceUnavailable as error:
            tally.problem = str(error)
            watch(tally)
            stop.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        watch(tally)
    return tally
