import json
from types import SimpleNamespace

import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing, evaluate
from onlinehash.errors import FormatError
from onlinehash.live import policies as refresh
from onlinehash.live.reservoir import Reservoir
from tests.support import refused

POLICIES = [
    refresh.always(),
    refresh.by_hand(),
    refresh.every(50),
    refresh.when_changed(0.05),
    refresh.by_mutual_information(0.02),
    refresh.budget(bits_per_second=1e6),
]


def clusters(n, seed=0, d=16, concept=0):
    """Pairs of points of five noisy clusters; another concept puts the clusters elsewhere."""
    centres = np.random.default_rng(100 + concept).normal(size=(5, d))
    rng = np.random.default_rng(seed)
    i, j = rng.integers(5, size=(2, n))
    j = np.where(rng.random(n) < 0.4, i, j)
    A, B = (centres[k] + rng.normal(scale=0.5, size=(n, d)) for k in (i, j))
    return A, B, i == j


class StandIn:
    """As much of a live index as policies see; it counts how often they look at the newest encoder.

    It is one for which no refresh is cheap, as are all large ones.
    """

    bits_at_once = 0

    def __init__(self, policy, vectors, learner=None):
        self.policy, self.vectors = policy, vectors
        self.learner = (learner or OnlineHashing(32, random_state=0)).observe(vectors)
        self.encoder = self.learner.snapshot()
        self.time, self.looks, self.pairs_at, self.refreshed_at = 0.0, 0, 0, []
        self._sample, self._pairs = Reservoir(256, 0), Reservoir(512, 0)
        self._sample.append(vectors)

    def __len__(self):
        return len(self.vectors)

    def clock(self):
        return self.time

    @property
    def newest(self):
        self.looks += 1
        return self.learner.snapshot()

    @property
    def pairs_behind(self):
        return self.learner.n_pairs_seen_ - self.pairs_at

    @property
    def behind(self):
        return SimpleNamespace(bits=len(self.newest.changed_bits(self.encoder)), pairs=self.pairs_behind)

    @property
    def sample(self):
        return self._sample.arrays()[0]

    @property
    def recent_pairs(self):
        return self._pairs.arrays()

    def share_changed(self):
        """The truth that `when_changed` estimates."""
        return np.mean(self.learner.snapshot().transform(self.vectors) != self.encoder.transform(self.vectors))

    def refresh(self):
        self.encoder, self.pairs_at = self.learner.snapshot(), self.learner.n_pairs_seen_
        self.refreshed_at.append(self.learner.n_pairs_seen_)

    def ask(self):
        if self.learner.version_ != self.encoder.version and self.policy.due(self):
            self.refresh()

    def learn(self, A, B, similar, seconds=0.0):
        for a, b, s in zip(A, B, similar, strict=True):
            self.time += seconds
            self.learner.learn_pair(a, b, s)
            self._pairs.append(a[None], b[None], np.array([s]))
            self.ask()
        return self


@pytest.fixture
def points():
    return clusters(2500, seed=9)[0]  # more than the burn-in


# ------------------------------------------------------------------ the simple ones


def test_always_and_by_hand(points):
    index = StandIn(refresh.always(), points).learn(*clusters(50))
    assert index.encoder.version == index.learner.version_
    index = StandIn(refresh.by_hand(), points).learn(*clusters(50))
    assert index.encoder.version < index.learner.version_


# ------------------------------------------------------------------ when_changed


def test_when_changed_looks_rarely_and_is_near_the_share(points):
    share, shares = 0.05, []

    class Noting(StandIn):
        def refresh(self):
            shares.append(self.share_changed())
            super().refresh()

    index = Noting(refresh.when_changed(share, price=1), points)
    index.learn(*clusters(1500))
    assert index.share_changed() < 1.6 * share
    assert len(shares) >= 3
    assert all(0.7 * share < s < 2.5 * share for s in shares)
    assert np.median(shares) < 1.5 * share
    assert index.looks < 1500 / 5


