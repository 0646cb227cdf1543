"""Mini-batch online hashing: against the slow version, against OH, and what its docstring proves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash import OnlineHashing, RbfAnchors
from onlinehash.learners.mini_batch import MiniBatchOnlineHashing
from tests.reference.mini_batch import Chunk, ReferenceMiniBatch
from tests.support import as_bytes

D = 30
BITS = 16


def stream(n: int, d: int = D, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random pairs, a third of them similar and near to each other."""
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((2, n, d))
    similar = rng.random(n) < 1 / 3
    B[similar] = A[similar] + 0.3 * B[similar]
    return A, B, similar


def first_functions(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((D, BITS))


def chunks_of(
    A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray | None, size: int, **settings: Any
) -> tuple[MiniBatchOnlineHashing, list[Chunk]]:
    """The package's learner and the reference learn the same chunks; losses, changed bits and W are compared."""
    W1 = first_functions()
    learner = MiniBatchOnlineHashing(BITS, chunk_size=size, centre="none", init=W1, **settings)
    reference = ReferenceMiniBatch(W1, **settings)
    given = np.ones(len(A)) if weights is None else weights
    chunks = []
    for start in range(0, len(A), size):
        rows = slice(start, start + size)
        updates = learner.learn_pairs(A[rows], B[rows], similar[rows], given[rows])
        learner.flush()
        chunk = reference.learn(A[rows], B[rows], np.where(similar[rows], 1, -1), given[rows])
        np.testing.assert_array_equal(updates.loss, chunk.losses)
        if len(updates) == size:
            np.testing.assert_array_equal(updates.flips[-1] != 0, (chunk.end != chunk.start).any(axis=0))
            assert updates.step[-1, 0] == pytest.approx(chunk.tau.sum(), abs=1e-9)
            assert not updates.flips[:-1].any()
        np.testing.assert_allclose(learner.projection_, reference.W, rtol=0, atol=1e-9)
        chunks.append(chunk)
    return learner, chunks


@pytest.mark.parametrize(
    ("size", "settings"),
    [
        (7, {}),
        (40, {"C": 0.02, "similar_radius": 2, "dissimilar_ratio": 0.5}),
        (40, {"C": 100.0}),
        (7, {"dissimilar_ratio": 1.0}),
        (40, {"C": 0.01, "balance": 1.0}),
    ],
    ids=str,
)
def test_against_the_slow_version(size: int, settings: dict[str, Any]) -> None:
    _, chunks = chunks_of(*stream(200), None, size, **settings)
    assert sum(len(chunk.R) for chunk in chunks) > 50


@pytest.mark.parametrize(
    ("centre", "settings"),
    [
        ("burn-in", {}),
        ("running", {"C": 10.0}),
        ("none", {"C": 0.005, "similar_radius": 1, "dissimilar_ratio": 0.7}),
        ("burn-in", {"features": RbfAnchors(20)}),
    ],
    ids=str,
)
def test_a_chunk_of_one_pair_is_online_hashing(centre: str, settings: dict[str, Any]) -> None:
    A, B, similar = stream(400, seed=3)
    A, B = A + 0.5, B + 0.5
    weights = np.random.default_rng(4).choice([0.0, 0.3, 1.0, 4.0], 400)
    common = {"centre": centre, "burn_in": 50, "random_state": 7, **settings}
    one = OnlineHashing(BITS, **common)
    many = MiniBatchOnlineHashing(BITS, chunk_size=1, **common)
    of_one, of_many = (learner.learn_pairs(A, B, similar, weights) for learner in (one, many))
    assert np.count_nonzero(of_one.step) > 50
    np.testing.assert_array_equal(of_one.loss, of_many.loss)
    np.testing.assert_array_equal(of_one.step, of_many.step)
    np.testing.assert_array_equal(of_one.n_moved, of_many.n_moved)
    assert all(np.array_equal(of_one.bits(t), of_many.bits(t)) for t in range(400))
    assert as_bytes(one.projection_) == as_bytes(many.projection_)
    assert (one.version_, one.cumulative_loss_) == (many.version_, many.cumulative_loss_)


@pytest.mark.parametrize("C", [0.01, 100.0])
def test_the_step_is_the_solution(C: float) -> None:
    """Its dual is within a thousandth of the best, which a solver of others finds."""
    for chunk in chunks_of(*stream(200), None, 40, C=C)[1]:
        best = chunk.dual(chunk.solution())
        assert (1 - 2e-3) * best <= chunk.dual(chunk.tau) <= best + 1e-9
        assert (chunk.tau >= 0).all()
        assert (chunk.tau <= chunk.caps).all()
