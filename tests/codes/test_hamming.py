"""Hamming distances against counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash import Codes, FlatIndex, MultiIndex
from onlinehash.codes import distance_matrix, fused_distances
from tests.codes.drawn import WIDTHS, Drawn, drawn


def by_counting(queries: np.ndarray, base: np.ndarray, n_models: int) -> np.ndarray:
    """`(n_models, n_queries, n_base)`."""
    q, b = (bits.reshape(len(bits), n_models, bits.shape[1] // n_models) for bits in (queries, base))
    return np.array([[(query != b).sum(axis=2) for query in q]]).reshape(len(q), len(b), n_models).transpose(2, 0, 1)


def assert_distances(queries: np.ndarray, base: np.ndarray, n_models: int) -> None:
    a, b = Codes.from_bits(queries, n_models), Codes.from_bits(base, n_models)
    expected, found = by_counting(queries, base, n_models), distance_matrix(a, b)
    assert found.dtype == np.uint16
    assert np.array_equal(found, expected)
    assert np.array_equal(fused_distances(a, b, "min"), expected.min(axis=0))
    assert np.array_equal(fused_distances(a, b, "sum"), expected.sum(axis=0))
    assert np.array_equal(fused_distances(a, b), expected.min(axis=0))


@given(case=drawn(), n_queries=st.sampled_from([0, 1, 5]))
def test_distances_count_the_bits_that_differ(case: Drawn, n_queries: int) -> None:
    queries = np.random.default_rng(0).random((n_queries, case.bits.shape[1])) < 0.5
    assert_distances(queries, case.bits, case.n_models)


@pytest.mark.parametrize("n_models", [1, 3])
def test_the_nearest_and_the_farthest(n_models: int) -> None:
    """Distances from 0 to all bits, where a count of too few bits would overflow."""
    for n_bits in WIDTHS:
        columns = n_bits * n_models
        base = np.zeros((70, columns), bool)
        for i in range(1, 70):
            base[i, : round(columns * i / 69)] = True
        assert_distances(np.array([[False] * columns, [True] * columns]), base, n_models)


def test_the_most_columns_there_can_be() -> None:
    """Sums of 65,528 fit 16 bits, and so does what is above all of them."""
    zeros = np.zeros((1, 65_528), bool)
    a, b = Codes.from_bits(zeros, 8191), Codes.from_bits(~zeros, 8191)
    assert fused_distances(a, b, "sum").tolist() == [[65_528]]
    assert fused_distances(a, b, "min").tolist() == [[8]]
    for index in (FlatIndex(b, fusion="sum"), MultiIndex(b, fusion="sum")):
        assert index.search(a, 1).distances.tolist() == [[65_528]]
        assert index.within(a, 65_527)[0].ids.tolist() == []
        assert index.within(a, 70_000)[0].ids.tolist() == [0]
