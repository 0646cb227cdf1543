"""The tables of an index in PostgreSQL: how they are made, migrated and granted, and what is said when that fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import psycopg
import pytest

from onlinehash.errors import InvalidInput, ServiceUnavailable, Unauthorized
from onlinehash.stores.backend import Head, Layout
from onlinehash.stores.postgres import creation
from onlinehash.stores.postgres.backend import PostgresBackend
from onlinehash.stores.postgres.connections import connect, shown
from tests.servers import PostgresServer, free_port
from tests.stores.conftest import Home

LAYOUT = Layout(20, 2, "min")
PLACES, IDS = np.arange(4), ["a", "b", "c", "d"]
VECTORS = np.arange(8, dtype=np.float32).reshape(4, 2)
CODES = np.random.default_rng(0).integers(0, 16, (4, 6), dtype=np.uint8)


def make(home: Home, role: str | None = None, **options: Any) -> None:
    options = home.options | {"role": role} | options
    creation.create(home.address, options.pop("schema"), LAYOUT, Head(0, {"n": 0}), {"x": b"\0\xff"}, **options)


def opened(home: Home, address: str | None = None, search: str | None = None) -> PostgresBackend:
    return PostgresBackend(address or home.address, home.schema, search)


def add(backend: PostgresBackend) -> None:
    with backend.changing() as change:
        epoch = change.head.epoch + 1
        change.add_items(epoch, PLACES, IDS, VECTORS, [None, '{"a": 1}', None, "2"])
        change.add_codes(epoch, PLACES, IDS, CODES)
        change.put_head(Head(epoch, {"n": 4}))


def execute(address: str, statement: str) -> list[tuple[Any, ...]]:
    with connect(address) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


# ------------------------------------------------------------------ formats and roles


def test_a_role_may_use_an_index_and_no_more(stock_home: Home, roles: PostgresServer) -> None:
    home = stock_home
    make(home, role="app")
    app, schema = roles.address(user="app", password="hidden"), home.schema
    backend = opened(home, app)
    add(backend)
    with backend.changing() as change:
        change.end_items(2, PLACES[:1])
        change.end_codes(2, PLACES[:1])
        change.put_blob("y", b"1")
        change.drop_blobs(["x"])
        change.rewind(1)
        change.purge(1)
        change.put_head(Head(2, {}))
    assert backend.rows(2, codes=True).ids == IDS
    assert backend.within(CODES[0], 40, 2)
    assert backend.blobs(["x", "y"]) == {"y": b"1"}
    backend.close()
    forbidden = [f"DROP TABLE {schema}.{table}" for table in ("items", "codes", "head", "blobs", "about", "unfinished")]
    forbidden += [f"DROP SCHEMA {schema} CASCADE", f"CREATE TABLE {schema}.mine ()", f"TRUNCATE {schema}.items"]
    forbidden += [f"ALTER TABLE {schema}.items ADD COLUMN mine text", f"CREATE INDEX ON {schema}.items (place)"]
    forbidden += [f"UPDATE {schema}.about SET format = 1", f"DELETE FROM {schema}.head", "CREATE SCHEMA mine"]
    for statement in forbidden:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            execute(app, statement)
    with pytest.raises(Unauthorized):
        creation.create(app, "mine", LAYOUT, Head(0, {}), {}, search="multi", shards=(), role=None)
    outsider = roles.address(user="outsider", password="hidden")
    with pytest.raises(Unauthorized, match="permission denied"):
        opened(home, outsider)
    with pytest.raises(InvalidInput, match="name of a role that is there, got 'nobody'"):
        make(home.fresh(), role="nobody")


# ------------------------------------------------------------------ errors


def test_addresses_are_shown_without_passwords() -> None:
    assert shown("postgresql://me:secret@there:99/items") == "postgresql://me@there:99/items"
    assert shown("host=there user=me password=secret dbname=items") == "postgresql://me@there/items"
    assert shown("service=mine") == "service mine"
    for wrong in ("postgresql://me:secret@[there/x", "secret", 5, None, "\udc80"):
        with pytest.raises(InvalidInput, match="expected the address of a database") as error:
            shown(wrong)
        assert "secret" not in str(error.value)


def test_what_cannot_be_opened(stock_home: Home) -> None:
    make(stock_home)
    server = stock_home.server
    for error, address, schema, told in [
        (Unauthorized, server.address(password="wrong"), stock_home.schema, "password authentication failed"),
        (ServiceUnavailable, f"postgresql://postgres:wrong@127.0.0.1:{free_port()}/x", "onlinehash", "refused"),
        (InvalidInput, server.address(), "nothing_here", "expected an index in the schema nothing_here, got none"),
        (InvalidInput, server.address(), 'a"b', "schema's name"),
        (InvalidInput, server.address(), None, "schema's name"),
    ]:
        with pytest.raises(error, match=told) as raised:
            PostgresBackend(address, schema)  # type: ignore[arg-type]
        assert "\n" not in str(raised.value)
        assert "wrong" not in str(raised.value)
    for search, told in {"hnsw": "was made with search='hnsw'", "pgvector": "pgvector", "tree": "search to be"}.items():
        with pytest.raises(InvalidInput, match=told):
            opened(stock_home, search=search)
    opened(stock_home, search="scan").close()


@pytest.mark.long
def test_a_server_that_comes_back(stock_home: Home) -> None:
    """Connections of the pool died with it, and are replaced."""
    make(stock_home)
    backend = opened(stock_home)
    add(backend)
    with pytest.raises(ServiceUnavailable):
        change_across_a_restart(backend, stock_home.server)
    assert backend.head() == Head(1, {"n": 4})
    assert backend.rows(2).ids == IDS
    backend.close()


def change_across_a_restart(backend: PostgresBackend, server: PostgresServer) -> None:
    with backend.changing() as change:
        change.end_items(2, PLACES)
        server.kill()
        server.start()
        change.put_head(Head(2, {}))
