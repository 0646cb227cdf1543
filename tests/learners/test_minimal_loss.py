"""Minimal loss hashing: its inference against all codes there are, its stream against the slow form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash.learners.minimal_loss import MinimalLossHashing, adjusted_codes
from tests.reference.minimal_loss import ReferenceMinimalLoss, best_codes

D, R = 7, 4


def stream(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((2, n, D))
    similar = rng.random(n) < 0.5
    B[similar] = A[similar] + 0.5 * B[similar]
    return A, B, similar


@pytest.mark.parametrize("r", [1, 4])
def test_inference_is_exact(r: int) -> None:
    """For any loss of the distance, the codes found score as high as the best of all."""
    rng = np.random.default_rng(r)
    for trial in range(20):
        P = rng.standard_normal((2, r))
        loss = rng.standard_normal(r + 1) * rng.choice([0.0, 0.5, 5.0])
        g = np.empty((2, r), np.int64)
        adjusted_codes(P, loss, g)
        value, *best = best_codes(P[0], P[1], list(loss))
        assert loss[(g[0] != g[1]).sum()] + g[0] @ P[0] + g[1] @ P[1] == pytest.approx(value, abs=1e-12), trial
        assert np.array_equal(g, best)


def test_ties_go_to_the_lower_bit_and_the_smaller_distance() -> None:
    P, g = np.full((2, 4), 0.25), np.empty((2, 4), np.int64)  # each bit that differs costs 0.5
    adjusted_codes(P, np.array([0.0, 0.25, 1.5, 2.0, 2.0]), g)
    assert g.tolist() == [[1, 1, 1, 1], [-1, -1, 1, 1]]  # at distances 2 and 3 the value is 0.5 alike
    adjusted_codes(np.zeros((2, 4)), np.zeros(5), g)
    assert (g == 1).all()  # sgn(0) = +1


@pytest.mark.parametrize(
    "settings",
    [{"step": 0.3}, {"loss_scale": 1.5, "radius_ratio": 0.5, "dissimilar_weight": 2.0}],
    ids=str,
)
def test_a_stream(settings: dict[str, Any]) -> None:
    learner = MinimalLossHashing(R, centre="none", random_state=0, **settings)
    A, B, similar = stream(60)
    A[5], B[9] = 0, 0
    weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], 60)
    learner.observe(A[:1])
    names = ("radius_ratio", "dissimilar_weight", "loss_scale", "step")
    reference = ReferenceMinimalLoss(learner.projection_, **{name: getattr(learner, name) for name in names})
    updates = list(learner.learn_pairs(A, B, similar, weights))
    records = [reference.step(*pair) for pair in zip(A, B, np.where(similar, 1, -1), weights, strict=True)]
    np.testing.assert_allclose([update.loss for update in updates], [loss for loss, _ in records], rtol=1e-12)
    assert [set(update.bits.tolist()) for update in updates] == [changed for _, changed in records]
    np.testing.assert_allclose(learner.projection_, reference.W, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(learner.projection_, axis=0), 1, rtol=1e-12)
    assert sum(bool(changed) for _, changed in records) > 15
    assert {update.step for update in updates} <= {0.0, *(learner.step * w for w in (0.5, 1.0, 2.0))}


def test_a_small_step_lowers_the_bound() -> None:
    """The bound max_g [cL(g) + g·Wx] - Σ|Wx| of the pair that was learned, W scaled back or not."""
    learner = MinimalLossHashing(R, step=1e-3, centre="none", random_state=0)
    A, B, similar = stream(60)
    learner.observe(A[:1])
    reference = ReferenceMinimalLoss(learner.projection_, 0.35, 0.3, 3.0, 1e-3)

    def bound(a: np.ndarray, b: np.ndarray, s: int) -> float:
        P = [learner.projection_.T @ (x / np.linalg.norm(x)) for x in (a, b)]
        return best_codes(P[0], P[1], [3.0 * loss for loss in reference.losses(s)])[0] - np.abs(P).sum()

    lowered = 0
    for a, b, s in zip(A, B, np.where(similar, 1, -1), strict=True):
        before = bound(a, b, s)
        if len(learner.learn_pair(a, b, int(s)).bits):
            assert bound(a, b, s) < before
            lowered += 1
    assert lowered > 15
