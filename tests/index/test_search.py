"""Both indexes against the definition: every width, tie, limit, fusion and number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinehash import Codes, FlatIndex, MultiIndex
from onlinehash.index import costs, flat
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


@pytest.fixture(params=["as it is", "never gives up"])
def patience(request, monkeypatch):
    """How dear a scan is, in the eyes of the multi-index."""
    price = {"as it is": (costs.SCAN_ONE, costs.SCAN_MANY), "never gives up": (1e9, 1e9)}
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


def clustered(n, n_bits, seed=0):
    """Codes that have near neighbours, and 50 more of them as queries."""
    rng = np.random.default_rng(seed)
    centres = rng.random((n // 50, n_bits)) < 0.5
    bits = centres[rng.integers(0, len(centres), n + 50)] ^ (rng.random((n + 50, n_bits)) < 0.05)
    return Codes.from_bits(bits[50:]), Codes.from_bits(bits[:50])


@pytest.mark.parametrize("n_bits", [64, 200])
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


@pytest.mark.parametrize("kind", INDEXES)
def test_a_whole_shelf_of_duplicates_comes_in_the_order_of_insertion(kind):
    codes = Codes.from_bits(np.zeros((5000, 64), np.bool_))
    index = INDEXES[kind](codes, ids=np.arange(5000)[::-1])
    hits = index.search(np.zeros(64, np.bool_), 100)
    np.testing.assert_array_equal(hits.ids, np.arange(4999, 4899, -1))
    assert not hits.distances.any()
