"""SDH against the version with whole matrices; each of its three steps lowers the objective."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import RbfAnchors
from onlinehash.learners.discrete_descent import settle_bits
from onlinehash.learners.supervised_discrete import MOST_SWEEPS, SupervisedDiscreteHashing
from tests.reference.supervised_discrete import ReferenceSupervisedDiscrete


def overlapping(n: int = 200, d: int = 10, n_classes: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labelled points; class j is seen before class j + 1, so that a label is the class number."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n - n_classes)])
    return rng.standard_normal((n_classes, d))[y] + rng.standard_normal((n, d)) + 2.0, y


@pytest.mark.parametrize(("n_bits", "lam", "nu", "lam_F"), [(8, 1.0, 1e-5, 0.01), (1, 0.5, 0.1, 1.0), (20, 0.1, 1, 30)])
def test_against_the_reference(n_bits: int, lam: float, nu: float, lam_F: float) -> None:
    X, y = overlapping()
    settings = {"regularization": lam, "penalty": nu, "ridge": lam_F}
    learner = SupervisedDiscreteHashing(n_bits, random_state=0, **settings).fit(X, y)
    Phi = X - X.mean(axis=0)
    Phi /= np.abs(Phi).max()  # the unit in which |P|² is counted
    B = np.random.default_rng([0, 2]).choice([-1.0, 1.0], (len(X), n_bits))
    reference = ReferenceSupervisedDiscrete(Phi, y, B, lam, nu, lam_F * float(np.mean(Phi**2)))
    np.testing.assert_allclose(learner.objectives_, [reference.round() for _ in range(5)], rtol=1e-9)
    np.testing.assert_allclose(learner.projection_, reference.P, rtol=1e-8, atol=1e-10)


def test_no_step_raises_the_objective() -> None:
    X, y = overlapping(n=400, seed=1)
    learner = SupervisedDiscreteHashing(16, penalty=0.1, n_rounds=8, features=RbfAnchors(30), random_state=0).fit(X, y)
    values = learner.objectives_.ravel()
    assert (np.diff(values) <= 1e-9 * values[0]).all()
    assert values[-1] < 0.9 * values[0]


def test_bits_settle_where_no_single_flip_helps() -> None:
    rng = np.random.default_rng(0)
    G, Q = rng.standard_normal((12, 4)), rng.standard_normal((50, 12))
    B = rng.choice([-1.0, 1.0], (50, 12))
    settle_bits(B, Q, G @ G.T, MOST_SWEEPS)

    def value(codes: np.ndarray) -> np.ndarray:
        return np.sum((codes @ G) ** 2, axis=1) - 2 * np.sum(codes * Q, axis=1)

    for k in range(12):
        flipped = B.copy()
        flipped[:, k] *= -1
        assert (value(flipped) >= value(B) - 1e-9).all()


def test_poor_data_still_give_functions() -> None:
    for X, y in (
        (np.full((10, 3), 7.0), np.arange(10)),  # equal points
        (np.eye(5), np.arange(5)),  # all different
        (np.eye(5), np.zeros(5, int)),  # one class
        (np.ones((1, 2)), np.zeros(1, int)),  # one point
    ):
        learner = SupervisedDiscreteHashing(8, random_state=0).fit(X, y)
        assert np.isfinite(learner.projection_).all()
        assert np.isfinite(learner.objectives_).all()
        assert len(learner.encode(X)) == len(X)
