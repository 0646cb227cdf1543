"""LanceDB: a table whose `code` is a fixed-size list of uint8, which it compares by `hamming`."""

from __future__ import annotations

import json

from onlinehash.export import arrow
from onlinehash.export.changes import BLOCK_ITEMS, Changes, need


def write(changes: Changes, target: str, name: str) -> None:
    """Create a table in a folder, or bring one up to date."""
    lancedb = need("lancedb", "LanceDB", "lancedb")
    import pyarrow as pa

    changes.check_place(target, name)
    database = lancedb.connect(target)
    try:
        table = database.open_table(name)
    except (ValueError, FileNotFoundError):  # there is none
        table = None
    changes.check_table(table is not None, target, name)
    if table is None:
        columns = arrow.schema(changes)
        database.create_table(name, pa.RecordBatchReader.from_batches(columns, arrow.batches(changes)), schema=columns)
        return
    for batch in arrow.batches(changes):
        found = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        found.execute(pa.table(batch))
    for start in range(0, len(changes.removed), BLOCK_ITEMS):
        some = changes.removed[start : start + BLOCK_ITEMS]
        table.delete(f"id IN ({', '.join(map(_literal, some))})")


def _literal(id: int | str) -> str:
    return "'" + id.replace("'", "''") + "'" if isinstance(id, str) else json.dumps(id)
