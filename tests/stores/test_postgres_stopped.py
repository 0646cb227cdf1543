"""Statements of requests whose time is up: PostgreSQL stops them, and does to its end what serves others, too."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from onlinehash import PostgresIndex
from onlinehash.live.stop import stopped_by
from onlinehash.serve.errors import DeadlineExceeded
from onlinehash.stores.postgres import connections
from tests.serve.services import SECONDS
from tests.stores.conftest import Home
from tests.stores.postgres_worker import vector_of
from tests.stores.test_replicas_served import FIRST, make, post, served
from tests.support import refused

QUERY = {"vector": vector_of("query").tolist(), "k": 3}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gives up waiting for a lock."""
    monkeypatch.setattr(connections, "LOCK_SECONDS", 10 * SECONDS)


@contextmanager
def nobody_reads(home: Home) -> Iterator[None]:
    """Whoever reads items waits, until the block is left."""
    with psycopg.connect(home.address) as connection:
        connection.execute(f'LOCK TABLE "{home.schema}".items IN ACCESS EXCLUSIVE MODE')
        yield


def n_waiting(home: Home) -> int:
    """Statements that wait for a lock."""
    with psycopg.connect(home.address, autocommit=True) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s",
            (f"%{home.schema}%",),
        ).fetchone()
    assert found is not None
    return int(found[0])


def too_late() -> None:
    raise DeadlineExceeded("the time of this request is up.")


def test_a_statement_ends_with_its_request(stock_home: Home) -> None:
    make(stock_home)
    with served(stock_home, request_seconds=1.0) as (service, url):
        expected = post(url, "/v1/find", QUERY).json()
        service.index._vectors.__init__()  # type: ignore[misc]  # so that they are asked for again
        with nobody_reads(stock_home):
            began = time.monotonic()
            answered = post(url, "/v1/find", QUERY)
            assert (answered.status_code, answered.json()["error"]) == (504, "DeadlineExceeded")
            assert time.monotonic() - began < SECONDS / 2
            assert n_waiting(stock_home) == 0
        assert post(url, "/v1/find", QUERY).json() == expected


def test_a_statement_that_was_stopped_leaves_its_connection_as_it_was(
    stock_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = stock_home
    make(home)
    monkeypatch.setattr(connections, "MOST", 1)
    with PostgresIndex.open(home.address, schema=home.schema) as index:
        for _ in range(3):
            with nobody_reads(home), stopped_by(too_late):
                assert isinstance(refused(index.get_many, FIRST), DeadlineExceeded)
        assert [item.id for item in index.get_many(FIRST)] == FIRST
