"""KLSH against the textbook formula, with the query kernel centred in full."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from onlinehash import RbfAnchors
from onlinehash.learners.kernel_lsh import KernelLSH, anchor_weights
from tests.learners.test_sketching import stream
from tests.reference.kernel_lsh import Kernel, klsh_projections


def samples(p: int, n_bits: int, seed: int = 0) -> np.ndarray:
    """The anchors that each bit of a learner of this seed sums."""
    order = np.random.default_rng([seed, 2]).permuted(np.tile(np.arange(p), (n_bits, 1)), axis=1)
    return order[:, : max(min(p // 4, 30), 1)]


def assert_textbook(klsh: KernelLSH, anchors: np.ndarray, X: np.ndarray, kernel: Kernel) -> None:
    expected = klsh_projections(anchors, samples(len(anchors), klsh.n_bits), X, kernel)
    near = np.abs(expected) < 1e-6 * np.abs(expected).max()
    assert near.mean() < 0.01
    assert ((klsh.transform(X) == (expected >= 0)) | near).all()


@pytest.mark.parametrize("p", [3, 40, 125])
def test_gaussian_kernel(p: int) -> None:
    X, width = stream(400, d=6), 6.0
    klsh = KernelLSH(16, features=RbfAnchors(p, width=width), random_state=0).observe(X)
    assert_textbook(klsh, X[:p], X[p : p + 60], lambda x, a: np.exp(-((x - a) ** 2).sum() / (2 * width**2)))


@pytest.mark.parametrize("p", [4, 40])
def test_without_a_map_the_kernel_is_linear(p: int) -> None:
    X = stream(400, d=6)
    klsh = KernelLSH(16, n_anchors=p, random_state=0).observe(X)
    assert_textbook(klsh, X[:p], X[p : p + 150], lambda x, a: x @ a)
    np.testing.assert_allclose(klsh.mean_, X[:p].mean(axis=0), rtol=1e-12)


def test_behind_a_transformer_the_kernel_is_the_dot_product_of_its_features() -> None:
    X = stream(400, d=6) * np.array([1, 10, 100, 1, 1, 1])
    scaler = StandardScaler().fit(X)
    klsh = KernelLSH(16, n_anchors=40, features=scaler, random_state=0).observe(X)
    Z = scaler.transform(X)
    expected = klsh_projections(Z[:40], samples(40, 16), Z[40:190], lambda x, a: x @ a)
    assert (klsh.transform(X[40:190]) == (expected >= 0)).all()


def test_weights_sum_to_zero_and_anchors_are_distinct() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 500))
    w = anchor_weights(A @ A.T, 12, 1e-16, rng)
    np.testing.assert_allclose(w.sum(axis=0), 0, rtol=0, atol=1e-12)
    for p, t in ((200, 30), (40, 10), (3, 1), (1, 1)):
        chosen = samples(p, 50)
        assert chosen.shape == (50, t)
        assert all(len(set(row)) == t for row in chosen.tolist())


def test_random_projections_until_the_anchors_are_there() -> None:
    X = stream(60, d=6)
    start = np.random.default_rng([0, 0]).standard_normal((1, 6, 8))[0]
    klsh = KernelLSH(8, n_anchors=50, random_state=0).observe(X[:49])
    np.testing.assert_array_equal(klsh.projection_, start)
    assert klsh.version_ == 0
    W = klsh.observe(X[49:50]).projection_
    assert klsh.version_ == 1
    assert not np.isclose(W, start).any()
    klsh.observe(X[50:]).flush()
    assert klsh.version_ == 1
    np.testing.assert_array_equal(klsh.projection_, W)


def test_flush_starts_with_the_anchors_that_are_there() -> None:
    X = stream(60, d=6)
    early = KernelLSH(8, n_anchors=50, random_state=0).observe(X[:20]).flush()
    fewer = KernelLSH(8, n_anchors=20, random_state=0).observe(X[:20])
    assert early.version_ == fewer.version_ == 1
    assert early.encode(X) == fewer.encode(X)
    W = early.projection_
    np.testing.assert_array_equal(early.observe(X[20:]).projection_, W)


@pytest.mark.parametrize("X", [np.full((40, 3), 0.1), np.zeros((40, 3)), np.ones((1, 3))], ids=["alike", "zero", "one"])
def test_anchors_without_directions_leave_random_projections(X: np.ndarray) -> None:
    klsh = KernelLSH(8, n_anchors=len(X), random_state=0).observe(X)
    start = np.random.default_rng([0, 0]).standard_normal((1, 3, 8))[0]
    np.testing.assert_array_equal(klsh.projection_, start)
    assert klsh.transform(klsh.mean_[None]).all()


@pytest.mark.parametrize("factor", [1e-200, 1e150])
def test_huge_and_tiny_values(factor: float) -> None:
    X = stream(80, d=6)
    one, other = (KernelLSH(8, n_anchors=40, random_state=0).observe(X * f) for f in (1.0, factor))
    assert np.mean(one.transform(X) == other.transform(X * factor)) > 0.99


def test_bits_agree_as_often_as_angles_in_kernel_space_say() -> None:
    """What makes it locality-sensitive: P[bits differ] is about angle / π between whitened, centred points."""
    X = np.random.default_rng(0).standard_normal((2000, 5))
    klsh = KernelLSH(2000, n_anchors=400, random_state=0).observe(X)
    C = X[1000:1030] - klsh.mean_
    unit = C / np.linalg.norm(C, axis=1, keepdims=True)
    angles = np.arccos(np.clip(unit @ unit.T, -1, 1)) / np.pi
    bits = klsh.transform(X[1000:1030])
    differ = (bits[:, None] != bits[None]).mean(axis=2)
    assert np.abs(differ - angles).max() < 0.06


def test_settings_reach_the_map() -> None:
    klsh: Any = KernelLSH(8, features=RbfAnchors(30), random_state=0).observe(stream(100, d=6))
    assert klsh.projection_.shape == (30, 8)
    np.testing.assert_allclose(np.linalg.norm(klsh.projection_, axis=0), 1, rtol=1e-12)
