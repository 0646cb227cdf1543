"""ITQ: the loss never rises, is what it says, and the rotation is one."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash.learners.iterative_quantization import IterativeQuantization
from tests.reference.iterative_quantization import rotate


def uneven(n: int = 600, d: int = 24, seed: int = 0) -> np.ndarray:
    """Points of uneven variance, turned and not centred."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return rng.standard_normal((n, d)) * 0.8 ** np.arange(d) @ turn + 3.0


@pytest.mark.parametrize("n_bits", [1, 8, 40])
def test_the_loss_never_rises(n_bits: int) -> None:
    learner = IterativeQuantization(n_bits, random_state=0).fit(uneven())
    assert learner.losses_.shape == (50,)
    assert (np.diff(learner.losses_) <= 1e-12).all()
    if n_bits > 1:  # one direction leaves nothing to turn
        assert learner.losses_[-1] < learner.losses_[0] - 0.01


@pytest.mark.parametrize("n_bits", [8, 40])
def test_the_reference_goes_on_where_the_learner_stopped(n_bits: int) -> None:
    """R is found back in W; from there, both take the same steps and lose the same."""
    X = uneven()
    short, long = (IterativeQuantization(n_bits, n_iterations=t, random_state=3).fit(X) for t in (5, 12))
    np.testing.assert_array_equal(long.losses_[:5], short.losses_)
    Z = X - X.mean(axis=0)
    P = np.linalg.svd(Z, full_matrices=False)[2].T[:, :n_bits]
    V = Z @ P
    V *= np.sqrt(len(V) * n_bits) / np.linalg.norm(V)
    R, losses = rotate(V, P.T @ short.projection_, 7)
    np.testing.assert_allclose(long.losses_[5:], losses, rtol=0, atol=1e-9)
    np.testing.assert_allclose(long.projection_, P @ R, rtol=0, atol=1e-9)


def test_the_functions_are_a_rotation_of_the_principal_directions() -> None:
    X = uneven()
    W = IterativeQuantization(8, random_state=0).fit(X).projection_
    np.testing.assert_allclose(W.T @ W, np.eye(8), atol=1e-12)
    top = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:8]
    np.testing.assert_allclose(np.linalg.norm(top @ W, axis=0), 1.0, atol=1e-12)


def test_more_bits_than_directions_share_them() -> None:
    """Rank 3 in 24 dimensions: W is a tight frame of the three directions, and no bit is left without one."""
    X = uneven(d=3) @ np.random.default_rng(5).standard_normal((3, 24))
    W = IterativeQuantization(16, random_state=0).fit(X).projection_
    assert np.linalg.matrix_rank(W) == 3
    np.testing.assert_allclose(np.linalg.svd(W)[1][:3], 1.0, atol=1e-9)
    assert (np.linalg.norm(W, axis=0) > 1e-3).all()


@pytest.mark.parametrize("scale", [1e-30, 1e150])
def test_the_unit_of_the_data_does_not_matter(scale: float) -> None:
    X = uneven()
    learner, scaled = (IterativeQuantization(8, random_state=0).fit(points) for points in (X, X * scale))
    np.testing.assert_allclose(scaled.losses_, learner.losses_, atol=1e-9)
    np.testing.assert_array_equal(scaled.transform(X * scale), learner.transform(X))


def test_points_that_are_all_equal_are_hashed_at_random() -> None:
    learner = IterativeQuantization(8, random_state=0).fit(np.full((10, 3), 7.0))
    assert np.isfinite(learner.projection_).all()
    assert learner.projection_.any(axis=0).all()
    assert (learner.losses_ == 1).all()
