"""Smooth pair hashing: against the slow version, its gradient, scale, and what it learns."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from onlinehash import LSH, OnlineHashing, SmoothPairHashing
from onlinehash.learners.smooth_kernels import load_unit_rows, pulls
from onlinehash.learners.smooth_pairs import AGREE, DIFFER, SHARPNESS
from tests.reference.smooth_pairs import ReferenceSmoothPairs, mean_loss
from tests.support import as_bytes

D, BITS = 12, 6
AXES = np.random.default_rng(5).standard_normal((8, D))


def stream(n: int, seed: int = 0, meaning: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of points around eight centres, similar where the centres' numbers agree by modulus or by halves."""
    rng = np.random.default_rng(seed)
    i, j = rng.integers(0, 8, (2, n))
    A, B = (AXES[of] + 0.5 * rng.standard_normal((n, D)) for of in (i, j))
    similar = i % 2 == j % 2 if meaning == 2 else i // 4 == j // 4
    return A, B, similar


def small(**settings: Any) -> SmoothPairHashing:
    return SmoothPairHashing(**{"n_bits": BITS, "chunk_size": 16, "centre": "none", "random_state": 3} | settings)


def learned(learner: SmoothPairHashing) -> np.ndarray:
    """W, published or not (a copy)."""
    return learner._damping.joined(learner._learning).T


@pytest.mark.parametrize(("chunk_size", "ends"), [(7, []), (16, [5, 50, 51, 203])])
def test_against_the_slow_version(chunk_size: int, ends: list[int]) -> None:
    """Both learn chunk by chunk, some ended early; W, and what codes show of it, agree after each."""
    A, B, similar = stream(400)
    weights = np.random.default_rng(1).choice([0.0, 0.3, 1.0, 4.0], 400)
    learner = small(chunk_size=chunk_size)
    first = np.random.default_rng([3, 0]).standard_normal((D, BITS))
    reference = ReferenceSmoothPairs(first, learner.chunk_size, learner.stale_share)
    cuts, n_shown = [0], 0
    while cuts[-1] < len(A):
        cuts.append(min([cuts[-1] + chunk_size, len(A), *(end for end in ends if end > cuts[-1])]))
    for start, stop in itertools.pairwise(cuts):
        rows = slice(start, stop)
        before = learner.projection_ if start else None
        learner.partial_fit_pairs(A[rows], B[rows], similar[rows], weights[rows])
        reference.learn(A[rows], B[rows], similar[rows], weights[rows])
        if stop - start < chunk_size:
            learner.flush()
            for k in range(BITS):
                reference.publish(k)
        np.testing.assert_allclose(learned(learner), reference.W, rtol=0, atol=1e-8)
        np.testing.assert_allclose(learner.projection_, reference.shown, rtol=0, atol=1e-8)
        if before is not None:
            n_shown += int((before != learner.projection_).any(axis=0).sum())
    assert 0 < n_shown < reference.t * BITS  # some bits are published, not all


def test_the_gradient_by_finite_differences() -> None:
    """Its unit is r times the weight that a chunk should have: the step is divided by its length anyway."""
    (A, B, similar), share = stream(48), 0.3
    learner = small().partial_fit_pairs(A, B, similar)
    X = np.empty((96, D))
    load_unit_rows(A, B, np.zeros(D), X, np.empty(96))
    weights = np.random.default_rng(0).choice([0.0, 0.5, 2.0], 48)
    W = learned(learner)
    G = X.T @ pulls(np.tanh(X @ W), similar, weights, share, AGREE, DIFFER, SHARPNESS)[1]
    numeric = np.empty_like(W)
    for place in np.ndindex(*W.shape):
        step = np.zeros_like(W)
        step[place] = 1e-5
        up, down = (mean_loss(W + sign * step, X[:48], X[48:], similar, weights, share) for sign in (1, -1))
        numeric[place] = BITS * (up - down) / 2e-5
    rare = np.sqrt((1 - share) / share)
    numeric *= weights @ np.where(similar, rare, 1.0) / (48 * (share * rare + 1 - share))
    assert np.abs(G).max() > 1e-3
    np.testing.assert_allclose(G, numeric, rtol=0, atol=1e-6 * max(1.0, np.abs(G).max()))


def test_the_scale_of_the_data_does_not_matter() -> None:
    """A power of two changes no byte."""
    A, B, similar = stream(320)
    one, other = (small(centre="burn-in", burn_in=100) for _ in range(2))
    one.partial_fit_pairs(A, B, similar)
    other.partial_fit_pairs(2.0**20 * A, 2.0**20 * B, similar)
    assert as_bytes(one._learning) == as_bytes(other._learning)
    assert as_bytes(one.projection_) == as_bytes(other.projection_)


def test_pairs_without_weight_change_nothing() -> None:
    learner = small().partial_fit_pairs(*stream(64))
    before = learner.get_state()["method"]
    learner.partial_fit_pairs(*stream(32, 1), np.zeros(32))
    assert as_bytes(learner.get_state()["method"]) == as_bytes(before)


def test_it_begins_again_when_the_meaning_changes() -> None:
    learner = small(chunk_size=32, n_bits=16).partial_fit_pairs(*stream(6400))
    assert learner._surprise.n_since == 6400
    learner.partial_fit_pairs(*stream(1600, 50, meaning=4))
    assert learner._surprise.n_since < 1600


def classes(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten overlapping classes in a 24-dimensional subspace of 64 dimensions."""
    world, rng = np.random.default_rng(7), np.random.default_rng(seed)
    centres, spread = world.standard_normal((10, 24)), world.standard_normal((24, 64)) / 8
    y = rng.integers(0, 10, n)
    latent = centres[y] + rng.standard_normal((n, 24))
    return (latent @ spread + 0.0125 * rng.standard_normal((n, 64))).astype(np.float32), y


def test_better_than_online_hashing_on_overlapping_classes() -> None:
    (X, y), (Q, z), rng = classes(2000, 0), classes(800, 99), np.random.default_rng(0)
    i, wished = rng.integers(0, 2000, 3000), rng.random(3000) < 0.3
    j = np.array([rng.choice(np.flatnonzero((y == y[a]) == same)) for a, same in zip(i, wished, strict=True)])
    scores = {
        cls: cls(n_bits=32, random_state=0).partial_fit_pairs(X[i], X[j], wished).flush().score(Q, z)
        for cls in (SmoothPairHashing, OnlineHashing, LSH)
    }
    assert scores.pop(SmoothPairHashing) > max(scores.values()) + 0.05


@pytest.mark.parametrize("n_points", [2, 10])
def test_two_features_duplicates_and_dissimilar_pairs_only(n_points: int) -> None:
    """Every bit still tells some of the points apart, though no pair says what belongs together."""
    rng = np.random.default_rng(n_points)
    points = rng.standard_normal((n_points, 2)) + 100
    A, B = points[rng.integers(n_points, size=(2, 600))]
    learner = SmoothPairHashing(64, random_state=0).partial_fit_pairs(A, B, np.zeros(600, np.bool_)).flush()
    shares = learner.transform(points).mean(axis=0)
    assert ((shares > 0) & (shares < 1)).all()
