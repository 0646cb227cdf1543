"""Signs of projections against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from onlinehash.numeric.signs import BLOCK_ROWS, canonical_dot, signs

DTYPES = [np.float32, np.float64]


def exact_dot(w: np.ndarray, x: np.ndarray) -> Fraction:
    return sum((Fraction(float(a)) * Fraction(float(b)) for a, b in zip(w, x, strict=True)), Fraction(0))


def cancelling(d: int, dtype: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two vectors whose products nearly cancel: the second half undoes the first, up to one last digit."""
    rng = np.random.default_rng(seed)
    w, x = (rng.standard_normal((2, d)) * 10.0 ** rng.integers(-3, 4, size=(2, d))).astype(dtype)
    w, x = np.concatenate([w, w]), np.concatenate([x, -x])
    at = rng.integers(2 * d)
    x[at] = np.nextafter(x[at], dtype(rng.choice([-np.inf, np.inf])))
    order = rng.permutation(2 * d)
    return w[order], x[order]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(20))
def test_the_canonical_dot_product_has_twice_the_precision(dtype: Any, seed: int) -> None:
    for d in (1, 2, 7, 33):
        w, x = cancelling(d, dtype, seed)
        exact = exact_dot(w, x)
        magnitude = sum(abs(Fraction(float(a)) * Fraction(float(b))) for a, b in zip(w, x, strict=True))
        allowed = abs(exact) * Fraction(2) ** -52 + magnitude * Fraction(2) ** -100 * len(w) ** 2
        assert abs(Fraction(canonical_dot(w, x)) - exact) <= allowed


@pytest.mark.parametrize("dtype", DTYPES)
def test_signs_are_those_of_exact_arithmetic(dtype: Any) -> None:
    """On rows that cancel to the last digit, where a BLAS product is often wrong."""
    W = np.stack([cancelling(12, dtype, seed)[0] for seed in range(10)])
    Z = np.stack([cancelling(12, dtype, seed)[1] for seed in range(10)])
    exact = np.array([[exact_dot(w, z) >= 0 for w in W] for z in Z])
    assert np.array_equal(signs(Z, W, np.zeros(10)), exact)
    plain = np.array([[float(z @ w) >= 0 for w in W] for z in Z])
    assert not np.array_equal(plain, exact), "the rows are hard enough to tell"


@pytest.mark.parametrize("dtype", DTYPES)
def test_thresholds(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    Z, W = rng.standard_normal((40, 9)).astype(dtype), rng.standard_normal((7, 9)).astype(dtype)
    thresholds = np.array([float(exact_dot(W[k], Z[k])) for k in range(7)])
    found = signs(Z, W, thresholds)
    for n in range(40):
        for k in range(7):
            gap = exact_dot(W[k], Z[n]) - Fraction(thresholds[k])
            if abs(gap) > Fraction(2) ** -50 * abs(Fraction(thresholds[k])):
                assert found[n, k] == (gap >= 0)
    below = signs(Z[:7], W, np.nextafter(thresholds, -np.inf))
    above = signs(Z[:7], W, thresholds + 1e-12)
    assert below.diagonal().all()
    assert not above.diagonal().any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1.0, 1e-19, 1e-25, 1e18])
def test_no_company_changes_a_sign(dtype: Any, scale: float) -> None:
    """Any subset of rows and columns, any order, any threads; at scales whose products underflow or nearly overflow."""
    rng = np.random.default_rng(0)
    W = np.stack([cancelling(12, dtype, seed)[0] for seed in range(10)])
    Z = (np.concatenate([[cancelling(12, dtype, seed)[1]] * 3 for seed in range(10)]) * scale).astype(dtype)
    Z[::5] = 0
    thresholds = np.where(np.arange(10) % 2, 0.0, scale)
    whole = signs(Z, W, thresholds)
    for n in range(len(Z)):
        assert np.array_equal(signs(Z[n : n + 1], W, thresholds)[0], whole[n])
    for k in range(len(W)):
        assert np.array_equal(signs(Z, W[k : k + 1], thresholds[k : k + 1])[:, 0], whole[:, k])
    many = np.tile(Z, (-(-(BLOCK_ROWS + 10) // len(Z)), 1))
    for threads in (1, 2):
        with threadpool_limits(threads):
            assert np.array_equal(signs(many, W, thresholds), np.tile(whole, (len(many) // len(Z), 1)))
    order = rng.permutation(len(Z))
    assert np.array_equal(signs(Z[order], W, thresholds), whole[order])


def test_zero_is_positive() -> None:
    assert signs(np.zeros((1, 3)), np.ones((2, 3)), np.zeros(2)).all()
    assert signs(np.ones((1, 2)), np.array([[1.0, -1.0]]), np.zeros(1)).all()