def test_when_changed_follows_at_once_where_that_is_cheap(points):
    index = StandIn(refresh.when_changed(0.05), points)
    index.bits_at_once = 32 * len(points)
    before = index.encoder
    A, B, similar = clusters(400)
    for some in np.split(np.arange(400), 100):
        index.learn(A[some], B[some], similar[some])
        assert index.behind.bits == 0
    assert index.encoder is not before
    index.learner.observe(points[:10])
    looks = index.looks
    index.ask()  # what only moved the mean is no pair that somebody waits for
    assert index.looks <= looks + 1


# ------------------------------------------------------------------ budget


def test_a_budget_is_kept(points):
    bits_per_second, spent = 3_000.0, []

    class Counting(StandIn):
        def refresh(self):
            spent.append(len(self) * self.behind.bits)
            super().refresh()

    index = Counting(refresh.budget(bits_per_second), points).learn(*clusters(400), seconds=0.5)
    assert sum(spent) <= 200 * bits_per_second
    assert sum(spent) >= 0.5 * min(200 * bits_per_second, 400 * len(points))
    assert index.looks < 800


# ------------------------------------------------------------------ no_worse


def test_no_worse_holds_back_what_held_out_pairs_speak_against(points):
    held_out = clusters(400, seed=5)
    index = StandIn(refresh.by_hand(), points).learn(*clusters(600))
    index.refresh()
    good, looks = index.encoder, index.looks
    index.policy = refresh.no_worse(refresh.always(), *held_out, tolerance=0.005)
    A, B, similar = clusters(400, seed=1)
    index.learn(A[:200], B[:200], ~similar[:200])
    spoilt = evaluate.pairs(index.encoder, *held_out).auc
    assert spoilt >= evaluate.pairs(good, *held_out).auc - 0.05
    assert evaluate.pairs(index.newest, *held_out).auc < spoilt
    assert index.looks - looks < 100  # held-out pairs are not asked at every pair
    before = len(index.refreshed_at)
    index.learn(A[200:], B[200:], similar[200:])
    index.learn(*clusters(600, seed=2))
    assert len(index.refreshed_at) > before


# ------------------------------------------------------------------ parameters, names, files


def test_policies_are_remembered_and_print_as_their_call():
    for policy in POLICIES:
        told = json.loads(json.dumps(refresh.specification(policy)))
        again = refresh.from_specification(told)
        assert again == policy
        assert type(again) is type(policy)
        assert eval(f"refresh.{policy!r}") == policy
        assert [other for other in POLICIES if other == policy] == [policy]


def test_parameters_outside_their_rules_are_refused():
    for kind, value in (
        (refresh.every, 0),
        (refresh.every, 1.5),
        (refresh.when_changed, 1.1),
        (refresh.by_mutual_information, np.nan),
        (refresh.budget, "fast"),
    ):
        assert f"refresh.{kind.__name__} expects" in str(refused(kind, value))
    A, B, similar = clusters(20)
    refused(refresh.no_worse, "every", A, B, similar)
    refused(refresh.no_worse, refresh.every(5), A, B[:5], similar)
    for told in ({}, {"policy": "sometimes"}, {"policy": "every", "n_pairs": 0}, [1]):
        assert isinstance(refused(refresh.from_specification, told), FormatError)


# ------------------------------------------------------------------ the reservoir


def test_pairs_that_come_during_a_cancelled_refresh_count_afterwards():
    """Also those that changed nothing: the policy was not asked about them while the refresh was running."""
    X = np.random.default_rng(0).standard_normal((60, 6))
    index = LiveIndex(OnlineHashing(8, burn_in=20, random_state=0), refresh.every(3))
    index.add(None, X)
    index.learn_pairs(X[:2], X[2:4], [False, True])
    with index._lock:  # so that it cannot end before it is cancelled
        job = index.refresh(wait=False)
        index.learn_pairs(np.zeros((2, 6)), np.zeros((2, 6)), [True, True])
        job.cancel()
    assert not job.wait()
    assert index.pairs_behind == 4
    index.search(X[0])
    assert index.behind == (0, 0)
