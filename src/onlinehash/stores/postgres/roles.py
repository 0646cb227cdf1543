"""What a role may do: open, search and change an index, and nothing else."""

from __future__ import annotations

from psycopg import sql

from onlinehash import checks
from onlinehash.errors import InvalidInput
from onlinehash.stores.postgres.connections import Connection

#: The privileges that an index needs on each table.
NEEDED = {
    "about": "SELECT",
    "head": "SELECT, UPDATE",
    "blobs": "SELECT, INSERT, UPDATE, DELETE",
    "items": "SELECT, INSERT, UPDATE, DELETE",
    "codes": "SELECT, INSERT, UPDATE, DELETE",
    "deltas": "SELECT, INSERT, UPDATE, DELETE",
    "receipts": "SELECT, INSERT, DELETE",
}
#: Those on the servers that hold rows for the first one.
NEEDED_ON_SHARDS = {"items": NEEDED["items"], "codes": NEEDED["codes"], "gates": "SELECT, UPDATE"}


def needed(n_shards: int) -> dict[str, str]:
    """The privileges of who uses an index; where rows are on other servers, searches ask each of them by itself."""
    if not n_shards:
        return NEEDED
    parts = {f"codes_{number}": "SELECT" for number in range(n_shards)}
    return NEEDED | {"unfinished": "SELECT, INSERT, DELETE", "gates": "SELECT, UPDATE"} | parts


def check_role(connection: Connection, role: str) -> None:
    """The role must be there: its password is for nobody here to choose."""
    if (
        not isinstance(role, str)
        or not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
    ):
        raise InvalidInput(
            expected="the name of a role that is there",
            got=checks.shown(role),
            hint="make it with CREATE ROLE ... LOGIN",
        )


def grant(connection: Connection, schema: str, role: str, needed: dict[str, str]) -> None:
    """Give a role these privileges on tables of the schema."""
    to = sql.Identifier(role)
    connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), to))
    for table, privileges in needed.items():
        connection.execute(
            sql.SQL("GRANT {} ON {} TO {}").format(sql.SQL(privileges), sql.Identifier(schema, table), to)
        )


def grant_temporary(connection: Connection, role: str) -> None:
    """Rows for other servers wait in a temporary table, which a database may have forbidden."""
    database = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("GRANT TEMPORARY ON DATABASE {} TO {}").format(database, sql.Identifier(role)))
