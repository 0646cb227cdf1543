"""The two kinds of streams that tests read, and how messages get into them and dead letters out."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any, ClassVar

import redis

from onlinehash.consume.address import Address
from onlinehash.consume.loop import open_source
from onlinehash.consume.source import Source
from tests.servers import PATIENCE, RedisServer


class RedisBroker:
    """Streams of a real Redis."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.client = redis.Redis.from_url(server.address)

    #: Of the client that reads.
    settings: ClassVar[dict[str, str]] = {}

    def address(self, stream: str) -> str:
        return f"{self.server.address}?stream={stream}"

    def send(self, stream: str, data: list[bytes]) -> list[str]:
        """Send messages; the places where they are."""
        with self.client.pipeline(transaction=False) as pipeline:
            for message in data:
                pipeline.xadd(stream, {"message": message})
            return [place.decode() for place in pipeline.execute()]

    def dead(self, stream: str) -> dict[str, tuple[bytes, str]]:
        """Message and reason of each dead letter, by the place where it was."""
        found = [entry for _, entry in self.client.xrange(f"{stream}:dead")]
        return {e[b"dead.place"].decode(): (e.get(b"message", b""), e[b"dead.reason"].decode()) for e in found}


class KafkaBroker:
    """librdkafka's mock cluster in a process of its own: Kafka's protocol on loopback, topics in memory."""

    def __init__(self) -> None:
        import confluent_kafka

        self._kafka, quiet = confluent_kafka, logging.getLogger("tests.kafka")
        quiet.propagate = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.consume.kafka_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.hosts = self._process.stdout.readline().strip()
        self.producer = confluent_kafka.Producer({"bootstrap.servers": self.hosts}, logger=quiet)

    def close(self) -> None:
        """End the cluster, as a power cut would."""
        self._process.kill()
        self._process.communicate()

    #: Of the client that reads: it learns sooner that a topic is at its end.
    settings: ClassVar[dict[str, str]] = {"fetch.wait.max.ms": "20"}

    def address(self, topic: str) -> str:
        return f"kafka://{self.hosts}/{topic}"

    def send(self, topic: str, data: list[bytes], partition: int = 0) -> list[str]:
        """Send messages; the places where they are."""
        places: list[str] = []

        def note(error: Any, message: Any) -> None:
            assert error is None, error
            places.append(f"{message.partition()}:{message.offset()}")

        for message in data:
            self.producer.produce(topic, message, partition=partition, on_delivery=note)
        assert self.producer.flush(PATIENCE) == 0
        return places

    def dead(self, topic: str) -> dict[str, tuple[bytes, str]]:
        """Message and reason of each dead letter, by the place where it was."""
        found = {}
        for message in self.all_of(f"{topic}.dead"):
            headers = dict(message.headers())
            found[headers["dead.place"].decode()] = (message.value() or b"", headers["dead.reason"].decode())
        return found

    def all_of(self, topic: str) -> list[Any]:
        """All messages of a topic."""
        settings = {"bootstrap.servers": self.hosts, "group.id": "tests", "enable.partition.eof": True} | self.settings
        consumer = self._kafka.Consumer(settings)
        partitions = sorted(self.producer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions)
        consumer.assign([self._kafka.TopicPartition(topic, number, 0) for number in partitions])
        found, ended = [], set()
        while len(ended) < len(partitions):
            (message,) = consumer.consume(1, PATIENCE)
            if message.error() is None:
                found.append(message)
            else:
                ended.add(message.partition())
        consumer.close()
        return found


Broker = RedisBroker | KafkaBroker


def source_of(broker: Broker, stream: str, name: str | None = None, parameters: str = "") -> Source:
    """A source of a stream or topic."""
    return open_source(Address.parse(broker.address(stream) + parameters), broker.settings, name)
