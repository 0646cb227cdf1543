"""The learners against the slow version of the paper: equal losses, matrices equal within 1e-9."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash import MultiModelOnlineHashing, OnlineHashing
from tests.reference.online_hashing import Record, ReferenceOnlineHashing

D = 40


def stream(n: int, d: int = D, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random pairs, a third of them similar and near to each other."""
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((2, n, d))
    similar = rng.random(n) < 1 / 3
    B[similar] = A[similar] + 0.3 * B[similar]
    return A, B, similar


def pair_of_learners(W1: np.ndarray, **settings: Any) -> tuple[OnlineHashing, ReferenceOnlineHashing]:
    """The package's learner and the reference, both starting from W1 `(T, d, r)`."""
    n_models, _, n_bits = W1.shape
    if n_models == 1:
        learner = OnlineHashing(n_bits, centre="none", init=W1[0], **settings)
    else:
        learner = MultiModelOnlineHashing(n_bits, n_models=n_models, centre="none", init=W1, **settings)
    return learner, ReferenceOnlineHashing(W1, **settings)


def gaussian(n_models: int, n_bits: int, d: int = D, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n_models, d, n_bits))


def assert_same(
    learner: OnlineHashing,
    reference: ReferenceOnlineHashing,
    A: np.ndarray,
    B: np.ndarray,
    similar: np.ndarray,
    weights: np.ndarray | None = None,
) -> list[Record]:
    """Both learn the stream; everything an update tells is compared, and the matrices."""
    updates = learner.learn_pairs(A, B, similar, weights)
    signs = np.where(similar, 1, -1)
    given = np.ones(len(A)) if weights is None else weights
    records = [reference.step(*pair) for pair in zip(A, B, signs, given, strict=True)]
    np.testing.assert_array_equal(updates.loss, [record.loss for record in records])
    np.testing.assert_allclose(updates.step, [record.tau for record in records], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(updates.capped, [record.capped for record in records])
    np.testing.assert_array_equal(updates.flips, [record.flips.ravel() for record in records])
    W = learner.projection_.reshape(reference.W.shape)
    np.testing.assert_allclose(W, reference.W, rtol=0, atol=1e-9)
    assert learner.cumulative_loss_ == pytest.approx(sum(record.loss for record in records))
    return records


@pytest.mark.parametrize(("n_bits", "n_models"), [(48, 1), (16, 3)])
def test_a_thousand_pairs(n_bits: int, n_models: int) -> None:
    learner, reference = pair_of_learners(gaussian(n_models, n_bits))
    records = assert_same(learner, reference, *stream(1000))
    assert sum(record.loss > 0 for record in records) > 100  # enough steps to have been tested


@pytest.mark.parametrize(
    "settings",
    [
        {"n_rounds": 3},
        {"n_rounds": 3, "C": 10.0},
        {"n_rounds": 5, "similar_radius": 1, "dissimilar_ratio": 0.8},
        {"similar_radius": 2},
        {"similar_radius": 2, "dissimilar_ratio": 0.9, "C": 0.002},
        {"dissimilar_ratio": 1.0},
        {"C": 1e-4},
        {"C": 100.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("n_models", [1, 2])
def test_settings(settings: dict[str, Any], n_models: int) -> None:
    learner, reference = pair_of_learners(gaussian(n_models, 16), **settings)
    assert_same(learner, reference, *stream(200))


@pytest.mark.parametrize(("n_models", "n_rounds"), [(1, 3), (2, 1)])
def test_sample_weights(n_models: int, n_rounds: int) -> None:
    weights = np.random.default_rng(5).choice([0.01, 0.5, 1.0, 3.0], 200)
    learner, reference = pair_of_learners(gaussian(n_models, 16), n_rounds=n_rounds)
    assert_same(learner, reference, *stream(200), weights)


@pytest.mark.parametrize(("n_models", "n_rounds"), [(1, 3), (2, 1)])
def test_a_weight_of_zero_teaches_nothing(n_models: int, n_rounds: int) -> None:
    weights = np.tile([0.0, 1.0], 100)
    learner, reference = pair_of_learners(gaussian(n_models, 16), n_rounds=n_rounds)
    records = assert_same(learner, reference, *stream(200), weights)
    assert sum(record.loss > 0 for record in records[::2]) > 10
    assert not any(record.flips.any() for record in records[::2])


def test_a_ratio_that_floating_point_rounds_up() -> None:
    """0.55 * 100 is 55.00000000000001: it means 55 bits, in the loss as in p0."""
    learner, reference = pair_of_learners(gaussian(1, 100), dissimilar_ratio=0.55)
    assert 0.55 * 100 != 55
    assert reference.b == 55
    A, B, _ = stream(200)
    records = assert_same(learner, reference, A, A + 0.1 * B, np.zeros(200, bool))
    learned = [record for record in records if record.loss > 0]
    assert learned
    for record in learned:
        assert record.loss == int(record.loss)
        assert (record.g[0, 0] != record.g[0, 1]).sum() == 55
        assert np.count_nonzero(record.flips) == record.loss


def test_a_ratio_between_two_integers() -> None:
    """b = 6.4 asks for seven differing bits, and a distance of six has a loss of 0.4."""
    learner, reference = pair_of_learners(gaussian(1, 16))
    A, B, _ = stream(300, seed=7)
    records = assert_same(learner, reference, A, A + B, np.zeros(300, bool))
    assert {round(record.loss % 1, 6) for record in records if record.loss} == {0.4}


@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize("n_rounds", [1, 3])
def test_zero_vectors(n_models: int, n_rounds: int) -> None:
    """A pair whose flipped side is the zero vector has its true loss, a step of zero and no bits."""
    A, B, similar = stream(90)
    A[::3] = 0.0
    B[1::3] = 0.0
    learner, reference = pair_of_learners(gaussian(n_models, 16), n_rounds=n_rounds)
    records = assert_same(learner, reference, A, B, similar)
    skipped = [record for t, record in enumerate(records) if t % 3 < 2 and record.loss > 0]
    assert len(skipped) > 20
    for record in skipped:
        assert not record.tau.any()
        assert not record.flips.any()
    update = learner.learn_pair(np.zeros(D), np.zeros(D), False)
    assert update.loss == pytest.approx(6.4 * n_models)
    assert np.all(np.asarray(update.step) == 0)
    assert len(update.bits) == 0


@pytest.mark.parametrize("n_models", [1, 3])
def test_identical_points_called_dissimilar(n_models: int) -> None:
    A, _, _ = stream(200)
    learner, reference = pair_of_learners(gaussian(n_models, 16))
    records = assert_same(learner, reference, A, A, np.zeros(200, bool))
    assert all(record.loss == pytest.approx(6.4 * n_models) for record in records)
    assert all((record.tau > 0).all() for record in records)
    assert all((record.flips >= -1).all() and (record.flips <= 1).all() for record in records)  # ties: side i


def test_ties_go_to_the_lower_bit_and_to_the_first_model() -> None:
    """Small integers make every projection exact, and equal columns and models make every choice a tie."""
    rng = np.random.default_rng(3)
    W1 = np.repeat(rng.integers(-2, 3, (1, 8, 4)).astype(float), 3, axis=2)
    W1 = np.repeat(W1, 2, axis=0)
    A, B = rng.integers(-2, 3, (2, 1, 200, 8)).astype(float)[:, 0]
    similar = rng.random(200) < 0.5
    for t in range(200):  # each pair meets the same tied matrices
        learner, reference = pair_of_learners(W1)
        assert_same(learner, reference, A[t : t + 1], B[t : t + 1], similar[t : t + 1])


def test_an_exact_zero_counts_as_plus_one() -> None:
    """x_j is orthogonal to every column: its code is all +1, and so is that of x_i."""
    W1 = np.array([[[1.0, 2.0], [0.0, 0.0]]])
    learner, reference = pair_of_learners(W1, dissimilar_ratio=1.0)
    records = assert_same(learner, reference, np.array([[1.0, 5.0]]), np.array([[0.0, 3.0]]), np.array([False]))
    assert records[0].loss == 2
    assert records[0].flips.tolist() == [[-3, -3]]  # side j is the smaller in magnitude


def refined_losses(
    learner: OnlineHashing,
    reference: ReferenceOnlineHashing,
    A: np.ndarray,
    B: np.ndarray,
    similar: np.ndarray,
    weight: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Asked of the learner before each pair, and the reference's own."""
    learner.observe(A[:1])  # draws up the state; nothing is centred, so nothing is learned
    got, wanted = [], []
    for a, b, s in zip(A, B, similar, strict=True):
        got.append(learner.refined_loss(a, b, bool(s), weight))
        learner.learn_pair(a, b, bool(s), weight)
        wanted.append(reference.step(a, b, 1 if s else -1, weight).refined)
    return np.array(got), np.array(wanted)


@pytest.mark.parametrize(("n_models", "n_rounds"), [(1, 2), (3, 1)])
def test_refined_loss(n_models: int, n_rounds: int) -> None:
    got, wanted = refined_losses(*pair_of_learners(gaussian(n_models, 16), n_rounds=n_rounds), *stream(120))
    assert np.count_nonzero(wanted) > 20
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-9)
