"""The table of receipts: what came of changes that are to be made once, written in the change's own transaction.

A receipt has a number, and knows the bytes of all that were there before it. So those that are too old, or beyond the
bytes that are kept, are found by a btree.
"""

from __future__ import annotations

from typing import Any

from onlinehash.live.sqlite.receipts import MOST, MOST_BYTES, size
from onlinehash.stores.postgres.connections import Connection


def tables(schema: str) -> list[str]:
    """Statements that make the table. Keys and digests may be any texts, which PostgreSQL's are not."""
    name = f'"{schema}".receipts'
    return [
        f"CREATE TABLE {name} (key bytea PRIMARY KEY, number bigint NOT NULL, begins bigint NOT NULL, "
        "n_bytes bigint NOT NULL, digest bytea NOT NULL, value bytea NOT NULL)",
        f"CREATE UNIQUE INDEX receipts_number ON {name} (number)",
        f"CREATE INDEX receipts_begins ON {name} (begins)",
    ]


def put_statement(schema: str) -> str:
    """Puts a receipt, unless its key has one; gives its number, and the bytes of all with it."""
    name = f'"{schema}".receipts'
    return (
        f"WITH last AS (SELECT number, begins + n_bytes AS ends FROM {name} ORDER BY number DESC LIMIT 1) "
        f"INSERT INTO {name} (key, number, begins, n_bytes, digest, value) "
        "SELECT %s, coalesce((SELECT number FROM last), 0) + 1, coalesce((SELECT ends FROM last), 0), %s, %s, %s "
        "ON CONFLICT (key) DO NOTHING RETURNING number, begins + n_bytes"
    )


def parameters(key: str, digest: str, value: bytes) -> tuple[Any, ...]:
    """Those of `put_statement`."""
    name, asked = _bytes(key), _bytes(digest)
    return name, size(name, asked, value), asked, value


def forget_old(connection: Connection, schema: str, number: int, ends: int) -> None:
    """Keep the last ones; the newest has this number."""
    connection.execute(
        f'DELETE FROM "{schema}".receipts WHERE number <= %s OR (begins < %s AND number < %s)',
        (number - MOST, ends - MOST_BYTES, number),
    )


def find(connection: Connection, schema: str, key: str) -> tuple[str, bytes] | None:
    """The digest and the outcome of a key."""
    row = connection.execute(
        f'SELECT digest, value FROM "{schema}".receipts WHERE key = %s', (_bytes(key),), binary=True
    ).fetchone()
    return None if row is None else (row[0].decode("utf-8", "surrogatepass"), row[1])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
