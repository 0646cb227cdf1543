"""Qdrant: vectors of +1 and -1 with binary quantisation, compared by the dot product.

Qdrant has no type for bits. Of +1 and -1, its binary quantisation keeps exactly the bits, and the dot product of two
codes is the number of bits less twice their distance, so that it ranks as the Hamming distance does.
"""

from __future__ import annotations

import os
import uuid
from contextlib import AbstractContextManager, closing, nullcontext
from types import ModuleType
from typing import Any

from onlinehash.export.changes import Block, Changes, need, told
from onlinehash.index.api import Id


def write(changes: Changes, target: object, name: str) -> None:
    """Create a collection, or bring one up to date: through a client, at an address, or in a folder."""
    qdrant = need("qdrant_client", "Qdrant", "qdrant")
    failures = need("qdrant_client.http.exceptions", "Qdrant", "qdrant")
    if isinstance(target, str) and "://" not in target:
        changes.check_place(target, name)
    with told("Qdrant", failures.ApiException), _client(qdrant, target) as client:
        _write(qdrant.models, changes, client, name)


def _client(qdrant: ModuleType, target: object) -> AbstractContextManager[Any]:
    if not isinstance(target, str):
        return nullcontext(target)
    place = {"url": target, "api_key": os.environ.get("QDRANT_API_KEY")} if "://" in target else {"path": target}
    return closing(qdrant.QdrantClient(**place))


def _write(models: Any, changes: Changes, client: Any, name: str) -> None:
    changes.check_table(client.collection_exists(name), "Qdrant", name)
    if changes.is_first:
        client.create_collection(
            name,
            models.VectorParams(size=changes.n_bits, distance=models.Distance.DOT, on_disk=True),
            quantization_config=models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
        )
    for block in changes.blocks():
        client.upsert(name, _points(models, block))
    if changes.removed:
        client.delete(name, models.PointIdsList(points=list(map(point_id, changes.removed))))


def _points(models: Any, block: Block) -> Any:
    payloads = [{"id": id, "payload": payload} for id, payload in zip(block.ids, block.payloads, strict=True)]
    return models.Batch(ids=list(map(point_id, block.ids)), vectors=block.codes.to_signs().tolist(), payloads=payloads)


def point_id(id: Id) -> int | str:
    """The id of a point: Qdrant takes integers of at least 0 and UUIDs, so that others become one."""
    return id if isinstance(id, int) and id >= 0 else str(uuid.uuid5(uuid.NAMESPACE_OID, str(id)))
