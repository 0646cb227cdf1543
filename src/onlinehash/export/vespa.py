"""Vespa: a field `tensor<int8>(x[bytes])` with `distance-metric: hamming`, as a schema and a feed of JSON lines."""

from __future__ import annotations

from onlinehash.export.bulk_files import new_folder
from onlinehash.export.changes import Changes, json_text
from onlinehash.io.atomic import replacing

SCHEMA = """\
schema {name} {{
    document {name} {{
        field code type {tensor} {{
            indexing: attribute | index
            attribute {{
                distance-metric: hamming
            }}
        }}
        field payload type string {{
            indexing: summary
        }}
    }}
    rank-profile hamming {{
        inputs {{
            query(code) {tensor}
        }}
        first-phase {{
            expression: closeness(field, code)
        }}
    }}
}}
"""


def write(changes: Changes, target: str, name: str) -> None:
    """Write a folder with `NAME.sd`, where the schema is new, and `feed.jsonl` for `vespa feed`."""
    folder = new_folder(target)
    if changes.is_first:
        with replacing(folder / f"{name}.sd") as file:
            file.write(SCHEMA.format(name=name, tensor=f"tensor<int8>(x[{changes.n_bytes}])").encode())
    with replacing(folder / "feed.jsonl") as file:
        for block in changes.blocks():
            for id, code, text in zip(block.ids, block.codes.to_hex(), block.texts(), strict=True):
                fields = {"code": {"values": code}} | ({} if text is None else {"payload": text})
                file.write(json_text({"put": f"id:{name}:{name}::{id}", "fields": fields}).encode() + b"\n")
        for id in changes.removed:
            file.write(json_text({"remove": f"id:{name}:{name}::{id}"}).encode() + b"\n")
