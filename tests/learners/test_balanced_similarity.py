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


@pytest.mark.parametrize("d", [5, 16, 45])  # more features than rows: the dual form of the regression
@pytest.mark.parametrize("weights", [{}, {"dissimilar_weight": 0.0, "ridge": 3.0}, {"fit_weight": 50.0}])
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


def test_rounding_does_not_choose_the_sign_of_a_zero() -> None:
    learner, _ = both(4)
    own = np.arange(-40, 41)
    sums = np.stack([own, 6 * own])  # 1.2 of one's own class less 0.2 of the others' is zero in every column
    assert not learner._balanced(sums)[0].any()
    assert (learner._balanced(sums + np.array([[0], [1]]))[0] < 0).all()


def test_every_bit_lowers_the_objective() -> None:
    _, reference = both(10)
    X, y = stream(4 * CHUNK, 10)
    fell = 0
    for start in range(0, len(X), CHUNK):
        objectives = np.array(reference.learn(X[start : start + CHUNK], y[start : start + CHUNK]))
        assert (np.diff(objectives) <= 1e-9 * objectives[0]).all()
        fell += objectives[-1] < objectives[0] - 1e-6
    assert fell >= 3


def test_memory_grows_with_classes_alone() -> None:
    learner, _ = both(5)
    X, y = stream(3 * CHUNK, 5)
    sizes = []
    for _ in range(3):
        learner.partial_fit(X, y)
        state = learner._get_method_state()
        sizes.append(sum(state[name].nbytes for name in ("counts", "sums", "products")))
    assert sizes == [8 * (4 + 4 * N_BITS + N_BITS**2)] * 3


def test_a_short_last_chunk_moves_little() -> None:
    """W comes from one chunk alone; a few rows at the end of a stream must not replace it."""
    X, y = stream(10 * CHUNK, 16)
    settings: dict[str, Any] = {"chunk_size": CHUNK, "random_state": 0}
    whole = BalancedSimilarityHashing(32, **settings).fit(X, y)
    longer = BalancedSimilarityHashing(32, **settings).fit(np.concatenate([X, X[:1]]), np.concatenate([y, y[:1]]))
    moved = np.linalg.norm(longer.projection_ - whole.projection_) / np.linalg.norm(whole.projection_)
    assert 0 < moved < 0.2


def test_one_chunk_teaches_already() -> None:
    X, y = stream(300, 16)
    X += np.random.default_rng(5).standard_normal(X.shape)
    learner = BalancedSimilarityHashing(32, random_state=0)  # whose chunk is never full
    before = learner.partial_fit(X, y).score(X, y)
    assert learner.flush().score(X, y) > before + 0.1


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
