"""Hashing with mutual information: its gradient, its slow version, its sample."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash.learners.mutual_information import MutualInformationHashing
from onlinehash.learners.mutual_information_kernels import information
from tests.reference.mutual_information import Distances, ReferenceMutualInformationHashing, entropy, smooth_code

D = 23


@pytest.mark.parametrize(("n_bits", "n_bins", "sharpness"), [(8, 16, 10.0), (5, 3, 5.0)])
def test_the_gradient_agrees_with_finite_differences(n_bits: int, n_bins: int, sharpness: float) -> None:
    """In every entry of W, with the codes of the others held fixed."""
    rng, slope, unused = np.random.default_rng(0), np.empty(n_bits), np.empty(n_bits)
    for _ in range(2):
        W, x, P = rng.standard_normal((n_bits, D)), rng.standard_normal(D), rng.standard_normal((40, n_bits))
        x, near = x / np.linalg.norm(x), rng.random(40) < 0.3
        found, most = information(W @ x, P, near, n_bins, sharpness, slope)
        numeric = np.zeros_like(W)
        for at in np.ndindex(W.shape):
            h = np.zeros_like(W)
            h[at] = 1e-5
            above, below = (information(V @ x, P, near, n_bins, sharpness, unused)[0] for V in (W + h, W - h))
            numeric[at] = (above - below) / 2e-5
        np.testing.assert_allclose(np.outer(slope, x), numeric, rtol=0, atol=1e-6)
        assert np.abs(numeric).max() > 1e-4
        distances = Distances(smooth_code(W @ x, sharpness), smooth_code(P, sharpness), near, n_bins)
        assert found == pytest.approx(distances.information(), abs=1e-12)
        assert most == pytest.approx(entropy(np.array([near.mean(), 1 - near.mean()])), abs=1e-12)
        assert 0 <= found <= most


def test_it_is_the_slow_version() -> None:
    """Points of one label, of several, of none, and a zero vector, with a sample that is soon full."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, D))
    Y = (rng.random((90, 6)) < 0.2).astype(int)
    Y[:6] = np.eye(6)
    X[30] = 0
    learner = MutualInformationHashing(
        8, sample_size=20, n_bins=7, sharpness=4, step=0.5, decay=0.01, centre="none", random_state=7
    ).observe(X[:1])
    reference = ReferenceMutualInformationHashing(learner.projection_, 20, 7, 4, 0.5, 0.01)
    keys = np.random.default_rng([7, 2]).random(90)
    loss = 0.0
    for t in range(90):
        if X[t].any() and Y[t].any():
            loss += reference.step(X[t], set(np.flatnonzero(Y[t])), keys[t])
    learner.partial_fit(X, Y)
    np.testing.assert_allclose(learner.projection_, reference.W, atol=1e-9)
    assert learner.cumulative_loss_ == pytest.approx(loss, rel=1e-5)
