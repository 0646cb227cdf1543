"""Items as Arrow tables, which Parquet files are written from and LanceDB takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onlinehash.export.changes import Block, Changes, need


def schema(changes: Changes) -> Any:
    """`id`, the packed `code` (fixed-size list of uint8), and the `payload` as JSON."""
    pa = need("pyarrow", "Arrow tables", "parquet")
    kind = pa.string() if changes.ids_are_text else pa.int64()
    return pa.schema([("id", kind), ("code", pa.list_(pa.uint8(), changes.n_bytes)), ("payload", pa.string())])


def batches(changes: Changes) -> Iterator[Any]:
    """The items to write."""
    columns = schema(changes)
    for block in changes.blocks():
        yield _batch(block, columns)


def _batch(block: Block, columns: Any) -> Any:
    import pyarrow as pa

    codes = pa.FixedSizeListArray.from_arrays(pa.array(block.codes.to_packbits().reshape(-1)), type=columns.types[1])
    return pa.record_batch(
        [pa.array(block.ids, columns.types[0]), codes, pa.array(block.texts(), pa.string())], columns
    )
