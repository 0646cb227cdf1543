"""A process that is librdkafka's mock cluster: prints its address and ends with its standard input."""

from __future__ import annotations

import logging
import sys


def main() -> None:
    import confluent_kafka

    quiet = logging.getLogger("tests.kafka")
    quiet.propagate = False
    owner = confluent_kafka.Producer({"test.mock.num.brokers": 1}, logger=quiet)
    (broker,) = owner.list_topics(timeout=60).brokers.values()
    print(f"{broker.host}:{broker.port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
