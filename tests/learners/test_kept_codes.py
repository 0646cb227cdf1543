"""Methods that settle the codes of items and learn how queries are encoded: OHWEU and OHSL."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from onlinehash import (
    LiveIndex,
    evaluate,
)
from tests.reference.kept_codes import ReferenceProjectedCodes, ReferenceSimilarity
from tests.support import clusters, make

NAMES = ("ProjectedCodesHashing", "SimilarityLearningHashing")
N_FIRST, N_BITS, D = 40, 12, 9


def noisy(n: int, seed: int = 0, n_classes: int = 4, d: int = D, noise: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    X, y = clusters(n, seed, n_classes, d)
    return X + noise * np.random.default_rng(seed + 5).standard_normal(X.shape), y


X, Y = noisy(400)


def signs(codes: Any) -> np.ndarray:
    return np.where(codes.bits(), 1.0, -1.0)


def assert_signs_of(expected: list[np.ndarray], learner: Any) -> None:
    """Sums of steps that are all of the size C cancel often; rounding says of such a zero what it likes."""
    values = np.array(expected)
    clear = np.abs(values) > 1e-9
    assert clear.mean() > 0.9
    assert np.array_equal(signs(learner.encode_queries(X))[clear], np.sign(values[clear]))


def settled(name: str, **more: Any) -> Any:
    return make(name, n_bits=N_BITS, first_points=N_FIRST, **more).observe(X[:N_FIRST])


def test_projected_codes_are_the_reference() -> None:
    learner = settled("ProjectedCodesHashing", C=0.3)
    reference, codes = ReferenceProjectedCodes(D, N_BITS, 0.3), signs(learner.encode(X))
    directions: dict[int, np.ndarray] = {}
    lost = 0.0
    for n in range(200):
        drawn = np.random.default_rng([0, 3, len(directions)]).standard_normal(N_BITS)
        direction = directions.setdefault(int(Y[n]), drawn)
        lost += reference.learn(X[n] - learner.mean_, codes[n], np.sign(direction))
        learner.partial_fit(X[n : n + 1], Y[n : n + 1])
        if n % 20 == 0:
            expected = [reference.query(x - learner.mean_, b) for x, b in zip(X, codes, strict=True)]
            assert_signs_of(expected, learner)
    assert learner.cumulative_loss_ == pytest.approx(lost)
    np.testing.assert_allclose(learner._Q[:, :D].T, reference.Q, atol=1e-12)
    np.testing.assert_allclose(learner._P[:, :N_BITS], reference.P, atol=1e-12)


def test_the_similarity_is_the_reference() -> None:
    learner = settled("SimilarityLearningHashing", C=0.2, similar_weight=2.0)
    reference, codes = ReferenceSimilarity(N_BITS, 0.2, 2.0), signs(learner.encode(X))
    rng, lost = np.random.default_rng(3), 0.0
    for n in range(150):
        i, j = rng.integers(0, len(X), 2)
        weight = [1.0, 0.5, 0.0][n % 3]
        update = learner.learn_pair(X[i], X[j], bool(Y[i] == Y[j]), weight)
        loss = reference.learn(codes[i], codes[j], Y[i] == Y[j], weight)
        assert update.loss == pytest.approx(loss, abs=1e-12)
        lost += loss
        if n % 15 == 0:
            assert_signs_of([reference.query(a) for a in codes], learner)
    np.testing.assert_allclose(learner.similarity_, np.mean(reference.all, axis=0), atol=1e-12)
    assert np.array_equal(learner.similarity_, learner.similarity_.T)
    assert learner.cumulative_loss_ == pytest.approx(lost)


# ------------------------------------------------------------------ in an index


@pytest.mark.parametrize("name", NAMES)
def test_an_index_follows_without_touching_an_item(name: str) -> None:
    """Searches of handwritten digits get better, by every measure, over codes that stay as they are."""
    digits, labels = load_digits(return_X_y=True)
    X, y, new, truth = digits[:1500], labels[:1500], digits[1500:], evaluate.same_label(labels[1500:], labels[:1500])
    index = LiveIndex(make(name, n_bits=32, first_points=500), index="flat")
    index.add(range(len(X)), X)
    codes, counters = index.codes, index.counters
    before = evaluate.retrieval(index.encoder, new, X, truth, ["map", "precision@100"])
    first = np.asarray(index.search(new, k=100).ids)
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(1500)
        index.learn_labelled(X[order], y[order])
        assert index.behind == (0, 0)
        assert index.encoder.version == index.learner.version_
    assert index.codes == codes == index.encoder.encode(X)
    assert index.counters == counters
    after = evaluate.retrieval(index.learner, new, X, truth, ["map", "precision@100"])
    assert after["map"] > before["map"] + 0.01
    assert after["precision@100"] > before["precision@100"]
    last = np.asarray(index.search(new, k=100).ids)
    right = [(y[ids] == labels[1500:, None]).mean() for ids in (first, last)]
    assert right[1] > right[0]
