"""Brokers that all tests of a process share; each test has streams and topics of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.consume.brokers import Broker, KafkaBroker, RedisBroker
from tests.servers import RedisServer


@pytest.fixture(scope="session")
def redis_broker() -> Iterator[RedisBroker]:
    with RedisServer() as server:
        broker = RedisBroker(server)
        yield broker
        broker.client.close()


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    broker = KafkaBroker()
    yield broker
    broker.close()


@pytest.fixture(params=["redis", "kafka"])
def broker(request: pytest.FixtureRequest) -> Broker:
    return request.getfixturevalue(f"{request.param}_broker")


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> str:
    """The name of a stream that no other test has."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
