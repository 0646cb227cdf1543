"""PostgreSQL: a table whose `code` is of the type bit(n), compared by the operator `<~>` of pgvector."""

from __future__ import annotations

from typing import Any

from onlinehash.errors import InvalidInput
from onlinehash.export.changes import Changes, need, quoted, told


def write(changes: Changes, target: str, name: str) -> None:
    """Create a table in a database, or bring one up to date, in one transaction."""
    psycopg = need("psycopg", "PostgreSQL", "postgres")
    if not target.startswith(("postgresql://", "postgres://")):
        raise InvalidInput("pgvector takes the address of PostgreSQL, such as postgresql://user@localhost/database.")
    with told("PostgreSQL", psycopg.Error), psycopg.connect(target) as connection, connection.cursor() as cursor:
        table = quoted(name)
        found = cursor.execute("SELECT to_regclass(%s) IS NOT NULL", (table,)).fetchone()
        changes.check_table(bool(found and found[0]), "PostgreSQL", name)
        if changes.is_first:
            kind = "text" if changes.ids_are_text else "bigint"
            columns = f"id {kind} PRIMARY KEY, code bit({changes.n_bits}) NOT NULL, payload json"
            cursor.execute(f"CREATE TABLE {table} ({columns})")
            _copy(changes, cursor, table)
            return
        cursor.execute(f"CREATE TEMPORARY TABLE _oh_block (LIKE {table}) ON COMMIT DROP")
        _copy(changes, cursor, "_oh_block")
        cursor.execute(
            f"INSERT INTO {table} (id, code, payload) SELECT id, code, payload FROM _oh_block "
            "ON CONFLICT (id) DO UPDATE SET code = EXCLUDED.code, payload = EXCLUDED.payload"
        )
        cursor.execute(f"DELETE FROM {table} WHERE id = ANY(%s)", (list(changes.removed),))


def _copy(changes: Changes, cursor: Any, table: str) -> None:
    with cursor.copy(f"COPY {table} (id, code, payload) FROM STDIN") as copy:
        for block in changes.blocks():
            for row in zip(block.ids, block.codes.to_pgvector(), block.texts(), strict=True):
                copy.write_row(row)
