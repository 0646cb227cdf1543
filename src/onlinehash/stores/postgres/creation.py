"""A new index in a database: all of it in one transaction, or nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.stores.backend import Head, Layout
from onlinehash.stores.postgres import foreign_tables, roles
from onlinehash.stores.postgres import schema as making
from onlinehash.stores.postgres.chunks import WIDTH
from onlinehash.stores.postgres.connections import Connection, checked_schema, connect, shown
from onlinehash.stores.postgres.errors import told
from onlinehash.stores.postgres.migration import take_steps

#: The format that `schema.tables` makes; steps lead to that of this version.
_FIRST = 1


def create(
    address: str,
    schema: str,
    layout: Layout,
    head: Head,
    blobs: dict[str, bytes],
    *,
    search: str,
    shards: Sequence[str],
    role: str | None,
) -> None:
    """Make the tables of an index, and fill in what it begins with."""
    checked_schema(schema)
    checks.parameters("PostgresIndex", {"search": search}, {"search": checks.one_of(*making.MODES)})
    addresses = _addresses(shards)
    about = making.About(_FIRST, layout, WIDTH, search, len(addresses))
    with told(shown(address)), connect(address) as connection, connection.transaction():
        making.make_room(connection, schema)
        if role is not None:
            roles.check_role(connection, role)
        if search in making.PGVECTOR_MODES:
            making.need_pgvector(connection)
        for statement in making.records(schema):
            connection.execute(statement)
        making.put_about(connection, schema, about)
        _fill(connection, schema, head, blobs)
        with foreign_tables.prepared(addresses, schema, about) as prepared, told(shown(address)):
            if prepared:
                foreign_tables.attach(connection, schema, about, prepared, role)
            else:
                for statement in making.tables(schema, about):
                    connection.execute(statement)
            take_steps(connection, schema, about)
            if role is not None:
                roles.grant(connection, schema, role, roles.needed(len(prepared)))
                if prepared:
                    roles.grant_temporary(connection, role)


def exists(address: str, schema: str) -> bool:
    """Whether there is an index in a schema."""
    checked_schema(schema)
    with told(shown(address)), connect(address) as connection:
        found = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (f'"{schema}".about',)).fetchone()
    return found == (True,)


def _addresses(shards: Any) -> list[str]:
    if isinstance(shards, str) or not all(isinstance(shard, str) for shard in shards):
        raise InvalidInput("shards must be a list of addresses, one for each server that holds rows.")
    if len(shards) == 1:
        raise InvalidInput(
            expected="the addresses of two servers or more as shards",
            got="one",
            hint="without shards the first server holds all rows",
        )
    return list(shards)


def _fill(connection: Connection, schema: str, head: Head, blobs: dict[str, bytes]) -> None:
    state = json.dumps(head.state)
    connection.execute(f'INSERT INTO "{schema}".head (epoch, state) VALUES (%s, %s)', (head.epoch, state))
    for name, value in blobs.items():
        connection.execute(f'INSERT INTO "{schema}".blobs VALUES (%s, %s)', (name, value), binary=True)
