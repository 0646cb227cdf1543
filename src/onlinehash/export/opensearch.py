"""OpenSearch (2.16 or newer): `knn_vector` of the data type `binary`, as packed int8, with the space `hamming`."""

from __future__ import annotations

from onlinehash.export import bulk_files
from onlinehash.export.changes import Changes


def write(changes: Changes, target: str, name: str) -> None:
    """Write a folder of files; the name is part of the address that they are posted to."""
    code = {
        "type": "knn_vector",
        "data_type": "binary",
        "dimension": 8 * changes.n_bytes,
        "method": {"name": "hnsw", "engine": "faiss", "space_type": "hamming"},
    }
    mapping = {
        "settings": {"index": {"knn": True}},
        "mappings": {"properties": {"code": code, "payload": {"type": "flat_object"}}},
    }
    bulk_files.write(changes, target, mapping, lambda codes: codes.to_int8().tolist())
