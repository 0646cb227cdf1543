"""`average`: its laws, and whom it refuses."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest

from onlinehash import RbfAnchors
from onlinehash.io.files import to_bytes
from onlinehash.parallel import add_up, average
from tests.support import make, pairs, refused, refused_without_a_trace

COUNTED = (
    "n_pairs_seen_",
    "n_points_seen_",
    "n_updates_",
    "n_steps_",
    "n_capped_",
    "n_bits_moved_",
    "cumulative_loss_",
)


def taught(learner: Any, seed: int, n: int = 40) -> Any:
    """A copy that went on with pairs of its own."""
    batch = pairs(n, seed=seed, dtype=np.float32)
    return copy.deepcopy(learner).partial_fit_pairs(batch.A, batch.B, batch.similar)


@pytest.fixture(params=["OnlineHashing", "MultiModelOnlineHashing"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_it_does_not_depend_on_the_order(name):
    since = taught(make(name, centre="running"), 0)
    assert to_bytes(average([copy.deepcopy(since) for _ in range(3)], since=since)) == to_bytes(since)
    learners = [taught(since, seed) for seed in (1, 2, 3)]
    for before in (None, since):
        found = {to_bytes(average(some, since=before)) for some in itertools.permutations(learners)}
        assert len(found) == 1
    assert len({to_bytes(add_up(some, since)) for some in itertools.permutations(learners)}) == 1


def test_what_is_averaged_and_what_is_counted(name):
    since = taught(make(name, centre="running"), 0)
    parts = [taught(since, 1, 30), taught(since, 2, 50)]
    before = [to_bytes(part) for part in parts]
    result = average(parts, since=since)
    np.testing.assert_allclose(result.projection_, np.mean([p.projection_ for p in parts], axis=0), rtol=1e-6)
    for counter in COUNTED:
        expected = sum(getattr(part, counter) for part in parts) - getattr(since, counter)
        assert getattr(result, counter) == pytest.approx(expected), counter
    assert result.n_pairs_seen_ == 40 + 30 + 50
    batches = [pairs(n, seed=seed, dtype=np.float32) for seed, n in ((0, 40), (1, 30), (2, 50))]
    np.testing.assert_allclose(result.mean_, np.concatenate([b.points() for b in batches]).mean(axis=0), rtol=1e-5)
    assert [to_bytes(part) for part in parts] == before


def test_learners_whose_bits_do_not_mean_the_same_are_refused():
    one = taught(make("OnlineHashing"), 1)
    wide = pairs(20, d=6, dtype=np.float32)
    labelled = copy.deepcopy(one).partial_fit(np.ones((1, 5), np.float32), [1])
    for other, why in (
        (taught(make("OnlineHashing", random_state=1), 1), "random_state"),
        (taught(make("OnlineHashing", C=0.5), 1), "parameters"),
        (taught(make("OnlineHashing", centre="none"), 1), "parameters"),
        (taught(make("MultiModelOnlineHashing"), 1), "method"),
        (make("OnlineHashing").partial_fit_pairs(wide.A, wide.B, wide.similar), "width"),
        (labelled, "pairs alone"),
        (make("OnlineHashing"), "seen no data"),
    ):
        assert why in str(refused_without_a_trace(one, average, [one, other]))
        assert why in str(refused(average, [other, one]))
    anchors = {"features": RbfAnchors(5)}
    parts = [taught(make("OnlineHashing", **anchors), seed) for seed in (1, 2)]
    assert "feature map" in str(refused(average, parts))
    assert "feature map" in str(refused(average, [parts[0]], parts[1]))
