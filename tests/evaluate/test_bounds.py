"""The law of the loss: the ledger against the reference, Lemma 1 as an identity, where the theorems hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from onlinehash import MultiModelOnlineHashing, OnlineHashing, RbfAnchors
from onlinehash.errors import InvalidInput
from onlinehash.evaluate import bounds
from onlinehash.evaluate.bounds import Ledger, Trail
from tests.reference.online_hashing import ReferenceOnlineHashing, change, square

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


def stream(n: int, d: int, seed: int = 0, similar_share: float = 0.4) -> Pairs:
    """Random pairs, some of them with a zero vector or twice the same point."""
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((2, n, d))
    similar = rng.random(n) < similar_share
    B[similar] = A[similar] + 0.5 * B[similar]
    A[rng.random(n) < 0.03] = 0.0
    B[rng.random(n) < 0.03] = 0.0
    twice = rng.random(n) < 0.03
    B[twice] = A[twice]
    return A, B, similar


def learner(n_bits: int, n_models: int = 1, **parameters: Any) -> OnlineHashing:
    parameters = {"random_state": 0, **parameters}
    if n_models == 1:
        return OnlineHashing(n_bits, **parameters)
    return MultiModelOnlineHashing(n_bits, n_models=n_models, **parameters)


@st.composite
def followed(draw: st.DrawFn) -> tuple[OnlineHashing, Ledger, np.random.Generator]:
    """A learner of random shape and parameters that has learned a random stream."""
    n_bits, d, n = draw(st.integers(1, 12)), draw(st.integers(1, 8)), draw(st.integers(1, 60))
    oh = learner(
        n_bits,
        draw(st.sampled_from([1, 1, 3])),
        C=draw(st.sampled_from([1e-4, 1e-2, 0.1, 1.0, 50.0])),
        dissimilar_ratio=draw(st.sampled_from([0.4, 0.55, 1.0])),
        similar_radius=0,
        centre=draw(st.sampled_from(["none", "running", "burn-in"])),
        burn_in=20,
        random_state=draw(st.integers(0, 999)),
    )
    seed = draw(st.integers(0, 9999))
    return oh, bounds.follow(oh, *stream(n, d, seed)), np.random.default_rng(seed)


# ---------------------------------------------------------------------- the ledger


@pytest.mark.parametrize(("n_models", "parameters"), [(1, {"C": 0.005}), (3, {"similar_radius": 2, "C": 1.0})], ids=str)
def test_the_ledger_tells_what_the_reference_did(n_models: int, parameters: dict[str, Any]) -> None:
    W1 = np.random.default_rng(1).standard_normal((n_models, 10, 16))
    A, B, similar = stream(300, 10)
    oh = learner(16, n_models, centre="none", init=W1 if n_models > 1 else W1[0], **parameters)
    ledger = bounds.follow(oh, A, B, similar)
    reference = ReferenceOnlineHashing(W1, **parameters)
    records = [reference.step(a, b, 1 if s else -1) for a, b, s in zip(A, B, similar, strict=True)]
    assert ledger.n_pairs == 300
    assert ledger.cumulative_loss == pytest.approx(sum(record.loss for record in records))
    for m, trail in enumerate(ledger.models):
        at = [t for t, record in enumerate(records) if record.learns[m]]
        assert len(at) > 20
        assert any(records[t].tau[m] == 0 for t in at)  # some were skipped
        np.testing.assert_array_equal(trail.W1, W1[m])
        np.testing.assert_allclose(trail.W, reference.W[m], atol=1e-9)
        np.testing.assert_array_equal(trail.R, [records[t].R[m] for t in at])
        np.testing.assert_allclose(trail.step, [records[t].tau[m] for t in at], atol=1e-9)
        np.testing.assert_array_equal(trail.points, np.stack([A[at], B[at]], axis=1))
        learned = [t for t, tau in zip(at, trail.step, strict=True) if tau > 0]
        np.testing.assert_array_equal(
            trail.changes[trail.step > 0], [records[t].g[m] - records[t].h[m] for t in learned]
        )
        assert not trail.changes[trail.step == 0].any()
        whole = [change(x, c) for x, c in zip(trail.points, trail.changes, strict=True)]
        np.testing.assert_allclose(trail.norms(), [square(M) for M in whole])
        np.testing.assert_allclose(trail.pull(trail.W1), [(M * trail.W1).sum() for M in whole], atol=1e-9)
        a = np.arange(len(trail), dtype=float)
        np.testing.assert_allclose(trail.combine(a), np.tensordot(a, whole, 1), atol=1e-9)


@pytest.mark.parametrize(
    ("centre", "features"), [("burn-in", None), ("running", RbfAnchors(20, width=3.0))], ids=["plain", "rbf"]
)
def test_following_learns_exactly_what_learning_does(centre: str, features: Any) -> None:
    A, B, similar = stream(300, 6)
    plain, watched = (learner(8, 2, centre=centre, burn_in=100, features=features) for _ in range(2))
    plain.partial_fit_pairs(A, B, similar)
    ledger = bounds.follow(watched, A, B, similar)
    np.testing.assert_array_equal(plain.projection_, watched.projection_)
    np.testing.assert_array_equal(plain.mean_, watched.mean_)
    assert plain.version_ == watched.version_
    assert ledger.n_pairs == plain.n_pairs_seen_ == 300  # those that waited for anchors too
    assert ledger.cumulative_loss == pytest.approx(plain.cumulative_loss_)
    assert ledger.capped_share == pytest.approx(plain.n_capped_ / plain.n_steps_)
    assert "_learn" not in vars(watched)
    first = [trail.W1 for trail in ledger.models]
    fresh = learner(8, 2, centre=centre, features=features).observe(A)
    np.testing.assert_array_equal(first, fresh.projection_)


# ---------------------------------------------------------------------- Lemma 1


@given(followed(), st.sampled_from([0.0, 1.0, 30.0]))
def test_the_slack_of_lemma_1_is_the_distance_from_W_to_U(case: Any, size: float) -> None:
    oh, ledger, rng = case
    W = oh.projection_.reshape(len(ledger.models), oh.n_features_in_, oh.n_bits)
    U = size * rng.standard_normal(W.shape)
    report = bounds.report(ledger, U)
    distance = ((W - U) ** 2).sum(axis=(1, 2))
    scale = np.maximum(report.lemma_right, np.abs(report.lemma_left))
    assert (np.abs(report.slack - distance) <= 1e-8 * scale).all()
    np.testing.assert_allclose(report.distance, distance, rtol=1e-12)
    assert (report.lemma_left <= report.lemma_right + 1e-8 * scale).all()


# ---------------------------------------------------------------------- Theorems 2 and 3


@given(followed(), st.sampled_from([0.0, 1.0, 30.0]))
def test_the_theorems_where_they_hold(case: Any, size: float) -> None:
    """With C large enough: for every U with the steps' own sum, and with max(0, ℓ_U)."""
    _, ledger, rng = case
    U = ledger.models[0].W1 + size * rng.standard_normal(ledger.models[0].W1.shape)
    report = bounds.report(ledger, U)
    if report.is_C_enough:
        assert report.cumulative_loss <= report.stepwise * (1 + 1e-9) + 1e-9
        assert report.cumulative_loss <= report.safe * (1 + 1e-9) + 1e-9
    else:  # a larger F² satisfies the condition instead: F² is only asked to be above |M|²
        largest = max(trail.R.max(initial=0) for trail in ledger.models)
        F2 = math.sqrt(largest) / report.C
        assert report.F2 < F2
        right = F2 * (report.lemma_right + 2 * report.C * report.hinge_loss).sum()
        assert report.cumulative_loss <= right * (1 + 1e-9) + 1e-9
    assert report.stepwise <= report.safe * (1 + 1e-9)
    if report.negative_share == 0 and len(ledger.models) == 1:
        assert report.printed == pytest.approx(report.safe)


