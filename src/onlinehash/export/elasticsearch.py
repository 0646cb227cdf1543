"""Elasticsearch (8.15 or newer): `dense_vector` of the element type `bit`, where `l2_norm` means Hamming."""

from __future__ import annotations

from onlinehash.codes import Codes
from onlinehash.export import bulk_files
from onlinehash.export.changes import Changes

#: Letters of a payload's value that are found by filters: Lucene refuses terms above 32,766 bytes, four for a letter.
LONGEST_VALUE = 8191


def write(changes: Changes, target: str, name: str) -> None:
    """Write a folder of files; the name is part of the address that they are posted to."""
    code = {
        "type": "dense_vector",
        "element_type": "bit",
        "dims": 8 * changes.n_bytes,
        "index": True,
        "similarity": "l2_norm",
        "index_options": {"type": "hnsw"},
    }
    payload = {"type": "flattened", "ignore_above": LONGEST_VALUE}
    mapping = {"mappings": {"properties": {"code": code, "payload": payload}}}
    bulk_files.write(changes, target, mapping, Codes.to_hex)
