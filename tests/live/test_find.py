"""`find`: candidates by codes, in the order of the learned metric; in memory, on a disk, after a restart."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from onlinehash import Codes, LiveIndex, OnlineHashing, refresh
from onlinehash.errors import InvalidInput, InvalidParameter, NotReady
from onlinehash.live import queries
from onlinehash.live.sqlite import Store
from tests.support import refused

D = 24


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, D)).astype(np.float32)


def clustered(n: int) -> np.ndarray:
    """Near enough to each other that one vector has many good candidates."""
    centres = rows(12, 5)
    return centres[np.arange(n) % 12] + 0.4 * rows(n, 6)


@pytest.fixture(params=["memory", "durable"])
def index(request, tmp_path):
    path = None if request.param == "memory" else tmp_path / "items"
    with LiveIndex(OnlineHashing(32, random_state=0), refresh.by_hand(), path=path, precision="float32") as made:
        yield made


def by_metric(index: LiveIndex, query: np.ndarray, k: int) -> list[int]:
    """All items in the order of the metric."""
    ranking = index.learner.pair_metric_.ranking(query, len(index))
    ranking.add(index.vectors)
    return index.ids[ranking.order(k)[0]].tolist()


def test_few_items_are_all_compared(index):
    index.add(None, clustered(400))
    for query in rows(5, 9):
        assert index.find(query, 7).ids.tolist() == by_metric(index, query, 7)
    found = index.find(rows(5, 9), 7)
    assert found.ids.shape == found.distances.shape == (5, 7)
    assert (np.diff(found.distances, axis=1) >= 0).all()
    assert index.find(clustered(1)[0]).ids[0] == 0
    assert index.find(rows(1)[0], 1000).ids.shape == (400,)
    assert index.find(rows(1)[0], 0).ids.shape == (0,)


def test_a_mark_counts_in_the_next_call_and_codes_stay(index):
    index.add(None, clustered(600))
    query = rows(1, 9)[0]
    before, codes = index.find(query).ids.tolist(), index.codes
    index.learn_pair(query, index.get(before[9]).vector, True)
    index.learn_pair(query, index.get(before[0]).vector, False)
    after = index.find(query).ids.tolist()
    assert after[0] == before[9]
    assert before[0] not in after
    assert index.codes == codes
    assert index.rerank(query, index.search(query, 600), 10).ids.tolist() == after


def test_what_was_marked_similar_comes_up_wherever_it_is(index, monkeypatch):
    """Also where it is too far from the query to be among the candidates, and of another length."""
    monkeypatch.setattr(queries, "FIRST", 20)
    monkeypatch.setattr(queries, "MOST", 80)
    items = clustered(3000) * np.random.default_rng(1).uniform(0.2, 5, (3000, 1)).astype(np.float32)
    index.add(None, items)
    query, other = clustered(2)
    farthest = index.search(query, 3000).ids[-200::20].tolist()
    others = index.find(other).ids.tolist()
    index.learn_pairs(np.tile(query, (10, 1)), items[farthest], [True] * 10)
    assert set(index.find(query, 11).ids.tolist()) == {0, *farthest}  # and what is the query itself
    assert set(index.find(query, 3).ids.tolist()) < {0, *farthest}
    assert index.find(other).ids.tolist() == others
    batch = index.find(np.stack([other, query]), 11).ids
    assert batch[1].tolist() == index.find(query, 11).ids.tolist()
    index.remove(farthest[:5])
    assert set(index.find(query, 6).ids.tolist()) == {0, *farthest[5:]}


@pytest.mark.parametrize(("kind", "precision"), [("a sheet", "int8"), ("couples", "float16")])
def test_what_was_marked_shows_however_vectors_are_rounded(kind, precision, tmp_path):
    """Where neighbours are nearer to each other than a vector in one byte a value is to what it was."""
    rng, n = np.random.default_rng(0), 2000
    X = {
        "a sheet": lambda: np.tanh(rng.standard_normal((n, 2)) @ rng.standard_normal((2, D))),
        "couples": lambda: np.repeat(rng.standard_normal((n // 2, D)), 2, axis=0) + 0.01 * rng.standard_normal((n, D)),
    }[kind]().astype(np.float32)
    with LiveIndex(n_bits=64, path=tmp_path / "items", precision=precision) as index:
        index.add(range(n), X)
        index.find(X[:20], k=200)  # which keeps them in memory, rounded
        for _ in range(12):
            query = X[rng.integers(n)] + 0.01 * rng.standard_normal(X.shape[1]).astype(np.float32)
            item = int(rng.integers(n))
            index.learn_pair(query, X[item], True)
            first = index.find(query).ids.tolist()
            assert item in first
            index.learn_pair(query, X[first[1]], False)
            assert first[1] not in index.find(query).ids


def test_filters(index):
    index.add(None, clustered(300), [{"odd": i % 2 == 1} for i in range(300)])
    found = index.find(rows(3, 2), 10, where={"odd": True})
    assert (found.ids % 2 == 1).all()
    assert index.find(rows(1)[0], 10, where={"odd": 3}).ids.shape == (0,)


def test_what_it_learned_is_there_after_a_restart(tmp_path):
    query = rows(1, 9)[0]
    with LiveIndex(n_bits=32, path=tmp_path / "items", precision="float32") as index:
        index.add(None, clustered(1500))
        for marked in range(30):
            shown = index.find(clustered(1500)[marked]).ids
            index.learn_pairs_by_id([marked] * len(shown), shown, shown % 12 == marked % 12)
        index.learn_pair(query, index.get(3).vector, True)
        assert index.learner.pair_metric_.n_steps > 0
        before = index.find(query, 50)
    for read_only in (False, True):
        with LiveIndex.open(tmp_path / "items", read_only=read_only, precision="float32") as again:
            found = again.find(query, 50)
            assert found.ids.tolist() == before.ids.tolist()
            assert found.distances.tobytes() == before.distances.tobytes()
    with LiveIndex.open(tmp_path / "items") as index:
        index.backup(tmp_path / "copy")
    with LiveIndex.open(tmp_path / "copy", precision="float32") as copy:
        assert copy.find(query, 50).ids.tolist() == before.ids.tolist()


@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_the_cache_follows_the_disk(tmp_path, precision, monkeypatch):
    monkeypatch.setattr("onlinehash.live.vectors.BLOCK_ROWS", 64)
    with LiveIndex(OnlineHashing(32, random_state=0), path=tmp_path / "items", precision=precision) as index:
        index.add(None, clustered(200))
        rng = np.random.default_rng(0)
        reader = LiveIndex.open(tmp_path / "items", read_only=True, precision=precision)
        for step in range(15):
            alive = index.ids
            kind = rng.integers(3)
            if kind == 0:
                index.add(None, rows(int(rng.integers(1, 90)), 100 + step))
            elif kind == 1:
                index.update(rng.choice(alive, 5, replace=False), rows(5, 200 + step))
            else:
                index.remove(rng.choice(alive, 20, replace=False))
            reader.reload()
            exact, query = index.vectors, rows(1, 300 + step)[0]
            for one in (index, reader):
                near = one._finder(None).vectors(one._table.view.items.positions())
                lengths = np.linalg.norm(near, axis=1) * np.linalg.norm(exact, axis=1)
                assert ((near * exact).sum(axis=1) / lengths > 0.999).all()
            assert index.find(query, 5).ids.tolist() == reader.find(query, 5).ids.tolist()
        reader.close()


def test_items_that_come_and_go_meanwhile(tmp_path):
    """Searches see one state, while others add, remove and count positions anew."""
    with LiveIndex(OnlineHashing(32, random_state=0), refresh.by_hand(), path=tmp_path / "items") as index:
        index.add(range(3000), clustered(3000))
        index.refresh()
        problems: list[BaseException] = []
        done = threading.Event()

        def change() -> None:
            try:
                for step in range(40):
                    index.remove(range(20 * step, 20 * step + 20))
                    index.add(range(5000 + 10 * step, 5010 + 10 * step), rows(10, step))
            except BaseException as error:
                problems.append(error)
            finally:
                done.set()

        thread = threading.Thread(target=change)
        thread.start()
        n = 0
        while not done.is_set() or n == 0:
            found = index.find(rows(70, n), 5)
            assert found.ids.shape == (70, 5)
            n += 1
        thread.join()
        assert not problems
        assert len(index) == 3000 - 40 * 20 + 40 * 10


def test_the_first_search_needs_no_rows_that_are_not_committed_yet(tmp_path, monkeypatch):
    """It takes a sample of all rows, and a slow disk may not have committed the last ones."""
    commit, is_committing, may_go_on = Store._commit, threading.Event(), threading.Event()

    def wait(store, connection):
        is_committing.set()
        assert may_go_on.wait(30)
        commit(store, connection)

    with LiveIndex(OnlineHashing(32, random_state=0), refresh.by_hand(), path=tmp_path / "items") as index:
        index.add(range(300), clustered(300))
        index.refresh()
        with monkeypatch.context() as patch:
            patch.setattr(Store, "_commit", wait)
            adding = threading.Thread(target=index.add, args=(range(300, 900), clustered(600)))
            adding.start()
            try:
                assert is_committing.wait(30)
                assert index.find(clustered(1)[0], 5).ids[0] == 0
            finally:
                may_go_on.set()
                adding.join()
        assert len(index) == 900


def in_a_group(index):
    with index.group_commit():
        index.add([900], rows(1, 7), [{"n": 900}])
        index.update([0], rows(1, 8), [{"n": -1}])
        index.remove([1])


@pytest.mark.parametrize(
    "change",
    [
        in_a_group,
        lambda index: index.add([900], rows(1, 7)),
        lambda index: index.update([0], rows(1, 8), [{"n": -1}]),
        lambda index: index.remove([0]),
    ],
    ids=["group", "add", "update", "remove"],
)
def test_it_does_not_wait_for_a_change_to_be_on_the_disk(change, tmp_path, monkeypatch):
    connect, is_held_up = sqlite3.connect, threading.Event()
    is_committing, may_go_on = threading.Event(), threading.Event()

    def hold_up(statement):
        if is_held_up.is_set() and statement.strip().upper().startswith("COMMIT"):
            is_committing.set()
            assert may_go_on.wait(60)

    def connected(*args, **options):
        connection = connect(*args, **options)
        connection.set_trace_callback(hold_up)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connected)
    with (
        LiveIndex(OnlineHashing(32, random_state=0), refresh.by_hand(), path=tmp_path / "items") as index,
        ThreadPoolExecutor() as pool,
    ):
        index.add(range(300), clustered(300), [{"n": i} for i in range(300)])
        query = clustered(1)[0]
        is_held_up.set()
        changed = pool.submit(change, index)
        try:
            assert is_committing.wait(60)
            for where in (None, {"n": {"<": 200}}):
                found = pool.submit(index.find, query, 5, where, payloads=True).result(timeout=60)
                assert found.ids[0] == 0  # as it was before the change
                assert found.payloads[0] == {"n": 0}
            assert not changed.done()
        finally:
            may_go_on.set()
        changed.result(timeout=60)
        assert len(index.find(query, 5).ids) == 5


def test_what_is_refused(index):
    assert isinstance(refused(index.find, rows(1)[0]), NotReady)
    index.add(None, rows(50))
    for query in (rows(1)[0, :5], [], "text", np.full(D, np.nan), Codes.from_bits(np.ones((1, 32), np.bool_))):
        assert isinstance(refused(index.find, query), InvalidInput)
    for k in (-1, 1.5, None, True):
        assert isinstance(refused(index.find, rows(1)[0], k), InvalidInput | InvalidParameter)
    assert isinstance(refused(index.find, rows(1)[0], 3, {"x": {"unknown": 1}}), InvalidInput)
    zeros = refused(index.find, np.stack([np.ones(D), np.zeros(D)]))
    assert str(zeros).startswith("row 1 of queries is all zeros")
    assert isinstance(refused(lambda: LiveIndex(precision="int4")), InvalidParameter)
