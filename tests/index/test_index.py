"""What users write: queries of any kind, clear refusals, readers side by side."""

from __future__ import annotations

import pickle
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
def test_hits_unpack_into_two_arrays_and_are_as_long_as_their_ids(cls, OH):
    index = cls(OH.encode(X), encoder=OH.snapshot())
    one, several, none = index.search(X[3], 5), index.search(X[:4]), index.search(X[3], 0)
    ids, distances = one
    assert ids is one.ids
    assert distances is one.distances
    assert (len(one), len(several), len(none)) == (5, 4, 0)
    assert several.ids.shape == (4, 10)
    assert one.payloads is None
    copy = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(copy.ids, one.ids)


@both
def test_vectors_booleans_and_codes_ask_the_same(cls, OH):
    index = cls(OH.encode(X), encoder=OH.snapshot())
    expected = index.search(X[:5], 7)
    for queries in (OH.encode(X[:5]), OH.transform(X[:5]), X[:5].tolist(), np.asfortranarray(X[:5])):
        np.testing.assert_array_equal(index.search(queries, 7).ids, expected.ids)


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


@both
def test_a_new_encoder_comes_with_new_codes(cls):
    learner = OnlineHashing(32, random_state=0).observe(X)
    index = cls(learner.encode(X), encoder=learner.snapshot())
    learner.partial_fit_pairs(X[:100], X[100:200], np.arange(100) % 3 == 0)
    index.replace(learner.encode(X), learner.snapshot())
    fresh = cls(learner.encode(X), encoder=learner.snapshot())
    np.testing.assert_array_equal(index.search(X[:9], 20).ids, fresh.search(X[:9], 20).ids)


@both
@pytest.mark.parametrize("fusion", ["min", "sum"])
def test_several_models_by_vectors(cls, fusion):
    mm = MultiModelOnlineHashing(12, n_models=3, random_state=0).observe(X)
    index = cls(mm.encode(X), fusion=fusion, encoder=mm.snapshot())
    bits = mm.transform(X)
    per_model = (bits[0] != bits).reshape(len(X), 3, 12).sum(axis=2)
    distances = per_model.min(axis=1) if fusion == "min" else per_model.sum(axis=1)
    np.testing.assert_array_equal(index.search(X[0], 50).ids, np.argsort(distances, kind="stable")[:50])


@both
def test_a_state_does_not_change_any_more(cls, OH):
    index = cls(OH.encode(X))
    index.update([3], OH.encode(X[:1]))
    state = index.get_state()
    twin = cls.from_state(state, None)
    before = twin.codes
    index.update([5], OH.encode(X[:1]))
    index.remove([7])
    assert twin.codes == before
    assert len(twin) == 300


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


def test_removals_alone_build_nothing(monkeypatch):
    index = MultiIndex(Codes.from_bits(np.random.default_rng(0).random((20_000, 64)) < 0.5))
    monkeypatch.setattr(substrings, "build", None)
    index.remove(np.arange(0, 20_000, 10))
    monkeypatch.setattr(costs, "SCAN_MANY", 1e9)
    assert not (index.search(index.codes[:100], 5).ids % 10 == 0).any()


@both
def test_memory_is_near_the_codes(cls):
    codes = Codes.from_bits(np.random.default_rng(0).random((100_000, 64)) < 0.5)
    index = cls(codes)
    per_item = index.nbytes / len(codes)
    assert per_item < (8.2 if cls is FlatIndex else 8.4 + 12 * index.n_tables + 2)
    assert np.shares_memory(index.codes.planes, codes.planes)


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


def test_only_the_changed_tables_are_sorted_anew(monkeypatch):
    bits = np.random.default_rng(0).random((3000, 64)) < 0.5
    index = MultiIndex(Codes.from_bits(bits))
    sorted_tables = []
    sort = substrings._sort
    monkeypatch.setattr(substrings, "_sort", lambda *args: sorted_tables.append(int(args[1])) or sort(*args))
    changed = bits.copy()
    changed[:, 1] ^= True
    changed[:, 20] ^= True
    index.replace(Codes.from_bits(changed))
    starts = index.get_state()["tables"][0]["starts"].tolist()
    assert sorted_tables == [max(s for s in starts if s <= column) for column in (1, 20)]
    monkeypatch.setattr(costs, "SCAN_MANY", 1e9)
    expected = FlatIndex(Codes.from_bits(changed)).search(Codes.from_bits(bits[:50]), 20)
    np.testing.assert_array_equal(index.search(Codes.from_bits(bits[:50]), 20).ids, expected.ids)


@pytest.mark.parametrize(
    ("n_bits", "n_models", "fusion"), [(64, 1, "min"), (150, 1, "min"), (20, 3, "min"), (21, 3, "sum")]
)
@pytest.mark.parametrize("n_columns", [1, 3, 12])
def test_replaced_columns_are_found(n_bits, n_models, fusion, n_columns, monkeypatch):
    """In the tables' own memory, and never in that of a state that was handed out."""
    monkeypatch.setattr(costs, "SCAN_MANY", 1e9)
    rng = np.random.default_rng(0)
    bits = rng.random((3000, n_bits * n_models)) < 0.5
    index = MultiIndex(Codes.from_bits(bits, n_models), fusion=fusion)
    queries = Codes.from_bits(bits[:50], n_models)
    for shared in (False, True, False):
        state = index.get_state() if shared else None
        before = FlatIndex(index.codes, fusion=fusion).search(queries, 20)
        bits[:, rng.choice(n_bits * n_models, n_columns, replace=False)] ^= rng.random((3000, n_columns)) < 0.5
        index.replace(Codes.from_bits(bits, n_models))
        expected = FlatIndex(Codes.from_bits(bits, n_models), fusion=fusion).search(queries, 20)
        np.testing.assert_array_equal(index.search(queries, 20).ids, expected.ids)
        assert not index.work.scanned.any()
        if state is not None:
            old = MultiIndex.from_state(state, None).search(queries, 20)
            np.testing.assert_array_equal(old.ids, before.ids)


@pytest.mark.parametrize("n", [0, 100, 10_000, 43_900, 10**6, 10**8])
def test_substrings_lie_within_the_code(n):
    for n_bits in range(1, 700):
        ends = substrings.cut(n_bits, n)
        assert ends[0] == 0
        assert ends[-1] <= n_bits
        assert 1 <= np.diff(ends).min() <= np.diff(ends).max() <= substrings.LONGEST
        assert len(ends) - 1 <= substrings.MOST_TABLES
