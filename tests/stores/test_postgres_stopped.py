"""Statements of requests whose time is up: PostgreSQL stops them, and does to its end what serves others, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from onlinehash.stores.postgres import connections
from tests.serve.services import SECONDS
from tests.stores.conftest import Home
from tests.stores.postgres_worker import vector_of
from tests.stores.test_replicas_served import make, post, served

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


def test_a_statement_ends_with_its_request(stock_home: Home) -> None:
    make(stock_home)
    with served(stock_home, request_seconds=3.0) as (service, url):
        expected = post(url, "/v1/find", QUERY).json()
        service.index._vectors.__init__()  # type: ignore[misc]  # so that they are asked for again
        with nobody_reads(stock_home):
            answered = post(url, "/v1/find", QUERY)
            assert (answered.status_code, answered.json()["error"]) == (504, "DeadlineExceeded")
            assert n_waiting(stock_home) == 0
        assert post(url, "/v1/find", QUERY).json() == expected
