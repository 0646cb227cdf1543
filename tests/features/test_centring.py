"""Centring against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash.features import Centring, Medians
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


def test_both_points_of_a_pair_enter_before_it_is_centred() -> None:
    centring = Centring("running", 1, 6, np.dtype(np.float64))
    X, rounded = pad_rows(np.zeros((2, 6))), np.zeros(6)
    moved = centre_pair(Z[:1], Z[1:2], 0, centring.total, centring.count, centring.limit, centring.mean, rounded, X, 0)
    assert moved
    np.testing.assert_allclose(X[:, :6], Z[:2] - Z[:2].mean(axis=0), atol=1e-14)


def test_a_burn_in_that_ends_within_a_pair_takes_the_first_point_only() -> None:
    centring = Centring("burn-in", 1, 6, np.dtype(np.float64))
    X, rounded = pad_rows(np.zeros((2, 6))), np.zeros(6)
    state = (centring.total, centring.count, centring.limit, centring.mean)
    assert centre_pair(Z[:1], Z[1:2], 0, *state, rounded, X, 0)
    assert np.array_equal(centring.mean, Z[0])
    assert not centre_pair(Z[2:3], Z[3:4], 0, *state, rounded, X, 0)
    np.testing.assert_allclose(X[:, :6], Z[2:4] - Z[0], atol=1e-14)


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


def test_medians_halve_the_projections() -> None:
    """The streaming median is within a few percent of the true one in rank, also for heavy tails."""
    X = pad_rows(np.random.default_rng(0).standard_cauchy((6000, 3)))
    medians = Medians(3)
    medians.enter(pad_rows(np.eye(3)), X)
    ranks = (X[:, :3] < medians.values).mean(axis=0)
    assert np.abs(ranks - 0.5).max() < 0.05


def test_the_formula_of_the_median() -> None:
    """Each step is the mean absolute deviation times a rate of 1/n, down to 0.005."""
    values = np.random.default_rng(0).standard_normal(400)
    median, spread = 0.0, 0.0
    for n, value in enumerate(values, start=1):
        rate = max(1 / n, 0.005)
        gap = value - median
        spread += rate * (abs(gap) - spread)
        median += rate * spread * np.sign(gap)
    medians = Medians(1)
    medians.enter(pad_rows(np.ones((1, 1))), pad_rows(values[:, None]))
    assert medians.values[0] == pytest.approx(median, rel=1e-12)
    twin = Medians(1)
    twin.set_state(medians.get_state())
    assert twin.values[0] == medians.values[0]


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
