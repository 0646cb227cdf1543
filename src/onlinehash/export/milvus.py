"""Milvus: a collection whose `code` is a BINARY_VECTOR, compared by HAMMING; its index BIN_FLAT looks at every code.

A text id is an ordinary field beside a `key` made of it: Milvus Lite cannot delete keys that hold a quote.
"""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from types import ModuleType
from typing import Any

from onlinehash.errors import InvalidInput
from onlinehash.export.changes import BLOCK_ITEMS, Block, Changes, need, told
from onlinehash.index.api import Id

#: Bytes of a request; a cluster takes 64 MB.
REQUEST_BYTES = 8 << 20
#: The longest text that Milvus takes.
TEXT_BYTES = 65_535
#: Seconds that a connection may take.
PATIENCE = 10.0


def write(changes: Changes, target: object, name: str) -> None:
    """Create a collection, or bring one up to date: through a client, at an address, or in a file of Milvus Lite."""
    milvus = need("pymilvus", "Milvus", "milvus")
    if isinstance(target, str) and not target.startswith(("http://", "https://")):
        if not target.endswith(".db"):
            raise InvalidInput("Milvus takes an address such as http://localhost:19530, or a file that ends in .db.")
        changes.check_place(target, name)
    _hush()
    with told("Milvus", milvus.MilvusException), _client(milvus, target) as client:
        changes.check_table(client.has_collection(name), "Milvus", name)
        if changes.is_first:
            _create(milvus.DataType, changes, client, name)
        put = client.insert if changes.is_first else client.upsert
        for block in changes.blocks():
            for rows in _requests(block):
                put(name, rows)
        for start in range(0, len(changes.removed), BLOCK_ITEMS):
            client.delete(name, ids=list(map(key, changes.removed[start : start + BLOCK_ITEMS])))


def key(id: Id) -> int | str:
    """The primary key of an item: its id, if that is an integer, or else a digest of it."""
    return id if isinstance(id, int) else hashlib.blake2b(id.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _client(milvus: ModuleType, target: object) -> AbstractContextManager[Any]:
    if not isinstance(target, str):
        return nullcontext(target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Milvus Lite asks pkg_resources for its version, which setuptools warns of
        token = os.environ.get("MILVUS_TOKEN", "")
        return closing(milvus.MilvusClient(target, token=token, timeout=PATIENCE, dedicated=True))


def _create(kinds: Any, changes: Changes, client: Any, name: str) -> None:
    schema, index = client.create_schema(auto_id=False), client.prepare_index_params()
    if changes.ids_are_text:
        schema.add_field("key", kinds.VARCHAR, is_primary=True, max_length=32)
        schema.add_field("id", kinds.VARCHAR, max_length=TEXT_BYTES)
    else:
        schema.add_field("id", kinds.INT64, is_primary=True)
    schema.add_field("code", kinds.BINARY_VECTOR, dim=8 * changes.n_bytes)
    schema.add_field("payload", kinds.JSON)
    index.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
    client.create_collection(name, schema=schema, index_params=index, consistency_level="Strong")


def _requests(block: Block) -> Iterator[list[dict[str, Any]]]:
    """The rows of a block, as many at once as a request may have; an item without a payload has an empty one."""
    codes = block.codes.to_packbits()
    longest = max(len(text or "") for text in block.texts()) + codes.shape[1] + 100
    step = max(1, REQUEST_BYTES // longest)
    rows = [
        ({} if isinstance(id, int) else {"key": key(id)}) | {"id": id, "code": bytes(code), "payload": payload or {}}
        for id, code, payload in zip(block.ids, codes, block.payloads, strict=True)
    ]
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _hush() -> None:
    """The client logs a traceback for each error that it raises, on the terminal of whoever runs us."""
    logger = logging.getLogger("pymilvus")
    if logger.level == logging.WARNING:  # nobody has asked for more or less
        logger.setLevel(logging.CRITICAL)
