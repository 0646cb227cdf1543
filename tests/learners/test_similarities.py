"""Learning from a similarity matrix: KSH against the version that forms S, FastHash's pairs and blocks, bad input."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from onlinehash import RbfAnchors
from onlinehash.errors import InvalidInput
from onlinehash.learners import block_cuts
from onlinehash.learners.batch import similarity_matrix
from onlinehash.learners.fast_supervised import FastSupervisedHashing, Inference, leading_signs
from onlinehash.learners.fast_supervised_pairs import (
    draw_pairs,
    draw_similar_pairs,
    pairs_of_classes,
    pairs_of_similarities,
)
from onlinehash.learners.kernel_supervised import KernelSupervisedHashing
from tests.reference.kernel_supervised import ReferenceKernelSupervised
from tests.support import clusters, mostly_long

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
    X, similar = near()
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
    X, similar = near(300, 3)
    learned = learner.fit_similarities(X, similar)
    assert agreeing(similar, learned.transform(X)) > 0.15
    assert learned.n_points_seen_ == 300
    assert learned.version_ == 1


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (lambda M: M[:-1], r"shape \(150, 150\)"),
        (lambda M: M[0], "shape"),
        (lambda M: sparse.csr_array(M[:, :-1]), "shape"),
        (lambda M: 2 * M.astype(int), "bools"),
        (lambda M: np.where(M, 1.0, np.nan), "bools"),
        (lambda M: M.astype(str), "bools"),
        (lambda M: np.triu(M), "symmetric"),
        (lambda M: sparse.csr_array(np.triu(M)), "symmetric"),
        (lambda M: sparse.csr_array(np.where(M, 1, -1)), "positive"),
        (lambda M: sparse.csr_array(np.where(M, np.nan, 0)), "positive"),
        (lambda M: [[True], [True, False]], "unequal length"),
    ],
    ids=[
        "rows",
        "vector",
        "columns",
        "0 and 2",
        "nan",
        "text",
        "one way",
        "one way, sparse",
        "-1",
        "sparse nan",
        "ragged",
    ],
)
def test_a_bad_matrix_is_refused_and_nothing_changes(learner: Any, problem: Any, says: str) -> None:
    X, similar = near()
    learner.fit_similarities(X, similar)
    before = learner.encode(X)
    with pytest.raises(InvalidInput, match=says) as refused:
        learner.fit_similarities(X, problem(similar))
    assert str(refused.value).count(". ") == 0
    assert learner.encode(X) == before
    assert learner.version_ == 1


def test_only_two_methods_have_it() -> None:
    import onlinehash

    learners = [getattr(onlinehash, name) for name in onlinehash.__all__ if name.endswith(("Hashing", "Quantization"))]
    with_it = {cls.__name__ for cls in learners if hasattr(cls, "fit_similarities")}
    assert with_it == {"KernelSupervisedHashing", "FastSupervisedHashing"}


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
@pytest.mark.parametrize("similar", ["none", "all", "one row"])
def test_poor_matrices_still_give_functions(learner: Any, similar: str) -> None:
    X, _ = near(1 if similar == "one row" else 20)
    matrix = np.full((len(X), len(X)), similar == "all")
    assert learner.fit_similarities(X, matrix).transform(X).shape == (len(X), 8)


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


@pytest.mark.parametrize("n_samples", [100, 9999])
@pytest.mark.parametrize("features", [None, RbfAnchors(30)])
@pytest.mark.parametrize("n_classes", mostly_long([2, 5, 30], {5}))
def test_ksh_of_classes_is_ksh_of_their_similarities(n_classes: int, features: Any, n_samples: int) -> None:
    X, y = clusters(300, 0, n_classes=n_classes, d=12)
    X = X + np.random.default_rng(1).standard_normal(X.shape)
    one, other = (KernelSupervisedHashing(16, n_samples=n_samples, features=features, random_state=0) for _ in range(2))
    one.fit(X, y)
    other.fit_similarities(X, y[:, None] == y)
    assert one.encode(X) == other.encode(X)
    np.testing.assert_allclose(one.objectives_, other.objectives_, rtol=0, atol=1e-12)


# ------------------------------------------------------------------ FastHash


@pytest.mark.parametrize("n_classes", [1, 4, 40])
def test_pairs_of_classes_are_those_of_their_similarities(n_classes: int) -> None:
    classes = np.unique(np.random.default_rng(0).integers(n_classes, size=60), return_inverse=True)[1]
    classes = np.argsort(np.argsort(np.unique(classes, return_index=True)[1]))[classes]  # numbered as they appear
    matrix = similarity_matrix(classes[:, None] == classes, 60)
    one = pairs_of_classes(classes, 60, 5, np.random.default_rng(1))
    other = pairs_of_similarities(matrix, 60, 5, np.random.default_rng(1))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
    ordered = np.sort(classes)
    matrix = similarity_matrix(ordered[:, None] == ordered, 60)
    drawn = draw_similar_pairs(matrix, 5, np.random.default_rng(2))
    np.testing.assert_array_equal(drawn, draw_pairs(ordered, 5, np.random.default_rng(2)))


def test_each_of_its_similar_and_other_points_can_be_a_partner() -> None:
    _, similar = near(30)
    i, j = draw_similar_pairs(similarity_matrix(similar, 30), 400, np.random.default_rng(0))
    assert set(zip(i.tolist(), j.tolist(), strict=True)) == set(itertools.combinations(range(30), 2))


@pytest.mark.parametrize("n_samples", [40, 150])
def test_no_pair_inside_a_block_is_dissimilar(n_samples: int) -> None:
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


def test_that_start_leads_to_less_loss() -> None:
    _, similar = near(400, 4, 0.05)
    pairs = pairs_of_similarities(similarity_matrix(similar, 400), 400, 10, np.random.default_rng(0))
    equal, eigen = Inference(pairs), Inference(pairs, np.random.default_rng(1))
    for codes in (equal, eigen):
        for _ in range(12):
            z, energies = codes.infer()
            assert (np.diff(energies) <= 0).all()
            codes.add(z)
    assert eigen.loss() < 0.9 * equal.loss()
