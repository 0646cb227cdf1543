"""What users write: queries of any kind, clear refusals, readers side by side."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from onlinehash import Codes, FlatIndex, Hits, MultiIndex, MultiModelOnlineHashing, OnlineHashing
from onlinehash.errors import InvalidInput
from onlinehash.index import costs, items, multi_index, substrings

X = np.random.default_rng(0).standard_normal((300, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def OH():
    return OnlineHashing(32, random_state=0).observe(X)


both = pytest.mark.parametrize("cls", [FlatIndex, MultiIndex])


@both
def test_rank_in_rank_out(cls, OH):
    index = cls(OH.encode(X), encoder=OH.snapshot())
    one, several = index.search(X[3], 5), index.search(X[:4], 5)
    assert isinstance(one, Hits)
    assert one.ids.shape == (5,)
    assert several.ids.shape == several.distances.shape == (4, 5)
    np.testing.assert_array_equal(one.ids, several.ids[3])
    assert isinstance(index.within(X[3], 4), Hits)
    assert [type(hits) for hits in index.within(X[:2], 4)] == [Hits, Hits]
    assert index.search(OH.encode(X)[:0], 5).ids.shape == (0, 5)
    assert index.within(OH.encode(X)[:0], 5) == []


@both
def test_a_refusal_is_one_sentence(cls, OH):
    index = cls(OH.encode(X))
    codes = OH.encode(X[:2])
    for call, words in [
        (lambda: index.search(X[:2], 3), "encoder"),
        (lambda: index.search(codes, -1), "k"),
        (lambda: index.search(codes, 2.5), "k"),
        (lambda: index.within(codes, -1), "radius"),
        (lambda: index.search(Codes.from_bits(np.ones((1, 31), np.bool_)), 3), "width"),
        (lambda: index.search(np.ones((1, 31), np.bool_), 3), "width"),
        (lambda: index.add(X[:2]), "Codes"),
        (lambda: index.add(Codes.from_bits(np.ones((1, 31), np.bool_))), "width"),
        (lambda: index.update([0, 1], codes[:1]), "one for each id"),
        (lambda: index.replace(codes), "300"),
        (lambda: cls(X), "Codes"),
        (lambda: cls(codes, ["a"]), "2"),
        (lambda: cls(codes, ["a", "a"]), "unique"),
        (lambda: cls(codes, n_jobs=0), "n_jobs"),
        (lambda: cls(codes, fusion="max"), "fusion"),
        (lambda: cls(codes, encoder=OH), "snapshot"),
        (lambda: index.replace(OH.encode(X), OnlineHashing(16, random_state=0).observe(X).snapshot()), "encoder"),
        (lambda: index.search([[True], [True, False]], 1), "unequal length"),
        (lambda: setattr(index, "n_jobs", 0), "n_jobs"),
        (lambda: cls(codes, encoder=OnlineHashing(16, random_state=0).observe(X).snapshot()), "encoder"),
    ]:
        with pytest.raises(InvalidInput) as caught:
            call()
        assert words in str(caught.value)
        assert str(caught.value).endswith(".")
    assert index.codes == OH.encode(X)


@pytest.mark.parametrize(("cls", "fusion"), [(FlatIndex, "min"), (MultiIndex, "sum")])
def test_several_models_by_vectors(cls, fusion):
    mm = MultiModelOnlineHashing(12, n_models=3, random_state=0).observe(X)
    index = cls(mm.encode(X), fusion=fusion, encoder=mm.snapshot())
    bits = mm.transform(X)
    per_model = (bits[0] != bits).reshape(len(X), 3, 12).sum(axis=2)
    distances = per_model.min(axis=1) if fusion == "min" else per_model.sum(axis=1)
    np.testing.assert_array_equal(index.search(X[0], 50).ids, np.argsort(distances, kind="stable")[:50])


@both
def test_what_fails_for_want_of_memory_leaves_the_index_whole(cls, monkeypatch, OH):
    index = cls(OH.encode(X))

    def no_memory(*_):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(items, "aligned_planes", no_memory)
        with pytest.raises(MemoryError):
            index.add(OH.encode(X[:1]))
    with monkeypatch.context() as patched:
        patched.setattr(substrings, "build", no_memory)
        patched.setattr(multi_index, "FEW_BLOCKS", 0)
        patched.setattr(multi_index, "FRESH_SHARE", 0)
        if cls is MultiIndex:  # the item is in, though not in the tables
            with pytest.raises(MemoryError):
                index.add(OH.encode(X[:1]))
        else:
            index.add(OH.encode(X[:1]))
    monkeypatch.setattr(costs, "CHEAP_SCAN", 0)
    monkeypatch.setattr(costs, "SCAN_ONE", 1e9)
    assert index.ids.tolist() == list(range(301))
    assert index.search(OH.encode(X[:1]), 400).ids.shape == (1, 301)


@both
def test_readers_side_by_side(cls, monkeypatch, OH):
    monkeypatch.setattr(costs, "CHEAP_SCAN", 0)
    monkeypatch.setattr(costs, "SCAN_ONE", 1e9)
    index = cls(OH.encode(X), [f"item {i}" for i in range(300)])
    queries = OH.encode(X)
    expected = [index.search(queries[i], 9).ids.tolist() for i in range(100)]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda i: index.search(queries[i % 100], 9).ids.tolist(), range(400)))
    assert got == expected * 4


@pytest.mark.parametrize(("n_bits", "n_models", "n_columns"), [(150, 1, 1), (20, 3, 12)])
def test_replaced_columns_are_found(n_bits, n_models, n_columns, monkeypatch):
    """In the tables' own memory, and never in that of a state that was handed out."""
    monkeypatch.setattr(costs, "SCAN_MANY", 1e9)
    rng = np.random.default_rng(0)
    bits = rng.random((3000, n_bits * n_models)) < 0.5
    index = MultiIndex(Codes.from_bits(bits, n_models))
    queries = Codes.from_bits(bits[:50], n_models)
    for shared in (False, True, False):
        state = index.get_state() if shared else None
        before = FlatIndex(index.codes).search(queries, 20)
        bits[:, rng.choice(n_bits * n_models, n_columns, replace=False)] ^= rng.random((3000, n_columns)) < 0.5
        index.replace(Codes.from_bits(bits, n_models))
        expected = FlatIndex(Codes.from_bits(bits, n_models)).search(queries, 20)
        np.testing.assert_array_equal(index.search(queries, 20).ids, expected.ids)
        assert not index.work.scanned.any()
        if state is not None:
            old = MultiIndex.from_state(state, None).search(queries, 20)
            np.testing.assert_array_equal(old.ids, before.ids)
