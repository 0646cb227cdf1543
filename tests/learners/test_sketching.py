"""Online sketching hashing against the slow one, and what its sketch, mean and rotation promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash.learners.sketching import OnlineSketchingHashing
from tests.reference.sketching import ReferenceSketchingHashing, scatter

D = 20


def stream(n: int, d: int = D, seed: int = 0, drift: float = 0.0) -> np.ndarray:
    """Correlated points far from zero; with drift their mean walks away."""
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(99).standard_normal((d, d)) * 0.85 ** np.arange(d)
    return rng.standard_normal((n, d)) @ mix.T + 3.0 + drift * np.linspace(0, 1, n)[:, None]


def make(n_bits: int = 8, **settings: Any) -> OnlineSketchingHashing:
    return OnlineSketchingHashing(n_bits, **{"sketch_size": 24, "chunk_size": 50, "random_state": 0} | settings)


def sketch_of(osh: OnlineSketchingHashing) -> np.ndarray:
    return osh._sketch.rows.T @ osh._sketch.rows


@pytest.mark.parametrize(
    ("n_bits", "sketch_size", "chunk_size", "drift"),
    [(8, 24, 50, 0.0), (5, 40, 7, 20.0), (8, 16, 400, 20.0), (20, 40, 40, 0.0)],
)
def test_it_is_the_slow_method(n_bits: int, sketch_size: int, chunk_size: int, drift: float) -> None:
    X = stream(400, drift=drift)
    rng = np.random.default_rng([0, 0])
    W = rng.standard_normal((1, D, n_bits))[0]
    rotation = np.linalg.qr(rng.standard_normal((n_bits, n_bits)))[0].T
    osh = make(n_bits, sketch_size=sketch_size, chunk_size=chunk_size).observe(X[:1])
    np.testing.assert_array_equal(osh.projection_, W)  # random projections until a chunk is full
    osh.observe(X[1:])
    reference = ReferenceSketchingHashing(W, rotation, sketch_size)
    for start in range(0, len(X) - chunk_size + 1, chunk_size):
        reference.learn(X[start : start + chunk_size])
    expected = reference.sketch.B.T @ reference.sketch.B
    np.testing.assert_allclose(sketch_of(osh), expected, rtol=0, atol=1e-10 * np.trace(expected))
    np.testing.assert_allclose(osh.mean_, reference.mu, rtol=1e-12)
    np.testing.assert_allclose(osh.projection_, reference.W, rtol=0, atol=1e-6)
    new = stream(300, seed=1)
    near = np.abs((new - reference.mu) @ reference.W) < 1e-3
    assert ((osh.transform(new) == reference.bits(new)) | near).all()


@pytest.mark.parametrize("chunk_size", [1, 50])
def test_a_large_sketch_is_the_exact_scatter_about_the_exact_mean(chunk_size: int) -> None:
    """Also while the mean walks away, and with a last chunk that is cut short."""
    X = stream(333, drift=50.0)
    osh = make(sketch_size=2 * D, chunk_size=chunk_size).observe(X).flush()
    exact = scatter(X)
    np.testing.assert_allclose(sketch_of(osh), exact, rtol=0, atol=1e-11 * np.trace(exact))
    np.testing.assert_allclose(osh.mean_, X.mean(axis=0), rtol=1e-13)
    principal = np.linalg.eigh(exact)[1][:, -8:]
    np.testing.assert_allclose(osh.projection_ @ osh.projection_.T, principal @ principal.T, rtol=0, atol=1e-9)


def test_the_bound_holds_with_chunks_and_a_walking_mean() -> None:
    X = np.random.default_rng(0).standard_normal((600, D)) + np.linspace(0, 5, 600)[:, None]
    osh = make(4, sketch_size=10, chunk_size=50).observe(X)
    exact = scatter(X)
    lost = np.linalg.eigvalsh(exact - sketch_of(osh))
    assert lost[0] >= -1e-10 * np.trace(exact)
    assert 1e-3 * np.trace(exact) < lost[-1] <= 2 * np.trace(exact) / 10


def test_a_stable_subspace_gives_stable_codes() -> None:
    """The same distribution goes on: codes hardly change from chunk to chunk, which a redrawn rotation would not do."""
    X = stream(6000, seed=3)
    new = stream(500, seed=4)
    osh = make(12, sketch_size=40, chunk_size=1000).observe(X[:3000])
    changes = []
    for start in range(3000, 6000, 1000):
        before = osh.transform(new)
        osh.observe(X[start : start + 1000])
        changes.append((osh.transform(new) != before).mean())
    assert 0 < max(changes) < 0.03


def test_fewer_points_than_bits() -> None:
    """Three points have two directions; the other bits are directions of the first random projections."""
    X = stream(3)
    osh = make(8, chunk_size=3).observe(X)
    W = osh.projection_
    np.testing.assert_allclose(W.T @ W, np.eye(8), rtol=0, atol=1e-12)
    centred = X - X.mean(axis=0)
    np.testing.assert_allclose(centred @ W @ W.T, centred, rtol=0, atol=1e-10)
    assert len(np.unique(osh.transform(X), axis=0)) == 3
    osh.observe(stream(300, seed=1))
    principal = np.linalg.svd(osh._sketch.rows)[2][:8].T
    np.testing.assert_allclose(osh.projection_ @ osh.projection_.T, principal @ principal.T, rtol=0, atol=1e-8)


def test_more_bits_than_features() -> None:
    """All directions, spread evenly over the bits."""
    X = stream(300, d=5)
    osh = make(12, chunk_size=100).observe(X)
    W = osh.projection_
    assert W.shape == (5, 12)
    np.testing.assert_allclose(W @ W.T, np.eye(5), rtol=0, atol=1e-12)
    assert (np.linalg.norm(W, axis=0) > 0.1).all()
    assert osh._sketch.rows.shape == (10, 5)
