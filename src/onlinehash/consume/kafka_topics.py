"""A Kafka topic with all its partitions, read from the offsets that the index stores.

Partitions are assigned explicitly, so there are no group assignments and no rebalancing. Offsets are also committed to
the broker, for its own tools only. Order is kept within each partition; between partitions, messages come as they
arrive.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from onlinehash import checks
from onlinehash.consume.address import Address
from onlinehash.consume.source import Entry, Source
from onlinehash.errors import InvalidInput, MissingExtra, ServiceUnavailable, Unauthorized

DEFAULT_GROUP = "onlinehash"  #: Whose offsets the broker is told, where the address names none.
PATIENCE = 5.0  #: Seconds that a broker may take to answer.
BETWEEN_LOOKS = 30.0  #: Seconds after which partitions are counted again: a topic can get more of them.
MOST_SENT = 100_000_000  #: Bytes of a dead letter: as many as a message may have that is read. Brokers may want fewer.

#: What exactly-once rests on, and what the address says.
OURS = ("enable.auto.commit", "enable.partition.eof", "group.id", "bootstrap.servers")

_log = logging.getLogger("onlinehash.kafka")
_log.addHandler(logging.NullHandler())
_log.propagate = False  # librdkafka's own lines would come between what the command says


class KafkaTopic(Source):
    """All partitions of one topic."""

    def __init__(self, address: Address, settings: Mapping[str, str], name: str | None = None) -> None:
        try:
            import confluent_kafka
        except ImportError:
            raise MissingExtra("reading from Kafka", "confluent-kafka", "kafka") from None
        self._kafka = confluent_kafka
        if not address.path or "/" in address.path:
            raise InvalidInput("the address names no topic; write it as in kafka://localhost:9092/pairs.")
        if ours := [key for key in settings if key in OURS]:
            raise InvalidInput(f"the setting {ours[0]} is managed by the consumer; leave it out.")
        self.topic = address.path
        self.name = name or f"kafka://{address.hosts}/{self.topic}"
        common: dict[str, Any] = {"bootstrap.servers": address.hosts, "error_cb": self._noted}
        self._common = common | _security(address) | dict(settings)
        reading = {
            "group.id": address.parameters.get("group", DEFAULT_GROUP),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",  # messages that are gone are not to be left out silently
        }
        with self._translated():
            self._consumer = confluent_kafka.Consumer(reading | self._common, logger=_log)
        self._producer: Any = None
        self._problem: Any = None
        self._partitions, self._ended, self._offsets = list[int](), set[int](), dict[str, int]()
        self._told = dict[str, int]()  # to the broker
        self._looked_at = 0.0

    def check(self) -> None:
        self._present_partitions()

    def begin(self, position: Any) -> None:
        self._problem = None
        self._assign(self._present_partitions(), position)

    def _present_partitions(self) -> list[int]:
        with self._translated():
            found = self._consumer.list_topics(self.topic, timeout=PATIENCE).topics[self.topic]
        self._looked_at = time.monotonic()
        if found.error is not None or not found.partitions:
            raise InvalidInput(
                f"cannot read the topic {self.topic} at {self.name}: {_said(found.error or 'no such topic')}."
            )
        return sorted(found.partitions)

    def _assign(self, partitions: list[int], position: Any) -> None:
        """Read these from their offsets, or from the first message where nothing was read."""
        self._offsets, first = dict(position or {}), self._kafka.OFFSET_BEGINNING
        with self._translated():
            self._consumer.assign([self._at(number, self._offsets.get(str(number), first)) for number in partitions])
        self._partitions, self._ended, self.at_end = partitions, set(), False

    def _at(self, partition: int, offset: int) -> Any:
        return self._kafka.TopicPartition(self.topic, partition, offset)

    def read(self, n: int, wait: float) -> list[Entry]:
        self._look_for_more_partitions()
        with self._translated():
            found = self._consumer.consume(1, wait)  # would wait for all n of them
            if found and n > 1:
                found += self._consumer.consume(n - 1, 0)
        entries = [self._entry(message) for message in found if not self._is_event(message)]
        if self._problem is not None and not entries:
            problem, self._problem = self._problem, None
            self._raise(problem)
        self.at_end = self._ended.issuperset(self._partitions)
        return entries

    def _look_for_more_partitions(self) -> None:
        if time.monotonic() - self._looked_at > BETWEEN_LOOKS:
            new = [number for number in self._present_partitions() if number not in self._partitions]
            if new:
                with self._translated():
                    self._consumer.incremental_assign(
                        [self._at(number, self._kafka.OFFSET_BEGINNING) for number in new]
                    )
                self._partitions = sorted([*self._partitions, *new])

    def _entry(self, message: Any) -> Entry:
        return Entry(f"{message.partition()}:{message.offset()}", message.value(), message)

    def _is_event(self, message: Any) -> bool:
        """Whether it is no message, but the end of a partition or an error."""
        error = message.error()
        if error is None:
            self._ended.discard(message.partition())
            return False
        if error.code() == self._kafka.KafkaError._PARTITION_EOF:
            self._ended.add(message.partition())
            return True
        if error.code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:
            raise InvalidInput(
                f"the broker does not have message {message.offset()} of partition {message.partition()} "
                f"of {self.topic}, the next to be read; to continue with the oldest that it has, give the "
                "setting auto.offset.reset=earliest."
            )
        self._raise(error)
        return True

    def is_past(self, position: Any, entry: Entry) -> bool:
        message = entry.original
        return bool(message.offset() < (position or {}).get(str(message.partition()), 0))

    def advanced(self, position: Any, entries: Sequence[Entry]) -> Any:
        return (position or {}) | {str(e.original.partition()): e.original.offset() + 1 for e in entries}

    def acknowledge(self, entries: Sequence[Entry]) -> None:
        offsets = self.advanced({}, entries)
        self._offsets |= offsets
        self._told |= offsets
        with self._translated():
            self._consumer.commit(offsets=self._places(offsets), asynchronous=True)

    def _places(self, offsets: Mapping[str, int]) -> list[Any]:
        return [self._at(int(number), offset) for number, offset in offsets.items()]

    def bury(self, entry: Entry, reason: str) -> None:
        message = entry.original
        about = {"dead.reason": reason, "dead.source": self.name, "dead.place": entry.place}
        headers = [(key, value.encode()) for key, value in about.items()]
        problem = self._sent(message.value(), message.key(), [*(message.headers() or []), *headers])
        if problem is not None and problem.code() == self._kafka.KafkaError.MSG_SIZE_TOO_LARGE:
            problem = self._sent(None, None, headers)  # with the headers it is too long; they tell where it still is
        if problem is not None:
            raise ServiceUnavailable(f"cannot write to the topic {self.topic}.dead: {_said(problem.str())}.")

    def _sent(self, value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes]]) -> Any:
        """Send to where dead letters are, and wait for it; the problem, if there was one."""
        told = list[Any]()
        with self._translated():
            if self._producer is None:
                self._producer = self._kafka.Producer({"message.max.bytes": MOST_SENT} | self._common, logger=_log)
            try:
                self._producer.produce(
                    f"{self.topic}.dead", value, key, headers=headers, on_delivery=lambda error, _: told.append(error)
                )
            except self._kafka.KafkaException as error:
                return error.args[0]
            self._producer.flush(PATIENCE)
        return told[0] if told else self._kafka.KafkaError(self._kafka.KafkaError._TIMED_OUT)

    def lag(self) -> int | None:
        behind = 0
        with self._translated():
            for number in self._partitions:
                at = self._at(number, 0)
                found = self._consumer.get_watermark_offsets(at, cached=True)  # as the last answer said it
                if found is None or found[1] < 0:  # there was none yet
                    found = self._consumer.get_watermark_offsets(at, timeout=PATIENCE)
                if found is None:
                    return None
                low, high = found
                behind += max(0, high - self._offsets.get(str(number), max(low, 0)))
        return behind

    def close(self) -> None:
        """Offsets that the broker was not told yet keep the client from closing until there is one: not longer here."""
        closing = threading.Thread(target=self._close, daemon=True)
        closing.start()
        closing.join(PATIENCE)

    def _close(self) -> None:
        with suppress(self._kafka.KafkaException):  # nobody could do anything about it
            if self._told:
                # Closing may drop those that are still on their way.
                self._consumer.commit(offsets=self._places(self._told), asynchronous=False)
        with suppress(self._kafka.KafkaException):
            self._consumer.close()

    # ------------------------------------------------------------------------------------------------ errors

    def _noted(self, error: Any) -> None:
        """What librdkafka says of its connections, from within a call of ours."""
        code = self._kafka.KafkaError
        if error.fatal() or error.code() in (code._ALL_BROKERS_DOWN, code._AUTHENTICATION):
            self._problem = error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Kafka's errors as ours."""
        try:
            yield
        except self._kafka.KafkaException as error:
            self._raise(error.args[0])
        except BufferError as error:
            raise ServiceUnavailable(f"cannot send a message to Kafka: {_said(error)}.") from None

    def _raise(self, error: Any) -> None:
        code = self._kafka.KafkaError
        refused = (code._AUTHENTICATION, code.SASL_AUTHENTICATION_FAILED, code.TOPIC_AUTHORIZATION_FAILED)
        if error.code() in (code._INVALID_ARG, code._UNKNOWN_TOPIC, code.UNKNOWN_TOPIC_OR_PART):
            raise InvalidInput(f"Kafka refused the topic or the settings: {_said(error.str())}.") from None
        if error.code() in refused:
            raise Unauthorized(f"Kafka refused the login: {_said(error.str())}.") from None
        raise ServiceUnavailable(f"Kafka at {self.name} failed: {_said(error.str())}.") from None


def _security(address: Address) -> dict[str, str]:
    """How to connect, as the address says it."""
    if not address.user:
        return {"security.protocol": "SSL"} if address.is_encrypted else {}
    protocol = "SASL_SSL" if address.is_encrypted else "SASL_PLAINTEXT"
    login = {"sasl.username": address.user, "sasl.password": address.password}
    return {"security.protocol": protocol, "sasl.mechanism": "PLAIN"} | login


def _said(error: Any) -> str:
    return checks.shown(str(error).rstrip("."))
