"""An index in PostgreSQL does what `LiveIndex` does: on one server, with pgvector, and with rows on two others."""

from __future__ import annotations

from typing import Any

import pytest

from onlinehash import PostgresIndex
from onlinehash.stores import index as stores_index
from tests.programs import SOME_WORLDS, WORLDS
from tests.servers import PostgresServer
from tests.stores.conftest import Home
from tests.stores.congruence import check, check_find
from tests.support import mostly_long, thorough

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # a stream of few similar pairs warns, in both


@pytest.mark.thorough
@pytest.mark.parametrize("world", SOME_WORLDS)
def test_the_same_program_has_the_same_results(world: str, home: Home, look_ups: None) -> None:
    def make_index(learner: Any, policy: Any) -> PostgresIndex:
        index = PostgresIndex.create(home.address, learner, policy, **home.fresh().options)
        index.batch_rows = 7
        return index

    first = list(WORLDS).index(world)  # so that both kinds of ids are there on each of them
    for seed in range(first, first + thorough(1, 2)):
        check(make_index, world, seed, thorough(20, 60))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["stock", "sharded"])
def test_the_same_program_has_the_same_results_where_parts_are_computed_ahead(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    home: Home = request.getfixturevalue(f"{kind}_home")
    monkeypatch.setattr(stores_index, "AHEAD_ITEMS", 0)

    def make_index(learner: Any, policy: Any) -> PostgresIndex:
        index = PostgresIndex.create(home.address, learner, policy, **home.fresh().options)
        index.batch_rows = 5
        return index

    for seed in range(thorough(1, 4)):
        check(make_index, "OH", seed, thorough(20, 60))


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "world"), [("stock", "OH"), ("sharded", "MMOH"), ("stock", "OH that waits")])
def test_the_same_program_has_the_same_results_in_a_replica(
    kind: str, world: str, request: pytest.FixtureRequest
) -> None:
    home: Home = request.getfixturevalue(f"{kind}_home")

    def make_index(learner: Any, policy: Any) -> PostgresIndex:
        index = PostgresIndex.create(home.address, learner, policy, follow=True, **home.fresh().options)
        index.batch_rows = 7
        return index

    for seed in range(thorough(1, 4)):
        check(make_index, world, seed, thorough(30, 60))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", mostly_long(["stock", "sharded"], {"sharded"}))
def test_a_role_without_other_rights_can_do_all_of_it(
    kind: str, roles: PostgresServer, request: pytest.FixtureRequest
) -> None:
    home: Home = request.getfixturevalue(f"{kind}_home")

    def make_index(learner: Any, policy: Any) -> PostgresIndex:
        PostgresIndex.create(home.address, learner, policy, role="app", **home.options).close()
        return PostgresIndex.open(roles.address(user="app", password="hidden"), policy, schema=home.schema)

    check(make_index, "MMOH", 100, thorough(25, 200))


@pytest.mark.parametrize("kind", mostly_long(["stock", "pgvector", "sharded"], {"stock"}))
def test_it_finds_the_same(kind: str, request: pytest.FixtureRequest) -> None:
    fresh: Home = request.getfixturevalue(f"{kind}_home")

    def reopen(index: PostgresIndex) -> PostgresIndex:
        index.close()
        return PostgresIndex.open(fresh.address, schema=fresh.schema)

    check_find(lambda learner, policy: PostgresIndex.create(fresh.address, learner, policy, **fresh.options), reopen)


@pytest.mark.long
def test_a_replica_finds_the_same(stock_home: Home) -> None:
    options = stock_home.options | {"follow": True}
    check_find(lambda learner, policy: PostgresIndex.create(stock_home.address, learner, policy, **options))
