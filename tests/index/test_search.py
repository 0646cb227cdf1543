"""Both indexes against the definition: every width, tie, limit, fusion and number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinehash import Codes, FlatIndex, MultiIndex
from onlinehash.index import costs, flat, multi_index
from tests.reference import search as reference

INDEXES = {"flat": FlatIndex, "multi": MultiIndex}


@st.composite
def cases(draw):
    """Codes with many ties and some far-away ones, and queries among and beside them."""
    n_models = draw(st.sampled_from((1, 1, 1, 2, 3)))
    n_bits = draw(st.one_of(st.integers(1, 300), st.sampled_from((1, 8, 16, 63, 64, 65, 128, 248, 249, 256, 257))))
    n = draw(st.sampled_from((0, 1, 2, 63, 64, 65, 130, 400)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    centres = rng.random((draw(st.integers(1, 4)), n_models * n_bits)) < 0.5
    noise = draw(st.sampled_from((0.0, 0.02, 0.2, 0.5)))
    drawn = [centres[rng.integers(0, len(centres), m)] ^ (rng.random((m, n_models * n_bits)) < noise) for m in (n, 9)]
    fusion = draw(st.sampled_from(("min", "sum")))
    return drawn[0], drawn[1], n_models, fusion


@pytest.fixture(autouse=True)
def _threads_at_once(monkeypatch):
    """Threads are used however little there is to do."""
    monkeypatch.setattr(flat, "LEAST_WORK", 0)


@pytest.fixture(params=["as it is", "never gives up", "gives up"])
def patience(request, monkeypatch):
    """How dear a scan is, in the eyes of the multi-index."""
    price = {"as it is": (costs.SCAN_ONE, costs.SCAN_MANY), "never gives up": (1e9, 1e9), "gives up": (0.0, 0.0)}
    one, many = price[request.param]
    monkeypatch.setattr(costs, "SCAN_ONE", one)
    monkeypatch.setattr(costs, "SCAN_MANY", many)


@settings(max_examples=25, deadline=None)
@given(case=cases(), n_jobs=st.sampled_from((1, 2, 5, -1)), kind=st.sampled_from(("flat", "multi", "multi")))
def check_search(case, n_jobs, kind):
    base, queries, n_models, fusion = case
    n, columns = base.shape
    index = INDEXES[kind](Codes.from_bits(base, n_models), n_jobs=n_jobs, fusion=fusion)
    expected = reference.distances(queries, base, n_models, fusion)
    order = np.argsort(expected, axis=1, kind="stable")
    ranked = np.take_along_axis(expected, order, axis=1)
    for k in (0, 1, 10, n, n + 7):
        hits = index.search(Codes.from_bits(queries, n_models), k)
        assert hits.ids.shape == (len(queries), min(k, n))
        np.testing.assert_array_equal(hits.distances, ranked[:, :k])
        np.testing.assert_array_equal(hits.ids, order[:, :k])
        one = index.search(queries[0], k)
        np.testing.assert_array_equal(one.ids, order[0, :k])
        np.testing.assert_array_equal(one.distances, ranked[0, :k])
    for radius in (0, 1, columns // n_models // 4, columns, 10 * columns):
        found = index.within(Codes.from_bits(queries, n_models), radius)
        assert len(found) == len(queries)
        for q, hits in enumerate(found):
            inside = ranked[q] <= radius
            np.testing.assert_array_equal(hits.ids, order[q, inside])
            np.testing.assert_array_equal(hits.distances, ranked[q, inside])
        np.testing.assert_array_equal(index.within(queries[1], radius).ids, found[1].ids)


@pytest.mark.usefixtures("patience")
def test_search_as_defined():
    check_search()


def test_wide_codes():
    """The widest there are, where distances no longer fit a byte."""
    rng = np.random.default_rng(0)
    base, queries = (rng.random((n, 4096)) < 0.5 for n in (300, 4))
    base[7] = ~queries[0]
    expected = reference.distances(queries, base, 1, "min")
    for index in (FlatIndex(Codes.from_bits(base)), MultiIndex(Codes.from_bits(base))):
        hits = index.search(Codes.from_bits(queries), 300)
        np.testing.assert_array_equal(hits.distances, np.sort(expected, axis=1))
        assert hits.ids[0, -1] == 7
        assert hits.distances[0, -1] == 4096


def test_very_long_codes_are_cut_only_at_their_beginning(monkeypatch):
    """Where all bits in tables are used up, and the query is far from everything."""
    monkeypatch.setattr(costs, "SCAN_ONE", 100.0)
    rng = np.random.default_rng(0)
    base = rng.random((3000, 1000)) < 0.02
    index, scan = MultiIndex(Codes.from_bits(base)), FlatIndex(Codes.from_bits(base))
    assert index.n_tables == 16
    for query in (np.ones(1000, np.bool_), base[5]):
        np.testing.assert_array_equal(index.search(query, 3).ids, scan.search(query, 3).ids)
        np.testing.assert_array_equal(index.within(query, 25).ids, scan.within(query, 25).ids)


def clustered(n, n_bits, seed=0):
    """Codes that have near neighbours, and 50 more of them as queries."""
    rng = np.random.default_rng(seed)
    centres = rng.random((n // 50, n_bits)) < 0.5
    bits = centres[rng.integers(0, len(centres), n + 50)] ^ (rng.random((n + 50, n_bits)) < 0.05)
    return Codes.from_bits(bits[50:]), Codes.from_bits(bits[:50])


@pytest.mark.parametrize("n_bits", [48, 64, 128, 200])
def test_larger_sets_take_several_tables_and_give_the_same_answers(n_bits):
    codes, queries = clustered(60_000, n_bits)
    multi, scan = MultiIndex(codes), FlatIndex(codes)
    assert multi.n_tables > 2
    for k in (1, 10, 100):
        expected, got = scan.search(queries, k), multi.search(queries, k)
        np.testing.assert_array_equal(got.ids, expected.ids)
        np.testing.assert_array_equal(got.distances, expected.distances)
    for expected, got in zip(scan.within(queries, 9), multi.within(queries, 9), strict=True):
        np.testing.assert_array_equal(got.ids, expected.ids)


def test_work_is_counted(monkeypatch):
    codes, queries = clustered(60_000, 64)
    index = MultiIndex(codes)
    monkeypatch.setattr(costs, "SCAN_MANY", 1e9)
    index.search(queries, 10)
    assert not index.work.scanned.any()
    assert (index.work.look_ups >= 1).all()
    assert (index.work.candidates >= 10).all()
    assert index.work.candidates.mean() < len(codes) / 5
    monkeypatch.setattr(costs, "SCAN_MANY", 0.0)
    index.search(queries, 10)
    assert index.work.scanned.all()


def test_uniform_codes_are_scanned():
    rng = np.random.default_rng(0)
    index = MultiIndex(Codes.from_bits(rng.random((50_000, 128)) < 0.5))
    index.search(Codes.from_bits(rng.random((20, 128)) < 0.5), 10)
    assert index.work.scanned.all()
    assert index.work.candidates.mean() < 25_000


def test_who_comes_after_many_failures_is_not_tried(monkeypatch):
    monkeypatch.setattr(costs, "CHEAP_SCAN", 0)
    monkeypatch.setattr(costs, "SCAN_MANY", 0.1)
    monkeypatch.setattr(costs, "AT_ONCE", 10.0)
    rng = np.random.default_rng(0)
    bits = rng.random((50_000, 64)) < 0.5
    index, queries = MultiIndex(Codes.from_bits(bits)), Codes.from_bits(rng.random((100, 64)) < 0.5)
    hits = index.search(queries, 10)
    assert index.work.scanned.all()
    assert index.work.look_ups[: multi_index.FIRST].all()
    assert not index.work.look_ups[multi_index.FIRST :].any()
    np.testing.assert_array_equal(hits.ids, FlatIndex(Codes.from_bits(bits)).search(queries, 10).ids)
    found = index.within(queries, 20)
    np.testing.assert_array_equal([len(hits.ids) for hits in found], (reference_distances(queries, bits) <= 20).sum(1))


def reference_distances(queries, base):
    return reference.distances(queries.bits(), base, 1, "min")


@pytest.mark.parametrize("kind", INDEXES)
def test_a_whole_shelf_of_duplicates_comes_in_the_order_of_insertion(kind):
    codes = Codes.from_bits(np.zeros((5000, 64), np.bool_))
    index = INDEXES[kind](codes, ids=np.arange(5000)[::-1])
    hits = index.search(np.zeros(64, np.bool_), 100)
    np.testing.assert_array_equal(hits.ids, np.arange(4999, 4899, -1))
    assert not hits.distances.any()
