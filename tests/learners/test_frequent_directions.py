"""The sketch against the slow one, its bound, and its exactness where it is large enough."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash.learners.frequent_directions import FrequentDirections
from tests.reference.frequent_directions import ReferenceSketch


def stream(n: int, d: int, seed: int = 0, rank: int | None = None) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rank = rank or d
    return rng.standard_normal((n, rank)) @ (np.diag(0.8 ** np.arange(rank)) @ rng.standard_normal((rank, d)))


def sketched(A: np.ndarray, n_kept: int, at_once: int = 7) -> FrequentDirections:
    sketch = FrequentDirections(n_kept, A.shape[1])
    for start in range(0, len(A), at_once):
        sketch.insert(A[start : start + at_once])
    return sketch


@pytest.mark.parametrize(("n", "d", "n_kept"), [(3, 20, 5), (500, 30, 10), (200, 8, 8)])
def test_it_is_the_slow_sketch(n: int, d: int, n_kept: int) -> None:
    A = stream(n, d)
    sketch, reference = sketched(A, n_kept), ReferenceSketch(2 * n_kept, d)
    for row in A:
        reference.insert(row)
    assert sketch.used == reference.filled
    expected = reference.B.T @ reference.B
    np.testing.assert_allclose(sketch.rows.T @ sketch.rows, expected, rtol=0, atol=1e-10 * np.trace(expected))
    k = min(n_kept, n, d)
    mine, slow = sketch.directions(k), reference.directions(k)
    np.testing.assert_allclose(mine @ mine.T, slow @ slow.T, rtol=0, atol=1e-7)
    np.testing.assert_allclose(np.abs((mine * slow).sum(axis=0)), 1, rtol=0, atol=1e-7)


def test_the_bound_holds_at_any_time() -> None:
    """0 <= AᵀA - BᵀB <= 2 |A|² / ℓ; noise of equal strength in all directions is its hardest case."""
    rng, n_kept = np.random.default_rng(0), 5
    A = np.vstack([stream(150, 24), rng.standard_normal((150, 24)), np.eye(24)])
    sketch, worst = FrequentDirections(n_kept, 24), 0.0
    for n in range(len(A)):
        sketch.insert(A[n : n + 1])
        seen = A[: n + 1]
        lost = np.linalg.eigvalsh(seen.T @ seen - sketch.rows.T @ sketch.rows)
        total = (seen**2).sum()
        assert lost[0] >= -1e-10 * total
        assert lost[-1] <= 2 * total / (2 * n_kept) * (1 + 1e-10)
        worst = max(worst, lost[-1] / total)
    assert worst > 0.01  # something was lost at all


def test_directions_are_orthonormal_and_as_many_as_there_are() -> None:
    A = stream(60, 20, rank=4)
    V = sketched(A, 6).directions(6)
    assert V.shape == (20, 4)
    np.testing.assert_allclose(V.T @ V, np.eye(4), rtol=0, atol=1e-13)
    np.testing.assert_allclose(A @ V @ V.T, A, rtol=0, atol=1e-9)
    assert sketched(np.zeros((2, 5)), 3).directions(2).shape == (5, 0)
    steep = np.diag(10.0 ** -np.arange(12))  # variances from 1 to 1e-22: those to 1e-12 are told from rounding errors
    V = sketched(steep, 10).directions(10)
    np.testing.assert_allclose(V.T @ V, np.eye(V.shape[1]), rtol=0, atol=1e-13)
    np.testing.assert_allclose(np.abs(V[:5, :5]), np.eye(5), rtol=0, atol=1e-4)
    assert V.shape[1] in (6, 7)
