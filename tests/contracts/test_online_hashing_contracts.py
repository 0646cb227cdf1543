"""What the paper promises of every step of OH and MMOH, checked from outside, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash import MultiModelOnlineHashing, OnlineHashing, RbfAnchors
from tests.strategies import streams
from tests.support import Pairs, as_bytes, feed, make, pairs, refused_without_a_trace, state_bytes

BOTH = ("OnlineHashing", "MultiModelOnlineHashing")


@dataclass
class Step:
    """One pair: the models before and after, and what the update says; arrays have a row per model."""

    before: np.ndarray  # (T, d, r)
    after: np.ndarray
    x: np.ndarray  # (2, d), centred
    similar: bool
    loss: float
    tau: np.ndarray
    capped: np.ndarray
    halves: np.ndarray  # (T, 2, r): (g - h) / 2, one row per side
    alpha: int
    b: float

    @property
    def projections(self) -> np.ndarray:
        return np.einsum("tdr,sd->tsr", self.before, self.x)

    @property
    def h(self) -> np.ndarray:
        return np.where(self.projections >= 0, 1, -1)

    @property
    def g(self) -> np.ndarray:
        return self.h + 2 * self.halves

    def R(self, codes: np.ndarray) -> np.ndarray:
        """Similarity loss of each model's two codes."""
        D = (codes[:, 0] != codes[:, 1]).sum(axis=1)
        return np.maximum(0, D - self.alpha if self.similar else self.b - D)

    def learns(self) -> np.ndarray:
        """Which models the rule of MMOH chooses."""
        R = self.R(self.h)
        return (R > 0) & (np.arange(len(R)) == np.argmin(R)) if self.similar else R > 0

    def prediction_loss(self, W: np.ndarray) -> np.ndarray:
        """l of each model for any matrices W: how much they prefer h to g, plus the square root of R."""
        preference = np.einsum("tsr,tdr,sd->t", self.h - self.g, W, self.x)
        return np.where(self.learns(), preference + np.sqrt(self.R(self.h)), 0)

    @property
    def norm(self) -> np.ndarray:
        """|x (g - h)^T|^2 of each model."""
        return 4 * (np.einsum("tsr,sd->tdr", self.halves, self.x) ** 2).sum(axis=(1, 2))


def walk(learner: Any, stream: Pairs) -> Iterator[Step]:
    """Learn a stream pair by pair. The models are numerically benign: no projection lies on its boundary."""
    learner.observe(stream.A[:1])
    for a, b, similar, weight in zip(stream.A, stream.B, stream.similar, stream.weight, strict=True):
        before = as_models(learner)
        row = learner.learn_pairs(a[None], b[None], [similar], [weight])
        flips = row.flips.reshape(len(before), -1).astype(int)
        side_b = np.where(abs(flips) < 2, 0, np.sign(flips))
        yield Step(
            before,
            as_models(learner),
            np.stack([a, b]) - learner.mean_,
            bool(similar),
            float(row.loss[0]),
            row.step[0],
            row.capped[0],
            np.stack([flips - 3 * side_b, side_b], axis=1),
            learner.similar_radius,
            learner.dissimilar_ratio * learner.n_bits,
        )


def as_models(learner: Any) -> np.ndarray:
    return learner.projection_.reshape(-1, learner.n_features_in_, learner.n_bits)


@st.composite
def walks(draw: Any, name: str) -> list[Step]:
    """Steps of a learner with drawn parameters over a drawn stream."""
    params = {
        "n_bits": draw(st.integers(1, 20)),
        "dissimilar_ratio": draw(st.sampled_from([0.25, 0.4, 0.5, 1.0])),
        "C": draw(st.sampled_from([0.001, 0.1, 10.0])),
        "centre": draw(st.sampled_from(["none", "burn-in"])),
        "init": draw(st.sampled_from(["gaussian", "unit"])),
        "random_state": draw(st.integers(0, 1000)),
    }
    params["similar_radius"] = draw(st.integers(0, math.ceil(params["dissimilar_ratio"] * params["n_bits"]) - 1))
    d, n = draw(st.integers(2, 20)), draw(st.integers(1, 30))
    return list(walk(make(name, **params), pairs(n, d, seed=draw(st.integers(0, 1000)))))


