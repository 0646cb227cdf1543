"""Smooth pair hashing: against the slow version, and what its docstring promises of scale, shares, weights and bits."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest

from onlinehash import LSH, BlendedPairHashing, OnlineHashing, SmoothPairHashing
from onlinehash.learners.damping import WINDOW
from onlinehash.learners.smooth_kernels import load_unit_rows, pulls
from onlinehash.learners.smooth_pairs import AGREE, DIFFER, SHARPNESS
from tests.reference.smooth_pairs import ReferenceSmoothPairs, mean_loss
from tests.support import as_bytes, state_bytes

D, BITS = 12, 6
AXES = np.random.default_rng(5).standard_normal((8, D))

Stream = tuple[np.ndarray, np.ndarray, np.ndarray]


def stream(n: int, seed: int = 0, noise: float = 0.5, meaning: int = 2) -> Stream:
    """Pairs of points around eight centres, similar where the centres' numbers agree by modulus or by halves."""
    rng = np.random.default_rng(seed)
    i, j = rng.integers(0, 8, (2, n))
    A, B = (AXES[of] + noise * rng.standard_normal((n, D)) for of in (i, j))
    similar = i % 2 == j % 2 if meaning == 2 else i // 4 == j // 4
    return A, B, similar


def joined(*streams: Stream) -> Stream:
    A, B, similar = (np.concatenate(parts) for parts in zip(*streams, strict=True))
    return A, B, similar


def small(**settings: Any) -> SmoothPairHashing:
    return SmoothPairHashing(**{"n_bits": BITS, "chunk_size": 16, "centre": "none", "random_state": 3} | settings)


def first_functions(seed: int = 3, d: int = D) -> np.ndarray:
    return np.random.default_rng([seed, 0]).standard_normal((d, BITS))


