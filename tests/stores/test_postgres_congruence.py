"""An index in PostgreSQL does what `LiveIndex` does: on one server, with pgvector, and with rows in two others."""

from __future__ import annotations

from typing import Any

import pytest

from onlinehash import PostgresIndex
from onlinehash.stores import index as stores_index
from tests.programs import WORLDS
from tests.servers import PostgresServer
from tests.stores.conftest import Home
from tests.stores.congruence import check, check_find

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # a stream of few similar pairs warns, in both


@pytest.mark.parametrize(
    ("kind", "world", "follow"),
    [
        ("stock", "OH by hand", False),
        ("stock", "HCOH", True),
        ("stock", "OH that waits", True),
        ("pgvector", "MMOH", False),
        ("sharded", "MMOH of one", False),
    ],
)
def test_the_same_program_has_the_same_results(
    kind: str, world: str, follow: bool, request: pytest.FixtureRequest, look_ups: None
) -> None:
    home: Home = request.getfixturevalue(f"{kind}_home")

    def make_index(learner: Any, policy: Any) -> PostgresIndex:
        index = PostgresIndex.create(home.address, learner, policy, follow=follow, **home.options)
        index.batch_rows = 7
        return index

    check(make_index, world, list(WORLDS).index(world), 25)  # so that both kinds of ids are there


def test_the_same_program_has_the_same_results_where_parts_are_computed_ahead(
    stock_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores_index, "AHEAD_ITEMS", 0)

    def make_index(learner: Any, policy: Any) -> PostgresIndex:
        index = PostgresIndex.create(stock_home.address, learner, policy, **stock_home.options)
        index.batch_rows = 5
        return index

    check(make_index, "OH", 0, 20)


def test_a_role_without_other_rights_can_do_all_of_it(stock_home: Home, roles: PostgresServer) -> None:
    def make_index(learner: Any, policy: Any) -> PostgresIndex:
        PostgresIndex.create(stock_home.address, learner, policy, role="app", **stock_home.options).close()
        return PostgresIndex.open(roles.address(user="app", password="hidden"), policy, schema=stock_home.schema)

    check(make_index, "MMOH", 100, 25)


def test_it_finds_the_same(stock_home: Home) -> None:
    def reopen(index: PostgresIndex) -> PostgresIndex:
        index.close()
        return PostgresIndex.open(stock_home.address, schema=stock_home.schema)

    address, options = stock_home.address, stock_home.options
    check_find(lambda learner, policy: PostgresIndex.create(address, learner, policy, **options), reopen)
