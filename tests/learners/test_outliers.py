"""Vectors far longer than the others: what they do to a model is reported, as no code tells it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from onlinehash import LSH, OnlineHashing, RbfAnchors
from tests.support import LEARNERS, go_on, make, precisions

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 16)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
LONG = X.copy()
LONG[3] *= 1e12

#: Methods whose functions do not rest on a mean of their points.
WITHOUT_A_MEAN = ("KernelLSH", "FastSupervisedHashing")


def taught(learner: Any, rows: np.ndarray) -> Any:
    if learner.traits.learns_from == "pairs" and learner.traits.unit != "batch":
        return learner.partial_fit_pairs(rows[:200], rows[200:], Y[:200] == Y[200:]).flush()
    return go_on(learner)(rows, Y)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in WITHOUT_A_MEAN])
def test_a_mean_that_an_outlier_has_moved_is_reported(name: str) -> None:
    learner = make(name, burn_in=2000)
    if not hasattr(learner, "centre") and not type(learner)._keeps_mean:
        pytest.skip("it has no mean")
    with np.errstate(all="ignore"), pytest.warns(UserWarning, match="times as long as a typical vector"):
        taught(learner, LONG.astype(precisions(name)[0]))


@pytest.mark.thorough
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_ordinary_vectors_are_not(name: str, offset: float) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="(?!the mean that)")
        taught(make(name, burn_in=2000), (X + np.float32(offset)).astype(precisions(name)[0]))


def test_it_is_said_once() -> None:
    learner = LSH(8, random_state=0)
    with pytest.warns(UserWarning, match="most vectors will get the same code"):
        learner.observe(LONG)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.observe(LONG[:50])


def test_anchors_are_not_moved_by_outliers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner = OnlineHashing(8, features=RbfAnchors(20, width=4.0), random_state=0)
        learner.partial_fit_pairs(X[:200], X[200:], Y[:200] == Y[200:])
        learner.partial_fit_pairs(LONG[:200], LONG[200:], Y[:200] == Y[200:])
    assert len(np.unique(learner.encode(LONG).rows(), axis=0)) > 50
