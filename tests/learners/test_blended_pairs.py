"""Blended pair hashing: its beginning, the slow version, and what feedback makes of search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash import BlendedPairHashing, SmoothPairHashing
from onlinehash.learners.iterative_quantization import rotated_directions
from tests.reference.blended_pairs import ReferenceBlendedPairs
from tests.support import state_bytes

D, BITS = 12, 6
AXES = np.random.default_rng(5).standard_normal((8, D))


def stream(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of points around eight centres, similar where the centres' numbers are both odd or both even."""
    rng = np.random.default_rng(seed)
    i, j = rng.integers(0, 8, (2, n))
    A, B = (AXES[of] + 0.5 * rng.standard_normal((n, D)) for of in (i, j))
    return A, B, i % 2 == j % 2


def small(**settings: Any) -> BlendedPairHashing:
    defaults = {"n_bits": BITS, "chunk_size": 16, "centre": "none", "burn_in": 64, "random_state": 3}
    return BlendedPairHashing(**defaults | settings)


def points(n: int, seed: int = 9) -> np.ndarray:
    return np.concatenate(stream(n // 2, seed)[:2])


def clusters(n: int, n_classes: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes in the leading directions of 48; most of the others are noise."""
    world, rng = np.random.default_rng(7), np.random.default_rng(seed)
    scale = np.exp(-np.arange(48) / 12)
    centres = world.standard_normal((n_classes, 48))
    y = rng.integers(0, n_classes, n)
    return ((centres[y] + noise * rng.standard_normal((n, 48))) * scale).astype(np.float32), y


def shown(model: Any, X: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Queries, and the ten nearest of each."""
    codes = 2.0 * model.transform(X) - 1
    queries = rng.choice(len(X), n // 10, replace=False)
    nearness = codes[queries] @ codes.T
    nearness[np.arange(len(queries)), queries] = -np.inf
    return queries.repeat(10), np.argsort(-nearness, axis=1, kind="stable")[:, :10].ravel()


def test_without_pairs_its_codes_are_those_of_itq() -> None:
    X = points(64)
    itq = rotated_directions(X, BITS, 50, np.random.default_rng([3, 2]))  # as IterativeQuantization with this seed
    W = small().observe(X).projection_
    np.testing.assert_allclose(W / np.linalg.norm(W, axis=0), itq / np.linalg.norm(itq, axis=0), atol=1e-9)


def test_against_the_slow_version() -> None:
    """Marks on five results of each query, some chunks ended early."""
    n, X = 160, points(64)
    A, B, similar = stream(n)
    A = A[np.arange(n) // 5]
    weights = np.random.default_rng(1).choice([0.3, 1.0, 4.0], n)
    learner = small().observe(X)
    reference = ReferenceBlendedPairs(learner._first[:, :D].T, X, 16)
    start = 0
    while start < n:
        stop = min([start + 16, n, *(end for end in (5, 50, 103) if end > start)])
        rows = slice(start, stop)
        learner.partial_fit_pairs(A[rows], B[rows], similar[rows], weights[rows])
        if stop - start < 16:
            learner.flush()
        reference.learn(A[rows], B[rows], similar[rows], weights[rows])
        W = learner._damping.joined(learner._learning).T
        np.testing.assert_allclose(W, reference.W, atol=1e-8)
        start = stop
    assert learner.blend_ == pytest.approx(reference.blend(), abs=1e-9)
    V = reference.W0 + learner.blend_ * (reference.W - reference.W0)
    np.testing.assert_allclose(learner.flush().projection_, V, atol=1e-7)


def test_groups_and_walks_go_on_after_loading_and_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few points are enough to try walks, which help."""
    monkeypatch.setattr("onlinehash.learners.groups.NEAR", -2)
    settings = {"POINTS_TO_WALK": 40, "LESSONS": 64, "QUESTIONS": 75, "N_SEARCHING": 30, "FIRST_MARKS": 20}
    for name, value in (settings | {"FOR_FEW": -2.0, "IN_CLASS": 0.0, "STILL_IN_CLASS": 0.0}).items():
        monkeypatch.setattr(f"onlinehash.learners.blended_pairs.{name}", value)
    asks = BlendedPairHashing._do_walks_help
    monkeypatch.setattr(BlendedPairHashing, "_do_walks_help", lambda learner: (True, asks(learner)[1]))
    X, y = clusters(64, 2, 1.0, seed=2)
    X, rng, cut = X[:, :D].copy(), np.random.default_rng(2), 320
    i, j = rng.integers(0, 64, 160).repeat(4), rng.integers(0, 64, 640)
    straight, one, other, loop = (small().observe(X) for _ in range(4))
    straight.partial_fit_pairs(X[i], X[j], y[i] == y[j])
    one.partial_fit_pairs(X[i[:cut]], X[j[:cut]], y[i[:cut]] == y[j[:cut]])
    other.set_state(one.get_state())
    other.partial_fit_pairs(X[i[cut:]], X[j[cut:]], y[i[cut:]] == y[j[cut:]])
    for a, b, similar in zip(X[i], X[j], y[i] == y[j], strict=True):
        loop.learn_pair(a, b, bool(similar))
    assert straight._is_walking
    assert state_bytes(other) == state_bytes(straight) == state_bytes(loop)


def test_feedback_on_results_makes_search_better() -> None:
    X, y = clusters(1000, 5, 1.4, seed=1)
    Q, z = clusters(500, 5, 1.4, seed=2)
    learner, rng = BlendedPairHashing(32, random_state=1).observe(X), np.random.default_rng(1)
    begun = learner.score(Q, z)
    for _ in range(5):
        i, j = shown(learner, X, 300, rng)
        learner.partial_fit_pairs(X[i], X[j], y[i] == y[j]).flush()
    assert learner.score(Q, z) > begun + 0.1


def test_few_pairs_do_not_spoil_a_good_beginning() -> None:
    """Eighty classes are too many to be learned from a hundred pairs, and the first codes tell them apart."""
    X, y = clusters(3000, 80, 0.55, seed=1)
    Q, z = clusters(800, 80, 0.55, seed=2)
    learner, smooth = (cls(32, random_state=0).observe(X[:2000]) for cls in (BlendedPairHashing, SmoothPairHashing))
    begun, rng = learner.score(Q, z), np.random.default_rng(0)
    i = rng.integers(len(X), size=100)
    j = np.array([rng.choice(np.flatnonzero(y == y[k])) if rng.random() < 0.3 else rng.integers(len(X)) for k in i])
    for one in (learner, smooth):
        one.partial_fit_pairs(X[i], X[j], y[i] == y[j]).flush()
    assert learner.score(Q, z) > begun - 0.015
    assert smooth.score(Q, z) < begun - 0.1


@pytest.mark.parametrize("n_points", [2, 10])
def test_two_features_duplicates_and_dissimilar_pairs_only(n_points: int) -> None:
    """Every bit still tells some of the points apart, though no pair says what belongs together."""
    rng = np.random.default_rng(n_points)
    some = rng.standard_normal((n_points, 2)) + 100
    A, B = some[rng.integers(n_points, size=(2, 600))]
    learner = SmoothPairHashing(64, random_state=0).partial_fit_pairs(A, B, np.zeros(600, np.bool_)).flush()
    shares = learner.transform(some).mean(axis=0)
    assert ((shares > 0) & (shares < 1)).all()
