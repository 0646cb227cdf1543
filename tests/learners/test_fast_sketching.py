"""The mixing of chunks against a dense matrix, and what is left of the promises of online sketching hashing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash.learners.fast_sketching import FastSketchingHashing, hadamard_sample
from tests.learners.test_sketching import sketch_of, stream
from tests.reference.fast_sketching import transform
from tests.reference.sketching import scatter


def make(n_bits: int = 8, **settings: Any) -> FastSketchingHashing:
    return FastSketchingHashing(n_bits, **{"sketch_size": 32, "chunk_size": 100, "random_state": 0} | settings)


@pytest.mark.parametrize(("n", "size", "q", "d"), [(1, 1, 1, 3), (20, 32, 5, 37)])
def test_it_is_the_dense_transform(n: int, size: int, q: int, d: int) -> None:
    rng = np.random.default_rng(0)
    X, signs, sample = rng.standard_normal((n, d)), rng.choice([-1.0, 1.0], size), rng.permutation(size)[:q]
    padded = np.vstack([X, np.zeros((size - n, d))])
    np.testing.assert_allclose(hadamard_sample(X, signs, sample), transform(signs, sample) @ padded, rtol=0, atol=1e-12)


def test_a_full_sample_keeps_the_scatter_and_a_smaller_one_its_mean() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    exact, total = X.T @ X, np.zeros((6, 6))
    whole = hadamard_sample(X, rng.choice([-1.0, 1.0], 64), np.arange(64))
    np.testing.assert_allclose(whole.T @ whole, exact, rtol=0, atol=1e-11)
    for _ in range(1000):
        some = hadamard_sample(X, rng.choice([-1.0, 1.0], 64), rng.permutation(64)[:8])
        total += some.T @ some / 1000
    assert np.abs(total - exact).max() < 0.1 * np.trace(exact) / 6


def test_each_chunk_is_mixed_anew() -> None:
    frosh = make().observe(stream(1))
    rows = stream(100) - 3
    first = frosh._reduced(rows)
    assert np.array_equal(frosh._reduced(rows), first)
    frosh._n_learned = 100
    second = frosh._reduced(rows)
    assert len(first) == 16
    assert len(second) == 15, "the row of the mean takes a place"
    assert not np.allclose(first[:15], second)


def test_the_mean_is_exact_and_the_scatter_close() -> None:
    X = stream(4000, drift=30.0)
    frosh = make(4, sketch_size=80, chunk_size=500).observe(X)
    np.testing.assert_allclose(frosh.mean_, X.mean(axis=0), rtol=1e-12)
    exact = scatter(X)
    lost = np.abs(np.linalg.eigvalsh(exact - sketch_of(frosh))).max()
    assert 1e-6 < lost / np.linalg.norm(exact, 2) < 0.25
    principal = np.linalg.eigh(exact)[1][:, -1]
    assert np.linalg.norm(frosh.projection_.T @ principal) > 0.99
