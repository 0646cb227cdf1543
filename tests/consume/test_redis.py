"""What is particular to Redis: the group, what is pending, entries that are gone, and a server that goes away."""

from __future__ import annotations

import threading

import pytest

from onlinehash import LiveIndex
from onlinehash.consume import loop
from onlinehash.consume.address import Address
from onlinehash.consume.consumer import Consumer
from onlinehash.errors import ServiceUnavailable, Unauthorized
from tests.consume.brokers import RedisBroker, source_of
from tests.consume.program import after, make, new_learner, policy, same
from tests.consume.test_consumer import consumed
from tests.servers import RedisServer, wait_until


def test_entries_that_were_taken_and_not_acknowledged_are_only_acknowledged(redis_broker, stream):
    data = make(60, 1)
    redis_broker.send(stream, data)
    index, source = LiveIndex(new_learner(), policy()), source_of(redis_broker, stream)
    source.acknowledge = lambda entries: (_ for _ in ()).throw(ServiceUnavailable("as if it had died here"))
    with pytest.raises(ServiceUnavailable):
        Consumer(index, source, 25).step()
    source.close()
    assert redis_broker.client.xpending(stream, "onlinehash")["pending"] == 25
    tally = consumed(index, source_of(redis_broker, stream), 10)
    assert (tally.messages, tally.repeats) == (35, 25)
    assert same(index, after(data)[0])
    assert redis_broker.client.xpending(stream, "onlinehash")["pending"] == 0


def test_entries_that_were_delivered_and_not_taken_come_first(redis_broker, stream):
    data = make(60, 2)
    redis_broker.send(stream, data)
    source = source_of(redis_broker, stream)
    source.begin(None)
    assert len(source.read(25, 0)) == 25  # and then it dies
    source.close()
    index = LiveIndex(new_learner(), policy())
    assert consumed(index, source_of(redis_broker, stream), 10).messages == 60
    assert same(index, after(data)[0])


def test_a_group_that_was_deleted_goes_on_where_it_was(redis_broker, stream):
    data = make(60, 3)
    redis_broker.send(stream, data[:30])
    index = LiveIndex(new_learner(), policy())
    consumed(index, source_of(redis_broker, stream))
    redis_broker.client.xgroup_destroy(stream, "onlinehash")
    redis_broker.send(stream, data[30:])
    assert consumed(index, source_of(redis_broker, stream)).messages == 30
    assert same(index, after(data)[0])


def test_several_consumers_of_a_group_share_the_work(redis_broker, stream):
    """Each into an index of its own, and every message in one of them."""
    items = [message for message in make(400, 6, bad=0) if b'"payload": {"n"' in message][:60]
    redis_broker.send(stream, items)
    found = []
    for number in (1, 2):
        source = source_of(redis_broker, stream, parameters=f"&group=g&consumer=c{number}")
        index = LiveIndex(new_learner())
        consumer = Consumer(index, source, 7)
        consumer.step()
        if number == 2:
            loop.run(consumer, threading.Event(), until_empty=True)
        found.append(index.ids.tolist())
        source.close()
    assert found[0] + found[1] == after(items)[0].ids.tolist()


def test_a_server_that_is_killed_and_started_again(stream):
    data = make(400, 8)
    with RedisServer() as server:
        broker = RedisBroker(server)
        places = broker.send(stream, data)
        index, source = LiveIndex(new_learner(), policy()), source_of(broker, stream)
        consumer, stop = Consumer(index, source, 5), threading.Event()
        problems = list[str]()
        watch = lambda tally: problems.append(tally.problem)  # noqa: E731
        thread = threading.Thread(target=loop.run, args=(consumer, stop, False, watch))
        thread.start()
        for n in (50, 150):
            wait_until(lambda n=n: consumer.tally.messages >= n, f"{n} messages")
            server.kill()
            wait_until(lambda: bool(problems and problems[-1]), "the consumer to notice")
            server.start()
        wait_until(lambda: consumer.tally.messages >= len(data), "the rest")
        stop.set()
        thread.join()
        expected, dead = after(data)
        assert same(index, expected)
        assert set(broker.dead(stream)) == {places[number] for number in dead}
        assert not problems[-1]
        source.close()
        broker.client.close()


def test_passwords(stream):
    with RedisServer() as server:
        broker = RedisBroker(server)
        broker.send(stream, make(3, 9, bad=0))
        broker.client.acl_setuser("me", enabled=True, passwords=["+s/cret"], keys="*", categories=["+@all"])
        broker.client.config_set("requirepass", "other")
        broker.client.close()
        place = f"127.0.0.1:{server.port}/0?stream={stream}"
        for login, words in (("", "required"), (":wrong@", "invalid"), ("me:wrong@", "invalid")):
            source = loop.open_source(Address.parse(f"redis://{login}{place}"), {})
            with pytest.raises(Unauthorized, match=words) as caught:
                source.check()
            assert "wrong" not in str(caught.value)
        for login in (":other@", "me:s%2Fcret@"):
            source = loop.open_source(Address.parse(f"redis://{login}{place}&group={len(login)}"), {})
            assert consumed(LiveIndex(new_learner()), source).messages == 3
        server.kill()
        with pytest.raises(ServiceUnavailable):
            loop.open_source(Address.parse(f"redis://me:s%2Fcret@{place}"), {}).check()
