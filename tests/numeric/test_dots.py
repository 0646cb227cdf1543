"""Row kernels: exact to rounding, in the documented order, and blind to what is computed beside them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numba import njit

from onlinehash.numeric.dots import (
    MIXED,
    ROW_MULTIPLE,
    add_row,
    aligned_empty,
    aligned_zeros,
    dot_of_rows,
    mixed_rows,
    pad_rows,
    padded_width,
    row_dots,
    some_row_dots,
)

DTYPES = [np.float32, np.float64]


def random(n: int, d: int, dtype: Any, seed: int = 0) -> np.ndarray:
    return pad_rows((np.random.default_rng(seed).standard_normal((n, d)) * 3).astype(dtype))


def dots(W: np.ndarray, X: np.ndarray) -> np.ndarray:
    out = np.full((len(X), len(W)), np.nan, W.dtype)
    row_dots(W, X, 0, len(X), out)
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", range(1, 71))
def test_products_are_right_for_every_size(d: int, dtype: Any) -> None:
    """Against math.fsum; the numbers of rows go through all remainders of the tiles."""
    W, X = random(d % 11 + 1, d, dtype), random(d % 9 + 1, d, dtype, seed=1)
    found = dots(W, X)
    for n, x in enumerate(X.astype(float)):
        for k, w in enumerate(W.astype(float)):
            exact = math.fsum(w * x)
            allowed = np.finfo(dtype).eps * (d / 8 + 6) * math.fsum(abs(w * x))
            assert abs(float(found[n, k]) - exact) <= allowed


def by_the_book(w: np.ndarray, x: np.ndarray) -> float:
    """The order that the module documents, with exact fused multiply-adds: eight lanes of float64, then halving."""
    lanes = [0.0] * 8
    for start in range(0, len(w), 8):
        for l in range(8):
            lanes[l] = float(Fraction(w[start + l]) * Fraction(x[start + l]) + Fraction(lanes[l]))
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [lanes[l] + lanes[l + half] for l in range(half)]
    return lanes[0]


@pytest.mark.parametrize("d", [1, 7, 8, 16, 17, 33, 70])
def test_the_order_of_summation_is_the_documented_one(d: int) -> None:
    """So that another CPU, or another tile, gives the same bits."""
    W, X = random(5, d, np.float64), random(3, d, np.float64, seed=1)
    expected = [[by_the_book(w, x) for w in W] for x in X]
    assert np.array_equal(dots(W, X), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_may_be_longer_than_the_functions(dtype: Any) -> None:
    W, X = random(9, 20, dtype), random(7, 70, dtype, seed=1)
    assert np.array_equal(dots(W, X), dots(W, np.ascontiguousarray(X[:, : W.shape[1]])))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 16, 17, 33, 70, 100])
@pytest.mark.parametrize("n_columns", [1, 3, MIXED, MIXED + 2, 2 * MIXED])
def test_rows_are_mixed_in_their_order_whatever_is_mixed_beside(n_columns: int, d: int, dtype: Any) -> None:
    """Chains of fused multiply-adds, exact fractions rounded at each, so that another CPU gives the same bits."""
    X, C = random(5, d, dtype), np.random.default_rng(2).standard_normal((5, n_columns)).astype(dtype)
    found, k = [], 0
    while k < n_columns:
        out = np.full((MIXED, X.shape[1]), np.nan, dtype)
        n = mixed_rows(C, k, X, out)
        found += list(out[:n])
        k += n
    assert k == n_columns
    for column, row in zip(C.T, found, strict=True):
        for values, total in zip(X.T, row, strict=True):
            expected = dtype(0)
            for c, x in zip(column, values, strict=True):
                expected = dtype(float(Fraction(float(c)) * Fraction(float(x)) + Fraction(float(expected))))
            assert total == expected


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_does_not_depend_on_its_company(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    W, X = random(23, 45, dtype), random(19, 45, dtype, seed=1)
    whole = dots(W, X)
    for n in range(len(X)):
        for k in range(len(W)):
            assert dots(W[k : k + 1], X[n : n + 1])[0, 0] == whole[n, k]
    for _ in range(30):
        rows = rng.choice(len(X), size=rng.integers(1, len(X) + 1), replace=False)
        columns = rng.choice(len(W), size=rng.integers(1, len(W) + 1), replace=False)
        assert np.array_equal(dots(W[columns], X[rows]), whole[np.ix_(rows, columns)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_some_rows_give_the_same_and_leave_the_rest(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    W, X = random(23, 45, dtype), random(9, 45, dtype, seed=1)
    whole = dots(W, X)
    for size in range(len(W) + 1):
        chosen = rng.choice(len(W), size=size, replace=False)
        first, stop = sorted(rng.integers(0, len(X) + 1, size=2))
        out = np.full_like(whole, np.nan)
        some_row_dots(W, chosen, X, first, stop, out)
        expected = np.full_like(whole, np.nan)
        expected[first:stop, chosen] = whole[first:stop, chosen]
        assert np.array_equal(out, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_only_the_rows_asked_for_are_written(dtype: Any) -> None:
    W, X = random(6, 20, dtype), random(10, 20, dtype, seed=1)
    out = np.full((10, 6), np.nan, dtype)
    row_dots(W, X, 3, 8, out)
    assert np.array_equal(out[3:8], dots(W, X)[3:8])
    assert np.isnan(out[:3]).all()
    assert np.isnan(out[8:]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_that_is_not_aligned_gives_the_same(dtype: Any) -> None:
    """Copies of a learner (a pickle, a deep copy) lie wherever they happen to."""
    W, X = random(7, 40, dtype), random(5, 40, dtype, seed=1)
    buffer = np.zeros(W.size + 1, dtype)
    shifted = buffer[1:].reshape(W.shape)
    shifted[:] = W
    assert np.array_equal(dots(shifted, X), dots(W, X))


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_padded_with_zeros_and_begin_at_a_cache_line(dtype: Any) -> None:
    for d in (1, 15, 16, 17, 100):
        out = pad_rows(np.ones((3, d), dtype))
        assert out.shape == (3, padded_width(d))
        assert out.shape[1] % ROW_MULTIPLE == 0
        assert out.dtype == dtype
        assert (out[:, :d] == 1).all()
        assert not out[:, d:].any()
        assert out.flags.c_contiguous
        assert aligned_zeros((3, d), dtype).ctypes.data % 64 == 0
        assert aligned_empty((3, d), dtype).ctypes.data % 64 == 0
        assert aligned_empty((3, d), dtype).shape == (3, d)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_is_added_by_fused_multiply_add(dtype: Any) -> None:
    @njit
    def add(W: np.ndarray, k: int, factor: float, X: np.ndarray, p: int) -> None:
        add_row(W, k, factor, X, p)

    W, X = random(4, 21, dtype), random(3, 21, dtype, seed=1)
    factor = dtype(0.37)
    expected = W.copy()
    exact = [Fraction(float(factor)) * Fraction(float(x)) + Fraction(float(w)) for w, x in zip(W[2], X[1], strict=True)]
    expected[2] = [dtype(float(value)) for value in exact]
    add(W, 2, factor, X, 1)
    assert np.array_equal(W, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_rows_of_one_matrix_are_multiplied_in_float64(dtype: Any) -> None:
    @njit
    def dot(X: np.ndarray, i: int, j: int) -> float:
        return dot_of_rows(X, i, j)

    X = random(6, 37, dtype)
    for i in range(6):
        for j in range(6):
            exact = math.fsum(float(x) * float(z) for x, z in zip(X[i], X[j], strict=True))
            assert dot(X, i, j) == pytest.approx(exact, rel=1e-13, abs=1e-13)
            assert dot(X, i, j) == dot(X, j, i)
    tiny = pad_rows(np.full((1, 3), 1e-30, dtype))
    assert dot(tiny, 0, 0) == pytest.approx(3e-60, rel=1e-6)