@pytest.mark.parametrize("name", BOTH)
@given(data=st.data())
def test_every_step_is_what_the_paper_says(name: str, data: Any) -> None:
    C = None
    for step in data.draw(walks(name)):
        chosen = step.learns()
        R = step.R(step.h)
        assert step.loss == pytest.approx(R[chosen].sum(), abs=1e-12)
        # R(g) = 0: the inferred codes are right, and no more bits differ from h than had to.
        assert (step.R(step.g)[chosen] <= 1e-9).all()
        p0 = np.where(step.similar, R, np.ceil(R - 1e-9)).astype(int)
        assert np.array_equal(np.abs(step.halves).sum(axis=(1, 2)), np.where(chosen, p0, 0))
        assert (np.abs(step.halves).sum(axis=1) <= 1).all(), "a bit flips on one side only"
        # Exactly those columns change; the others stay, to the byte.
        changed = (step.before != step.after).any(axis=1)
        assert np.array_equal(changed, step.halves.any(axis=1))
        # They are the bits of least margin among the wrong ones, flipped where that costs least.
        margins = np.abs(step.projections)
        wrong = (step.h[:, 0] != step.h[:, 1]) == step.similar
        for m in np.flatnonzero(chosen):
            delta = margins[m].min(axis=0)
            flipped = step.halves[m].any(axis=0)
            assert wrong[m][flipped].all()
            assert delta[flipped].max() <= delta[wrong[m] & ~flipped].min(initial=np.inf)
            for k in np.flatnonzero(flipped):
                assert step.halves[m, np.argmin(margins[m, :, k]), k] != 0
        # 0 < step, and a cap is one number for all.
        assert np.array_equal(step.tau > 0, chosen)
        for tau in step.tau[step.capped]:
            C = tau if C is None else C
            assert tau == C
        # The step is the smallest that prefers g by the square root of R: with no cap nothing of the loss is left.
        expected = np.divide(step.prediction_loss(step.before), step.norm, where=chosen, out=np.zeros(len(chosen)))
        np.testing.assert_allclose(step.tau[~step.capped], expected[~step.capped], rtol=1e-9)
        assert (step.tau[step.capped] < expected[step.capped]).all()
        scale = 1 + np.abs(step.projections).max() + step.norm.max()
        assert np.abs(step.prediction_loss(step.after)[~step.capped]).max(initial=0) < 1e-9 * scale


@pytest.mark.parametrize("name", BOTH)
def test_no_step_is_longer_than_C(name: str) -> None:
    stream = pairs(n=200, d=10)
    for C in (0.003, 0.1, 5.0):
        learner = make(name, C=C)
        updates = learner.learn_pairs(stream.A, stream.B, stream.similar)
        assert updates.step.max() <= C
        assert (updates.step[updates.capped] == C).all()
        assert np.count_nonzero(updates.step) > 50
        assert learner.n_capped_ == updates.capped.sum()


@pytest.mark.parametrize("name", BOTH)
def test_weights_scale_C(name: str) -> None:
    stream = pairs(n=100)
    weighted = make(name, C=0.05).partial_fit_pairs(stream.A, stream.B, stream.similar, np.full(100, 2.0))
    plain = make(name, C=0.1).partial_fit_pairs(stream.A, stream.B, stream.similar)
    assert state_bytes(weighted) == state_bytes(plain)


@pytest.mark.parametrize("name", BOTH)
@given(data=st.data())
def test_the_slack_of_lemma_1(name: str, data: Any) -> None:
    """|W1 - U|^2 minus the sum of 2 tau (l(W) - l(U)) - tau^2 F^2 is |W(T+1) - U|^2, for any U."""
    steps = data.draw(walks(name))
    rng = np.random.default_rng(data.draw(st.integers(0, 100)))
    U = rng.standard_normal(steps[0].before.shape) * data.draw(st.sampled_from([0.1, 1.0, 10.0]))
    distance = ((steps[0].before - U) ** 2).sum()
    for step in steps:
        gain = 2 * step.tau * (step.prediction_loss(step.before) - step.prediction_loss(U))
        distance -= (gain - step.tau**2 * step.norm).sum()
    assert distance == pytest.approx(((steps[-1].after - U) ** 2).sum(), rel=1e-8)


@pytest.mark.parametrize("name", BOTH)
def test_a_pair_without_loss_changes_nothing(name: str) -> None:
    """Not a byte: the same point twice is a perfect similar pair."""
    stream = pairs()
    learner = feed(make(name, centre="none"), [stream])
    before, version = learner.projection_.tobytes(), learner.version_
    for x in stream.A:
        update = learner.learn_pair(x, x, True)
        assert update.loss == 0
        assert not np.any(update.step)
        assert len(update.bits) == 0
    assert learner.projection_.tobytes() == before
    assert learner.version_ == version
    assert learner.n_pairs_seen_ == 2 * len(stream)


