"""Online supervised hashing against its slow version, and its codebook."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash.learners.online_supervised import OnlineSupervisedHashing
from tests.reference.online_supervised import ReferenceOnlineSupervisedHashing
from tests.support import clusters

D, BITS = 23, 12


def begun(X: np.ndarray, **settings: object) -> OnlineSupervisedHashing:
    return OnlineSupervisedHashing(BITS, centre="none", random_state=0, **settings).observe(X[:1])


@pytest.mark.parametrize("form", ["hinge", "boosted"])
def test_it_is_the_slow_version(form: str) -> None:
    """Points of one label, of several, of none, and a zero vector."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, D))
    X[40] = 0
    Y = (rng.random((120, 9)) < 0.15).astype(int)
    Y[:9] = np.eye(9)
    learner = begun(X, form=form, step=0.3)
    first = learner.projection_
    learner.partial_fit(X, Y)
    reference = ReferenceOnlineSupervisedHashing(first, learner.codewords_, form, 0.3)
    done = [reference.step(x, list(np.flatnonzero(y))) for x, y in zip(X, Y, strict=True)]
    np.testing.assert_allclose(learner.projection_, reference.W, atol=1e-12)
    assert learner.cumulative_loss_ == pytest.approx(sum(loss for loss, _ in done), rel=1e-5)
    assert learner.n_bits_moved_ == sum(len(moved) for _, moved in done)
    assert learner.n_updates_ == learner.version_ == sum(bool(moved) for _, moved in done)


def test_no_bit_is_the_same_for_eight_classes() -> None:
    X = np.eye(8)
    constant = [0, 0]
    for seed in range(20):
        learner = OnlineSupervisedHashing(BITS, centre="none", random_state=seed).partial_fit(X[:7], range(7))
        constant[0] += np.count_nonzero(np.abs(learner.codewords_.sum(axis=0)) == 7)
        constant[1] += np.count_nonzero(np.abs(learner.partial_fit(X[7:], [7]).codewords_.sum(axis=0)) == 8)
    assert constant[0] > 0
    assert constant[1] == 0


def test_more_classes_than_words() -> None:
    """They have to share; nobody waits for ever for a word of his own."""
    learner = OnlineSupervisedHashing(2, random_state=0).partial_fit(np.eye(9), range(9))
    assert len(np.unique(learner.codewords_, axis=0)) == 4


def test_the_boosted_form_does_not_overflow() -> None:
    """A point that all bits get wrong by a wide margin takes a step of η, not of η e^r."""
    X, y = clusters(400, d=D)
    learner = OnlineSupervisedHashing(256, form="boosted", step=5.0, centre="none", random_state=0).partial_fit(X, y)
    learner.partial_fit(X, (y + 1) % 4)
    before = learner.projection_
    learner.partial_fit(X[:1], (y[:1] + 2) % 4)
    assert np.isfinite(learner.projection_).all()
    assert np.isfinite(learner.cumulative_loss_)
    assert np.linalg.norm(learner.projection_ - before, axis=0).max() <= 5.0 * (1 + 1e-9)
