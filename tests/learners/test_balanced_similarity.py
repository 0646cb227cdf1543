"""Balanced similarity hashing against a version that keeps every code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash.learners.balanced_similarity import BalancedSimilarityHashing
from tests.reference.balanced_similarity import ReferenceBalancedSimilarity
from tests.support import clusters

N_BITS, CHUNK = 6, 20


def stream(n: int, d: int, n_classes: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noisy clusters; the class numbers are in order of first appearance, as the learner counts them."""
    X, y = clusters(n, seed, n_classes, d)
    _, first, numbers = np.unique(y, return_index=True, return_inverse=True)
    return X + 0.5 * np.random.default_rng(seed + 9).standard_normal(X.shape), np.argsort(np.argsort(first))[numbers]


def both(d: int, **weights: Any) -> tuple[BalancedSimilarityHashing, ReferenceBalancedSimilarity]:
    """The learner, having seen one point without a label, and the reference with the same W."""
    learner = BalancedSimilarityHashing(N_BITS, chunk_size=CHUNK, centre="none", random_state=3, **weights)
    learner.observe(np.ones((1, d)))
    given = learner.similar_weight, learner.dissimilar_weight, learner.fit_weight, learner.ridge
    return learner, ReferenceBalancedSimilarity(learner.projection_, CHUNK, *given)


@pytest.mark.parametrize(
    ("d", "weights"),
    [
        (5, {}),
        (16, {"fit_weight": 50.0}),
        (45, {"dissimilar_weight": 0.0, "ridge": 3.0}),  # more features than rows: the dual form of the regression
    ],
)
def test_sums_stand_for_all_codes(d: int, weights: dict[str, Any]) -> None:
    learner, reference = both(d, **weights)
    X, y = stream(5 * CHUNK + 7, d)
    for start in range(0, len(X), CHUNK):
        rows = slice(start, start + CHUNK)
        learner.partial_fit(X[rows], y[rows])
        if start + CHUNK > len(X):
            learner.flush()
        reference.learn(X[rows], y[rows])
        np.testing.assert_allclose(learner.projection_, reference.W, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(learner._products, reference.E.T @ reference.E)
        np.testing.assert_array_equal(learner._counts, np.bincount(reference.classes))


def test_classes_that_a_chunk_lacks_keep_their_codes() -> None:
    learner, reference = both(8)
    X, y = stream(6 * CHUNK, 8, n_classes=6)
    order = np.argsort(y, kind="stable")  # class after class, so that every chunk lacks most
    X, y = X[order], y[order]
    for start in range(0, len(X), CHUNK):
        rows = slice(start, start + CHUNK)
        learner.partial_fit(X[rows], y[rows])
        reference.learn(X[rows], y[rows])
        np.testing.assert_allclose(learner.projection_, reference.W, rtol=0, atol=1e-9)
    codes = {tuple(np.sign(row)) for row in learner._sums}
    assert len(codes) > 2


def test_data_of_any_scale_and_of_equal_columns() -> None:
    """The ridge is in units of the data, so that the regression is never singular and scale changes nothing."""
    rng = np.random.default_rng(0)
    half, y = rng.standard_normal((1000, 10)), rng.integers(4, size=1000)
    X = np.hstack([half, half])
    plain = BalancedSimilarityHashing(8, chunk_size=250, random_state=0).partial_fit(X, y)
    large = BalancedSimilarityHashing(8, chunk_size=250, random_state=0).partial_fit(X * 2.0**30, y)
    assert np.isfinite(plain.projection_).all()
    assert plain.cumulative_loss_ > 0
    assert (plain.transform(X) == large.transform(X * 2.0**30)).mean() > 0.99
