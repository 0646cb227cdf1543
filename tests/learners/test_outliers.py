"""Vectors far longer than the others are scaled down before anything is learned from them, counted and reported."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from onlinehash import LSH, LegoLSH, OnlineHashing, RbfAnchors
from onlinehash.errors import InvalidInput
from tests.support import LEARNERS, go_on, make, quietly, state_bytes

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 16))
Y = (X[:, 0] > 0).astype(int)


def with_outlier(at: int, factor: float = 1e12) -> np.ndarray:
    rows = X.copy()
    rows[at] *= factor
    return rows


def taught(learner: Any, rows: np.ndarray) -> Any:
    """Row after row, whether they come as pairs or as points."""
    with np.errstate(all="ignore"):
        if learner.traits.learns_from == "pairs" and learner.traits.unit != "batch":
            return learner.partial_fit_pairs(rows[::2], rows[1::2], Y[::2] == Y[1::2]).flush()
        return go_on(learner)(rows, Y).flush()


def n_codes(learner: Any) -> int:
    return len(np.unique(learner.encode(X).rows(), axis=0))


@pytest.mark.parametrize("name", LEARNERS)
def test_one_outlier_does_not_destroy_a_model_and_ordinary_vectors_are_not_reported(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="(?!.*(100 times as long|the mean that))")
        usual = taught(make(name, burn_in=2000), X)
        assert taught(make(name, burn_in=2000), X + 1e6).n_outliers_ == 0
    assert usual.n_outliers_ == 0
    learner = make(name, burn_in=2000)
    with pytest.warns(UserWarning, match=r"more than 100 times as long as a typical one \(whose length is [34]\."):
        taught(learner, with_outlier(300))
    assert learner.n_outliers_ == 1
    assert n_codes(learner) > 0.4 * n_codes(usual)


@pytest.mark.parametrize("at", [0, 9])
def test_a_batch_learns_what_a_loop_does(at: int) -> None:
    rows = with_outlier(at)
    for learner in (OnlineHashing(8, random_state=0), LegoLSH(8, random_state=0)):
        loop = type(learner)(**learner.get_params())
        updates = quietly(learner.learn_pairs, rows[:50:2], rows[1:50:2], Y[:50:2] == Y[1:50:2])
        before = None
        for t in range(25):
            update = quietly(loop.learn_pair, rows[2 * t], rows[2 * t + 1], bool(Y[2 * t] == Y[2 * t + 1]))
            now = loop.snapshot()
            assert set(update.bits.tolist()) == set(updates[t].bits.tolist())
            if before is not None:
                assert set(now.changed_bits(before)) <= set(update.bits.tolist())
            before = now
        assert state_bytes(learner) == state_bytes(loop)
        points, one_by_one = LSH(8, random_state=0), LSH(8, random_state=0)
        quietly(points.observe, rows)
        for row in rows:
            quietly(one_by_one.observe, row[None])
        assert state_bytes(points) == state_bytes(one_by_one)


@pytest.mark.parametrize(
    ("name", "dtype", "width"), [("OnlineHashing", np.float32, 7), ("MultiModelOnlineHashing", np.float64, 16)]
)
def test_a_kernel_that_looks_for_outliers_itself_scales_down_the_same(name: str, dtype: Any, width: int) -> None:
    """It does so unless a step comes from outside, or a metric learns along: then they are scaled down before."""
    rng = np.random.default_rng(width)
    A, B = rng.standard_normal((2, 1200, width)).astype(dtype)
    rows, similar = rng.choice(1200, 40, replace=False), rng.random(1200) < 0.4
    A[rows[:25]] *= 1e5
    B[rows[15:]] *= 1e9  # in ten pairs, both
    A[[600, 601, 1199]] *= 1e7
    itself, before, beside = (make(name, random_state=0) for _ in range(3))
    quietly(itself.partial_fit_pairs, A, B, similar)
    quietly(list, before.learn_pairs_by(lambda learn, *pairs: learn(*pairs), A, B, similar))
    quietly(beside.keep_metric().partial_fit_pairs, A, B, similar)
    assert itself.n_outliers_ >= 40
    assert state_bytes(itself) == state_bytes(before)
    assert np.array_equal(itself.projection_, beside.projection_)
    kept = state_bytes(itself)
    A[1100, 0] = np.nan
    with pytest.raises(InvalidInput, match="row 1100"):
        itself.partial_fit_pairs(A, B, similar)
    assert state_bytes(itself) == kept


@pytest.mark.parametrize(("features", "at"), [(RbfAnchors(20), 0), (RbfAnchors(20), 350), (StandardScaler(), 5)])
def test_nor_is_a_feature_map_moved(features: Any, at: int) -> None:
    learner = OnlineHashing(8, features=features, random_state=0)
    with pytest.warns(UserWarning, match="has scaled it down"):
        taught(learner, with_outlier(at))
    assert n_codes(learner) > 50


def test_it_is_said_once_and_all_are_counted() -> None:
    learner, rows = LSH(8, random_state=0), X.copy()
    rows[[20, 30, 31]] *= 1e6
    with pytest.warns(UserWarning, match="has scaled it down"):
        learner.observe(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.observe(rows)
    assert learner.n_outliers_ == 6


def test_a_scale_that_changes_for_good_is_followed() -> None:
    """Vectors of another unit are outliers at first; the median follows them."""
    learner = LSH(8, centre="running", random_state=0).observe(X)
    for _ in range(5):
        quietly(learner.observe, 1000 * X)
    n = learner.n_outliers_
    quietly(learner.observe, 1000 * X)
    assert n < 400
    assert learner.n_outliers_ == n
