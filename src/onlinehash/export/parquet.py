"""Parquet: one file with the columns `id`, `code` and `payload`, which every data tool reads.

In a file of changes, a removed item has no code. Codes are lists whose length the type does not fix: many versions of
Arrow cannot read a file in which a list of fixed length is missing.
"""

from __future__ import annotations

import os

from onlinehash.errors import InvalidInput
from onlinehash.export import arrow
from onlinehash.export.changes import Changes, need
from onlinehash.io.atomic import replacing


def write(changes: Changes, target: str, name: str) -> None:
    """Write one file; the metadata of its schema say how long a code is, and of how many models."""
    parquet = need("pyarrow.parquet", "Parquet", "parquet")
    if not changes.is_first and os.path.exists(target):
        raise InvalidInput(f"{target} exists; changes since an earlier export need a file of their own.")
    import pyarrow as pa

    codes = changes.contents.codes
    facts = {"name": name, "n_bits": str(codes.n_bits), "n_models": str(codes.n_models)}
    columns = arrow.schema(changes)
    columns = columns.set(1, pa.field("code", pa.list_(pa.uint8()))).with_metadata(facts)
    with replacing(target) as file, parquet.ParquetWriter(file, columns) as writer:
        for batch in arrow.batches(changes):
            writer.write_batch(batch.cast(columns))
        if changes.removed:
            ids = pa.array(changes.removed, columns.types[0])
            nothing = [pa.nulls(len(ids), kind) for kind in columns.types[1:]]
            writer.write_batch(pa.record_batch([ids, *nothing], columns))
