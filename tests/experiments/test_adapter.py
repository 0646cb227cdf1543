"""The linear adapter: begins as the identity, learns what pairs say, keeps a bounded memory."""

from __future__ import annotations

import numpy as np

from onlinehash.experiments.adapter import LinearAdapter

RNG = np.random.default_rng(2)
Y = RNG.integers(0, 5, 3000)
#: Five classes in four directions, under twenty directions of noise that says nothing.
X = np.concatenate([RNG.standard_normal((5, 4))[Y], 1.5 * RNG.standard_normal((3000, 20))], axis=1).astype(np.float32)
X /= np.linalg.norm(X, axis=1, keepdims=True)
A, B = RNG.integers(0, 3000, (2, 6000))
SIMILAR = Y[A] == Y[B]


def auc(adapter: LinearAdapter) -> float:
    """Of other pairs."""
    a, b = np.random.default_rng(9).integers(0, 3000, (2, 1000))
    cosines = (adapter.map_rows(X[a]) * adapter.map_rows(X[b])).sum(axis=1)
    same = Y[a] == Y[b]
    return float((cosines[same][:, None] > cosines[~same]).mean())


def learned(n: int, similar: np.ndarray = SIMILAR) -> LinearAdapter:
    return LinearAdapter(random_state=0).observe(X[:500]).partial_fit_pairs(X[A[:n]], X[B[:n]], similar[:n])


def test_it_begins_as_the_identity():
    np.testing.assert_allclose(LinearAdapter().observe(X[:500]).map_rows(X), X, atol=1e-6)


def test_few_pairs_do_no_harm_and_many_teach():
    begun, few, many = (auc(learned(n)) for n in (0, 24, 6000))
    assert few > begun - 0.01
    assert many > begun + 0.1
