"""The same streams into an index in PostgreSQL: what is kept together in a folder is kept together there too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onlinehash import PostgresIndex
from onlinehash.consume.consumer import Consumer
from onlinehash.errors import InvalidInput, ServiceUnavailable
from tests.cli.running import done
from tests.consume.brokers import source_of
from tests.consume.program import after, make, new_learner, policy, same
from tests.servers import PostgresServer

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def test_each_message_once(redis_broker, stream, server):
    data = make(80, 1, bad=0.1)
    places = redis_broker.send(stream, data)
    expected, dead = after(data)
    with PostgresIndex.create(server.address(), new_learner(), policy(), schema="one") as index:
        source = source_of(redis_broker, stream)
        source.acknowledge = lambda entries: (_ for _ in ()).throw(ServiceUnavailable("as if it had died here"))
        consumer = Consumer(index, source, 30)
        with pytest.raises(ServiceUnavailable):
            consumer.step()
        assert list(index.positions) == [source.name]
    typed = ["consume", redis_broker.address(stream), server.address(), "--schema", "one", "--until-empty"]
    outcome = done(*typed, "--batch", 25, "--json")
    announced, counted = outcome.lines
    assert (counted["messages"], counted["repeats"]) == (50, 30)
    assert "secret" not in announced["target"]
    with PostgresIndex.open(server.address(), schema="one") as index:
        assert same(index, expected)
    assert set(redis_broker.dead(stream)) == {places[number] for number in dead}


def test_a_second_process_that_consumes_the_same_is_noticed(redis_broker, stream, server):
    redis_broker.send(stream, make(40, 2, bad=0))
    with (
        PostgresIndex.create(server.address(), new_learner(), policy(), schema="two") as index,
        PostgresIndex.open(server.address(), schema="two") as another,
    ):
        first = Consumer(index, source_of(redis_broker, stream), 10)
        second = Consumer(another, source_of(redis_broker, stream), 10)
        first.step()
        second.step()
        with pytest.raises(InvalidInput, match="another consumer reads"):
            first.step()