def learned(learner: SmoothPairHashing) -> np.ndarray:
    """W, published or not (a copy)."""
    return learner._damping.joined(learner._learning).T


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Rows as a chunk has them."""
    out = np.empty_like(X)
    load_unit_rows(X[: len(X) // 2], X[len(X) // 2 :], np.zeros(X.shape[1]), out, np.empty(len(X)))
    return out


def pulled(
    learner: SmoothPairHashing, F: np.ndarray, similar: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """The loss of pairs, and its gradient by their projections."""
    return pulls(F, similar, weights, learner._share[0], AGREE, DIFFER, SHARPNESS)


# ------------------------------------------------------------------ the slow version


def compare(
    A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray, ends: list[int], **settings: Any
) -> tuple[SmoothPairHashing, ReferenceSmoothPairs, int]:
    """Both learn chunk by chunk, some ended early; W, and what codes show of it, agree after each."""
    learner = small(**settings)
    reference = ReferenceSmoothPairs(first_functions(), learner.chunk_size, learner.stale_share)
    cuts = cuts_at(ends, learner, A)
    n_shown = 0
    for start, stop in itertools.pairwise(cuts):
        rows = slice(start, stop)
        before = learner.projection_ if start else None
        learner.partial_fit_pairs(A[rows], B[rows], similar[rows], weights[rows])
        reference.learn(A[rows], B[rows], similar[rows], weights[rows])
        if stop - start < learner.chunk_size:
            learner.flush()
            for k in range(BITS):
                reference.publish(k)
        np.testing.assert_allclose(learned(learner), reference.W, rtol=0, atol=1e-8)
        np.testing.assert_allclose(learner.projection_, reference.shown, rtol=0, atol=1e-8)
        if before is not None:
            n_shown += int((before != learner.projection_).any(axis=0).sum())
    return learner, reference, n_shown


def cuts_at(ends: list[int], learner: SmoothPairHashing, A: np.ndarray) -> list[int]:
    """Where chunks end: when they are full, and at `ends`."""
    cuts = [0]
    while cuts[-1] < len(A):
        cuts.append(min([cuts[-1] + learner.chunk_size, len(A), *(end for end in ends if end > cuts[-1])]))
    return cuts


@pytest.mark.parametrize("chunk_size", [1, 7, 16])
@pytest.mark.parametrize("seed", range(2))
def test_against_the_slow_version(chunk_size: int, seed: int) -> None:
    A, B, similar = stream(60 * chunk_size, seed)
    _, reference, n_shown = compare(A, B, similar, np.ones(len(A)), [], chunk_size=chunk_size)
    assert reference.t == 60
    assert 0 < n_shown < 60 * BITS  # some bits are published, not all


def test_against_the_slow_version_where_the_meaning_changes() -> None:
    """Long enough for the restart, for chunks that no longer enter C, and for the least step."""
    A, B, similar = joined(stream(3200, 0, meaning=2), stream(1280, 1, meaning=4))
    learner, reference, _ = compare(A, B, similar, np.ones(len(A)), [], chunk_size=32)
    assert reference.n_restarts >= 1
    assert learner._surprise.n_since == reference.n_since < len(A)


def test_against_the_slow_version_with_weights_and_early_ends() -> None:
    A, B, similar = stream(400)
    weights = np.random.default_rng(1).choice([0.0, 0.3, 1.0, 4.0], 400)
    compare(A, B, similar, weights, [5, 50, 51, 203])


@pytest.mark.parametrize("stale_share", [0.0, 0.02, 0.3, 1.0])
def test_against_the_slow_version_of_publishing(stale_share: float) -> None:
    A, B, similar = stream(640)
    compare(A, B, similar, np.ones(len(A)), [], stale_share=stale_share)


# ------------------------------------------------------------------ the gradient


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_the_gradient_by_finite_differences(share: float) -> None:
    """Its unit is r times the weight that a chunk should have: the step is divided by its length anyway."""
    A, B, similar = stream(48)
    learner = small().partial_fit_pairs(A, B, similar)
    learner._share[0] = share
    X = unit_rows(np.concatenate([A, B]))
    weights = np.random.default_rng(0).choice([0.0, 0.5, 2.0], 48)
    W = learned(learner)
    G = X.T @ pulled(learner, np.tanh(X @ W), similar, weights)[1]
    numeric = np.empty_like(W)
    for place in np.ndindex(*W.shape):
        step = np.zeros_like(W)
        step[place] = 1e-5
        up, down = (mean_loss(W + sign * step, X[:48], X[48:], similar, weights, share) for sign in (1, -1))
        numeric[place] = BITS * (up - down) / 2e-5
    rare = np.sqrt((1 - share) / share)
    numeric *= weights @ np.where(similar, rare, 1.0) / (48 * (share * rare + 1 - share))
    assert np.abs(G).max() > 1e-3
    np.testing.assert_allclose(G, numeric, rtol=0, atol=1e-6 * max(1.0, np.abs(G).max()))


def test_the_loss_is_that_of_the_docstring() -> None:
    A, B, similar = stream(30)
    learner = small().partial_fit_pairs(A, B, similar)
    X, weights = unit_rows(np.concatenate([A, B])), np.random.default_rng(0).random(30)
    loss, _ = pulled(learner, np.tanh(X @ learned(learner)), similar, weights)
    expected = mean_loss(learned(learner), X[:30], X[30:], similar, weights, learner._share[0])
    assert loss / 8 == pytest.approx(expected, rel=1e-12)


def test_steps_lower_the_loss() -> None:
    A, B, similar = stream(4000)
    X, n = unit_rows(np.concatenate([A, B])), 500
    learner, losses = small(chunk_size=32), []
    for start in range(0, 4000, n):
        learner.partial_fit_pairs(A[start : start + n], B[start : start + n], similar[start : start + n])
        losses.append(mean_loss(learned(learner), X[:n], X[4000 : 4000 + n], similar[:n], np.ones(n), 0.5))
    assert losses[-1] < 0.5 * mean_loss(
        0.5 * first_functions(), X[:n], X[4000 : 4000 + n], similar[:n], np.ones(n), 0.5
    )
    assert losses[-1] <= losses[0]


# ------------------------------------------------------------------ scale


@pytest.mark.parametrize("scale", [1e3, 1e-3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_scale_of_the_data_does_not_matter(scale: float, dtype: Any) -> None:
    A, B, similar = stream(960)
    one, other = (small(centre="burn-in", burn_in=200, n_bits=16) for _ in range(2))
    shift = 3.0
    one.partial_fit_pairs(*((X + shift).astype(dtype) for X in (A, B)), similar)
    other.partial_fit_pairs(*((scale * (X + shift)).astype(dtype) for X in (A, B)), similar)
    rows = np.concatenate(stream(500, 9)[:2]) + shift
    differ = (one.transform(rows.astype(dtype)) != other.transform((scale * rows).astype(dtype))).mean()
    assert differ == 0 if dtype == np.float64 else differ < 1e-3  # float32 rounds other numbers


@pytest.mark.parametrize("power", [-20, 20])
def test_a_power_of_two_changes_no_byte(power: int) -> None:
    A, B, similar = (stream(320)[i] for i in range(3))
    one, other = (small(centre="burn-in", burn_in=100) for _ in range(2))
    one.partial_fit_pairs(A, B, similar)
    other.partial_fit_pairs(2.0**power * A, 2.0**power * B, similar)
    assert as_bytes(one._learning) == as_bytes(other._learning)
    assert as_bytes(one.projection_) == as_bytes(other.projection_)


def test_the_length_of_a_point_does_not_matter() -> None:
    A, B, similar = stream(320)
    rng = np.random.default_rng(0)
    one = small().partial_fit_pairs(A, B, similar)
    other = small().partial_fit_pairs(*(X * np.exp(rng.uniform(-2, 2, (320, 1))) for X in (A, B)), similar)
    np.testing.assert_allclose(learned(one), learned(other), atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_are_of_unit_length(dtype: Any) -> None:
    X = np.array([[3.0, 4.0], [0.0, 0.0], [-1e-5, 0.0], [1e10, 1e10]], dtype)
    unit = unit_rows(X)
    assert unit.dtype == dtype
    np.testing.assert_allclose(unit, [[0.6, 0.8], [0, 0], [-1, 0], [0.5**0.5, 0.5**0.5]], rtol=1e-6)


@pytest.mark.parametrize("d", [D, 60])
def test_points_have_unit_length_in_the_damped_coordinates(d: int) -> None:
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 64, d)) * np.geomspace(1, 0.05, d)
    learner = small(chunk_size=64).partial_fit_pairs(A, B, np.arange(64) % 2 == 0)
    X = unit_rows(np.concatenate([A, B]))
    assert np.mean(np.sum(learner._damping.once(X) ** 2, axis=1)) == pytest.approx(1, rel=1e-9)


# ------------------------------------------------------------------ the share of similar pairs, and weights


def follows(learner: SmoothPairHashing, n: int, share: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((2, n, 2))
    similar = rng.random(n) < share
    learner.partial_fit_pairs(A, B, similar)
    return similar


def test_the_share_of_similar_pairs_is_followed() -> None:
    learner = small(n_bits=2, chunk_size=500)
    similar = follows(learner, 10_000, 0.3, 0)
    assert learner._share[0] == pytest.approx((1 + similar.sum()) / (2 + len(similar)), rel=1e-12)
    follows(learner, 5 * WINDOW, 0.05, 1)
    assert learner._share[0] == pytest.approx(0.05, abs=0.01)
    follows(learner, WINDOW // 2, 0.6, 2)
    assert 0.2 < learner._share[0] < 0.5


def test_weights_count_in_the_share() -> None:
    """In units of their mean, which is 3 here."""
    A, B, _ = stream(16)
    similar = np.arange(16) < 4
    learner = small().partial_fit_pairs(A, B, similar, np.where(similar, 9.0, 1.0))
    assert learner._share.tolist() == pytest.approx([(1 + 12) / (2 + 16), 18])


@pytest.mark.parametrize("unit", [1e-30, 1000.0, 1e5])
def test_the_unit_of_weights_does_not_matter(unit: float) -> None:
    A, B, similar = stream(640)
    weights = np.random.default_rng(0).random(640)
    one, other = (small().partial_fit_pairs(A, B, similar, scale * weights) for scale in (1.0, unit))
    np.testing.assert_allclose(learned(one), learned(other), atol=1e-9)


@pytest.mark.parametrize("similar", [True, False])
@pytest.mark.parametrize("weight", [1.0, 1e6])
def test_pairs_of_one_kind_only(similar: bool, weight: float) -> None:
    A, B, _ = stream(3200)
    learner = small().partial_fit_pairs(A, B, np.full(3200, similar), np.full(3200, weight))
    assert np.isfinite(learned(learner)).all()
    assert 0 < learner._share[0] < 1
    c = ((learner.transform(A) == learner.transform(B)).mean(axis=1) * 2 - 1).mean()
    assert c > 0.4 if similar else c < 0.2


def test_a_chunk_larger_than_all_that_is_remembered() -> None:
    A, B, similar = stream(2 * WINDOW + 200)
    weights = np.repeat([1.0, 0.1], WINDOW + 100)
    learner = small(chunk_size=WINDOW + 100, n_bits=4).partial_fit_pairs(A, B, similar, weights)
    assert np.isfinite(learned(learner)).all()
    assert learner._share[0] == pytest.approx(similar[WINDOW + 100 :].mean(), abs=1e-12)


def test_pairs_without_weight_change_nothing() -> None:
    A, B, similar = stream(64)
    learner = small().partial_fit_pairs(A, B, similar)
    before = learner.get_state()["method"]
    learner.partial_fit_pairs(*stream(32, 1), np.zeros(32))
    assert as_bytes(learner.get_state()["method"]) == as_bytes(before)


def test_weights_scale_the_pull_of_a_pair() -> None:
    A, B, similar = stream(16)
    learner = small().partial_fit_pairs(A, B, similar)
    X = unit_rows(np.concatenate([A, B]))
    F = np.tanh(X @ learned(learner))

    def gradient(*weights: float) -> np.ndarray:
        return X.T @ pulled(learner, F, similar, np.array(weights + (0.0,) * (16 - len(weights))))[1]

    assert np.abs(gradient(1.0)).max() > 1e-4
    np.testing.assert_allclose(gradient(2.0), 2 * gradient(1.0), atol=1e-14)
    np.testing.assert_allclose(gradient(1.0, 3.0), gradient(1.0) + 3 * gradient(0.0, 1.0), atol=1e-14)


@pytest.mark.parametrize("weight", [5e-324, 1e-320, 1e-300])
@pytest.mark.parametrize("learner", [SmoothPairHashing, BlendedPairHashing])
def test_weights_too_small_to_be_multiplied_are_no_error(learner: type[SmoothPairHashing], weight: float) -> None:
    A, B, similar = stream(464)
    model = learner(8, random_state=0).partial_fit_pairs(A[:400], B[:400], similar[:400])
    model.partial_fit_pairs(A[400:], B[400:], similar[400:], np.full(64, weight))
    assert np.isfinite(learned(model)).all()


@pytest.mark.parametrize("chunk_size", [16, 5000])
def test_a_copy_holds_no_more_than_the_state(chunk_size: int) -> None:
    """The rows of the last chunk are not in it."""
    A, B, similar = stream(5000)
    straight = small(chunk_size=chunk_size).partial_fit_pairs(A, B, similar)
    loaded = small(chunk_size=chunk_size)
    loaded.set_state(straight.get_state())
    assert abs(len(pickle.dumps(straight)) - len(pickle.dumps(loaded))) < 1000


def test_the_heavier_of_two_words_wins() -> None:
    """Every pair comes twice, once as similar and once not."""
    A, B, _ = stream(1600)
    A, B, similar = np.repeat(A, 2, axis=0), np.repeat(B, 2, axis=0), np.arange(3200) % 2 == 0
    agree = []
    for weight in (0.25, 1.0, 4.0):
        learner = small(n_bits=16).partial_fit_pairs(A, B, similar, np.where(similar, weight, 1.0)).flush()
        agree.append((learner.transform(A) == learner.transform(B)).mean())
    assert agree[0] + 0.02 < agree[1] < agree[2] - 0.02


# ------------------------------------------------------------------ what codes show


def test_bits_that_are_never_stale() -> None:
    """With `stale_share=1` only the first chunk and `flush` publish."""
    A, B, similar = stream(640)
    learner = small(stale_share=1.0).partial_fit_pairs(A[:16], B[:16], similar[:16])
    np.testing.assert_array_equal(learner.projection_, learned(learner))
    first, version = learner.projection_, learner.version_
    updates = learner.learn_pairs(A[16:], B[16:], similar[16:])
    assert not updates.flips.any()
    np.testing.assert_array_equal(learner.projection_, first)
    assert learner.version_ == version
    assert (learned(learner) != first).any(axis=0).all()
    learner.flush()
    np.testing.assert_array_equal(learner.projection_, learned(learner))
    assert learner.version_ == version + 1


def test_bits_that_are_stale_at_once() -> None:
    """With `stale_share=0` a bit is published when W, as the chunk met it, gives one of its points another bit."""
    A, B, similar = stream(640)
    learner = small(stale_share=0.0)
    learner.partial_fit_pairs(A[:16], B[:16], similar[:16])
    n_kept = 0
    for start in range(16, 640, 16):
        rows = slice(start, start + 16)
        X, W, shown = np.concatenate([A[rows], B[rows]]), learned(learner), learner.projection_
        differs = ((X @ W >= 0) != (X @ shown >= 0)).any(axis=0)
        updates = learner.learn_pairs(A[rows], B[rows], similar[rows])
        np.testing.assert_array_equal(updates.flips[-1] != 0, differs)
        np.testing.assert_array_equal(learner.projection_, np.where(differs, learned(learner), shown))
        n_kept += np.count_nonzero(~differs)
    assert n_kept > 0


def test_the_larger_the_stale_share_the_fewer_bits_are_published() -> None:
    A, B, similar = stream(1600)
    moved = [
        small(n_bits=16, stale_share=share).partial_fit_pairs(A, B, similar).n_bits_moved_
        for share in (0.0, 0.01, 0.05, 0.2, 1.0)
    ]
    assert moved == sorted(moved, reverse=True)
    assert moved[0] > 2 * moved[2]
    assert moved[-1] == 16


def test_flush_publishes_all_and_once() -> None:
    learner = small(n_bits=16).partial_fit_pairs(*stream(324))
    assert (learner.projection_ != learned(learner)).any()
    assert learner.n_rows_waiting_ == 4
    learner.flush()
    assert learner.n_rows_waiting_ == 0
    np.testing.assert_array_equal(learner.projection_, learned(learner))
    before = state_bytes(learner)
    learner.flush()
    assert state_bytes(learner) == before


def test_a_chunk_ended_early_moves_less() -> None:
    A, B, similar = stream(352)
    moves = []
    for n in (1, 8, 32):
        learner = small(chunk_size=32).partial_fit_pairs(A[:320], B[:320], similar[:320])
        before = learned(learner)
        rows = slice(320, 320 + n)
        learner.partial_fit_pairs(A[rows], B[rows], similar[rows]).flush()
        moves.append(np.linalg.norm(learned(learner) - before))
    assert 0 < moves[0] < 0.2 * moves[2]
    assert 0 < moves[1] < 0.6 * moves[2]


def test_float32_goes_on_after_loading() -> None:
    """Looking for directions and going on from a state round alike."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 640, 40)).astype(np.float32)
    similar = rng.random(640) < 0.3
    straight = small().partial_fit_pairs(A, B, similar)
    begun, goes_on = small().partial_fit_pairs(A[:300], B[:300], similar[:300]), small()
    goes_on.set_state(begun.get_state())
    goes_on.partial_fit_pairs(A[300:], B[300:], similar[300:])
    assert straight._learning.dtype == np.float32
    assert state_bytes(goes_on) == state_bytes(straight)


