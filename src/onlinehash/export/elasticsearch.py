"""Elasticsearch (8.15 or newer): `dense_vector` of the element type `bit`, where `l2_norm` means Hamming."""

from __future__ import annotations

from onlinehash.codes import Codes
from onlinehash.export import bulk_files
from onlinehash.export.changes import Changes


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
    mapping = {"mappings": {"properties": {"code": code, "payload": {"type": "flattened"}}}}
    bulk_files.write(changes, target, mapping, Codes.to_hex)
