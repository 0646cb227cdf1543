"""What is particular to Kafka, as librdkafka's mock broker plays it: partitions, offsets, messages that are gone."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer as Client
from confluent_kafka import TopicPartition

from onlinehash import LiveIndex
from onlinehash.consume import kafka_topics, loop
from onlinehash.consume.address import Address
from onlinehash.consume.consumer import Consumer
from onlinehash.errors import InvalidInput, ServiceUnavailable
from tests.consume.brokers import KafkaBroker, source_of
from tests.consume.program import after, make, new_learner
from tests.consume.test_consumer import consumed
from tests.servers import PATIENCE, wait_until


def items(n, seed, first):
    """Items whose ids begin with a number."""
    found = [message for message in make(10 * n, seed, bad=0) if b'"payload": {"n"' in message]
    return [message.replace(b'"id": ', b'"id": %d' % first) for message in found[:n]]


def test_all_partitions_are_read_each_in_its_order(kafka_broker, stream):
    parts = [items(20 + number, number, number + 1) for number in range(4)]
    for number, part in enumerate(parts):
        kafka_broker.send(stream, part, number)
    index = LiveIndex(new_learner())
    for batch in (9, 500):
        consumed(index, source_of(kafka_broker, stream), batch)
        ids = [after(part)[0].ids.tolist() for part in parts]
        assert sorted(index) == sorted(id for some in ids for id in some)
        for some in ids:
            assert [id for id in index if id in set(some)] == some
    assert list(index.positions.values()) == [{"0": 20, "1": 21, "2": 22, "3": 23}]


def test_the_broker_is_told_the_offsets(kafka_broker, stream):
    kafka_broker.send(stream, items(7, 1, 1))
    consumed(LiveIndex(new_learner()), source_of(kafka_broker, stream, parameters="?group=others"))
    client = Client({"bootstrap.servers": kafka_broker.hosts, "group.id": "others"})
    (told,) = client.committed([TopicPartition(stream, 0)], timeout=PATIENCE)
    client.close()
    assert told.offset == 7


def test_messages_that_are_gone_are_not_left_out_silently(kafka_broker, stream):
    """The mock broker keeps 5 MB of a partition."""
    kafka_broker.send(stream, items(5, 3, 1))
    index = LiveIndex(new_learner())
    assert consumed(index, source_of(kafka_broker, stream), 2).messages == 5
    kafka_broker.send(stream, [b"x" * 100_000] * 80)
    with pytest.raises(InvalidInput, match="does not have message 5 of partition 0"):
        consumed(index, source_of(kafka_broker, stream))
    address = Address.parse(kafka_broker.address(stream))
    wanted = loop.open_source(address, kafka_broker.settings | {"auto.offset.reset": "earliest"})
    tally = consumed(index, wanted)
    assert 0 < tally.dead_letters == tally.messages < 80


def test_a_message_that_is_too_long_with_its_reason_does_not_stop_the_others(kafka_broker, stream):
    """It stays where it is, and the dead letter tells where that is."""
    good, bad = items(4, 5, 1), [b"x" * 1_000, b"x" * 2_000]
    places = kafka_broker.send(stream, [good[0], *bad, *good[1:]])
    settings = kafka_broker.settings | {"message.max.bytes": "1600"}
    source = loop.open_source(Address.parse(kafka_broker.address(stream)), settings)
    tally = consumed(LiveIndex(new_learner()), source)
    assert (tally.messages, tally.items, tally.dead_letters) == (6, 4, 2)
    found = kafka_broker.dead(stream)
    assert [found[place][0] for place in places[1:3]] == [bad[0], b""]
    assert all("is not a pair or an item" in reason for _, reason in found.values())


def test_a_broker_that_goes_away_is_noticed(stream, monkeypatch):
    monkeypatch.setattr(kafka_topics, "PATIENCE", 0.5)
    broker = KafkaBroker()
    broker.send(stream, items(5, 4, 1))
    source = source_of(broker, stream)
    consumer = Consumer(LiveIndex(new_learner()), source)
    while consumer.tally.messages < 5:
        consumer.step()
    broker.close()
    with pytest.raises(ServiceUnavailable):
        wait_until(lambda: consumer.step(0.1) < 0, "the consumer to notice")
    source.close()
