"""Changes that wait are committed together: each has its own answer, and a bad one fails alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing, refresh
from onlinehash.errors import InvalidInput, ServiceUnavailable, StorageError, UnknownId
from onlinehash.live.sqlite.store import Store
from onlinehash.serve.changes import Changes, Retry
from onlinehash.serve.errors import KeyReused
from onlinehash.serve.settings import Limits
from onlinehash.serve.writer import Writer
from tests.serve.services import SECONDS
from tests.support import state_bytes

WIDTH = 5


def vectors(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)


def commits(index: LiveIndex) -> int:
    assert index.path is not None
    return int.from_bytes((index.path / "commits").read_bytes(), "little")


def new_index(path: Path) -> LiveIndex:
    index = LiveIndex(OnlineHashing(16, burn_in=20, random_state=0), refresh.by_hand(), path=path)
    index.add(None, vectors(30))
    index.refresh()
    return index


@contextmanager
def gathered(index: LiveIndex) -> Iterator[Changes]:
    """Changes that all wait until the block ends, so that they are made together."""
    writer, go, here = Writer(Limits()), threading.Event(), threading.Event()
    writer.submit(lambda: (here.set(), go.wait(SECONDS)))
    assert here.wait(SECONDS)
    try:
        yield Changes(index, writer)
    finally:
        go.set()
        writer.close()


def outcome(future: Future[Any]) -> tuple[str, bool]:
    """What came of a change, or its error, and whether it had been made before."""
    error = future.exception(SECONDS)
    return (str(error), False) if error is not None else (repr(future.result().outcome), future.result().replayed)


def submit(changes: Changes, i: int) -> Future[Any]:
    """Additions, lessons and updates, of which some are refused, some depend on others, and some come twice."""
    X, request = vectors(2, i % 50), Retry(f"key {i % 50}", f"digest {i % 50}") if i % 3 else None
    if i % 7 == 6 and i % 4 == 0:
        return changes.remove([20 + i % 3], request)  # some are gone already
    if i % 7 == 6:
        return changes.update([i % 9], X[:1], None, request)
    if i % 7 == 2 and i % 4 == 1:
        return changes.learn_by_id([i % 9], [3], [True], None, request)  # some were just updated
    if i % 7 == 5:
        return changes.learn_by_id([1000 + i // 7 * 7], [3], [True], None, request)  # some were added just before
    if i % 7 == 4:
        return changes.add([1000 + i // 14 * 14], X[:1], None, request)  # every second one is there
    if i % 7 in (1, 3):
        return changes.learn(X[:1], X[1:], [i % 2], None, request)
    return changes.add(None, X[:1], [{"i": i % 50}], request)


def contents(index: LiveIndex) -> tuple[Any, ...]:
    index.refresh()
    items = [(item.id, item.vector.tobytes(), item.payload) for item in index.get_many(index.ids)]
    return items, index.codes, state_bytes(index.learner)


def test_the_result_is_that_of_one_change_after_the_other(tmp_path: Path) -> None:
    with new_index(tmp_path / "alone") as alone, new_index(tmp_path / "together") as together:
        writer = Writer(Limits())
        expected = [outcome(submit(Changes(alone, writer), i)) for i in range(100)]
        writer.close()
        with gathered(together) as changes:
            futures = [submit(changes, i) for i in range(100)]
        assert [outcome(future) for future in futures] == expected
        assert contents(together) == contents(alone)
        assert commits(together) < commits(alone) - 20
    assert sum(replayed for _, replayed in expected) > 5
    assert sum("already exists" in text for text, _ in expected) > 1
    assert sum("no item" in text for text, _ in expected) > 1


def test_a_bad_change_fails_alone(tmp_path: Path) -> None:
    with new_index(tmp_path / "index") as index:
        with gathered(index) as changes:
            good = changes.add(None, vectors(1, 1))
            bad = [
                changes.add([3], vectors(1, 2)),
                changes.learn(vectors(1, 1), vectors(2, 2), [True]),
                changes.learn_by_id([3], [77], [True]),
                changes.add(None, vectors(1, 2), None, Retry("key", "one")),
                changes.add(None, vectors(1, 2), None, Retry("key", "another")),
            ]
            last = changes.learn(vectors(1, 1), vectors(1, 2), [True])
        assert good.result(SECONDS).outcome.tolist() == [30]
        assert [type(future.exception(SECONDS)) for future in bad] == [
            InvalidInput, InvalidInput, UnknownId, type(None), KeyReused,
        ]  # fmt: skip
        assert len(last.result(SECONDS).outcome) == 1
        assert len(index) == 32
        assert index.learner.n_pairs_seen_ == 1


def test_a_failing_disk_fails_all_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_index(tmp_path / "index") as index:
        health: list[bool] = []
        with monkeypatch.context() as patched, gathered(index) as changes:
            patched.setattr(Store, "log", lambda *given: (_ for _ in ()).throw(StorageError("no room.")))
            futures = [changes.learn(vectors(1, i), vectors(1, i + 1), [True]) for i in range(4)]
            futures.append(changes.add(None, vectors(1)))
            [future.add_done_callback(lambda future: health.append(changes.disk.is_failing)) for future in futures]
        assert all(isinstance(future.exception(SECONDS), StorageError) for future in futures)
        assert health == [True] * 5
        assert index.learner.n_pairs_seen_ == 0
        assert len(index) == 30
        with gathered(index) as changes:
            again = [changes.learn(vectors(1, i), vectors(1, i + 1), [True]) for i in range(4)]
        assert all(future.exception(SECONDS) is None for future in again)


def test_a_group_that_may_have_been_kept_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the connection to a database is lost while it answers: those without a key would be made twice."""
    with new_index(tmp_path / "index") as index:
        group_commit = index.group_commit

        @contextmanager
        def lost() -> Iterator[None]:
            with group_commit():
                yield
            raise ServiceUnavailable("the connection was lost.")

        monkeypatch.setattr(index, "group_commit", lost)
        with gathered(index) as changes:
            futures = [changes.learn(vectors(1, i), vectors(1, i + 1), [True]) for i in range(4)]
            futures.append(changes.add(None, vectors(1)))
        assert all(isinstance(future.exception(SECONDS), ServiceUnavailable) for future in futures)
        assert (index.learner.n_pairs_seen_, len(index)) == (4, 31)
