"""Learning from a similarity matrix: KSH against the version that forms S, FastHash's pairs and blocks, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from onlinehash import RbfAnchors
from onlinehash.errors import InvalidInput
from onlinehash.learners import block_cuts
from onlinehash.learners.batch import similarity_matrix
from onlinehash.learners.fast_supervised import FastSupervisedHashing, leading_signs
from onlinehash.learners.fast_supervised_pairs import pairs_of_similarities
from onlinehash.learners.kernel_supervised import KernelSupervisedHashing
from tests.reference.kernel_supervised import ReferenceKernelSupervised
from tests.support import clusters

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


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_poor_matrices_still_give_functions(learner: Any) -> None:
    for n, are_similar in ((20, False), (20, True), (1, True)):
        X, matrix = near(n)[0], np.full((n, n), are_similar)
        assert learner.fit_similarities(X, matrix).transform(X).shape == (n, 8)


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


@pytest.mark.parametrize(("features", "n_samples"), [(None, 100), (RbfAnchors(30), 9999)])
def test_ksh_of_classes_is_ksh_of_their_similarities(features: Any, n_samples: int) -> None:
    X, y = clusters(300, 0, n_classes=5, d=12)
    X = X + np.random.default_rng(1).standard_normal(X.shape)
    one, other = (KernelSupervisedHashing(16, n_samples=n_samples, features=features, random_state=0) for _ in range(2))
    one.fit(X, y)
    other.fit_similarities(X, y[:, None] == y)
    assert one.encode(X) == other.encode(X)
    np.testing.assert_allclose(one.objectives_, other.objectives_, rtol=0, atol=1e-12)


# ------------------------------------------------------------------ FastHash


def test_no_pair_inside_a_block_is_dissimilar() -> None:
    n_samples = 150
    _, similar = near()
    pairs = pairs_of_similarities(similarity_matrix(similar, 150), n_samples, 10, np.random.default_rng(0))
    assert len(set(pairs.rows.tolist())) == len(pairs.rows) == n_samples
    np.testing.assert_array_equal(pairs.similar, similar[pairs.rows[pairs.i], pairs.rows[pairs.j]])
    assert (pairs.i < pairs.j).all()
    assert pairs.starts[0] == 0
    assert pairs.starts[-1] == n_samples
    block = np.searchsorted(pairs.starts, np.arange(n_samples), side="right")
    inside = block[pairs.i] == block[pairs.j]
    assert pairs.similar[inside].all()
    assert inside.sum() > 0.1 * pairs.similar.sum()
    assert len(pairs.starts) - 1 < n_samples / 2


def test_cuts_start_from_the_least_eigenvector() -> None:
    """Two groups that want unequal bits: the vector is known."""
    group = np.repeat([1, -1], [12, 8])
    weights = sparse.csr_array(np.where(group[:, None] == group, -3, 2) * ~np.eye(20, dtype=bool))
    z = leading_signs(weights, np.random.default_rng(0))
    assert abs(z @ group) == 20
    assert block_cuts.energy(weights, z) < block_cuts.energy(weights, np.ones(20, int))
