"""Calls that fail after they began: a feature map that gives up, a value far down a large batch."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from onlinehash import LSH, MultiModelOnlineHashing, OnlineHashing, RbfAnchors
from onlinehash.errors import FormatError, InvalidInput, InvalidParameter
from tests.support import state_bytes

RNG = np.random.default_rng(0)
A, B, SIMILAR = RNG.standard_normal((1500, 5)), RNG.standard_normal((1500, 5)), RNG.random(1500) < 0.3


@pytest.mark.parametrize(("seen", "row"), [(0, 1400), (100, 3), (100, 1400)])
def test_a_value_far_down_a_large_batch_takes_everything_back(seen: int, row: int) -> None:
    learner = OnlineHashing(8, random_state=0)
    if seen:
        learner.partial_fit_pairs(A[:seen], B[:seen], SIMILAR[:seen])
    before = state_bytes(learner)
    bad = B.copy()
    bad[row, 2] = np.nan
    with pytest.raises(InvalidInput, match=f"B contains NaN in row {row};"):
        learner.partial_fit_pairs(A, bad, SIMILAR)
    assert state_bytes(learner) == before


def test_a_map_that_yields_infinity_takes_everything_back() -> None:
    with np.errstate(divide="ignore"):
        learner = OnlineHashing(8, features=FunctionTransformer(np.log), random_state=0)
        learner.partial_fit_pairs(np.abs(A[:50]), np.abs(B[:50]), SIMILAR[:50])
        before = learner.projection_, learner.mean_, learner.version_, learner.n_points_seen_
        bad = np.abs(A[:100])
        bad[60] = 0
        with pytest.raises(InvalidInput, match="what FunctionTransformer makes of the data"):
            learner.partial_fit_pairs(bad, np.abs(B[:100]), SIMILAR[:100])
        with pytest.raises(InvalidInput):
            learner.observe(bad)
    after = learner.projection_, learner.mean_, learner.version_, learner.n_points_seen_
    assert all(np.array_equal(*pair) for pair in zip(before, after, strict=True))


def test_a_map_with_sparse_output_works() -> None:
    points = RNG.integers(0, 3, (240, 4)).astype(float)
    learner = OnlineHashing(8, features=OneHotEncoder(handle_unknown="ignore"), random_state=0)
    learner.partial_fit_pairs(points[0::2], points[1::2], SIMILAR[:120]).flush()
    assert learner.n_pairs_seen_ == 120
    assert learner.transform(points).shape == (240, 8)


def test_small_float32_values_still_teach() -> None:
    small = (A * 1e-25).astype(np.float32), (B * 1e-25).astype(np.float32)
    learner = OnlineHashing(8, random_state=0, centre="none").partial_fit_pairs(*small, SIMILAR)
    assert learner.n_steps_ > 0
    unit = RbfAnchors(3, width=1.0, normalize=True).fit(small[0])
    np.testing.assert_allclose(
        unit.transform(small[0]), RbfAnchors(3, width=1.0, normalize=True).fit(A).transform(A), rtol=1e-4
    )


def test_a_refusal_of_changed_parameters_leaves_the_learner_as_it_was() -> None:
    learner = OnlineHashing(8, random_state=0).partial_fit_pairs(A, B, SIMILAR)
    codes = learner.encode(A)
    for name, value in (("n_bits", 4), ("C", 0.9), ("features", PCA(2).fit(A))):
        kept = getattr(learner, name)
        learner.set_params(**{name: value})
        for _ in range(2):
            with pytest.raises(InvalidParameter, match=f"expected {name} to stay"):
                learner.partial_fit_pairs(A, B, SIMILAR)
            with pytest.raises(InvalidParameter, match=f"expected {name} to stay"):
                learner.learn_pair(A[0], B[0], True)
        learner.set_params(**{name: kept})
    assert learner.encode(A) == codes


def test_flush_is_undone_when_refused() -> None:
    learner = OnlineHashing(8, features=RbfAnchors(20), init=RNG.standard_normal((20, 8)))
    learner.learn_pair(A[0], B[0], True)
    before = state_bytes(learner)
    with pytest.raises(InvalidParameter, match="init"):
        learner.flush()
    assert state_bytes(learner) == before
    learner.observe(A[:30])
    assert learner.n_pairs_seen_ == 1


def test_no_pair_is_lost_when_warnings_are_errors() -> None:
    learner = OnlineHashing(8, features=RbfAnchors(20, width=1e-3), random_state=0)
    learner.partial_fit_pairs(A[:9], B[:9], SIMILAR[:9])
    before = state_bytes(learner)
    with pytest.raises(UserWarning, match="degenerate"):
        learner.learn_pair(A[9], B[9], True)
    assert state_bytes(learner) == before


def test_the_state_of_another_learner_is_refused() -> None:
    learner = OnlineHashing(16, random_state=1).partial_fit_pairs(A, B, SIMILAR)
    before = state_bytes(learner)
    for other in (
        OnlineHashing(8, random_state=0),
        LSH(16, random_state=0),
        MultiModelOnlineHashing(4, n_models=4, random_state=0),
        OnlineHashing(16, features=RbfAnchors(5), random_state=0),
        OnlineHashing(16, features=RbfAnchors(9000), random_state=0),
        OnlineHashing(16, centre="none", random_state=0),
    ):
        with pytest.raises(FormatError):
            learner.set_state(other.partial_fit_pairs(A, B, SIMILAR).get_state())
    with pytest.raises(FormatError):
        learner.set_state({"a": 1})
    assert state_bytes(learner) == before
