"""What goes wrong around PostgreSQL while an index over it goes on: nonsense that strangers send, connections that
nobody answers any more, locks that nobody gives back, and a server that has become read-only."""

from __future__ import annotations

import pytest

from onlinehash import OnlineHashing, PostgresIndex, refresh
from onlinehash.stores.postgres import news
from onlinehash.stores.postgres.connections import connect
from tests.servers import PostgresServer, wait_until
from tests.stores.conftest import Home
from tests.stores.postgres_worker import vectors_of

IDS = [f"item/{i}" for i in range(20)]


def make(home: Home) -> None:
    with PostgresIndex.create(home.address, OnlineHashing(16, random_state=0), refresh.by_hand(), **home.options) as it:
        it.add(IDS, vectors_of(IDS))


def opened(home: Home, follow: bool = True, address: str | None = None) -> PostgresIndex:
    return PostgresIndex.open(address or home.address, refresh.by_hand(), schema=home.schema, follow=follow)


# ------------------------------------------------------------------------------------------------ notifications


@pytest.mark.parametrize("payload", ["abc", "", "999999999999999999", "9" * 40, "-5", "1_0", "٣", "1e9"])
def test_a_notification_of_a_stranger_is_a_hint_and_no_more(
    payload: str, stock_home: Home, roles: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    make(stock_home)
    with opened(stock_home) as a, opened(stock_home) as b:
        for _ in range(2):
            with connect(roles.address(user="outsider", password="hidden")) as stranger:
                stranger.execute("SELECT pg_notify(%s, %s)", (news.channel(stock_home.schema), payload))
            new = f"item/{len(a)}"
            a.add([new], vectors_of([new]))
            wait_until(lambda new=new: new in b.view, "the other one to follow")
            for index in (a, b):
                assert index.head_epoch == index.epoch == a.epoch
                assert index.lag < 60
    assert not caplog.records, "nothing failed"
