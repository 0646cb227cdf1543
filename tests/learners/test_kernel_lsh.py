"""KLSH against the textbook formula, with the query kernel centred in full."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import RbfAnchors
from onlinehash.learners.kernel_lsh import KernelLSH
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


@pytest.mark.parametrize("p", [3, 125])
def test_gaussian_kernel(p: int) -> None:
    X, width = stream(400, d=6), 6.0
    klsh = KernelLSH(16, features=RbfAnchors(p, width=width), random_state=0).observe(X)
    assert_textbook(klsh, X[:p], X[p : p + 60], lambda x, a: np.exp(-((x - a) ** 2).sum() / (2 * width**2)))


def test_without_a_map_the_kernel_is_linear() -> None:
    X, p = stream(400, d=6), 40
    klsh = KernelLSH(16, n_anchors=p, random_state=0).observe(X)
    assert_textbook(klsh, X[:p], X[p : p + 150], lambda x, a: x @ a)
    np.testing.assert_allclose(klsh.mean_, X[:p].mean(axis=0), rtol=1e-12)


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


def test_anchors_without_directions_leave_random_projections() -> None:
    start = np.random.default_rng([0, 0]).standard_normal((1, 3, 8))[0]
    for X in (np.full((40, 3), 0.1), np.zeros((40, 3)), np.ones((1, 3))):
        klsh = KernelLSH(8, n_anchors=len(X), random_state=0).observe(X)
        np.testing.assert_array_equal(klsh.projection_, start)
        assert klsh.transform(klsh.mean_[None]).all()


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
