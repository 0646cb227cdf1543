"""A service over an index that is not a `LiveIndex`: what it keeps itself, and what it refuses."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from onlinehash import OnlineHashing
from onlinehash.client.remote_index import RemoteIndex
from onlinehash.errors import NotSupported
from onlinehash.serve.service import Service
from onlinehash.stores.index import StoreIndex
from tests.serve.services import IDS, everything, post_json, rows, served
from tests.stores.memory_backend import MemoryBackend, Tables


def in_a_store() -> StoreIndex:
    index = StoreIndex(MemoryBackend(Tables.create(OnlineHashing(n_bits=8, random_state=0), None)))
    index.add(IDS, rows(len(IDS)), [{"colour": "red"} if i % 2 else None for i in IDS])
    return index


def keyed(url: str, key: str, vectors: list[list[float]]) -> httpx.Response:
    return post_json(url, "/v1/items", {"vectors": vectors}, **{"Idempotency-Key": key})


def test_a_key_is_used_once_though_the_index_keeps_no_receipts() -> None:
    with served(in_a_store()) as (service, url):
        first = keyed(url, "a", [[0.5, 0.25]])
        before = everything(service.index)
        second = keyed(url, "a", [[0.5, 0.25]])
        assert (first.status_code, second.status_code) == (201, 201)
        assert second.headers["Idempotency-Replayed"] == "true"
        assert first.json() == second.json()
        assert keyed(url, "a", [[0.5, 0.5]]).json()["error"] == "KeyReused"
        assert everything(service.index) == before


def test_what_a_service_needs_is_said() -> None:
    with pytest.raises(NotSupported, match="supports learner, and RemoteIndex does not"):
        Service(RemoteIndex.__new__(RemoteIndex))
    with in_a_store() as index:
        with pytest.raises(NotSupported, match="read-only service needs an index that supports reload"):
            Service(index, read_only=True)
        with pytest.raises(NotSupported, match="codes are in memory; StoreIndex keeps them in a database"):
            Service(index, label="colour").measure_quality(rows(2), np.array(["red", "blue"]))