def test_a_similar_pair_moves_the_model_of_least_loss_a_dissimilar_one_every_model_with_loss() -> None:
    stream = pairs(n=300)
    moved_by_similar, moved_by_dissimilar = set(), set()
    for step in walk(make("MultiModelOnlineHashing", n_models=4), stream):
        moved = (step.before != step.after).any(axis=(1, 2))
        R = step.R(step.h)
        if step.similar:
            first = int(np.argmin(R))  # ties go to the first
            assert list(np.flatnonzero(moved)) == ([first] if R[first] > 0 else [])
            moved_by_similar.update(np.flatnonzero(moved))
        else:
            assert np.array_equal(moved, R > 0)
            moved_by_dissimilar.add(int(moved.sum()))
    assert moved_by_similar == {0, 1, 2, 3}, "the stream is rich enough to tell"
    assert len(moved_by_dissimilar) > 2


@given(data=st.data())
def test_one_model_is_online_hashing_byte_for_byte(data: Any) -> None:
    stream = data.draw(streams())
    centre = data.draw(st.sampled_from(["burn-in", "running", "median", "none"]))
    one = feed(make("MultiModelOnlineHashing", n_models=1, centre=centre), stream)
    plain = feed(make("OnlineHashing", centre=centre), stream)
    assert as_bytes({**one.get_state(), "class": "OnlineHashing"}) == state_bytes(plain)
    assert one.projection_.shape == (1, *plain.projection_.shape)
    rows = pairs(d=one.n_features_in_).A
    assert one.encode(rows) == plain.encode(rows)


def test_models_start_apart() -> None:
    models = MultiModelOnlineHashing(8, random_state=0).observe(pairs().A).projection_
    assert models.shape == (4, 5, 8)
    assert len({model.tobytes() for model in models}) == 4
    first = OnlineHashing(8, random_state=0).observe(pairs().A).projection_
    assert np.array_equal(models[0], first), "with the same seed the first model starts as OH does"


def test_fusion_is_part_of_the_learner_and_of_its_encoder() -> None:
    X = pairs().A
    y = np.arange(len(X)) % 3
    by = {f: make("MultiModelOnlineHashing", fusion=f).partial_fit(X, y) for f in ("min", "sum")}
    assert {f: learner.snapshot().fusion for f, learner in by.items()} == {"min": "min", "sum": "sum"}
    assert by["min"].encode(X) == by["sum"].encode(X)
    assert by["min"].score(X, y) != by["sum"].score(X, y)


@pytest.mark.parametrize("name", BOTH)
class TestInit:
    def test_the_first_functions(self, name: str) -> None:
        W = make(name, n_bits=50).observe(np.ones((1, 400))).projection_
        assert abs(W.mean()) < 0.03
        assert abs(W.std() - 1) < 0.03
        W = make(name, init="unit").observe(pairs().A).projection_
        np.testing.assert_allclose(np.linalg.norm(W, axis=-2), 1)
        given = np.random.default_rng(0).standard_normal(W.shape)
        learner = make(name, init=given).observe(pairs().A)
        assert np.array_equal(learner.projection_, given)
        feed(learner, [pairs()])
        assert np.array_equal(given, np.random.default_rng(0).standard_normal(W.shape)), "the parameter is not touched"

    def test_behind_a_map(self, name: str) -> None:
        """The number of inputs is what the map gives: also where anchors are given, or fewer come than asked for."""
        stream = pairs()
        models = () if name == "OnlineHashing" else (3,)
        W = np.random.default_rng(0).standard_normal((*models, 7, 8))
        given = make(name, init=W, features=RbfAnchors(anchors=stream.A[:7])).observe(stream.A)
        assert given.snapshot().weights.shape[1] == 7
        collected = make(name, init=W, features=RbfAnchors(7)).observe(stream.A)
        assert collected.snapshot().weights.shape[1] == 7
        wrong = make(name, init=W, features=RbfAnchors(6))
        refused_without_a_trace(wrong, lambda: wrong.observe(stream.A))


@pytest.mark.parametrize("name", BOTH)
def test_the_refined_loss_is_asked_not_learned(name: str) -> None:
    """After an uncapped single round nothing of the loss is left where W prefers g; it is never below zero."""
    stream = pairs()
    learner = feed(make(name, C=1e6, centre="none"), [stream])
    before = state_bytes(learner)
    values = [
        learner.refined_loss(a, b, similar) for a, b, similar in zip(stream.A, stream.B, stream.similar, strict=True)
    ]
    assert state_bytes(learner) == before
    assert min(values) > -1e-9
    assert max(values) > 0
    assert learner.refined_loss(stream.A[0], stream.A[0], True) == 0
