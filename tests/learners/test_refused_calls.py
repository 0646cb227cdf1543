"""Calls that fail after they began: a feature map that gives up, a value far down a large batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from onlinehash import LSH, MultiModelOnlineHashing, OnlineHashing, RbfAnchors
from onlinehash.errors import FormatError, InvalidInput, InvalidParameter
from onlinehash.learners.base import Learner, Traits
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


def test_a_map_that_cannot_be_fitted_leaves_no_trace() -> None:
    learner = OnlineHashing(8, features=PCA(400), random_state=0)
    with pytest.raises(InvalidParameter, match="PCA"):
        learner.partial_fit_pairs(A[:200], B[:200], SIMILAR[:200])
    assert not hasattr(learner, "n_features_in_")


def test_a_map_with_sparse_output_works() -> None:
    points = RNG.integers(0, 3, (240, 4)).astype(float)
    learner = OnlineHashing(8, features=OneHotEncoder(handle_unknown="ignore"), random_state=0)
    learner.partial_fit_pairs(points[0::2], points[1::2], SIMILAR[:120]).flush()
    assert learner.n_pairs_seen_ == 120
    assert learner.transform(points).shape == (240, 8)


def test_a_fitted_map_stays_fitted() -> None:
    anchors = RbfAnchors(20).fit(A[:50])
    learner = OnlineHashing(8, features=anchors, random_state=0)
    assert learner.learn_pair(A[0], B[0], True).pending == 0
    given = OnlineHashing(8, features=RbfAnchors(anchors=A[:20]), random_state=0)
    given.learn_pair(A[0], B[0], True)
    np.testing.assert_allclose(learner.projection_, given.projection_, rtol=1e-5)
    with pytest.raises(InvalidInput, match="expecting 5 features"):
        OnlineHashing(8, features=anchors).learn_pair([1.0, 2], [2.0, 1], True)


def test_a_refused_call_leaves_the_generator_alone() -> None:
    rng = np.random.default_rng(0)
    learner = OnlineHashing(8, random_state=rng).partial_fit_pairs(A, B, SIMILAR)
    state = rng.bit_generator.state
    bad = A.copy()
    bad[1400] = np.inf
    with pytest.raises(InvalidInput):
        learner.partial_fit_pairs(bad, B, SIMILAR)
    assert rng.bit_generator.state == state


def test_a_parameter_changed_after_learning_is_refused_by_readers_too() -> None:
    learner = MultiModelOnlineHashing(8, n_models=2, random_state=0).partial_fit_pairs(A, B, SIMILAR)
    learner.set_params(fusion="sum")
    for read in (lambda: learner.projection_, lambda: learner.encode(A), lambda: learner.snapshot()):
        with pytest.raises(InvalidParameter, match="expected fusion to stay"):
            read()


def test_small_float32_values_still_teach() -> None:
    small = (A * 1e-25).astype(np.float32), (B * 1e-25).astype(np.float32)
    learner = OnlineHashing(8, random_state=0, centre="none").partial_fit_pairs(*small, SIMILAR)
    assert learner.n_steps_ > 0
    unit = RbfAnchors(3, width=1.0, normalize=True).fit(small[0])
    np.testing.assert_allclose(
        unit.transform(small[0]), RbfAnchors(3, width=1.0, normalize=True).fit(A).transform(A), rtol=1e-4
    )


def test_the_row_that_learns_pairs_kept_back_counts_as_changed() -> None:
    updates = OnlineHashing(8, features=RbfAnchors(10), centre="none", random_state=0).learn_pairs(
        A[:20], B[:20], SIMILAR[:20]
    )
    assert [bool(c) for c in updates.changed()] == [len(updates.bits(t)) > 0 for t in range(20)]


class Nearest(Learner):
    """The plainest method there could be, to see what the machinery hands to one."""

    traits = Traits(learns_from="pairs", unit="pair")

    def __init__(
        self,
        n_bits: int = 4,
        features: Any = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        random_state: Any = None,
    ) -> None:
        self.n_bits, self.features, self.centre = n_bits, features, centre
        self.burn_in, self.random_state = burn_in, random_state

    similar_share = None
    reservoir_size = 2

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self.seen: list[np.ndarray] = []

    def _learn(self, A: np.ndarray, B: np.ndarray, similar: Any, weights: Any, updates: Any) -> None:
        self.seen.extend([A.copy(), B.copy()])


def test_a_method_is_given_centred_features() -> None:
    learner = Nearest().partial_fit_pairs(A[:30], B[:30], SIMILAR[:30])
    points = np.stack([A[:30], B[:30]], axis=1).reshape(-1, 5)
    np.testing.assert_allclose(learner._centring.mean, points.mean(axis=0))
    first, second = np.concatenate(learner.seen[::2]), np.concatenate(learner.seen[1::2])
    for t in range(30):
        mean = points[: 2 * t + 2].mean(axis=0)
        np.testing.assert_allclose(first[t], A[t] - mean, atol=1e-12)
        np.testing.assert_allclose(second[t], B[t] - mean, atol=1e-12)


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


def test_a_features_object_that_was_changed_is_noticed() -> None:
    learner = OnlineHashing(8, features=RbfAnchors(20), random_state=0).partial_fit_pairs(A, B, SIMILAR)
    learner.set_params(features__normalize=True)
    with pytest.raises(InvalidParameter, match="expected features to stay"):
        learner.encode(A)


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


def test_turned_columns_of_b_are_refused() -> None:
    frame = pd.DataFrame(A[:10], columns=list("abcde"))
    learner = OnlineHashing(8, random_state=0).observe(frame)
    with pytest.raises(InvalidInput, match="the same columns"):
        learner.partial_fit_pairs(frame, frame.iloc[:, ::-1], SIMILAR[:10])


def test_errors_of_learn_pair_name_its_own_arguments() -> None:
    with pytest.raises(InvalidInput, match=r"^b contains NaN"):
        OnlineHashing(8).learn_pair([1.0], [np.nan], True)
