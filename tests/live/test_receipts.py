"""Receipts: there is one exactly if the change was made, and it tells what came of it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from onlinehash import LiveIndex, MultiModelOnlineHashing, OnlineHashing, RbfAnchors, refresh
from onlinehash.errors import InvalidInput, InvalidParameter, OnlineHashError, UnknownId
from onlinehash.live.check import check
from onlinehash.live.sqlite import receipts as table

WIDTH = 5


def rows(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)


def pairs(n, seed=3):
    return rows(n, seed), rows(n, seed + 1), np.arange(n) % 2 == 0


@pytest.fixture(params=["memory", "disk"])
def index(request, tmp_path):
    path = tmp_path / "items" if request.param == "disk" else None
    with LiveIndex(OnlineHashing(16, burn_in=30, random_state=0), refresh.every(40), path=path) as index:
        yield index


def refused(words):
    return pytest.raises(OnlineHashError, match=re.escape(words))


def same(updates, others):
    """Equal as `Update`s, and in what a batch tells beyond them."""
    pairwise = [(u.loss, np.asarray(u.step).tolist(), u.bits.tolist(), u.pending) for u in updates]
    assert pairwise == [(u.loss, np.asarray(u.step).tolist(), u.bits.tolist(), u.pending) for u in others]
    assert updates.changed().tolist() == others.changed().tolist()
    return True


# ---------------------------------------------------------------------------------------------- what they tell


def test_every_change_has_its_outcome(index):
    with index.once("add", "d1"):
        ids = index.add(None, rows(40))
    assert ids.tolist() == list(range(40))
    assert index.receipt("add").digest == "d1"
    assert index.receipt("add").outcome.tolist() == list(range(40))
    with index.once("learn", "d2"):
        updates = index.learn_pairs(*pairs(45))
    assert same(index.receipt("learn").outcome, updates)
    with index.once("by id", "d3"):
        update = index.learn_pair_by_id(3, 4, False)
    assert repr(index.receipt("by id").outcome[0]) == repr(update)
    changes = {
        "update": lambda: index.update([1], rows(1, 9)),
        "payloads": lambda: index.update([1], payloads={"a": 1}),
        "remove": lambda: index.remove([2]),
        "labelled": lambda: index.learn_labelled(rows(6, 5), [0, 1, 0, 1, 0, 1]),
        "flush": index.flush,
        "refresh": index.refresh,
        "roll back": index.roll_back,
    }
    for key, change in changes.items():
        with index.once(key, "d4"):
            change()
        assert index.receipt(key) == ("d4", None)
    assert index.receipt("another") is None


def test_names_are_given_back_as_they_were(index):
    names = ["ä", "", "b/c"]
    with index.once("k", "d"):
        index.add(names, rows(3))
    assert index.receipt("k").outcome.tolist() == names


def test_pairs_that_were_kept_back_and_several_models_are_given_back_too(tmp_path):
    learners = [
        OnlineHashing(8, features=RbfAnchors(12), random_state=0),
        MultiModelOnlineHashing(8, n_models=3, burn_in=10, random_state=0),
        MultiModelOnlineHashing(8, n_models=1, burn_in=10, random_state=0),
    ]
    for i, learner in enumerate(learners):
        with LiveIndex(learner, path=tmp_path / str(i)) as index:
            with index.once("k", "d"):
                updates = index.learn_pairs(*pairs(20))
            found = index.receipt("k").outcome
            assert same(found, updates)
            assert [np.ndim(update.step) for update in found] == [np.ndim(update.step) for update in updates]


# ---------------------------------------------------------------------------------------------- when there is one


def test_a_refused_change_leaves_none(index):
    index.add([1, 2], rows(2))
    refusals = [
        (InvalidInput, lambda: index.add([2], rows(1))),
        (UnknownId, lambda: index.remove([7])),
        (InvalidInput, lambda: index.learn_pairs(rows(2), rows(2), [1, 0, 1])),
        (InvalidInput, lambda: index.roll_back(99)),
    ]
    for error, change in refusals:
        with pytest.raises(error), index.once("k", "d"):
            change()
        assert index.receipt("k") is None
    with index.once("k", "d"):
        index.add([3], rows(1))
    assert index.receipt("k").outcome.tolist() == [3]


def test_one_change_each(index):
    with index.once("k", "d"):
        index.add([1], rows(1))
        with refused("only one change can be made inside once('k')"):
            index.add([2], rows(1))
        with refused("only one change can be made inside once('k')"):
            index.refresh()
    assert index.ids.tolist() == [1]
    index.add([2], rows(1))


def test_a_key_that_has_a_receipt_is_refused(index):
    with index.once("k", "d"):
        index.add([1], rows(1))
    with refused("the change with key 'k' was made already"), index.once("k", "d"):
        index.add([2], rows(1))
    with refused("once cannot be used inside once"), index.once("a", "d"), index.once("b", "d"):
        index.add([2], rows(1))
    assert index.ids.tolist() == [1]
    with pytest.raises(InvalidParameter), index.once("", "d"):
        index.add([2], rows(1))
    assert index.ids.tolist() == [1]


# ---------------------------------------------------------------------------------------------- how long


def test_the_oldest_go_first(index, monkeypatch):
    monkeypatch.setattr(table, "MOST", 3)
    for i in range(5):
        with index.once(str(i), "d"):
            index.add([i], rows(1))
    assert [index.receipt(str(i)) is not None for i in range(5)] == [False, False, True, True, True]
    with index.once("1", "other"):  # so long ago that it is a new one
        index.remove([1])
    assert index.receipt("1") == ("other", None)


def test_they_stay_when_the_index_is_opened_again_copied_and_read(tmp_path, index, monkeypatch):
    monkeypatch.setattr(table, "MOST", 4)
    for i in range(6):
        with index.once(str(i), f"d{i}"):
            index.add(None, rows(2, i))
    index.backup(tmp_path / "copy")
    paths = [tmp_path / "copy"]
    if index.path is not None:
        index.close()
        paths.append(index.path)
    for path in paths:
        assert check(path).ok
        for read_only in (True, False):
            with LiveIndex.open(path, read_only=read_only) as again:
                assert [again.receipt(str(i)) is None for i in range(6)] == [True, True, False, False, False, False]
                assert again.receipt("5").digest == "d5"
                assert again.receipt("5").outcome.tolist() == [10, 11]
                if not read_only:
                    with again.once("6", "d6"):
                        again.remove([3])
                    assert [again.receipt(str(i)) is None for i in range(7)] == [True] * 3 + [False] * 4


def test_a_reader_knows_them_when_it_reads_again(tmp_path):
    with LiveIndex(OnlineHashing(16, random_state=0), path=tmp_path / "items") as writer:
        writer.add(None, rows(3))
        with LiveIndex.open(tmp_path / "items", read_only=True) as reader:
            with writer.once("k", "d"):
                writer.add(None, rows(2))
            assert reader.receipt("k") is None
            reader.reload()
            assert reader.receipt("k").outcome.tolist() == [3, 4]
            with refused("opened read-only"), reader.once("l", "d"):
                reader.remove([1])
