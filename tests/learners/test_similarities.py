"""Learning from a similarity matrix: KSH against the version that forms S, FastHash's pairs and blocks, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from onlinehash.errors import InvalidInput
from onlinehash.learners.fast_supervised import FastSupervisedHashing
from onlinehash.learners.kernel_supervised import KernelSupervisedHashing
from tests.reference.kernel_supervised import ReferenceKernelSupervised

LEARNERS: list[Any] = [
    KernelSupervisedHashing(8, random_state=0),
    FastSupervisedHashing(8, n_trees=5, random_state=0),
]


def near(n: int = 150, d: int = 8, share: float = 0.15, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points, and which pairs are similar: when either is among the other's nearest."""
    X = np.random.default_rng(seed).standard_normal((n, d))
    distances = np.square(X[:, None] - X).sum(axis=2)
    among = distances <= np.sort(distances, axis=1)[:, round(share * n), None]
    return X, among | among.T


def agreeing(similar: np.ndarray, bits: np.ndarray) -> float:
    """How much nearer the codes of similar pairs are than those of others, as a share of the bits."""
    distances = (bits[:, None] != bits).mean(axis=2)
    return float(distances[~similar].mean() - distances[similar].mean())


# ------------------------------------------------------------------ both methods


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_every_form_of_a_matrix_is_the_same(learner: Any) -> None:
    X, similar = near(60)
    expected = learner.fit_similarities(X, similar).encode(X)
    off_diagonal = similar & ~np.eye(len(X), dtype=bool)
    forms = [
        np.where(similar, 1, -1),
        similar.astype(int),
        np.where(off_diagonal, 1.0, -1.0),
        similar.tolist(),
        sparse.csr_array(off_diagonal),
        sparse.coo_matrix(similar * 0.25),
        sparse.csc_array(
            (np.r_[np.ones(similar.sum()), 0.0], np.c_[np.argwhere(similar).T, [[0], [1]]]), similar.shape
        ),
    ]
    for form in forms:
        assert learner.fit_similarities(X, form).encode(X) == expected


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_codes_follow_similarities_that_are_no_classes(learner: Any) -> None:
    X, similar = near(150, 3)
    learned = learner.fit_similarities(X, similar)
    assert agreeing(similar, learned.transform(X)) > 0.15
    assert learned.n_points_seen_ == 150
    assert learned.version_ == 1


def test_a_bad_matrix_is_refused_and_nothing_changes() -> None:
    X, M = near(50)
    learner = KernelSupervisedHashing(8, random_state=0).fit_similarities(X, M)
    before = learner.encode(X)
    for problem, says in (
        (M[:-1], r"shape \(50, 50\)"),
        (sparse.csr_array(M[:, :-1]), "shape"),
        (2 * M.astype(int), "bools"),
        (np.where(M, 1.0, np.nan), "bools"),
        (np.triu(M), "symmetric"),
        (sparse.csr_array(np.triu(M)), "symmetric"),
        (sparse.csr_array(np.where(M, 1, -1)), "positive"),
        ([[True], [True, False]], "unequal length"),
    ):
        with pytest.raises(InvalidInput, match=says):
            learner.fit_similarities(X, problem)
    assert learner.encode(X) == before
    assert learner.version_ == 1


# ------------------------------------------------------------------ KSH


@pytest.mark.parametrize("d", [2, 8])
def test_ksh_against_the_reference(d: int) -> None:
    X, similar = near(d=d)
    learner = KernelSupervisedHashing(8, random_state=0).fit_similarities(X, similar)
    reference = ReferenceKernelSupervised(X - X.mean(axis=0), np.zeros(len(X)), 8)
    reference.S = np.where(similar, 1.0, -1.0)
    W, objectives = reference.learn()
    np.testing.assert_allclose(learner.objectives_, objectives, rtol=0, atol=1e-12)
    turned = W * np.sign(np.sum(W * learner.projection_, axis=0))
    np.testing.assert_allclose(learner.projection_, turned, rtol=1e-6, atol=1e-6)


# ------------------------------------------------------------------ FastHash
