"""Group commit of an index in a database: one change of the head, with all that the changes do one by one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from onlinehash import OnlineHashing, refresh
from onlinehash.errors import InvalidInput, OnlineHashError, UnknownId
from onlinehash.stores.index import StoreIndex
from tests.stores.memory_backend import Failure, MemoryBackend, Tables
from tests.support import refused, state_bytes

WIDTH = 6
BOTH = pytest.mark.parametrize("is_atomic", [True, False], ids=["atomic", "not atomic"])


def vectors(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)


def new_index(is_atomic: bool = True) -> tuple[StoreIndex, Tables]:
    tables = Tables.create(OnlineHashing(16, burn_in=20, random_state=0), refresh.by_hand())
    index = StoreIndex(MemoryBackend(tables, is_atomic))
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


@BOTH
def test_a_group_does_what_its_changes_do_one_by_one(is_atomic: bool) -> None:
    (single, _), (index, tables) = new_index(is_atomic), new_index(is_atomic)
    expected, found = [attempted(single, i) for i in range(48)], list[str]()
    for begin in range(0, 48, 16):
        epoch = json.loads(tables.head)[0]
        with index.group_commit():
            found += [attempted(index, i) for i in range(begin, begin + 16)]
            assert len(index) == len(StoreIndex(MemoryBackend(tables)))  # nothing is to be seen yet
        assert json.loads(tables.head)[0] == epoch + 1
    assert found == expected
    assert contents(index) == contents(single)
    assert contents(StoreIndex(MemoryBackend(tables, is_atomic))) == contents(single)
    assert any("exists" in text for text in expected)
    assert any("no item" in text for text in expected)


@BOTH
def test_an_error_undoes_all_of_it(is_atomic: bool) -> None:
    index, tables = new_index(is_atomic)
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
    assert contents(StoreIndex(MemoryBackend(tables, is_atomic))) == before


def test_positions_and_what_a_group_does_not_take() -> None:
    index, tables = new_index()
    with index.group_commit():
        for i in range(3):
            with index.reached("topic", i):
                index.learn_pair(*vectors(2, i), True)
        for call in (
            index.refresh,
            index.roll_back,
            index.cancel,
            index.close,
            index.group_commit().__enter__,
        ):
            assert "cannot be used inside group_commit" in str(refused(call))
    assert index.positions == {"topic": 2}
    epoch = tables.head
    with index.group_commit(), pytest.raises(InvalidInput):
        index.add(None, np.zeros((1, WIDTH + 1)))
    assert tables.head == epoch  # there was nothing to commit


def test_the_policy_is_asked_once_afterwards() -> None:
    tables = Tables.create(OnlineHashing(16, random_state=0), refresh.every(10))
    index = StoreIndex(MemoryBackend(tables))
    index.add(None, vectors(30, 0))
    with index.group_commit():
        for i in range(35):
            index.learn_pair(*vectors(2, i), i % 2 == 0)
            assert index.refreshes == 0
    assert index.refreshes == 1
    assert index.behind.bits == 0
