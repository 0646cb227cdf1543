"""DuckDB: a table whose `code` is of the type BIT, compared by `bit_count(xor(code, query))`."""

from __future__ import annotations

import os

from onlinehash.errors import InvalidInput
from onlinehash.export.changes import Changes, need, quoted, told


def write(changes: Changes, target: str, name: str) -> None:
    """Create a table in a database file, or bring one up to date, in one transaction."""
    duckdb = need("duckdb", "DuckDB", "duckdb")
    pa = need("pyarrow", "DuckDB", "duckdb")
    kind = "VARCHAR" if changes.ids_are_text else "BIGINT"
    changes.check_place(target, name)
    _check_file(target)
    with told(f"DuckDB at {target}", duckdb.Error), duckdb.connect(target) as database:
        tables = {row[0] for row in database.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        changes.check_table(name in tables, target, name)
        name = quoted(name)
        database.execute("BEGIN")
        if changes.is_first:
            database.execute(f"CREATE TABLE {name} (id {kind} PRIMARY KEY, code BIT NOT NULL, payload JSON)")
        for block in changes.blocks():
            columns = {"id": block.ids, "code": block.codes.to_pgvector(), "payload": block.texts()}
            database.register("_oh_block", pa.table(columns))
            database.execute(f"INSERT OR REPLACE INTO {name} SELECT id, code::BIT, payload::JSON FROM _oh_block")
        if changes.removed:
            database.register("_oh_removed", pa.table({"id": changes.removed}))
            database.execute(f"DELETE FROM {name} WHERE id IN (SELECT id FROM _oh_removed)")
        database.execute("COMMIT")


def _check_file(target: str) -> None:
    """Refuse a file of another kind: DuckDB opens csv, JSON and Parquet files too, and loses what is written then."""
    if os.path.isfile(target):
        with open(target, "rb") as file:
            if file.read(12)[8:] != b"DUCK":
                raise InvalidInput(f"{target} exists and is not a DuckDB database; export to a new file.")
