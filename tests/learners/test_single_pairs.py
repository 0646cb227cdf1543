"""`learn_pair` takes a short way with plain vectors: it must be the long way in all but time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash import RbfAnchors
from onlinehash.errors import InvalidInput, InvalidParameter
from tests.support import LEARNERS, state_bytes

NAMES = ("OnlineHashing", "BlendedPairHashing")
N, D = 70, 10


def stream() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((2, N, D)) + 1).astype(np.float32)
    return A, B, rng.random(N) < 0.4


def fresh(name: str) -> Any:
    learner = LEARNERS[name](16, burn_in=24, random_state=0)  # the mean is frozen after a few of these pairs
    return learner.set_params(chunk_size=8) if hasattr(learner, "chunk_size") else learner


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


WAYS: list[tuple[Any, Any, Any]] = [
    (lambda x: x, bool, float),
    (lambda x: x, np.bool_, np.float64),
    (lambda x: x, lambda s: 1 if s else -1, np.float32),
    (lambda x: x, lambda s: np.int64(1 if s else -1), float),
    (lambda x: x, lambda s: 1.0 if s else -1.0, float),
    (lambda x: x.tolist(), int, float),
    (lambda x: x[None], bool, float),  # a matrix of one row
    (read_only, bool, float),
    (lambda x: np.repeat(x, 2)[::2], bool, float),
]


@pytest.mark.parametrize("name", NAMES)
def test_every_way_to_say_a_pair_is_the_same_pair(name: str) -> None:
    A, B, similar = stream()
    weights = np.where(np.arange(N) % 5, 1.0, 0.25)
    batch = fresh(name)
    updates = batch.learn_pairs(A, B, similar, weights)
    for vector, sign, number in WAYS:
        learner = fresh(name)
        learner.learn_pair(A[0], B[0], bool(similar[0]), float(weights[0]))  # whose dtype it is from now on
        for t in range(1, N):
            update = learner.learn_pair(vector(A[t]), vector(B[t]), sign(similar[t]), number(weights[t]))
            assert (update.loss, update.pending) == (updates[t].loss, 0)
            np.testing.assert_array_equal(update.step, updates[t].step)
            np.testing.assert_array_equal(update.bits, updates[t].bits)
        assert state_bytes(learner) == state_bytes(batch)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_wrong_changes_nothing(name: str) -> None:
    A, B, s = stream()
    learner = fresh(name).partial_fit_pairs(A, B, s)
    before = state_bytes(learner)
    for value, similar, weight in (
        (np.nan, True, 1.0),
        (-np.inf, True, 1.0),
        (3e38, True, 1.0),  # which has no square in float32
        (0.0, 2, 1.0),
        (0.0, "yes", 1.0),
        (0.0, np.uint8(255), 1.0),
        (0.0, np.timedelta64(1, "s"), 1.0),
        (0.0, True, np.timedelta64(1, "s")),
        (0.0, True, -1.0),
        (0.0, True, np.nan),
    ):
        for side in range(2):
            a, b = A[0].copy(), B[0].copy()
            (a, b)[side][3] = value
            with pytest.raises(InvalidInput):
                learner.learn_pair(a, b, similar, weight)
    with pytest.raises(InvalidInput, match="features"):
        learner.learn_pair(A[0, 1:], B[0, 1:], True)
    assert state_bytes(learner) == before


@pytest.mark.parametrize("name", NAMES)
def test_a_feature_map_that_is_ready_goes_the_short_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    A, B, s = stream()
    batch, loop = (fresh(name).set_params(features=RbfAnchors(8)) for _ in range(2))
    batch.partial_fit_pairs(A, B, s)
    loop.partial_fit_pairs(A[:20], B[:20], s[:20])
    monkeypatch.setattr(loop, "_take_pairs", None)
    for t in range(20, N):
        loop.learn_pair(A[t], B[t], bool(s[t]))
    assert state_bytes(loop) == state_bytes(batch)
    loop.features.n_anchors = 9
    with pytest.raises(InvalidParameter, match="features"):
        loop.learn_pair(A[0], B[0], True)