def test_the_quantities_by_hand() -> None:
    """One bit, one feature: (2, 2) called dissimilar with W1 = 1, and then (1, 1)."""
    oh = OnlineHashing(1, centre="none", init=[[1.0]], C=1.0)
    X = np.array([[2.0], [1.0]])
    ledger = bounds.follow(oh, X, X, [False, False])
    root = math.sqrt(0.4)
    first = (4 + root) / 16  # ℓ = 2 |1 * 2| + √R, M = 2 * -2
    middle = 1 - 4 * first
    second = (-2 * middle + root) / 4
    np.testing.assert_allclose(ledger.models[0].step, [first, second])
    np.testing.assert_allclose(oh.projection_, middle + 2 * second)
    assert ledger.F2 == 16
    assert ledger.smallest_C == pytest.approx(root / 16)
    report = bounds.report(ledger, [[-3.0]])
    losses = np.array([-4 * 3 + root, 2 * 3 + root])
    assert report.prediction_loss == pytest.approx(losses.sum())
    assert report.hinge_loss == pytest.approx(losses[1])
    assert report.negative_share == 0.5
    assert report.lemma_right == pytest.approx(16)
    assert report.stepwise == pytest.approx(16 * (16 + 2 * (first * losses[0] + second * losses[1])))
    assert report.safe == pytest.approx(16 * (16 + 2 * losses[1]))
    assert report.printed == pytest.approx(16 * (16 + 2 * losses.sum()))


