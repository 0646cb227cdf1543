"""The learned metric: against a slow reference, under the contracts of a stream, and in what it promises."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import OnlineHashing, RbfAnchors
from onlinehash.errors import FormatError
from onlinehash.io import files
from onlinehash.learners import pair_metric
from onlinehash.learners.pair_metric import PairMetric

D = 6


@pytest.fixture
def small(monkeypatch):
    """Constants at which little happens soon."""
    values = {"KEPT": 40, "RANK": 3, "N_POINTS": 30, "BATCH": 16, "MOST_CHUNK": 12, "ANSWERS": 25, "LEAST_POINTS": 8}
    for name, value in values.items():
        monkeypatch.setattr(pair_metric, name, value)


def stream(n: int, seed: int = 0, d: int = D) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((2, n, d)).astype(np.float32)
    similar = np.where(A[:, 0] * B[:, 0] > 0, 1, -1).astype(np.int8)
    return A, B, similar, rng.choice([0.0, 0.5, 1.0, 2.0], n)


@pytest.mark.filterwarnings("ignore:the mean")  # of one call with a single tiny vector
@pytest.mark.parametrize(("size", "features"), [(1, None), (16, RbfAnchors(40))])
def test_any_split_of_a_stream_gives_the_same_bytes(small, size, features):
    A, B, similar, weight = stream(200)
    A[7], B[33], A[50], B[51] = 0, 0, 1e-30 * A[50], 50 * B[51]
    whole = OnlineHashing(8, features=features, random_state=0).keep_metric()
    whole.partial_fit_pairs(A, B, similar, weight)
    assert whole.n_pairs_seen_ == 200
    assert whole.pair_metric_.n_pairs == (weight > 0).sum() < 200
    parts = OnlineHashing(8, features=features, random_state=0).keep_metric()
    for start in range(0, 200, size):
        some = slice(start, start + size)
        parts.partial_fit_pairs(A[some], B[some], similar[some], weight[some])
    assert files.to_bytes(parts) == files.to_bytes(whole)


@pytest.mark.parametrize("n", [0, 3, 90])
def test_it_is_saved_and_goes_on(small, n):
    A, B, similar, weight = stream(260)
    learner = OnlineHashing(8, random_state=0).keep_metric().observe(A[:10])
    if n:
        learner.partial_fit_pairs(A[:n], B[:n], similar[:n], weight[:n])
    again = files.from_bytes(files.to_bytes(learner), "here")
    for one in (learner, again):
        one.partial_fit_pairs(A[n:], B[n:], similar[n:], weight[n:])
    assert files.to_bytes(again) == files.to_bytes(learner)
    assert again.pair_metric_.share == learner.pair_metric_.share


def test_a_mark_moves_the_result_at_once():
    """And leaves the results of other queries where they were."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 20)).astype(np.float32)
    query, other = rng.standard_normal((2, 20)).astype(np.float32)
    metric = PairMetric(20, seed=0)

    def order(q: np.ndarray) -> list[int]:
        ranking = metric.ranking(q, 300)
        ranking.add(rows)
        return ranking.order(300)[0].tolist()

    before, others = order(query), order(other)
    good, bad = before[8], before[0]
    one = np.ones(1)
    metric.learn(query[None], rows[good][None], np.array([1], np.int8), one)
    assert order(query)[0] == good
    metric.learn(rows[bad][None], query[None], np.array([-1], np.int8), one)  # the other way round counts as well
    assert order(query)[0] == good
    assert order(query)[-1] == bad
    assert order(other) == others


def test_a_second_thought_counts():
    rng = np.random.default_rng(0)
    rows, query = rng.standard_normal((300, 20)).astype(np.float32), rng.standard_normal(20).astype(np.float32)
    metric = PairMetric(20, seed=0)

    def rank(item: int) -> int:
        ranking = metric.ranking(query, 300)
        ranking.add(rows)
        return ranking.order(300)[0].tolist().index(item)

    def mark(item: int, similar: int, weight: float = 1.0) -> None:
        metric.learn(query[None], rows[item][None], np.array([similar], np.int8), np.array([weight]))

    for similar in (1, 1, -1):
        mark(4, similar)
    assert rank(4) == 299
    mark(4, 1)
    assert rank(4) == 0
    before = rank(9)
    mark(9, 1, 0.0)
    mark(9, 1, 1e-9)
    assert rank(9) == before
    mark(9, 1)
    mark(9, -1, 0.25)  # passed over once: it was clicked all the same
    assert rank(9) == 1  # but 4 is more certain
    for _ in range(3):
        mark(9, -1, 0.25)
    assert rank(9) == 299


def test_a_state_that_cannot_be_is_refused(small):
    A, B, similar, weight = stream(100)
    learner = OnlineHashing(8, random_state=0).keep_metric().partial_fit_pairs(A, B, similar, weight)
    before = files.to_bytes(learner)
    for change in ({"counters": [5, 9, 0]}, {"basis": np.zeros((D, 2), np.float32)}, {"answers": 3}, {"pairs": None}):
        state = learner.get_state()
        state["metric"] |= change
        with pytest.raises(FormatError):
            learner.set_state(state)
    assert files.to_bytes(learner) == before
