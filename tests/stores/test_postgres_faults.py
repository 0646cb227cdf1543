"""What goes wrong around PostgreSQL while an index over it goes on: nonsense that strangers send, connections that
nobody answers any more, locks that nobody gives back, and a server that has become read-only."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from onlinehash import OnlineHashing, PostgresIndex, refresh
from onlinehash.errors import InvalidInput, ServiceUnavailable, Unauthorized
from onlinehash.stores.backend import Head
from onlinehash.stores.postgres import connections, news, silence
from onlinehash.stores.postgres.backend import PostgresBackend
from onlinehash.stores.postgres.connections import connect
from tests.serve.services import post_json
from tests.servers import PostgresServer, wait_until
from tests.stores.conftest import Home
from tests.stores.cut_connection import CutConnection
from tests.stores.postgres_worker import vectors_of
from tests.stores.test_replicas_served import served
from tests.support import state_bytes

IDS = [f"item/{i}" for i in range(20)]


def make(home: Home) -> None:
    with PostgresIndex.create(home.address, OnlineHashing(16, random_state=0), refresh.by_hand(), **home.options) as it:
        it.add(IDS, vectors_of(IDS))


def opened(home: Home, follow: bool = True, address: str | None = None) -> PostgresIndex:
    return PostgresIndex.open(address or home.address, refresh.by_hand(), schema=home.schema, follow=follow)


def test_a_database_that_does_not_exist(stock_home: Home) -> None:
    name = 'a "b" c'
    address = stock_home.server.address(quote(name))
    for call in (PostgresIndex.open, PostgresIndex.create):
        with pytest.raises(InvalidInput) as error:
            call(address)
        assert f"has no database {name!r}; " in str(error.value)
        assert "createdb" in str(error.value)
        assert "secret" not in str(error.value)
    with pytest.raises(Unauthorized, match="connect as somebody who may"):  # as it depends on who asks
        PostgresIndex.open(stock_home.server.address(user="nobody_here"))


# ------------------------------------------------------------------------------------------------ notifications


def test_a_notification_of_a_stranger_is_a_hint_and_no_more(
    stock_home: Home, roles: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    make(stock_home)
    with opened(stock_home) as a, opened(stock_home) as b:
        for payload in ("abc", "", "999999999999999999", "9" * 40, "-5"):
            with connect(roles.address(user="outsider", password="hidden")) as stranger:
                stranger.execute("SELECT pg_notify(%s, %s)", (news.channel(stock_home.schema), payload))
            new = f"item/{len(a)}"
            a.add([new], vectors_of([new]))
            wait_until(lambda: len(b.view) == len(a), "the other one to follow")
            for index in (a, b):
                assert index.head_epoch == index.epoch == a.epoch
                assert index.lag < 60
    assert not [record for record in caplog.records if record.name == "onlinehash.stores"], "nothing failed"


# ------------------------------------------------------------------------------------------------ silence


@pytest.fixture
def way(stock: PostgresServer) -> Iterator[CutConnection]:
    with CutConnection(stock.port) as way:
        yield way


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long before it asks whether anybody is there."""
    monkeypatch.setattr(silence, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(silence, "ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(news, "CHECK_SECONDS", 0.2)


def by_way_of(way: CutConnection, home: Home) -> str:
    return home.address.replace(f":{home.server.port}/", f":{way.port}/")


def test_a_change_that_nobody_answers_ends_and_leaves_no_lock(
    stock_home: Home, way: CutConnection, impatient: None
) -> None:
    make(stock_home)
    backend = PostgresBackend(by_way_of(way, stock_home), stock_home.schema)
    before = backend.head()
    for _ in range(2):
        with pytest.raises(ServiceUnavailable, match="no answer for"):
            change_in_vain(backend, way, before)
    assert backend.head() == before
    with backend.changing() as change:  # the lock of the head is free
        change.put_head(Head(before.epoch + 1, before.state))
    assert backend.head().epoch == before.epoch + 1
    backend.close()


def change_in_vain(backend: PostgresBackend, way: CutConnection, before: Head) -> None:
    with backend.changing() as change:
        way.swallow()
        change.put_head(Head(before.epoch + 1, before.state))


# ------------------------------------------------------------------------------------------------ locks


def test_a_change_does_not_wait_for_ever_for_a_process_that_hangs(
    stock_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LOCK_SECONDS", 0.5, raising=False)
    make(stock_home)
    with opened(stock_home, follow=False) as other, served(stock_home) as (service, url):
        before = (other.epoch, len(other), state_bytes(other.learner))
        with connect(stock_home.address) as hanging, hanging.transaction():
            hanging.execute(f"SELECT 1 FROM {stock_home.schema}.head FOR UPDATE")
            for path, document in (
                ("/v1/items", {"ids": ["new"], "vectors": vectors_of(["new"]).tolist()}),
                ("/v1/learn", {"id_a": IDS[:1], "id_b": IDS[1:2], "similar": [True]}),
            ):
                refused = post_json(url, path, document)
                assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1"), refused.text
                assert "nothing was changed" in refused.text
            assert post_json(url, "/v1/search", {"vector": vectors_of(["new"])[0].tolist()}).status_code == 200
            assert (other.epoch, len(other), state_bytes(other.learner)) == before
            assert state_bytes(service.index.learner) == before[2]
        made = post_json(url, "/v1/items", {"ids": ["new"], "vectors": vectors_of(["new"]).tolist()})
        assert made.status_code == 201, made.text
        assert len(other) == before[1] + 1
