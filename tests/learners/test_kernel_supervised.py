"""KSH against the version that forms S; each step of a bit and each bit lower what they are to lower."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import RbfAnchors
from onlinehash.learners.kernel_supervised import KernelSupervisedHashing
from tests.reference.kernel_supervised import ReferenceKernelSupervised


def overlapping(n: int = 150, d: int = 12, n_classes: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    return 1.5 * rng.standard_normal((n_classes, d))[y] + rng.standard_normal((n, d)) + 2.0, y


@pytest.mark.parametrize(("n_classes", "d"), [(2, 12), (30, 6), (5, 1)])
def test_against_the_reference(n_classes: int, d: int) -> None:
    X, y = overlapping(d=d, n_classes=n_classes)
    learner = KernelSupervisedHashing(8, random_state=0).fit(X, y)
    W, objectives = ReferenceKernelSupervised(X - X.mean(axis=0), y, 8).learn()
    np.testing.assert_allclose(learner.objectives_, objectives, rtol=0, atol=1e-12)
    turned = W * np.sign(np.sum(W * learner.projection_, axis=0))  # a bit and its opposite are one
    np.testing.assert_allclose(learner.projection_, turned, rtol=1e-6, atol=1e-6)


def test_the_reference_gradient_is_one() -> None:
    X, y = overlapping(n=40, d=4)
    reference = ReferenceKernelSupervised(X - X.mean(axis=0), y, 8)
    left, a = 8 * reference.S, np.random.default_rng(1).standard_normal(4)
    differences = [
        (reference.cost(a + step, left) - reference.cost(a - step, left)) / 2e-6 for step in 1e-6 * np.eye(4)
    ]
    np.testing.assert_allclose(reference.gradient(a, left), differences, rtol=1e-6)


def test_every_bit_lowers_the_objective() -> None:
    X, y = overlapping(n=400)
    objectives = KernelSupervisedHashing(24, features=RbfAnchors(40), random_state=0).fit(X, y).objectives_
    assert (np.diff(objectives, prepend=1.0) < 0).all()


def test_the_objective_is_that_of_the_codes() -> None:
    X, y = overlapping()
    learner = KernelSupervisedHashing(16, random_state=0).fit(X, y)
    H = np.where(learner.transform(X), 1.0, -1.0)
    rS = 16 * np.where(y[:, None] == y, 1.0, -1.0)
    assert learner.objectives_[-1] == pytest.approx(np.sum((rS - H @ H.T) ** 2) / np.sum(rS**2))


def test_poor_data_still_give_functions() -> None:
    for X, y in (
        (np.full((10, 3), 7.0), np.arange(10)),  # equal points
        (np.array([[1.0, 0, 0], [-1.0, 0, 0]]), np.zeros(2, int)),  # one class of opposites
        (np.eye(5), np.arange(5)),  # all different
        (np.eye(5), np.zeros(5, int)),  # one class
        (np.ones((1, 2)), np.zeros(1, int)),  # one point
    ):
        learner = KernelSupervisedHashing(8, random_state=0).fit(X, y)
        assert np.isfinite(learner.projection_).all()
        assert learner.projection_.any(axis=0).all()
        assert np.isfinite(learner.objectives_).all()
