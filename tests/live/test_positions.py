"""Positions: how far a source was read is kept exactly if what was made of it is."""

from __future__ import annotations

import re

import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing, refresh
from onlinehash.errors import InvalidInput, OnlineHashError, UnknownId
from onlinehash.live.check import check

WIDTH = 5


def rows(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)


def learner():
    return OnlineHashing(16, burn_in=30, random_state=0)


@pytest.fixture(params=["memory", "disk"])
def index(request, tmp_path):
    path = tmp_path / "items" if request.param == "disk" else None
    with LiveIndex(learner(), refresh.every(40), path=path) as index:
        yield index


def refused(words):
    return pytest.raises(OnlineHashError, match=re.escape(words))


def test_a_position_comes_with_the_change(index):
    assert index.positions == {}
    changes = [
        lambda: index.add([1, 2, 3], rows(3)),
        lambda: index.learn_pairs(rows(50, 1), rows(50, 2), np.arange(50) % 2 == 0),
        lambda: index.learn_pair_by_id(1, 2, True),
        lambda: index.update([1], rows(1, 9)),
        lambda: index.update([1], payloads={"a": 1}),
        lambda: index.remove([2]),
        lambda: index.learn_labelled(rows(6, 5), [0, 1, 0, 1, 0, 1]),
        index.flush,
        index.refresh,
        index.roll_back,
    ]
    for number, change in enumerate(changes):
        with index.reached("a", {"0": number}):
            assert index.positions.get("a") == (None if number == 0 else {"0": number - 1})
            change()
        assert index.positions == {"a": {"0": number}}
    with index.reached("b", "17-0"):
        index.add([9], rows(1))
    index.put_position("c", [1, None, 0.5])
    assert index.positions == {"a": {"0": len(changes) - 1}, "b": "17-0", "c": [1, None, 0.5]}


def test_a_refused_change_leaves_it_as_it_was(index):
    index.put_position("a", 1)
    refusals = [
        (UnknownId, lambda: index.remove([7])),
        (InvalidInput, lambda: index.add([1], rows(1)[:, :0])),
        (InvalidInput, lambda: index.learn_pairs(rows(2), rows(2), [1, 0, 1])),
    ]
    for error, change in refusals:
        with pytest.raises(error), index.reached("a", 2):
            change()
        assert index.positions == {"a": 1}
    with index.reached("a", 2):
        pass  # no change, no position
    assert index.positions == {"a": 1}


def test_one_change_each(index):
    with index.reached("a", 1):
        index.add([1], rows(1))
        with refused("only one change can be made inside reached('a')"):
            index.add([2], rows(1))
    with refused("once cannot be used inside reached"), index.reached("a", 2), index.once("k", "d"):
        index.add([2], rows(1))
    with refused("reached cannot be used inside once"), index.once("k", "d"), index.reached("a", 2):
        index.add([2], rows(1))
    with refused("reached cannot be used inside reached"), index.reached("a", 2):
        index.put_position("a", 3)
    assert (index.ids.tolist(), index.positions, index.receipt("k")) == ([1], {"a": 1}, None)


def test_they_stay_when_the_index_is_opened_again_and_copied(tmp_path, index):
    with index.reached("a", "1-0"):
        index.add(None, rows(40))
    index.learn_pairs(rows(50, 1), rows(50, 2), np.arange(50) % 2 == 0)  # settings are written by refreshes too
    index.put_position("b", 2)
    index.backup(tmp_path / "copy")
    paths = [tmp_path / "copy"]
    if index.path is not None:
        index.close()
        with refused("closed"):
            _ = index.positions
        paths.append(index.path)
    for path in paths:
        assert check(path).ok
        for read_only in (True, False):
            with LiveIndex.open(path, refresh.every(40), read_only=read_only) as again:
                assert again.positions == {"a": "1-0", "b": 2}
                if read_only:
                    with refused("read-only"):
                        again.put_position("a", 1)
