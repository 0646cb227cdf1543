"""What Elasticsearch and OpenSearch share: a folder with the mapping and files for their bulk route."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from onlinehash import checks
from onlinehash.codes import Codes
from onlinehash.errors import InvalidInput
from onlinehash.export.changes import Changes, json_text
from onlinehash.io.atomic import make_folders, replacing

#: A bulk request should have some megabytes; servers refuse more than a hundred.
FILE_BYTES = 8 << 20

#: Bytes of an id that both servers take.
LONGEST_ID = 512


def new_folder(target: str) -> Path:
    """A folder that is new, or was empty, so that no file of an earlier export is taken for one of this."""
    folder = Path(target)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder} already exists and is not an empty folder; export to a new folder.")
    make_folders(folder)
    return folder


def write(changes: Changes, target: str, mapping: dict[str, Any], as_field: Callable[[Codes], list[Any]]) -> None:
    """`mapping.json` to create the index with, where it is new, and `bulk-0001.ndjson`, ... to be posted in order."""
    folder = new_folder(target)
    if changes.is_first:
        with replacing(folder / "mapping.json") as file:
            file.write(json.dumps(mapping, indent=2).encode() + b"\n")
    for number, body in enumerate(_bodies(_actions(changes, as_field)), 1):
        with replacing(folder / f"bulk-{number:04}.ndjson") as file:
            file.write(body)


def _actions(changes: Changes, as_field: Callable[[Codes], list[Any]]) -> Iterator[bytes]:
    """What is done to one document, as one or two lines."""
    for block in changes.blocks():
        for id, code, payload in zip(block.ids, as_field(block.codes), block.payloads, strict=True):
            document = {"code": code} | ({} if payload is None else {"payload": payload})
            if len(str(id).encode()) > LONGEST_ID:
                raise InvalidInput(
                    f"an id may have {LONGEST_ID} bytes there, and this one has more: {checks.shown(id)}."
                )
            yield _lines({"index": {"_id": str(id)}}, document)
    for id in changes.removed:
        yield _lines({"delete": {"_id": str(id)}})


def _lines(*values: Any) -> bytes:
    return "".join(json_text(value) + "\n" for value in values).encode()


def _bodies(actions: Iterator[bytes]) -> Iterator[bytes]:
    body = bytearray()
    for action in actions:
        if body and len(body) + len(action) > FILE_BYTES:
            yield bytes(body)
            body.clear()
        body += action
    if body:
        yield bytes(body)
