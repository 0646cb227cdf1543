"""LEGO against its slow form, and against what its update promises: an argmin, a positive definite metric."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash.learners.lego import LegoLSH, new_distance
from tests.reference.lego import Record, ReferenceLego

D = 12


def stream(n: int, d: int = D, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of three classes, which differ in two directions only."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=(2, n))
    centres = np.zeros((3, d))
    centres[:, :2] = 2 * rng.standard_normal((3, 2))
    A, B = centres[y] + rng.standard_normal((2, n, d))
    return A, B, y[0] == y[1]


def assert_same(
    learner: LegoLSH, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray
) -> list[Record]:
    """Learner and reference learn the stream from the same R; what they tell and where they end is compared."""
    learner.observe(A[:1])
    reference = ReferenceLego(learner.projection_, learner.step, learner.calibration)
    updates = learner.learn_pairs(A, B, similar, weights)
    signs = np.where(similar, 1, -1)
    records = [reference.step(*pair) for pair in zip(A, B, signs, weights, strict=True)]
    np.testing.assert_allclose(updates.loss, [record.loss for record in records], rtol=1e-8, atol=1e-10)
    learned = np.array([record.y_bar != record.y_hat for record in records])
    np.testing.assert_allclose(updates.step[:, 0], np.where(learned, learner.step * weights, 0))
    assert np.array_equal(updates.n_moved > 0, learned)
    np.testing.assert_allclose(learner.metric_, reference.A, rtol=0, atol=1e-8)
    np.testing.assert_allclose(learner.projection_, reference.W, rtol=0, atol=1e-8)  # W = GᵀR where A = GᵀG
    return records


@pytest.mark.parametrize(("step", "calibration"), [(1.0, 500), (20.0, 100)])
def test_a_stream(step: float, calibration: int) -> None:
    learner = LegoLSH(8, step=step, calibration=calibration, centre="none", random_state=0)
    records = assert_same(learner, *stream(600), np.ones(600))
    learned = [record for record in records if record.y_bar != record.y_hat]
    assert len(learned) > 100
    assert all(min(r.y_hat, r.y) <= r.y_bar <= max(r.y_hat, r.y) for r in learned), "ȳ lies between ŷ and y"


def test_weights_scale_the_step() -> None:
    weights = np.random.default_rng(1).choice([0.0, 0.1, 1.0, 5.0], 300)
    records = assert_same(LegoLSH(8, centre="none", random_state=0), *stream(300), weights)
    unweighted = [record for record, weight in zip(records, weights, strict=True) if weight == 0]
    assert any(record.loss > 0 for record in unweighted)
    assert all(record.y_bar == record.y_hat for record in unweighted)


def objective(M: np.ndarray, A: np.ndarray, z: np.ndarray, y: float, eta: float) -> float:
    """D_ld(M, A) + η/2 (zᵀMz - y)²."""
    MA = M @ np.linalg.inv(A)
    divergence = np.trace(MA) - np.linalg.slogdet(MA)[1] - len(A)
    return float(divergence + 0.5 * eta * (z @ M @ z - y) ** 2)


@pytest.mark.parametrize("similar", [True, False])
def test_a_step_is_the_minimum_of_its_objective(similar: bool) -> None:
    """No small symmetric change of the new A lowers divergence plus loss, and the gradient vanishes."""
    d, calibration = 4, 40
    rng = np.random.default_rng(2)
    checked = 0
    learner = LegoLSH(3, calibration=calibration, centre="none", random_state=0)
    A, B, given = stream(calibration, d)
    squares = np.sort(((A - B) ** 2).sum(axis=1))
    learner.partial_fit_pairs(A, B, given)
    unit, y = squares[(calibration - 1) // 2], squares[1] if similar else squares[-2]
    for a, b, _ in zip(*stream(30, d, seed=3), strict=True):
        before, z = learner.metric_, a - b
        y_hat = z @ before @ z
        if not len(learner.learn_pair(a, b, similar).bits):
            continue
        checked += 1
        after, eta = learner.metric_, 1.0 / unit**2
        assert z @ after @ z == pytest.approx(unit * new_distance(y / unit, y_hat / unit, 1.0), rel=1e-9)
        gradient = np.linalg.inv(before) - np.linalg.inv(after) + eta * (z @ after @ z - y) * np.outer(z, z)
        np.testing.assert_allclose(gradient, 0, atol=1e-7)
        least = objective(after, before, z, y, eta)
        for _ in range(5):
            change = rng.standard_normal((d, d)) * 1e-3
            assert objective(after + change + change.T, before, z, y, eta) > least
    assert checked > 5


def test_the_metric_stays_symmetric_and_positive_definite() -> None:
    """Along a long stream too, with a large step, labels that mean nothing, and points of one subspace."""
    rng = np.random.default_rng(4)
    A, B = rng.standard_normal((2, 20_000, D))
    A[::2, 5:] = B[::2, 5:] = 0
    learner = LegoLSH(4, step=100.0, random_state=0)
    for start in range(0, 20_000, 4000):
        rows = slice(start, start + 4000)
        learner.partial_fit_pairs(A[rows], B[rows], rng.random(4000) < 0.5)
        assert np.array_equal(learner.metric_, learner.metric_.T)
        values = np.linalg.eigvalsh(learner.metric_)
        assert values[0] > 1e-8 * values[-1]
    assert learner.n_updates_ > 5000