def test_a_state_from_before_functions_were_wide_goes_on() -> None:
    """It has W and m, and nothing along the directions: the same functions but for rounding."""
    A, B, similar = stream(640)
    straight, old = small().partial_fit_pairs(A[:320], B[:320], similar[:320]), small()
    state = straight.get_state()
    state["method"]["learning"] = learned(straight)
    del state["method"]["back"], state["method"]["along"]
    old.set_state(state)
    np.testing.assert_array_equal(learned(old), learned(straight))
    for learner in (straight, old):
        learner.partial_fit_pairs(A[320:], B[320:], similar[320:])
    np.testing.assert_allclose(learned(old), learned(straight), atol=1e-10)
    np.testing.assert_array_equal(old.transform(A), straight.transform(A))


# ------------------------------------------------------------------ a world that changes, or does not


@pytest.mark.parametrize("seed", range(3))
def test_it_begins_again_when_the_meaning_changes(seed: int) -> None:
    before, after = stream(6400, seed, meaning=2), stream(1600, seed + 50, meaning=4)
    learner = small(chunk_size=32, n_bits=16).partial_fit_pairs(*before)
    assert learner._surprise.n_since == 6400
    learner.partial_fit_pairs(*after)
    assert learner._surprise.n_since < 1600


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_it_does_not_begin_again_for_no_reason(seed: int, noise: float) -> None:
    learner = small(chunk_size=32).partial_fit_pairs(*stream(9600, seed, noise))
    assert learner._surprise.n_since == 9600


