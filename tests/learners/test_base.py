"""The base of all learners: steps that are taken elsewhere, and going back after a refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA

from onlinehash import OnlineHashing, RbfAnchors
from onlinehash.learners.base import LearnPairs
from onlinehash.learners.update import Updates
from tests.support import Pairs, feed, make, pairs, quietly, state_bytes


def one_by_one(learn: LearnPairs, A: Any, B: Any, similar: Any, weights: Any, updates: Updates) -> None:
    """A step that hands on the pairs one at a time."""
    for t in range(len(A)):
        one = slice(t, t + 1)
        learn(A[one], B[one], similar[one], weights[one], updates.view(one))


class Fails:
    """A step that fails at the n-th block."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, learn: LearnPairs, *block: Any) -> None:
        learn(*block)
        self.n -= 1
        if not self.n:
            raise RuntimeError("the process is gone")


@pytest.mark.parametrize(("name", "features"), [("OnlineHashing", RbfAnchors(7)), ("BlendedPairHashing", None)])
def test_a_step_that_hands_on_what_it_gets_changes_nothing(name: str, features: Any) -> None:
    p = pairs(n=600)
    wrapped, alone = make(name, features=features), make(name, features=features)
    updates = quietly(lambda: Updates.join(list(wrapped.learn_pairs_by(one_by_one, p.A, p.B, p.similar))))
    expected = quietly(alone.learn_pairs, p.A, p.B, p.similar)
    assert state_bytes(wrapped) == state_bytes(alone)
    np.testing.assert_array_equal(updates.loss, expected.loss)
    np.testing.assert_array_equal(updates.flips, expected.flips)


@pytest.mark.parametrize(("name", "features"), [("OnlineHashing", RbfAnchors(900)), ("BlendedPairHashing", None)])
def test_a_step_that_fails_leaves_the_learner_as_it_was(name: str, features: Any) -> None:
    """Even one that began to learn, or whose feature map became ready, during the call."""
    p, later = pairs(n=1100), pairs(n=50, seed=1)
    for events in ([], [pairs(n=20, seed=2)]):
        learner, twin = (feed(make(name, features=features), events) for _ in range(2))
        before, origin, names = state_bytes(learner), learner.origin, set(vars(learner))
        with pytest.raises(RuntimeError, match="gone"):
            quietly(lambda: list(learner.learn_pairs_by(Fails(2), p.A, p.B, p.similar)))  # noqa: B023
        assert state_bytes(learner) == before
        assert learner.origin is origin
        assert set(vars(learner)) == names
        assert state_bytes(feed(learner, [later])) == state_bytes(feed(twin, [later]))


def test_a_feature_map_that_became_ready_waits_again_after_a_refusal() -> None:
    def learner() -> OnlineHashing:
        return OnlineHashing(8, features=PCA(3), random_state=0).partial_fit_pairs(some.A, some.B, some.similar)

    some, more = pairs(n=100), pairs(n=100, seed=1)
    refused, twin = learner(), learner()
    with pytest.raises(RuntimeError, match="gone"):
        list(refused.learn_pairs_by(Fails(10), more.A, more.B, more.similar))
    assert not refused.is_ready
    assert refused.n_pairs_pending_ == 100
    for one in (refused, twin):
        feed(one, [Pairs(more.A, more.B, more.similar, np.ones(100))])
    assert refused.is_ready
    assert refused.encode(some.A) == twin.encode(some.A)


def test_the_mean_is_frozen_after_the_burn_in() -> None:
    p = pairs(n=10)
    learner = OnlineHashing(8, burn_in=12, random_state=0)
    assert not learner.is_ready
    assert not learner.mean_is_frozen
    feed(learner, [p.part(slice(0, 5))])
    assert learner.is_ready
    assert not learner.mean_is_frozen
    feed(learner, [p.part(slice(5, 10))])
    mean = learner.mean_
    assert learner.mean_is_frozen
    feed(learner, [pairs(n=30, seed=1)])
    np.testing.assert_array_equal(learner.mean_, mean)
