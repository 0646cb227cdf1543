"""PostgreSQL for these tests: schemas of their own on one server, databases that hold rows for others, pgvector."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
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
    shards: tuple[str, ...] = ()
    search: str = "multi"
    schema: str = ""

    @property
    def address(self) -> str:
        return self.server.address()

    @property
    def options(self) -> dict[str, Any]:
        """For `PostgresIndex.create`."""
        return {"schema": self.schema, "search": self.search, "shards": list(self.shards)}

    def fresh(self, search: str | None = None) -> Home:
        """Another schema."""
        return Home(self.server, self.shards, search or self.search, f"index_{next(_NUMBERS)}")


@pytest.fixture(scope="session")
def stock(postgres_server: PostgresServer) -> PostgresServer:
    """PostgreSQL as Debian has it."""
    return postgres_server


@pytest.fixture(scope="session")
def with_pgvector() -> Iterator[PostgresServer]:
    with PostgresServer(pgvector=True) as server:
        yield server


@pytest.fixture(scope="session")
def two_shards(stock: PostgresServer) -> tuple[str, ...]:
    """Addresses of two databases, which are to an index what two more servers would be."""
    names = ("shard_0", "shard_1")
    with psycopg.connect(stock.address(), autocommit=True) as connection:
        for name in names:
            connection.execute(f"CREATE DATABASE {name}")
    return tuple(stock.address(name) for name in names)


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
def sharded_home(stock: PostgresServer, two_shards: tuple[str, ...]) -> Home:
    return Home(stock, two_shards).fresh()


@pytest.fixture
def pgvector_home(with_pgvector: PostgresServer) -> Home:
    return Home(with_pgvector, search="pgvector").fresh()
