"""The float reference: what a search by exact cosine finds."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score
from sklearn.metrics.pairwise import cosine_similarity

from onlinehash import evaluate
from onlinehash.errors import InvalidInput
from onlinehash.evaluate import exact

RNG = np.random.default_rng(0)
QUERY, BASE = RNG.standard_normal((30, 8)), RNG.standard_normal((200, 8))
Y_QUERY, Y_BASE = RNG.integers(4, size=30), RNG.integers(4, size=200)
TRUTH = evaluate.same_label(Y_QUERY, Y_BASE)


@pytest.mark.parametrize(("block", "dtype"), [(1000, np.float32), (1 << 22, np.float64)])
def test_it_is_that_of_scikit_learn(monkeypatch, block, dtype):
    monkeypatch.setattr(exact, "BLOCK", block)
    cosines = cosine_similarity(QUERY, BASE)
    relevant = Y_QUERY[:, None] == Y_BASE
    nearest = np.argsort(-cosines, axis=1)[:, :10]
    found = evaluate.cosine(QUERY.astype(dtype), BASE.astype(dtype), TRUTH, ["map", "precision@10"])
    expected = np.mean([average_precision_score(*row) for row in zip(relevant, cosines, strict=True)])
    assert found["map"] == pytest.approx(expected, abs=1e-6)
    assert found["precision@10"] == pytest.approx(np.take_along_axis(relevant, nearest, 1).mean(), abs=1e-6)


def test_a_vector_of_zeros_lies_between_near_and_far():
    truth = evaluate.same_label([1], [0, 1, 0])
    assert evaluate.cosine([[1.0, 0.0]], [[2.0, 1.0], [0.0, 0.0], [-1.0, 0.0]], truth) == {"map": 0.5}


def test_items_of_the_same_cosine_are_ranked_as_they_come():
    for y, expected in (([1, 0], 1.0), ([0, 1], 0.5)):
        assert evaluate.cosine([[1.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], evaluate.same_label([1], y)) == {"map": expected}


def test_the_curve_is_the_best_precision_at_each_recall_or_more():
    order = np.argsort(-(QUERY @ BASE.T) / np.linalg.norm(BASE, axis=1), axis=1, kind="stable")
    expected = []
    for hits in np.take_along_axis(TRUTH.block(slice(None)), order, axis=1):
        found = hits.cumsum()
        precision, recall = found / np.arange(1, len(hits) + 1), found / found[-1]
        expected.append([precision[recall >= level].max() for level in np.arange(11) / 10])
    assert evaluate.cosine_curve(QUERY, BASE, TRUTH) == pytest.approx(np.mean(expected, axis=0))
    with pytest.raises(InvalidInput, match="no query has a relevant item"):
        evaluate.cosine_curve(QUERY, BASE, evaluate.same_label(np.full(len(QUERY), 99), Y_BASE))
