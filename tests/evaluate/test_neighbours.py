"""Nearest neighbours, beside brute force, on data full of ties and of rounding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinehash import evaluate


def squared_distances(A: np.ndarray, B: np.ndarray) -> list[list[float]]:
    """One difference after the other, in float64."""
    return [[sum((v - w) ** 2 for v, w in zip(a, b, strict=True)) for b in B.tolist()] for a in A.tolist()]


def brute_force(A: np.ndarray, B: np.ndarray, k: int) -> np.ndarray:
    relevant = np.zeros((len(A), len(B)), bool)
    for row, distances in zip(relevant, squared_distances(A, B), strict=True):
        row[sorted(range(len(B)), key=lambda j: (distances[j], j))[:k]] = True
    return relevant


DATA = {
    "small whole numbers, full of ties": lambda rng: rng.integers(0, 3, size=(40, 3)).astype(np.float32),
    "closer than float32 can tell": lambda rng: 1 + 2.0**-30 * rng.integers(0, 8, size=(40, 3)),
    "one far away": lambda rng: np.concatenate([rng.normal(size=(39, 3)), np.full((1, 3), 1e30)]),
}


@pytest.mark.parametrize("name", DATA)
@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_the_nearest_are_exact_and_ties_go_to_the_first(name, seed, k):
    rng = np.random.default_rng(seed)
    X = DATA[name](rng)
    Q = X[rng.permutation(40)[:6]]
    truth = evaluate.nearest(Q, X, k=k)
    np.testing.assert_array_equal(truth.block(slice(0, 6)), brute_force(Q, X, k))
    np.testing.assert_array_equal(truth.block(slice(2, 5)), truth.block(slice(0, 6))[2:5])


@pytest.mark.parametrize("name", DATA)
@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 39))
def test_pairs_are_neighbours_when_either_is_near_the_other(name, seed, k):
    rng = np.random.default_rng(seed)
    X = DATA[name](rng)
    first, second = rng.integers(40, size=(2, 30))
    distances = squared_distances(X, X)
    reach = [sorted(distances[i][:i] + distances[i][i + 1 :])[k - 1] for i in range(40)]
    expected = [i != j and distances[i][j] <= max(reach[i], reach[j]) for i, j in zip(first, second, strict=True)]
    assert evaluate.are_neighbours(X, first, second, k=k).tolist() == expected
    radii = evaluate.neighbour_radii(X, k=k)
    assert radii == pytest.approx([r**0.5 for r in reach], rel=1e-14)
    assert evaluate.are_neighbours(X, first, second, radii=radii).tolist() == expected
    np.testing.assert_array_equal(evaluate.neighbour_radii(X, k=k, rows=first), radii[first])


def test_a_share_is_rounded_and_at_least_one():
    X = np.random.default_rng(0).normal(size=(50, 4))
    for share, k in ((0.05, 2), (0.1, 5), (0.001, 1), (1, 50)):
        assert evaluate.nearest(X[:3], X, share).block(slice(0, 3)).sum(axis=1).tolist() == [k] * 3
    np.testing.assert_array_equal(evaluate.neighbour_radii(X, 0.1), evaluate.neighbour_radii(X, k=5))
    assert not evaluate.are_neighbours(X, [3], [3], 1.0).any()
    assert evaluate.are_neighbours(X, [], []).shape == (0,)
