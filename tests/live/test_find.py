"""`find`: candidates by codes, in the order of the learned metric; in memory, on a disk, after a restart."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from onlinehash import LSH, Codes, LiveIndex, OnlineHashing, refresh
from onlinehash.errors import InvalidInput, InvalidParameter, NotReady
from onlinehash.live import queries
from onlinehash.live.vectors import BLOCK_ROWS, Directions
from tests.live.test_kept import KEPT
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


def test_candidates_are_looked_at_until_more_bring_nothing_new(monkeypatch):
    monkeypatch.setattr(queries, "FIRST", 20)
    items = clustered(3000)
    index = LiveIndex(LSH(64, random_state=0))
    index.add(None, items)
    looked = []
    take = index._directions
    monkeypatch.setattr(index, "_directions", lambda ids: looked.append(len(ids)) or take(ids))
    U = items / np.linalg.norm(items, axis=1, keepdims=True)
    hit = 0
    for query in clustered(3000)[:40]:
        looked.clear()
        index.find(query, 2)
        assert looked[0] == 20
        assert looked[1:] == [20 * 2**i for i in range(len(looked) - 1)]  # as many again, and again
        ranking = index.learner.pair_metric_.ranking(query, 2)
        ranking.add(items[index.search(query, sum(looked)).ids])
        best = set(np.argsort(-(U @ query))[:2].tolist())
        hit += len(best & set(index.search(query, sum(looked)).ids[ranking.nearest(2)].tolist()))
    assert hit >= 64  # of 80


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


def test_items_that_are_marked_by_id(index):
    index.add([f"item {i}" for i in range(300)], clustered(300))
    query = index.get("item 7").vector
    before = index.find(query).ids.tolist()
    assert before[0] == "item 7"
    index.learn_pairs_by_id(["item 7"] * 2, [before[5], before[1]], [True, False])
    after = index.find(query).ids.tolist()
    assert set(after[:2]) == {"item 7", before[5]}
    assert before[1] not in after


def test_filters(index):
    index.add(None, clustered(300), [{"odd": i % 2 == 1} for i in range(300)])
    found = index.find(rows(3, 2), 10, where={"odd": True})
    assert (found.ids % 2 == 1).all()
    assert index.find(rows(1)[0], 10, where={"odd": 3}).ids.shape == (0,)


def test_what_it_learned_is_there_after_a_restart(tmp_path):
    query = rows(1, 9)[0]
    with LiveIndex(n_bits=32, path=tmp_path / "items") as index:
        index.add(None, clustered(1500))
        for marked in range(60):
            shown = index.find(clustered(1500)[marked]).ids
            index.learn_pairs_by_id([marked] * len(shown), shown, shown % 12 == marked % 12)
        index.learn_pair(query, index.get(3).vector, True)
        assert index.learner.pair_metric_.n_steps > 0
        before = index.find(query, 50)
    for read_only in (False, True):
        with LiveIndex.open(tmp_path / "items", read_only=read_only) as again:
            found = again.find(query, 50)
            assert found.ids.tolist() == before.ids.tolist()
            assert found.distances.tobytes() == before.distances.tobytes()
    with LiveIndex.open(tmp_path / "items") as index:
        index.backup(tmp_path / "copy")
    with LiveIndex.open(tmp_path / "copy") as copy:
        assert copy.find(query, 50).ids.tolist() == before.ids.tolist()


def test_an_index_without_a_metric_of_an_earlier_version_begins_one(tmp_path):
    path = shutil.copytree(KEPT / "v1" / "live" / "items", tmp_path / "items")
    with LiveIndex.open(path) as index:
        index.learn_pair_by_id("item 1", "item 3", True)
        found = index.find(index.vectors[0], 3)
        assert len(found.ids) == 3
        assert index.learner.pair_metric_.n_pairs >= 1


@pytest.mark.parametrize("precision", ["int8", "float16", "float32"])
def test_directions_in_memory_follow_the_disk(tmp_path, precision, monkeypatch):
    monkeypatch.setattr("onlinehash.live.vectors.BLOCK_ROWS", 64)
    with LiveIndex(OnlineHashing(32, random_state=0), path=tmp_path / "items", precision=precision) as index:
        index.add(None, clustered(200))
        rng = np.random.default_rng(0)
        reader = LiveIndex.open(tmp_path / "items", read_only=True, precision=precision)
        for step in range(30):
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
                near = one._directions(one.ids)
                lengths = np.linalg.norm(near, axis=1) * np.linalg.norm(exact, axis=1)
                assert ((near * exact).sum(axis=1) / lengths > 0.999).all()
            assert index.find(query, 5).ids.tolist() == reader.find(query, 5).ids.tolist()
        reader.close()


def test_bytes_a_value():
    class Rows:
        def __len__(self) -> int:
            return BLOCK_ROWS

        def take(self, positions: np.ndarray) -> np.ndarray:
            return np.ones((len(positions), D), np.float32)

    for precision, size in (("int8", 1), ("float16", 2), ("float32", 4)):
        directions = Directions(Rows(), precision)
        assert directions.nbytes == 0
        directions.take(np.array([5, 3]))
        assert directions.nbytes == BLOCK_ROWS * D * size


def test_what_is_refused(index):
    assert isinstance(refused(index.find, rows(1)[0]), NotReady)
    index.add(None, rows(50))
    for query in (rows(1)[0, :5], [], "text", np.full(D, np.nan), Codes.from_bits(np.ones((1, 32), np.bool_))):
        assert isinstance(refused(index.find, query), InvalidInput)
    for k in (-1, 1.5, None, True):
        assert isinstance(refused(index.find, rows(1)[0], k), InvalidInput | InvalidParameter)
    assert isinstance(refused(index.find, rows(1)[0], 3, {"x": {"unknown": 1}}), InvalidInput)
    assert isinstance(refused(lambda: LiveIndex(precision="int4")), InvalidParameter)
