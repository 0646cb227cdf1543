"""The tables of an index in PostgreSQL: how they are made, migrated and granted, and what is said when that fails."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing
from typing import Any

import numpy as np
import psycopg
import pytest

from onlinehash import OnlineHashing, PostgresIndex
from onlinehash.errors import FormatError, InvalidInput, OnlineHashError, ServiceUnavailable, StorageError, Unauthorized
from onlinehash.stores.backend import Backend, Head, Layout
from onlinehash.stores.postgres import creation, migration
from onlinehash.stores.postgres.backend import PostgresBackend
from onlinehash.stores.postgres.connections import connect, shown
from tests.servers import PostgresServer, free_port
from tests.stores.conftest import Home

pytestmark = pytest.mark.long

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


# ------------------------------------------------------------------ rows


def test_what_is_written_is_read(home: Home) -> None:
    make(home)
    backend = opened(home)
    add(backend)
    assert backend.head() == Head(1, {"n": 4})
    assert backend.blobs(["x", "y"]) == {"x": b"\0\xff"}
    assert backend.places(["c", "e", "a", "a\0"], 1).tolist() == [2, -1, 0, -1]
    assert backend.places(["c"], 0).tolist() == [-1]
    found = backend.rows(1, vectors=True, codes=True)
    assert (found.places.tolist(), found.ids, found.payloads) == ([0, 1, 2, 3], IDS, [None, '{"a": 1}', None, "2"])
    assert b"".join(found.vectors) == VECTORS.tobytes()
    assert np.array_equal(found.codes, CODES)
    assert backend.rows(1, after=0, limit=2).ids == ["b", "c"]
    for first, stop in ((0, 9), (1, 3), (4, 9)):
        page, expected = backend.coded(1, first, stop), Backend.coded(backend, 1, first, stop)
        assert page.places.tolist() == expected.places.tolist() == list(range(first, min(stop, 4)))
        assert page.vectors == expected.vectors
        assert np.array_equal(page.codes, expected.codes)
    assert backend.rows(1, np.array([3, 1, 9])).places.tolist() == [1, 3]
    assert [hit.id for hit in backend.nearest(CODES[2], 1, 1)] == ["c"]
    backend.close()


def test_a_row_counts_from_its_birth_to_its_death(home: Home) -> None:
    make(home)
    backend = opened(home)
    add(backend)
    with backend.changing() as change:
        change.end_items(2, np.array([0, 1]))
        change.end_codes(2, np.array([0, 1, 2]))
        change.add_codes(2, PLACES[2:3], ["c"], CODES[:1])
        change.put_head(Head(2, {}))
    assert [backend.rows(epoch).ids for epoch in (0, 1, 2)] == [[], IDS, ["c", "d"]]
    assert np.array_equal(backend.rows(1, codes=True).codes, CODES)
    assert np.array_equal(backend.rows(2, codes=True).codes, CODES[[0, 3]])
    with backend.changing() as change:  # codes of a later epoch: they go, or are undone
        change.end_codes(9, PLACES[2:])
        change.add_codes(9, PLACES[2:], IDS[2:], CODES[:2])
        change.put_head(Head(3, {}))
    assert np.array_equal(backend.rows(9, codes=True).codes, CODES[:2])
    with backend.changing() as change:
        change.end_codes(4, PLACES[3:])
        change.put_head(Head(4, {}))
    assert np.array_equal(backend.rows(9, codes=True).codes, np.stack([CODES[0], 0 * CODES[0]]))
    with backend.changing() as change:
        change.rewind(3)
        change.purge(2)
        change.put_head(Head(3, {}))
    for epoch in (3, 9):
        assert np.array_equal(backend.rows(epoch, codes=True).codes, CODES[[0, 3]])
    assert backend.rows(1).ids == ["c", "d"]  # of which the others are purged
    backend.close()


def test_a_change_without_a_head_is_none(home: Home) -> None:
    make(home)
    backend = opened(home)
    add(backend)
    with backend.changing() as change:
        change.end_items(2, PLACES)
        change.put_blob("y", b"1")
    with pytest.raises(ZeroDivisionError):
        put_and_fail(backend)
    with backend.changing() as change:
        assert change.rewound == bool(home.shards)
        assert change.head == Head(1, {"n": 4})
        change.put_head(change.head)
    with backend.changing() as change:
        assert not change.rewound
    assert backend.rows(2).ids == IDS
    assert np.array_equal(backend.rows(2, codes=True).codes, CODES)
    assert backend.blobs(["y"]) == {}
    backend.close()


def put_and_fail(backend: PostgresBackend) -> None:
    with backend.changing() as change:
        change.end_codes(2, PLACES)
        change.put_head(Head(2, {}))
        raise ZeroDivisionError


def test_ids_are_texts_of_any_length_but_without_the_character_0(stock_home: Home) -> None:
    make(stock_home)
    backend = opened(stock_home)
    names = ["é" * 5000, "", "'; DROP SCHEMA onlinehash", "\\N"]
    with backend.changing() as change:
        change.add_items(1, PLACES, names, VECTORS, [None] * 4)
        change.put_head(Head(1, {}))
    assert backend.places(names, 1).tolist() == [0, 1, 2, 3]
    with pytest.raises(InvalidInput, match="without the character 0"), backend.changing() as change:
        change.add_items(2, PLACES[:1], ["a\0"], VECTORS[:1], [None])
    backend.close()


def test_the_view_for_people(home: Home) -> None:
    make(home)
    backend = opened(home)
    add(backend)
    with backend.changing() as change:
        change.end_items(2, PLACES[:3])
        change.put_head(Head(2, {}))
    ((place, id, payload, vector, *codes),) = execute(home.address, f"SELECT * FROM {home.schema}.present")
    assert (place, id, payload, bytes(vector)) == (3, "d", "2", VECTORS[3].tobytes())
    assert "".join(codes) == "".join(f"{byte:08b}" for byte in CODES[3])
    backend.close()


# ------------------------------------------------------------------ several servers


def test_rows_are_spread_and_searched_where_they_are(sharded_home: Home) -> None:
    make(sharded_home)
    backend, schema, n = opened(sharded_home), sharded_home.schema, 400
    rng = np.random.default_rng(1)
    codes, ids = rng.integers(0, 16, (n, 6), dtype=np.uint8), [f"i{k}" for k in range(n)]
    with backend.changing() as change:
        change.add_codes(1, np.arange(n), ids, codes)
        change.put_head(Head(1, {}))
    counts = [execute(s.address(), f"SELECT count(*) FROM {schema}.codes")[0][0] for s in sharded_home.shards]
    assert sum(counts) == n
    assert min(counts) > n // 4
    distances = np.bitwise_count(codes ^ codes[7]).reshape(n, 2, 3).sum(axis=2).min(axis=1)
    expected = np.lexsort([np.arange(n), distances])[:10]
    assert [(hit.distance, hit.place) for hit in backend.nearest(codes[7], 10, 1)] == [
        (distances[place], place) for place in expected
    ]
    backend.close()


def test_servers_search_and_order_and_limit_their_rows_at_the_same_time(
    sharded_home: Home, look_ups: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(sharded_home)
    backend = opened(sharded_home)
    add(backend)
    plans: list[str] = []
    execute_plainly = psycopg.Connection.execute

    def explained(self: Any, statement: Any, *values: Any, **options: Any) -> Any:
        if "bit_count" in statement:
            plans.append("\n".join(row[0] for row in execute_plainly(self, f"EXPLAIN (VERBOSE) {statement}", *values)))
        return execute_plainly(self, statement, *values, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", explained)
    backend.nearest(CODES[0], 2, 1)
    assert plans
    for plan in plans:
        assert plan.count("Async Foreign Scan") == 4  # two servers, each asked for the nearest by each of two models
        remote = [line for line in plan.splitlines() if "Remote SQL" in line]
        assert len(remote) == 4
        for line in remote:
            assert "chunk0 = ANY" in line
            assert re.search(r"ORDER BY .*bit_count.* LIMIT", line)
    backend.close()


def test_servers_are_reached_as_somebody_who_may_only_use_the_rows(sharded_home: Home) -> None:
    make(sharded_home)
    found = execute(
        sharded_home.address,
        "SELECT srvoptions, umoptions FROM pg_user_mappings JOIN pg_foreign_server s "
        f"ON s.oid = srvid WHERE s.srvname LIKE '{sharded_home.schema}\\_%' ORDER BY s.srvname",
    )
    assert len(found) == 2
    for shard, (_, options) in zip(sharded_home.shards, found, strict=True):
        known = dict(option.split("=", 1) for option in options)
        assert known["user"] != "postgres"
        assert known["password"] != "secret"
        address = shard.address(user=known["user"], password=known["password"])
        assert execute(address, f"SELECT count(*) FROM {sharded_home.schema}.items") == [(0,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            execute(address, f"DROP TABLE {sharded_home.schema}.items")


def test_a_server_that_is_not_there_leaves_nothing_on_the_others(sharded_home: Home) -> None:
    here = sharded_home.shards[0].address()
    nowhere = f"postgresql://postgres:secret@127.0.0.1:{free_port()}/postgres"
    with pytest.raises(ServiceUnavailable) as error:
        make(sharded_home, shards=[here, nowhere])
    assert "secret" not in str(error.value)
    for address in (here, sharded_home.address):
        assert execute(address, f"SELECT to_regnamespace('{sharded_home.schema}')") == [(None,)]
    with pytest.raises(InvalidInput, match="two servers or more"):
        make(sharded_home, shards=[here])
    with pytest.raises(InvalidInput, match="a list of addresses"):
        make(sharded_home, shards=here)


# ------------------------------------------------------------------ formats and roles


def test_migration(stock_home: Home) -> None:
    make(stock_home)
    address, schema = stock_home.address, stock_home.schema
    with closing(opened(stock_home)) as backend:
        add(backend)
    new = f"DROP VIEW {schema}.present; DROP TABLE {schema}.deltas, {schema}.receipts"
    execute(address, f"{new}; UPDATE {schema}.about SET format = 1")  # as format 1 was
    with pytest.raises(FormatError, match=f"`onlinehash postgres migrate ADDRESS --schema {schema}`"):
        opened(stock_home)
    assert migration.migrate(address, schema) == (1, migration.FORMAT)
    assert [row[0] for row in execute(address, f"SELECT id FROM {schema}.present ORDER BY place")] == IDS
    assert migration.migrate(address, schema) == (migration.FORMAT, migration.FORMAT)
    with closing(opened(stock_home)) as backend:
        assert backend.head() == Head(1, {"n": 4})
    execute(address, f"UPDATE {schema}.about SET format = 99")
    for use in (lambda: opened(stock_home), lambda: migration.migrate(address, schema)):
        with pytest.raises(FormatError, match="got 99; it was made by a newer version"):
            use()


def test_tables_with_vectors_apart_from_their_rows_work_as_before(stock_home: Home) -> None:
    """As they were made up to version 0.1: long vectors are in a table for long values."""
    X = np.random.default_rng(0).standard_normal((40, 700)).astype(np.float32)
    home, apart = (
        stock_home,
        f"SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = '{stock_home.schema}.items'",
    )
    with PostgresIndex.create(home.address, OnlineHashing(16, random_state=0), schema=home.schema) as index:
        (toast,) = execute(home.address, f"{apart}::regclass")[0]
        index.add(None, X[:20])
        assert execute(home.address, f"SELECT count(*) FROM {toast}") == [(0,)]
        execute(home.address, f"ALTER TABLE {home.schema}.items RESET (toast_tuple_target)")
        index.add(None, X[20:])
        assert execute(home.address, f"SELECT count(*) > 0 FROM {toast}") == [(True,)]
        index.learn_pairs(X[:10], X[10:20], np.arange(10) % 2 == 0)
        index.refresh()
        assert np.array_equal(index.vectors, X)
        assert index.encoder is not None
        assert index.codes == index.encoder.encode(X)


def test_servers_that_were_attached_when_they_waited_for_locks_for_ever(sharded_home: Home) -> None:
    make(sharded_home)
    address, schema = sharded_home.address, sharded_home.schema

    def options() -> list[str]:
        rows = execute(
            address,
            "SELECT option_value FROM pg_foreign_server, pg_options_to_table(srvoptions) "
            f"WHERE srvname IN ('{schema}_0', '{schema}_1') AND option_name = 'options' ORDER BY srvname",
        )
        return [value for (value,) in rows]

    assert ["lock_timeout=10000" in value for value in options()] == [True, True]
    with closing(opened(sharded_home)) as backend:
        add(backend)  # by connections that are there when the servers change
        execute(address, f"ALTER SERVER {schema}_0 OPTIONS (SET options '-c jit=off')")
        execute(address, f"ALTER SERVER {schema}_1 OPTIONS (DROP options)")
        for _ in range(2):
            assert migration.migrate(address, schema) == (migration.FORMAT, migration.FORMAT)
            assert options() == ["-c lock_timeout=10000 -c jit=off", "-c lock_timeout=10000"]
        assert backend.rows(1, after=-1, limit=9).ids == IDS


def test_a_migration_that_fails_changes_nothing(stock_home: Home) -> None:
    make(stock_home)
    address, schema = stock_home.address, stock_home.schema
    execute(address, f"UPDATE {schema}.about SET format = 1")  # while the view is there, so that it cannot be made
    with pytest.raises(OnlineHashError, match="already exists"):
        migration.migrate(address, schema)
    assert execute(address, f"SELECT format FROM {schema}.about") == [(1,)]


@pytest.mark.parametrize("kind", ["stock", "sharded"])
def test_a_role_may_use_an_index_and_no_more(kind: str, roles: PostgresServer, request: pytest.FixtureRequest) -> None:
    home: Home = request.getfixturevalue(f"{kind}_home")
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


def test_what_cannot_be_made(stock_home: Home) -> None:
    make(stock_home)
    with pytest.raises(InvalidInput, match=f"nothing in the schema {stock_home.schema}, got"):
        make(stock_home)
    with pytest.raises(InvalidInput, match="server with pgvector"):
        make(stock_home.fresh(search="hnsw"))
    with pytest.raises(InvalidInput, match="search to be one of"):
        make(stock_home.fresh(search="tree"))
    another = stock_home.fresh()
    with pytest.raises(InvalidInput, match="background to be True or False"):
        PostgresIndex.create(another.address, OnlineHashing(8), schema=another.schema, background="yes")
    make(another)  # nothing was made before


def test_the_server_that_refused_is_named(sharded_home: Home) -> None:
    """Not one of the others, whose tables are made at the same time."""
    statement = f"CREATE SERVER {sharded_home.schema}_0 FOREIGN DATA WRAPPER postgres_fdw"
    execute(sharded_home.address, f"CREATE EXTENSION IF NOT EXISTS postgres_fdw; {statement}")
    with pytest.raises(InvalidInput, match=f":{sharded_home.server.port}/postgres failed: .* exists"):
        make(sharded_home)


def test_tables_that_are_gone_are_no_fault_of_what_was_given(stock_home: Home) -> None:
    make(stock_home)
    backend = opened(stock_home)
    execute(stock_home.address, f"DROP TABLE {stock_home.schema}.items CASCADE")
    with pytest.raises(StorageError, match="does not exist"):
        add(backend)
    backend.close()


def test_the_pool_does_not_write_to_the_terminal() -> None:
    said = "logging.getLogger('psycopg.pool').warning('error connecting')"
    command = f"import logging; from onlinehash.stores.postgres import connections; {said}"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, check=True)
    assert done.stderr == b""


def test_a_schema_that_is_there_but_empty_can_be_used(stock_home: Home) -> None:
    execute(stock_home.address, f"CREATE SCHEMA {stock_home.schema}")
    make(stock_home)
    opened(stock_home).close()


def test_a_database_that_is_read_only(stock_home: Home) -> None:
    make(stock_home)
    backend = opened(stock_home, stock_home.address + "?options=-c%20default_transaction_read_only%3Don")
    assert backend.head().epoch == 0
    with pytest.raises(ServiceUnavailable, match="is read-only"):
        add(backend)
    backend.close()


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
