"""A consumer of either broker: every message once, in order, and what cannot be used set aside with a reason."""

from __future__ import annotations

import threading
from contextlib import closing, suppress

import pytest

from onlinehash import LiveIndex
from onlinehash.consume import loop
from onlinehash.consume.consumer import Consumer
from onlinehash.errors import InvalidInput, ServiceUnavailable
from tests.consume.brokers import source_of
from tests.consume.program import MALFORMED, REFUSED, after, make, new_learner, policy, same
from tests.servers import wait_until


def consumed(index, source, batch=500):
    """All that there is; how it went."""
    with closing(source):
        consumer = Consumer(index, source, batch)
        loop.run(consumer, threading.Event(), until_empty=True)
        return consumer.tally


def test_each_message_once_and_in_order(broker, stream):
    data = make(220, 1)
    places = broker.send(stream, data)
    expected, dead = after(data)
    index = LiveIndex(new_learner(), policy())
    tally = consumed(index, source_of(broker, stream), 7)
    assert same(index, expected)
    assert set(broker.dead(stream)) == {places[number] for number in dead}
    assert (tally.messages, tally.dead_letters, tally.repeats, tally.lag) == (len(data), len(dead), 0, 0)
    assert tally.pairs + tally.items + tally.dead_letters == len(data)
    assert tally.pairs == expected.learner.n_pairs_seen_


def test_what_cannot_be_used_is_set_aside_with_the_reason(broker, stream):
    wrong = MALFORMED | REFUSED
    start = make(30, 2, bad=0)
    broker.send(stream, start)
    places = broker.send(stream, list(wrong.values()))
    end = make(40, 2, bad=0)[30:]
    broker.send(stream, end)
    index = LiveIndex(new_learner(), policy())
    tally = consumed(index, source_of(broker, stream))
    assert same(index, after(start + end)[0])
    assert tally.dead_letters == len(wrong) >= 10
    found = broker.dead(stream)
    assert set(found) == set(places)
    for place, data in zip(places, wrong.values(), strict=True):
        message, reason = found[place]
        assert message == data
        assert 20 < len(reason) < 500
        assert reason.endswith(".")


def test_what_was_kept_before_the_broker_went_away_is_counted(broker, stream):
    """A batch that a dead letter interrupts: the messages before it are in the index, and Redis sends them again."""
    data = [*make(30, 2, bad=0), next(iter(REFUSED.values())), *make(40, 2, bad=0)[30:]]
    broker.send(stream, data)
    source, failures = source_of(broker, stream), iter([True])
    bury = source.bury

    def bury_later(*args):
        if next(failures, False):
            raise ServiceUnavailable("the broker is away.")
        bury(*args)

    source.bury = bury_later
    consumer = Consumer(LiveIndex(new_learner(), policy()), source)
    wait_until(lambda: _step(consumer) and consumer.tally.messages >= len(data), "all messages")
    assert consumer.tally.messages == len(data)
    source.close()


def _step(consumer):
    with suppress(ServiceUnavailable):
        consumer.step(0.1)
    return True


def test_going_on_repeats_nothing_and_leaves_nothing_out(broker, stream):
    data = make(90, 3)
    index = LiveIndex(new_learner(), policy())
    for start in range(0, 90, 30):
        broker.send(stream, data[start : start + 30])
        tally = consumed(index, source_of(broker, stream), 11)
        assert (tally.messages, tally.repeats) == (30, 0)
    assert same(index, after(data)[0])
    assert consumed(index, source_of(broker, stream)).messages == 0


def test_two_sources_into_one_index(redis_broker, kafka_broker, stream, tmp_path):
    """Each in a thread of its own; the index knows both positions."""
    items, others = ([m for m in make(400, seed, bad=0) if b'"payload": {"n"' in m][:40] for seed in (5, 6))
    others = [message.replace(b'"id": ', b'"id": 9') for message in others]
    redis_broker.send(stream, items)
    kafka_broker.send(stream, others)
    with LiveIndex(new_learner(), path=tmp_path / "items", sync="batch") as index:
        sources = [source_of(redis_broker, stream), source_of(kafka_broker, stream)]
        threads = [threading.Thread(target=consumed, args=(index, source, 5)) for source in sources]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(index.positions) == {source.name for source in sources}
    with LiveIndex.open(tmp_path / "items") as index:
        for data in (items, others):
            ids = after(data)[0].ids.tolist()
            assert [id for id in index if id in set(ids)] == ids
        assert len(index) == len(items) + len(others)
        for broker in (redis_broker, kafka_broker):
            assert consumed(index, source_of(broker, stream)).messages == 0


def test_a_second_consumer_of_the_same_source_is_noticed(broker, stream):
    data = make(40, 7, bad=0)
    broker.send(stream, data)
    index, source = LiveIndex(new_learner()), source_of(broker, stream)
    consumer = Consumer(index, source, 10)
    while consumer.tally.messages < 20:
        consumer.step()
    index.put_position(source.name, source.advanced(index.positions[source.name], source.read(10, 5)))
    with pytest.raises(InvalidInput, match="another consumer reads"):
        consumer.step()
    source.close()
