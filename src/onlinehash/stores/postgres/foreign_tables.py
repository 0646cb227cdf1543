"""Rows on several servers: partitions by hash of the place that are foreign tables of postgres_fdw.

The first server reaches the others as a role that is made there for this index alone, with a password that nobody knows
but it. So the addresses of the servers' owners are used once, and kept nowhere.

A server's transaction is committed before that of the first one, and one may be committed and the next one not.
`gates` has a row on each server that every change writes: so one that undoes what another left waits until that one
has really come to its end on that server.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from psycopg import sql

from onlinehash.stores.postgres import pgvector, roles
from onlinehash.stores.postgres import schema as making
from onlinehash.stores.postgres.connections import LOCK_SECONDS, Connection, connect, parts, shown
from onlinehash.stores.postgres.errors import told

#: How the first server asks the others: for rows in packets, and all servers at once.
_SETTINGS = {
    "batch_size": "1000",
    "fetch_size": "1000",
    "async_capable": "true",
    "connect_timeout": "10",
    "keepalives_idle": "30",
}
#: And with which plans: those for what is in memory and, where chunks are looked up, with their btrees.
_PLANS = "-c random_page_cost=1.1 -c jit=off -c enable_seqscan=off"
#: For how long they wait for a lock.
_WAITS = f"-c lock_timeout={LOCK_SECONDS * 1000}"
#: Parts of an address that say who connects, or that this module sets.
_OURS = {"user", "password", "passfile", "service", "options", "application_name", "connect_timeout", "host", "port"}


class Shard(NamedTuple):
    """How the first server reaches another one."""

    options: dict[str, str]
    user: str
    password: str


@contextmanager
def prepared(addresses: Sequence[str], schema: str, about: making.About) -> Iterator[list[Shard]]:
    """The tables on each of the other servers, which are there for good when the block is left without an error."""
    with ExitStack() as stack:
        shards = []
        for number, address in enumerate(addresses):
            stack.enter_context(told(shown(address)))
            connection = stack.enter_context(connect(address))
            stack.enter_context(connection.transaction())
            shards.append(_prepare(connection, number, address, schema, about))
        yield shards


def _prepare(connection: Connection, number: int, address: str, schema: str, about: making.About) -> Shard:
    making.make_room(connection, schema)
    extended = about.search in making.PGVECTOR_MODES
    if extended:
        making.need_pgvector(connection)
    for statement in making.tables(schema, about):
        connection.execute(statement)
    connection.execute(f'CREATE TABLE "{schema}".gates (shard integer NOT NULL, passed bigint NOT NULL)')
    connection.execute(f'INSERT INTO "{schema}".gates VALUES (%s, 0)', (number,))
    user, password = f"onlinehash_{secrets.token_hex(6)}", secrets.token_urlsafe(24)
    kept = connection.pgconn.encrypt_password(password.encode(), user.encode(), b"scram-sha-256").decode()
    connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(user), sql.Literal(kept)))
    roles.grant(connection, schema, user, roles.NEEDED_ON_SHARDS)
    info = connection.info
    reached = {"host": info.host, "port": str(info.port), "dbname": info.dbname}
    asked = {name: str(value) for name, value in parts(address).items() if name not in _OURS}
    options = f"{_WAITS} {_plans(about.search)}".strip()
    settings = _SETTINGS | {"options": options} | ({"extensions": "vector"} if extended else {})
    return Shard(asked | reached | settings, user, password)


def _plans(search: str) -> str:
    if search in pgvector.APPROXIMATE:
        return " ".join(f"-c {name}={value}" for name, value in pgvector.settings(search).items())
    return _PLANS if search == "multi" else ""


def attach(connection: Connection, schema: str, about: making.About, shards: Sequence[Shard], role: str | None) -> None:
    """Inside the transaction of the first server: its tables, whose partitions are the tables of the others."""
    connection.execute("CREATE EXTENSION IF NOT EXISTS postgres_fdw")
    for table in ("items", "codes"):
        connection.execute(
            f'CREATE TABLE "{schema}".{table} ({making.definition(table, about)}) PARTITION BY HASH (place)'
        )
    connection.execute(
        f'CREATE TABLE "{schema}".gates (shard integer NOT NULL, passed bigint NOT NULL) PARTITION BY LIST (shard)'
    )
    for number, shard in enumerate(shards):
        server = sql.Identifier(f"{schema}_{number}")
        connection.execute(
            sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({})").format(
                server, _options(shard.options)
            )
        )
        for user in (sql.SQL("CURRENT_USER"), *([sql.Identifier(role)] if role else [])):
            connection.execute(
                sql.SQL("CREATE USER MAPPING FOR {} SERVER {} OPTIONS ({})").format(
                    user, server, _options({"user": shard.user, "password": shard.password})
                )
            )
        bounds = f"WITH (MODULUS {len(shards)}, REMAINDER {number})"
        for table, rows in (("items", bounds), ("codes", bounds), ("gates", f"IN ({number})")):
            connection.execute(
                sql.SQL("CREATE FOREIGN TABLE {} PARTITION OF {} FOR VALUES {} SERVER {} OPTIONS ({})").format(
                    sql.Identifier(schema, f"{table}_{number}"),
                    sql.Identifier(schema, table),
                    sql.SQL(rows),
                    server,
                    _options({"schema_name": schema, "table_name": table}),
                )
            )


def bring_up_to_date(connection: Connection, schema: str, n_shards: int) -> None:
    """Let no other server wait for a lock for ever, as those do that were attached before 0.2; their owner may do that.

    Whoever is connected through the first server goes on, and its next transaction connects anew.
    """
    found = connection.execute(
        "SELECT srvname, option_value FROM pg_foreign_server "
        "LEFT JOIN LATERAL pg_options_to_table(srvoptions) ON option_name = 'options' WHERE srvname = ANY(%s)",
        ([f"{schema}_{number}" for number in range(n_shards)],),
    )
    for server, options in found.fetchall():
        if "lock_timeout" not in (options or ""):
            connection.execute(
                sql.SQL("ALTER SERVER {} OPTIONS ({} options {})").format(
                    sql.Identifier(server),
                    sql.SQL("ADD" if options is None else "SET"),
                    sql.Literal(f"{_WAITS} {options or ''}".strip()),
                )
            )


def _options(options: dict[str, str]) -> sql.Composed:
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.Literal(value)) for name, value in options.items()
    )
