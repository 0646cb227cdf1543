"""The same streams into an index in PostgreSQL: what is kept together in a folder is kept together there too."""

from __future__ import annotations

import pytest

from onlinehash import PostgresIndex
from onlinehash.consume.consumer import Consumer
from onlinehash.errors import ServiceUnavailable
from tests.cli.running import done
from tests.consume.brokers import source_of
from tests.consume.program import after, make, new_learner, policy, same


def test_each_message_once(redis_broker, stream, postgres_server):
    data = make(80, 1, bad=0.1)
    places = redis_broker.send(stream, data)
    expected, dead = after(data)
    with PostgresIndex.create(postgres_server.address(), new_learner(), policy(), schema="consumed") as index:
        source = source_of(redis_broker, stream)
        source.acknowledge = lambda entries: (_ for _ in ()).throw(ServiceUnavailable("as if it had died here"))
        consumer = Consumer(index, source, 30)
        with pytest.raises(ServiceUnavailable):
            consumer.step()
        assert list(index.positions) == [source.name]
        source.close()
    typed = ["consume", redis_broker.address(stream), postgres_server.address(), "--schema", "consumed"]
    outcome = done(*typed, "--until-empty", "--batch", 25, "--json")
    announced, counted = outcome.lines
    assert (counted["messages"], counted["repeats"]) == (50, 30)
    assert "secret" not in announced["target"]
    with PostgresIndex.open(postgres_server.address(), schema="consumed") as index:
        assert same(index, expected)
    assert set(redis_broker.dead(stream)) == {places[number] for number in dead}
