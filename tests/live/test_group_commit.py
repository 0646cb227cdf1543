"""Group commit: what the changes do one by one, in one transaction; what is refused or fails is left out or undone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing, refresh
from onlinehash.errors import InvalidInput, OnlineHashError, UnknownId
from onlinehash.learners.base import Learner
from onlinehash.learners.update import Updates
from onlinehash.live.check import check
from tests.support import refused, state_bytes

WIDTH = 6


def vectors(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)


def made(path: Path) -> LiveIndex:
    index = LiveIndex(OnlineHashing(16, burn_in=30, random_state=0), refresh.by_hand(), path=path)
    index.add(None, vectors(40, 0))
    index.refresh()
    return index


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LiveIndex]:
    with made(tmp_path / "index") as index:
        yield index


def change(index: LiveIndex, i: int) -> object:
    """One of many small changes, of which some are refused."""
    X, turn = vectors(3, i), i // 7
    if i % 7 == 0:
        return index.add(None, X[:1], [{"i": i}])
    if i % 7 == 1:
        return index.add([1000 + i // 14], X[:1])  # every second time it is there
    if i % 7 == 2:
        return index.learn_pairs(X[:2], X[1:], [i % 2, 1 - i % 2])
    if i % 7 == 3:
        return index.learn_pair_by_id(turn if turn % 2 else 500 + i, 3, True)  # not all of them are there
    if i % 7 == 4:
        return index.update([15 + turn], None if turn % 3 == 0 else X[:1], None if turn % 3 == 1 else [{"turn": turn}])
    if i % 7 == 5:
        return index.remove([25 + turn])
    return index.learn_pair(X[0], X[1], True)


def attempted(index: LiveIndex, i: int) -> object:
    try:
        return change(index, i)
    except OnlineHashError as error:
        return str(error)


def contents(index: LiveIndex) -> tuple[object, ...]:
    items = [index.get(id) for id in index]
    return [(item.id, item.vector.tobytes(), item.payload) for item in items], index.codes, state_bytes(index.learner)


def test_a_group_does_what_its_changes_do_one_by_one(index: LiveIndex, tmp_path: Path) -> None:
    with made(tmp_path / "single") as single:
        expected = [repr(attempted(single, i)) for i in range(60)]
        found: list[str] = []
        for begin in range(0, 60, 20):
            with index.group_commit():
                results = [attempted(index, i) for i in range(begin, begin + 20)]
            found += map(repr, results)
        assert found == expected
        assert contents(index) == contents(single)
    assert any("exists" in text for text in expected)
    path = index.path
    index.close()
    assert path is not None
    assert check(path).ok
    with LiveIndex.open(path) as again, LiveIndex.open(tmp_path / "single") as single:
        assert contents(again) == contents(single)


def test_lessons_are_learned_together_or_when_somebody_looks(index: LiveIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, learn = list[int](), type(index.learner).learn_pairs

    def learn_pairs(learner: Learner, A: np.ndarray, *given: object) -> object:
        sizes.append(len(A))
        return learn(learner, A, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(type(index.learner), "learn_pairs", learn_pairs)
    with index.group_commit():
        some = [index.learn_pairs(vectors(n, n), vectors(n, 9), [True] * n) for n in (1, 2, 3)]
        assert sizes == []
        assert len(some[1]) == 2
        assert sizes == [6]
        later = index.learn_pairs(vectors(1, 4), vectors(1, 5), [True])
        assert index.learner.n_pairs_seen_ == 7
        last = index.learn_pairs(vectors(1, 6), vectors(1, 7), [True])
    assert sizes == [6, 1, 1]
    assert [type(updates) for updates in (*some, later, last)] == [Updates] * 5
    assert [len(updates) for updates in (*some, later, last)] == [1, 2, 3, 1, 1]

    def fail() -> None:
        with index.group_commit():
            some.append(index.learn_pairs(vectors(1, 6), vectors(1, 7), [True]))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert "none of them" in str(refused(lambda: some[-1].loss))
    assert index.learner.n_pairs_seen_ == 8


def test_it_is_one_transaction_and_nobody_sees_it_before(index: LiveIndex) -> None:
    assert index.path is not None
    with LiveIndex.open(index.path, read_only=True) as reader:
        with index.group_commit():
            ids = index.add(None, vectors(2, 1))
            index.learn_pair(*vectors(2, 2), True)
            assert not reader.reload()
            assert len(index) == 40
            assert ids[0] not in index
            assert index.search(vectors(2, 1)[0], 1).ids[0] < 40
            found: list[object] = []
            other = threading.Thread(target=lambda: found.append((len(index), ids[0] in index)))
            other.start()
            other.join()
            assert found == [(40, False)]
        assert index.get(ids[1]).vector.tolist() == vectors(2, 1)[1].tolist()
        assert reader.reload()
        assert len(reader) == 42
        assert state_bytes(reader.learner) == state_bytes(index.learner)


def test_an_error_undoes_the_group_and_a_refusal_only_itself(index: LiveIndex) -> None:
    before = contents(index)

    def fail() -> None:
        with index.group_commit():
            index.add(None, vectors(2, 1))
            index.learn_pair(*vectors(2, 2), True)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert contents(index) == before
    with index.group_commit():
        index.learn_pair(*vectors(2, 2), True)
        with pytest.raises(UnknownId):
            index.learn_pair_by_id(0, 999, True)
        with pytest.raises(InvalidInput):
            index.add(None, np.full((1, WIDTH), np.nan))
    assert index.learner.n_pairs_seen_ == 1
    assert len(index) == 40


def test_a_lesson_may_be_a_checkpoint(index: LiveIndex) -> None:
    """When the log is as long as the learner, the learner is written, once, after the whole group."""
    for seed in range(3):
        with index.group_commit():
            for i in range(10):
                X = vectors(400, 40 * seed + i)
                index.learn_pairs(X[:200], X[200:], np.arange(200) % 2 == 0)
    learner, path = state_bytes(index.learner), index.path
    index.close()
    assert path is not None
    with LiveIndex.open(path) as again:
        assert state_bytes(again.learner) == learner
        assert again.learner.n_pairs_seen_ == 3 * 10 * 200
