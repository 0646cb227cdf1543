"""PostgreSQL for these tests, started once: as Debian has it, with pgvector, and two more that hold rows for others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from onlinehash.stores.postgres import multi_index
from tests.servers import PostgresServer

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Home:
    """Where an index can be: a schema of its own on servers that all tests share."""

    server: PostgresServer
    shards: tuple[PostgresServer, ...] = ()
    search: str = "multi"
    schema: str = ""

    @property
    def address(self) -> str:
        return self.server.address()

    @property
    def options(self) -> dict[str, Any]:
        """For `PostgresIndex.create`."""
        shards = [shard.address() for shard in self.shards]
        return {"schema": self.schema, "search": self.search, "shards": shards}

    def fresh(self, search: str | None = None) -> Home:
        """Another schema."""
        return Home(self.server, self.shards, search or self.search, f"index_{next(_NUMBERS)}")


@pytest.fixture(scope="session")
def stock() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def with_pgvector() -> Iterator[PostgresServer]:
    with PostgresServer(pgvector=True) as server:
        yield server


@pytest.fixture(scope="session")
def two_more() -> Iterator[tuple[PostgresServer, ...]]:
    with ExitStack() as stack:
        yield tuple(stack.enter_context(PostgresServer()) for _ in range(2))


@pytest.fixture(scope="session")
def roles(stock: PostgresServer) -> PostgresServer:
    """The stock server, with two roles that own nothing."""
    with psycopg.connect(stock.address()) as connection:
        connection.execute("CREATE ROLE app LOGIN PASSWORD 'hidden'; CREATE ROLE outsider LOGIN PASSWORD 'hidden'")
    return stock


@pytest.fixture
def look_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks are looked up however few items there are, and whatever that costs."""
    monkeypatch.setattr(multi_index, "FEW", 0)
    monkeypatch.setattr(multi_index, "SHARE", math.inf)


@pytest.fixture
def stock_home(stock: PostgresServer) -> Home:
    return Home(stock).fresh()


@pytest.fixture
def sharded_home(stock: PostgresServer, two_more: tuple[PostgresServer, ...]) -> Home:
    return Home(stock, two_more).fresh()


@pytest.fixture
def pgvector_home(with_pgvector: PostgresServer) -> Home:
    return Home(with_pgvector, search="pgvector").fresh()


@pytest.fixture(params=["stock", "pgvector", "sharded"])
def home(request: pytest.FixtureRequest) -> Home:
    """Each kind of them in turn."""
    made: Home = request.getfixturevalue(f"{request.param}_home")
    return made