# ------------------------------------------------------------------ it learns


def classes(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten overlapping classes in a 24-dimensional subspace of 64 dimensions."""
    world, rng = np.random.default_rng(7), np.random.default_rng(seed)
    centres, spread = world.standard_normal((10, 24)), world.standard_normal((24, 64)) / 8
    y = rng.integers(0, 10, n)
    latent = centres[y] + rng.standard_normal((n, 24))
    return (latent @ spread + 0.0125 * rng.standard_normal((n, 64))).astype(np.float32), y


def class_pairs(n: int, share: float, wrong: float, seed: int = 0) -> Stream:
    """Pairs of which this share is similar, and this share has the wrong word."""
    rng = np.random.default_rng(seed)
    X, y = classes(20_000, seed)
    i, j = rng.integers(0, 20_000, (2, n))
    wished = rng.random(n) < share
    for t in np.flatnonzero((y[i] == y[j]) != wished):
        j[t] = rng.choice(np.flatnonzero((y == y[i[t]]) == wished[t]))
    return X[i], X[j], wished ^ (rng.random(n) < wrong)


@pytest.mark.parametrize(("share", "wrong"), [(0.5, 0.0), (0.1, 0.0), (0.1, 0.1), (0.02, 0.0), (0.02, 0.02)], ids=str)
def test_better_than_online_hashing_on_overlapping_classes(share: float, wrong: float) -> None:
    pairs, (X, y) = class_pairs(4000, share, wrong), classes(800, 99)
    scores = {
        cls.__name__: cls(n_bits=32, random_state=0).partial_fit_pairs(*pairs).flush().score(X, y)
        for cls in (SmoothPairHashing, OnlineHashing, LSH)
    }
    ours = scores.pop("SmoothPairHashing")
    assert ours > max(scores.values()) + 0.05, (ours, scores)


# ------------------------------------------------------------------ odd streams


@pytest.mark.parametrize("centre", ["burn-in", "running", "none"])
def test_all_points_are_equal(centre: str) -> None:
    """Less their mean they are zero, or what rounding leaves of it."""
    same = np.tile(stream(1)[0], (320, 1))
    learner = small(centre=centre).partial_fit_pairs(same, same, np.arange(320) % 2 == 0).flush()
    assert np.isfinite(learned(learner)).all()
    assert (learner.transform(same) == learner.transform(same)[0]).all()


def test_points_that_are_zero_at_first() -> None:
    """There is nothing to learn until there is, and then no time is lost."""
    zeros = np.zeros((1280, D))
    learner = small().partial_fit_pairs(zeros, zeros, np.arange(1280) % 2 == 0).flush()
    assert learner._n_chunks == 0
    np.testing.assert_array_equal(learner.projection_, first_functions())
    learner.partial_fit_pairs(*stream(320))
    assert learner._n_chunks == 20
    assert np.isfinite(learned(learner)).all()


@pytest.mark.parametrize("chunk_size", [1, 16])
def test_one_feature(chunk_size: int) -> None:
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 320, 1))
    learner = small(chunk_size=chunk_size).partial_fit_pairs(A, B, (A > 0)[:, 0] == (B > 0)[:, 0]).flush()
    assert np.isfinite(learned(learner)).all()
    np.testing.assert_array_equal((learner.transform(A) == learner.transform(-A)).any(axis=1), False)


def test_chunks_of_one_pair() -> None:
    A, B, similar = stream(2000)
    learner = small(chunk_size=1, n_bits=16).partial_fit_pairs(A, B, similar)
    assert learner._n_chunks == 2000
    agree = (learner.transform(A) == learner.transform(B)).mean(axis=1)
    assert agree[similar].mean() > agree[~similar].mean() + 0.2


def test_zero_vectors() -> None:
    A, B, similar = stream(320)
    A[::3], B[1::4] = 0.0, 0.0
    compare(A, B, similar, np.ones(320), [])


@pytest.mark.parametrize("similar", [True, False])
def test_a_pair_that_comes_again_and_again(similar: bool) -> None:
    A, B, _ = stream(1)
    learner = small().partial_fit_pairs(*(np.repeat(X, 1600, axis=0) for X in (A, B)), np.full(1600, similar)).flush()
    assert np.isfinite(learned(learner)).all()
    agree = (learner.transform(A) == learner.transform(B)).mean()
    assert agree > 0.8 if similar else agree < 0.6


@pytest.mark.parametrize("n_points", [2, 3, 10])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_two_features_duplicates_and_dissimilar_pairs_only(n_points: int, offset: float) -> None:
    """Every bit still tells some of the points apart, though no pair says what belongs together."""
    rng = np.random.default_rng(n_points)
    points = rng.standard_normal((n_points, 2)) + offset
    A, B = points[rng.integers(n_points, size=(2, 600))]
    learner = SmoothPairHashing(64, random_state=0).partial_fit_pairs(A, B, np.zeros(600, np.bool_)).flush()
    shares = learner.transform(points).mean(axis=0)
    assert ((shares > 0) & (shares < 1)).all()
