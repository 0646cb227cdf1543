"""Group commit of an index in a database: one change of the head, with all that the changes do one by one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from onlinehash import OnlineHashing, refresh
from onlinehash.errors import OnlineHashError, UnknownId
from onlinehash.stores.index import StoreIndex
from tests.stores.memory_backend import Failure, MemoryBackend, Tables
from tests.support import state_bytes

WIDTH = 6


def vectors(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)


def new_index() -> tuple[StoreIndex, Tables]:
    tables = Tables.create(OnlineHashing(16, burn_in=20, random_state=0), refresh.by_hand())
    index = StoreIndex(MemoryBackend(tables))
    index.add(None, vectors(30, 0))
    index.refresh()
    return index, tables


def attempted(index: StoreIndex, i: int) -> str:
    X = vectors(3, i)
    try:
        if i % 6 == 0:
            return repr(index.add(None, X[:1], [{"i": i}]))
        if i % 6 == 1:
            return repr(index.add([1000 + i // 12], X[:1]))  # every second time it is there
        if i % 6 == 2:
            return repr(index.learn_pairs(X[:2], X[1:], [1, 2]))
        if i % 6 == 3:
            return repr(index.update([10 + i // 6], None if i % 4 == 1 else X[:1], [{"i": i}]))
        if i % 6 == 4:
            return repr(index.remove([20 + i // 6]))
        return repr(index.learn_pair_by_id(i % 8 if i % 12 == 5 else 99, 3, True))  # not all of them are there
    except OnlineHashError as error:
        return str(error)


def contents(index: StoreIndex) -> tuple[Any, ...]:
    items = [(item.id, item.vector.tobytes(), item.payload) for item in index.get_many(index.ids)]
    return items, index.codes, state_bytes(index.learner), index.ids_kind


def test_a_group_does_what_its_changes_do_one_by_one() -> None:
    (single, _), (index, tables) = new_index(), new_index()
    expected, found = [attempted(single, i) for i in range(48)], list[str]()
    for begin in range(0, 48, 16):
        epoch = json.loads(tables.head)[0]
        with index.group_commit():
            found += [attempted(index, i) for i in range(begin, begin + 16)]
            assert len(index) == len(StoreIndex(MemoryBackend(tables)))  # nothing is to be seen yet
        assert json.loads(tables.head)[0] == epoch + 1
    assert found == expected
    assert contents(index) == contents(single)
    assert contents(StoreIndex(MemoryBackend(tables))) == contents(single)
    assert any("exists" in text for text in expected)
    assert any("no item" in text for text in expected)


def test_an_error_undoes_all_of_it() -> None:
    index, tables = new_index()
    before = contents(index)

    def fail() -> None:
        with index.group_commit():
            index.add(None, vectors(2, 1))
            index.learn_pair(*vectors(2, 2), True)
            with pytest.raises(UnknownId):
                index.learn_pair_by_id(0, 999, True)
            raise Failure

    with pytest.raises(Failure):
        fail()
    assert contents(index) == before
    assert contents(StoreIndex(MemoryBackend(tables))) == before
