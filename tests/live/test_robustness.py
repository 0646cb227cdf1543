"""What must not break an index: interrupts, lack of memory, policies and filters of users, learning elsewhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing, refresh
from onlinehash.errors import InvalidInput, StorageError
from onlinehash.index.items import Items
from onlinehash.live.storage import Storage
from onlinehash.live.table import ItemTable
from tests.support import refused

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 6)).astype(np.float32)


def made(path, policy=None, n=20, **options):
    learner = OnlineHashing(8, burn_in=10, random_state=0)
    index = LiveIndex(learner, policy or refresh.by_hand(), path=path, **options)
    index.add(np.arange(n), X[:n], [{"row": i} for i in range(n)])
    return index


def is_sound(index) -> bool:
    """The law, and that everything known by its id is what it should be."""
    items = [index.get(id) for id in index]
    return (
        index.codes == index.encoder.encode(index.vectors)
        and all(id in index for id in index)
        and all(np.array_equal(item.vector, X[item.id % 200]) for item in items)
        and np.array_equal(index.search(X[0], len(index), where={"row": {">=": 0}}).ids, index.search(X[0], 999).ids)
    )


@pytest.fixture(params=["memory", "durable"])
def path(request, tmp_path):
    return tmp_path / "items" if request.param == "durable" else None


CALLS = {
    "add": lambda index: index.add([100, 101], X[100:102], [{"row": 0}] * 2),
    "update": lambda index: index.update([3], X[3:4], [{"row": 7}]),
    "remove": lambda index: index.remove(np.arange(10, 18)),  # so many that positions are counted anew
    "learn": lambda index: index.learn_pair(X[0], X[1], True),
    "refresh": lambda index: index.refresh(),
}
STEPS = ((ItemTable, "change"), (ItemTable, "publish"), (Storage, "learned"))


def interrupting(whole):
    def step(*args, **options):
        signal.raise_signal(signal.SIGINT)
        return whole(*args, **options)

    return step


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_waits_for_the_end_of_a_change(name, path, monkeypatch):
    with made(path) as index:
        index.learn_pair(X[4], X[5], True)
        for kind, step in STEPS:
            monkeypatch.setattr(kind, step, interrupting(getattr(kind, step)))
        if path is None and name == "learn":
            CALLS[name](index)  # nothing is published or kept
        else:
            with pytest.raises(KeyboardInterrupt):
                CALLS[name](index)
        monkeypatch.undo()
        assert is_sound(index)
        assert (100 in index, 10 in index) == (name == "add", name != "remove")
        CALLS["learn"](index)
        CALLS["refresh"](index)
        assert is_sound(index)
    if path is not None:
        with LiveIndex.open(path) as index:
            assert is_sound(index)


@pytest.mark.parametrize(("name", "step"), [("add", "add"), ("update", "put"), ("remove", "remove")])
def test_lack_of_memory_in_the_middle_of_a_change(name, step, path, monkeypatch):
    whole = getattr(Items, step)

    def fails(*args):
        whole(*args)
        raise MemoryError

    with made(path) as index:
        monkeypatch.setattr(Items, step, fails)
        with pytest.raises(MemoryError):
            CALLS[name](index)
        monkeypatch.undo()
        assert is_sound(index)
        n = len(index)
        index.add([150], X[150:151], [{"row": 1}])
        assert (len(index), 150 in index) == (n + 1, True)
        assert is_sound(index)


class Raises:
    def due(self, index):
        raise ZeroDivisionError("a bug of a user")


def test_a_policy_that_raises_breaks_no_call(path):
    with made(path, Raises()) as index:
        with pytest.warns(UserWarning, match="ZeroDivisionError: a bug of a user"):
            index.learn_pair(X[0], X[1], True)
        assert index.learner.n_pairs_seen_ == 1
        assert is_sound(index)
        A, B, similar = X[:4, :3], X[4:8, :3], [True, False, True, False]
        index.policy = refresh.no_worse(refresh.always(), A, B, similar)
        with pytest.warns(UserWarning, match="expecting 6 features"):
            index.add([100], X[100:101], [{"row": 1}])
        assert 100 in index


def test_a_background_refresh_that_failed_is_told_at_the_next_call(monkeypatch):
    index = made(None, refresh.every(1), background=True)

    def fails(*args):
        raise ZeroDivisionError("in the background")

    monkeypatch.setattr(LiveIndex, "_publish", fails)
    index.learn_pair(X[0], X[1], True)
    index._refresher.job.join()
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="ZeroDivisionError: in the background"):
        index.learn_pair(X[2], X[3], True)
    index._refresher.job.wait()
    assert index.behind.pairs == 0


# ------------------------------------------------------------------ the disk


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_does_not_write(tmp_path):
    with made(tmp_path / "items") as index:
        child = os.fork()
        if child == 0:
            try:
                index.remove([1])
            except InvalidInput as error:
                os._exit(0 if "fork" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        index.remove([2])
        assert 1 in index
    with LiveIndex.open(tmp_path / "items") as index:
        assert is_sound(index)


def test_numbers_of_removed_items_are_not_given_again(tmp_path):
    with LiveIndex(OnlineHashing(8, random_state=0), path=tmp_path / "items") as index:
        index.add(None, X[:3])
        index.remove([2])
    with LiveIndex.open(tmp_path / "items") as index:
        index.add(None, X[3:4])
        assert index.ids.tolist() == [0, 1, 3]


def test_an_interrupt_just_after_a_commit(tmp_path, monkeypatch):
    with made(tmp_path / "items") as index:
        store = index._storage.store
        monkeypatch.setattr("onlinehash.live.sqlite.store.translated", interrupting_context)
        with pytest.raises(KeyboardInterrupt), store.transaction():
            store.remove(np.array([0]))
        monkeypatch.undo()
        index.reload()
        assert 0 not in index
        index.add([100], X[100:101], [{"row": 1}])
    with LiveIndex.open(tmp_path / "items") as index:
        assert is_sound(index)


@contextmanager
def interrupting_context(folder):
    yield
    raise KeyboardInterrupt


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "items", 5):
        assert isinstance(refused(lambda path=path: LiveIndex(OnlineHashing(8), path=path)), InvalidInput)


def test_a_lock_that_was_deleted_by_hand_still_holds(tmp_path):
    with made(tmp_path / "items") as index:
        (tmp_path / "items" / "lock").unlink()
        with pytest.raises(StorageError, match="has another writer"):
            LiveIndex.open(tmp_path / "items")
        index.remove([2])
    with LiveIndex.open(tmp_path / "items") as index:
        assert is_sound(index)


KILLED_WRITER = """
import os, signal, sys
import numpy as np
from onlinehash import LiveIndex, OnlineHashing
index = LiveIndex(OnlineHashing(8, random_state=0), path=sys.argv[1])
index.add(range(9), np.eye(9))
child = os.fork()
if child == 0:
    os.close(1)
    signal.pause()
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
def test_a_fork_does_not_keep_the_lock_of_a_writer_that_was_killed(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", KILLED_WRITER, str(tmp_path / "items")]
    child = int(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout)
    try:
        with LiveIndex.open(tmp_path / "items") as index:
            assert len(index) == 9
    finally:
        os.kill(child, signal.SIGKILL)
