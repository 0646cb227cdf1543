"""sqlite-vec: a virtual table `vec0` whose `code` is `bit[N]`, compared by Hamming distance.

It is written through apsw, which brings an SQLite of its own: that of Python often cannot load extensions.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from onlinehash.export.changes import Changes, need, quoted, told


def write(changes: Changes, target: str, name: str) -> None:
    """Create a table in a database file, or bring one up to date, in one transaction."""
    apsw = need("apsw", "sqlite-vec", "sqlite-vec")
    extension = need("sqlite_vec", "sqlite-vec", "sqlite-vec")
    kind = "TEXT" if changes.ids_are_text else "INTEGER"
    changes.check_place(target, name)
    with told(f"SQLite at {target}", apsw.Error), closing(apsw.Connection(target)) as database:
        database.enable_load_extension(True)
        database.load_extension(extension.loadable_path())
        with database:
            found = list(database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)))
            changes.check_table(bool(found), target, name)
            name = quoted(name)
            if changes.is_first:
                columns = f"id {kind} PRIMARY KEY, code bit[{8 * changes.n_bytes}], +payload TEXT"
                database.execute(f"CREATE VIRTUAL TABLE {name} USING vec0({columns})")
            for block in changes.blocks():
                if not changes.is_first:
                    _delete(database, name, block.ids)  # vec0 cannot replace
                codes = map(bytes, block.codes.to_packbits())
                rows = zip(block.ids, codes, block.texts(), strict=True)
                database.executemany(f"INSERT INTO {name} (id, code, payload) VALUES (?, vec_bit(?), ?)", rows)
            _delete(database, name, changes.removed)


def _delete(database: Any, name: str, ids: Any) -> None:
    database.executemany(f"DELETE FROM {name} WHERE id = ?", ((id,) for id in ids))
