"""Centring against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash.features import Centring
from onlinehash.features.centring import MODES, centre_pair
from onlinehash.numeric.dots import pad_rows

Z = np.random.default_rng(0).standard_normal((50, 6)) * 3 + 5


@pytest.mark.parametrize(("mode", "n_in_mean"), [("burn-in", 20), ("running", 50), ("median", 20), ("none", 0)])
def test_the_mean_of_each_mode(mode: str, n_in_mean: int) -> None:
    centring = Centring(mode, 20, 6, np.dtype(np.float64))
    X, moved = centring.enter(Z)
    expected = Z[:n_in_mean].mean(axis=0) if n_in_mean else np.zeros(6)
    np.testing.assert_allclose(centring.mean, expected, rtol=1e-14)
    assert moved.tolist() == [n < n_in_mean for n in range(50)]
    assert centring.count[0] == n_in_mean
    means = np.stack([Z[: min(n + 1, n_in_mean)].mean(axis=0) if n_in_mean else np.zeros(6) for n in range(50)])
    np.testing.assert_allclose(X[:, :6], Z - means, atol=1e-13)
    assert not X[:, 6:].any()
    np.testing.assert_allclose(centring.centre(Z)[:, :6], Z - expected, atol=1e-13)


@pytest.mark.parametrize("mode", MODES)
def test_points_one_by_one_or_together_are_the_same(mode: str) -> None:
    whole, single = (Centring(mode, 20, 6, np.dtype(np.float64)) for _ in range(2))
    X, moved = whole.enter(Z)
    parts = [single.enter(Z[n : n + 1]) for n in range(50)]
    assert np.array_equal(np.concatenate([x for x, _ in parts]), X)
    assert np.array_equal(np.concatenate([m for _, m in parts]), moved)
    assert whole.mean.tobytes() == single.mean.tobytes()


def test_a_mean_that_does_not_move_is_no_change() -> None:
    centring = Centring("running", 1, 6, np.dtype(np.float64))
    same = np.full((4, 6), 0.5)
    _, moved = centring.enter(same)
    assert moved.tolist() == [True, False, False, False]


def test_state() -> None:
    for mode in MODES:
        one, other = (Centring(mode, 20, 6, np.dtype(np.float64)) for _ in range(2))
        one.enter(Z[:13])
        other.set_state(one.get_state())
        assert np.array_equal(one.enter(Z[13:])[0], other.enter(Z[13:])[0])


@pytest.mark.parametrize("mode", MODES)
def test_pairs_one_by_one_or_together_are_the_same(mode: str) -> None:
    A, B = np.ascontiguousarray(Z[0::2]), np.ascontiguousarray(Z[1::2])
    whole, single = (Centring(mode, 21, 6, np.dtype(np.float64)) for _ in range(2))
    moved, X, rounded = np.zeros(25, np.bool_), pad_rows(np.zeros((2, 6))), np.zeros(6)
    first, second = whole.enter_pairs(A, B, moved)
    state = (single.total, single.count, single.limit, single.mean)
    for t in range(25):
        assert centre_pair(A, B, t, *state, rounded, X, 0) == moved[t]
        assert np.array_equal(X[:, :6], [first[t], second[t]])
    assert whole.mean.tobytes() == single.mean.tobytes()
    assert moved.any() == (mode != "none")
