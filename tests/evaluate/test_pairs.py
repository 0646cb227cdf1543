from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash import MultiModelOnlineHashing, OnlineHashing, evaluate
from onlinehash.evaluate import pairs as pairs_of
from tests.evaluate.codes_as_vectors import distances_by_hand, identity, random_codes


def clusters(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of points of three noisy clusters."""
    centres = np.random.default_rng(99).normal(size=(3, 10))
    i, j = rng.integers(3, size=(2, n))
    A, B = (centres[k] + rng.normal(scale=0.7, size=(n, 10)) for k in (i, j))
    return A, B, i == j


@given(st.integers(0, 2**32), st.sampled_from([(5, 1, "min"), (4, 3, "min"), (4, 3, "sum")]))
def test_the_report_equals_counting_by_hand(seed, shape):
    n_bits, n_models, fusion = shape
    rng = np.random.default_rng(seed)
    A, B = random_codes(rng, 12, n_bits * n_models), random_codes(rng, 12, n_bits * n_models)
    similar = np.concatenate([[True, False], rng.random(10) < 0.5])
    report = pairs_of(identity(n_bits, n_models, fusion), A, B, similar)
    distances = distances_by_hand(A, B, n_models, fusion).diagonal()
    near, far = distances[similar], distances[~similar]
    wins = [1.0 if a < b else 0.5 if a == b else 0.0 for a, b in product(near, far)]
    width = n_bits * (n_models if fusion == "sum" else 1)
    assert report.auc == pytest.approx(np.mean(wins), abs=1e-12)
    assert report.similar_distance == pytest.approx(near.mean() / width)
    assert report.dissimilar_distance == pytest.approx(far.mean() / width)
    assert (report.n_similar, report.n_dissimilar) == (len(near), len(far))


@pytest.mark.parametrize(
    "learner",
    [
        OnlineHashing(100, similar_radius=2, dissimilar_ratio=0.55, random_state=0),
        MultiModelOnlineHashing(10, n_models=3, random_state=0),
    ],
    ids=["OH with other margins", "MMOH"],
)
def test_losses_are_those_the_learner_counts(learner):
    A, B, similar = clusters(np.random.default_rng(3), 300)
    learner.set_params(centre="none").observe(A[:1])
    for a, b, s in zip(A, B, similar, strict=True):
        told = evaluate.similarity_losses(learner, a[None], b[None], [s])
        assert told[0] == learner.learn_pair(a, b, s).loss


def test_learning_brings_similar_pairs_together_and_dissimilar_ones_apart():
    oh = OnlineHashing(16, random_state=0)
    stream, held_out = (clusters(np.random.default_rng(seed), n) for seed, n in ((6, 2000), (7, 500)))
    oh.observe(stream[0])
    before = pairs_of(oh, *held_out)
    after = pairs_of(oh.partial_fit_pairs(*stream), *held_out)
    assert before.auc < 0.9 < 0.95 < after.auc
    assert after.similar_distance < before.similar_distance
    assert after.loss < before.loss / 2