# ---------------------------------------------------------------------- the best U in hindsight


def primal(trail: Trail, C: float, U: np.ndarray) -> float:
    return float(((U - trail.W1) ** 2).sum() + 2 * C * np.maximum(trail.prediction_losses(U), 0).sum())


@pytest.mark.parametrize(("C", "seed"), [(0.02, 0), (0.3, 1)])
def test_the_best_U_against_another_solver(C: float, seed: int) -> None:
    """The primal itself, with a slack variable for each pair, by sequential quadratic programming."""
    ledger = bounds.follow(learner(4, C=C), *stream(25, 3, seed))
    (trail,) = ledger.models
    Ms = np.array([change(x, c).ravel() for x, c in zip(trail.points, trail.changes, strict=True)])
    start, roots = trail.W1.ravel(), np.sqrt(trail.R)
    d, n = start.size, len(trail)
    assert n > 5
    solved = minimize(
        lambda v: ((v[:d] - start) ** 2).sum() + 2 * C * v[d:].sum(),
        np.concatenate([start, np.maximum(roots - Ms @ start, 0)]),
        jac=lambda v: np.concatenate([2 * (v[:d] - start), np.full(n, 2 * C)]),
        bounds=[(None, None)] * d + [(0, None)] * n,
        constraints={
            "type": "ineq",
            "fun": lambda v: v[d:] - (roots - Ms @ v[:d]),
            "jac": lambda v: np.hstack([Ms, np.eye(n)]),
        },
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert solved.success
    best = bounds.best_in_hindsight(ledger)
    assert best.value == pytest.approx(solved.fun, rel=1e-5)
    np.testing.assert_allclose(best.U[0].ravel(), solved.x[:d], atol=1e-3)
    assert best.value == pytest.approx(primal(trail, C, best.U[0]))


@given(followed())
def test_nothing_is_better_than_the_best_U(case: Any) -> None:
    _, ledger, rng = case
    best = bounds.best_in_hindsight(ledger)
    assert best.dual <= best.value * (1 + 1e-9) + 1e-12
    assert best.gap < 1e-4
    others = [trail.W1 for trail in ledger.models], [trail.W for trail in ledger.models]
    near = best.U + 0.01 * rng.standard_normal(best.U.shape)
    for U in (*others, near):
        value = sum(primal(trail, ledger.C, U_m) for trail, U_m in zip(ledger.models, U, strict=True))
        assert best.dual <= value * (1 + 1e-9) + 1e-12


# ---------------------------------------------------------------------- the paper's scaled U


def test_a_refused_stream_leaves_the_learner_as_it_was() -> None:
    A, B, similar = stream(20, 6)
    oh = learner(8).partial_fit_pairs(A, B, similar)
    before = oh.projection_
    B[3] = np.nan
    with pytest.raises(InvalidInput):
        bounds.follow(oh, A, B, similar)
    np.testing.assert_array_equal(oh.projection_, before)
    assert "_learn" not in vars(oh)
