"""Adaptive hashing: its gradient against finite differences, its stream against the slow form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash.learners.adaptive import AdaptiveHashing, gradient_factors
from tests.reference.adaptive import ReferenceAdaptive, objective

D, R = 12, 10


def stream(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((2, n, D))
    similar = rng.random(n) < 0.5
    B[similar] = A[similar] + 0.5 * B[similar]
    return A, B, similar


@pytest.mark.parametrize("s", [1, -1])
def test_the_gradient_is_that_of_the_objective(s: int) -> None:
    rng = np.random.default_rng(s + 1)
    for size in (0.1, 3.0):
        W = size * rng.standard_normal((D, R))
        x_i, x_j = rng.standard_normal((2, D))
        factors = np.empty((2, R))
        gradient_factors(np.stack([W.T @ x_i, W.T @ x_j]), s, factors)
        found = np.outer(x_i, factors[0]) + np.outer(x_j, factors[1])
        h = 1e-6
        for i, k in np.ndindex(D, R):
            E = np.zeros((D, R))
            E[i, k] = h
            slope = (objective(W + E, x_i, x_j, s) - objective(W - E, x_i, x_j, s)) / (2 * h)
            assert found[i, k] == pytest.approx(slope, abs=1e-6, rel=1e-6)


@pytest.mark.parametrize(
    "settings",
    [{}, {"orthogonality": 0.0}, {"alpha": 0.63, "step": 30.0}],
    ids=str,
)
def test_a_stream(settings: dict[str, Any]) -> None:
    learner = AdaptiveHashing(R, centre="none", random_state=0, **settings)
    A, B, similar = stream(100)
    A[5], B[9] = 0, 0
    weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], 100)
    learner.observe(A[:1])
    reference = ReferenceAdaptive(learner.projection_, learner.alpha, learner.orthogonality, learner.step)
    updates = list(learner.learn_pairs(A, B, similar, weights))
    records = [reference.step(*pair) for pair in zip(A, B, np.where(similar, 1, -1), weights, strict=True)]
    np.testing.assert_allclose([update.loss for update in updates], [loss for loss, _ in records], atol=1e-9)
    for t, (update, (_, chosen)) in enumerate(zip(updates, records, strict=True)):
        moved = chosen if learner.orthogonality == 0 else range(R) if chosen else []
        assert set(update.bits.tolist()) <= set(moved)
        if t not in (5, 9):  # a zero vector has no gradient of its own
            assert set(update.bits.tolist()) == set(moved), t
    np.testing.assert_allclose(learner.projection_, reference.W, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(learner.projection_, axis=0), 1, rtol=1e-12)
    assert sum(bool(chosen) for _, chosen in records) > 15
