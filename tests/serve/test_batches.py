"""Queries of one moment are searched together, and each gets what it would have got alone."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing
from onlinehash.serve import batches
from onlinehash.serve.batches import Batches


@pytest.fixture
def index() -> LiveIndex:
    index = LiveIndex(OnlineHashing(16, random_state=0))
    index.add(None, np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32))
    return index


class Counting:
    """An index that notes how many queries each search had."""

    def __init__(self, index: LiveIndex) -> None:
        self._index, self.sizes = index, list[int]()

    def __len__(self) -> int:
        return len(self._index)

    def searched(self, queries: Any, k: int) -> Any:
        self.sizes.append(1 if np.ndim(queries) == 1 else len(queries))
        return self._index.searched(queries, k)


async def ask(searches: Batches, queries: list[tuple[np.ndarray, int]]) -> list[Any]:
    return await asyncio.gather(*(searches.search(*query) for query in queries), return_exceptions=True)


@pytest.mark.parametrize("most", [batches.MOST_AT_ONCE, 0], ids=["in the loop", "in a thread"])
def test_each_gets_what_it_would_get_alone(index: LiveIndex, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MOST_AT_ONCE", most)
    counting = Counting(index)
    rows = np.random.default_rng(1).normal(size=(40, 6)).astype(np.float32)

    async def twice() -> list[Any]:
        searches = Batches(counting)
        await ask(searches, [(rows[0], 5)])  # the first one is searched in a thread in any case
        return await ask(searches, [(row, 5) for row in rows])

    found = asyncio.run(twice())
    assert counting.sizes == [1, 40]
    for row, nearest in zip(rows, found, strict=True):
        alone = index.search(row, 5)
        assert np.array_equal(nearest.ids, alone.ids)
        assert np.array_equal(nearest.distances, alone.distances)
        assert nearest.encoder is index.encoder
