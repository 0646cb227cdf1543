"""Mini-batch online hashing: against the slow version, against OH, and what its docstring proves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash import OnlineHashing, RbfAnchors
from onlinehash.learners.mini_batch import MiniBatchOnlineHashing
from onlinehash.learners.mini_batch_kernels import TOLERANCE
from tests.reference.mini_batch import Chunk, ReferenceMiniBatch
from tests.support import as_bytes

D = 30
BITS = 16


def stream(n: int, d: int = D, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random pairs, a third of them similar and near to each other."""
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((2, n, d))
    similar = rng.random(n) < 1 / 3
    B[similar] = A[similar] + 0.3 * B[similar]
    return A, B, similar


def first_functions(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((D, BITS))


def chunks_of(
    A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray | None, size: int, **settings: Any
) -> tuple[MiniBatchOnlineHashing, list[Chunk]]:
    """The package's learner and the reference learn the same chunks; losses, changed bits and W are compared."""
    W1 = first_functions()
    learner = MiniBatchOnlineHashing(BITS, chunk_size=size, centre="none", init=W1, **settings)
    reference = ReferenceMiniBatch(W1, **settings)
    given = np.ones(len(A)) if weights is None else weights
    chunks = []
    for start in range(0, len(A), size):
        rows = slice(start, start + size)
        updates = learner.learn_pairs(A[rows], B[rows], similar[rows], given[rows])
        learner.flush()
        chunk = reference.learn(A[rows], B[rows], np.where(similar[rows], 1, -1), given[rows])
        np.testing.assert_array_equal(updates.loss, chunk.losses)
        if len(updates) == size:
            np.testing.assert_array_equal(updates.flips[-1] != 0, (chunk.end != chunk.start).any(axis=0))
            assert updates.step[-1, 0] == pytest.approx(chunk.tau.sum(), abs=1e-9)
            assert not updates.flips[:-1].any()
        np.testing.assert_allclose(learner.projection_, reference.W, rtol=0, atol=1e-9)
        chunks.append(chunk)
    return learner, chunks


@pytest.mark.parametrize(
    ("size", "settings"),
    [
        (7, {}),
        (40, {"C": 0.02, "similar_radius": 2, "dissimilar_ratio": 0.5}),
        (40, {"C": 100.0}),
        (7, {"dissimilar_ratio": 1.0}),
        (40, {"C": 0.01, "balance": 1.0}),
    ],
    ids=str,
)
def test_against_the_slow_version(size: int, settings: dict[str, Any]) -> None:
    _, chunks = chunks_of(*stream(200), None, size, **settings)
    assert sum(len(chunk.R) for chunk in chunks) > 50


def test_sample_weights() -> None:
    weights = np.random.default_rng(5).choice([0.0, 0.01, 0.5, 1.0, 3.0], 300)
    _, chunks = chunks_of(*stream(300), weights, 20, balance=0.0)
    assert len({round(float(cap), 6) for chunk in chunks for cap in chunk.caps}) == 4


def test_zero_vectors() -> None:
    A, B, similar = stream(120)
    A[::3] = 0.0
    B[1::6] = 0.0
    chunks_of(A, B, similar, None, 12)


def test_a_chunk_without_loss_changes_nothing() -> None:
    learner = MiniBatchOnlineHashing(BITS, chunk_size=5, centre="none", random_state=0)
    A = stream(10)[0]
    learner.observe(A)
    before = learner.projection_
    updates = learner.learn_pairs(A, A, np.ones(10, bool))
    assert not updates.loss.any()
    assert not updates.step.any()
    assert learner.n_updates_ == 0
    np.testing.assert_array_equal(learner.projection_, before)


# ------------------------------------------------------------------ one pair is online hashing


@pytest.mark.parametrize(
    ("centre", "settings"),
    [
        ("burn-in", {}),
        ("running", {"C": 10.0}),
        ("none", {"C": 0.005, "similar_radius": 1, "dissimilar_ratio": 0.7}),
        ("burn-in", {"features": RbfAnchors(20)}),
    ],
    ids=str,
)
def test_a_chunk_of_one_pair_is_online_hashing(centre: str, settings: dict[str, Any]) -> None:
    A, B, similar = stream(400, seed=3)
    A, B = A + 0.5, B + 0.5
    weights = np.random.default_rng(4).choice([0.0, 0.3, 1.0, 4.0], 400)
    common = {"centre": centre, "burn_in": 50, "random_state": 7, **settings}
    one = OnlineHashing(BITS, **common)
    many = MiniBatchOnlineHashing(BITS, chunk_size=1, **common)
    of_one, of_many = (learner.learn_pairs(A, B, similar, weights) for learner in (one, many))
    assert np.count_nonzero(of_one.step) > 50
    np.testing.assert_array_equal(of_one.loss, of_many.loss)
    np.testing.assert_array_equal(of_one.step, of_many.step)
    np.testing.assert_array_equal(of_one.n_moved, of_many.n_moved)
    assert all(np.array_equal(of_one.bits(t), of_many.bits(t)) for t in range(400))
    assert as_bytes(one.projection_) == as_bytes(many.projection_)
    assert (one.version_, one.cumulative_loss_) == (many.version_, many.cumulative_loss_)


# ------------------------------------------------------------------ what is proven


class Watched(MiniBatchOnlineHashing):
    """Keeps what every chunk did, as a `Chunk` beside the dual value and the gap that the kernel tells."""

    seen: list[tuple[Chunk, float, float]]

    def _solve(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, caps: np.ndarray) -> Any:
        start = self.projection_
        of, dual, gap = super()._solve(A, B, similar, caps)
        used = np.flatnonzero(of.norms)
        sides = np.stack([of.flips - 3 * np.round(of.flips / 3), np.round(of.flips / 3)], axis=1)  # (g - h) / 2
        M = 2 * np.einsum("nsd,nsk->ndk", np.stack([A, B], axis=1), sides)[used]
        chunk = Chunk(M, of.R[used], caps[used], of.tau[used], start, self.projection_, [])
        self.seen.append((chunk, dual, gap))
        return of, dual, gap


def watch(A: np.ndarray, B: np.ndarray, similar: np.ndarray, size: int, C: float) -> Watched:
    """A learner of these pairs."""
    learner = Watched(BITS, chunk_size=size, C=C, centre="none", init=first_functions())
    learner.seen = []
    learner.partial_fit_pairs(A, B, similar).flush()
    return learner


def watched(size: int, C: float, seed: int = 0) -> list[tuple[Chunk, float, float]]:
    """The chunks with loss of a random stream."""
    return [seen for seen in watch(*stream(300, seed=seed), size, C).seen if len(seen[0].R)]


@pytest.mark.parametrize("C", [0.01, 100.0])
def test_the_step_is_the_solution(C: float) -> None:
    """The primal is strongly convex: W is within √(2 gap) of the best, which a solver of others finds."""
    for chunk, dual, gap in watched(40, C):
        assert dual == pytest.approx(chunk.dual(chunk.tau), rel=1e-9)
        assert gap == pytest.approx(chunk.primal(chunk.end) - dual, abs=1e-9 * dual)
        assert 0 <= gap + 1e-12 <= TOLERANCE * dual + 1e-12
        best = chunk.solution()
        assert chunk.dual(best) <= dual + gap + 1e-9
        W = chunk.start + np.tensordot(best, chunk.M, 1)
        assert ((W - chunk.end) ** 2).sum() <= 2 * gap + 1e-7 * dual
        assert (chunk.tau >= 0).all()
        assert (chunk.tau <= chunk.caps).all()


def test_pairs_weigh_on_each_other() -> None:
    """The solution is not the pass of online hashing that it begins with, nor steps that do not know of each other."""
    corrected = 0
    for chunk, _, _ in watched(40, 100.0):
        alone = chunk.prediction_losses(chunk.start) / (chunk.M**2).sum(axis=(1, 2))
        for tau in (alone, tau_of_the_pass(chunk)):
            corrected += np.abs(tau - chunk.tau).max() > 0.05 * chunk.tau.max()
        assert (chunk.prediction_losses(chunk.end) < 0.2).all()  # with no cap all are satisfied at once
    assert corrected > 5


def test_a_pair_that_comes_many_times() -> None:
    """With one wrong bit it has its loss on every arrival, and is learned once: the bound is not of that loss."""
    W1 = first_functions()
    A, B, _ = stream(500)
    B = A + 0.05 * B
    n = np.flatnonzero(((A @ W1 >= 0) != (B @ W1 >= 0)).sum(axis=1) == 1)[0]
    learner = watch(*(np.repeat(X[n : n + 1], 30, axis=0) for X in (A, B)), np.ones(30, bool), 30, 100.0)
    ((chunk, _, _),) = learner.seen
    assert chunk.R.tolist() == [1.0]
    assert learner.cumulative_loss_ == 30.0


@pytest.mark.parametrize(("size", "C"), [(5, 10.0), (80, 0.05)])
def test_the_loss_bound(size: int, C: float) -> None:
    """Lemma 1 for chunks is an equation; from it follow the two right sides of Theorem 2, for any U."""
    chunks = [chunk for chunk, _, _ in watched(size, C, seed=size)]
    F2 = max(float((chunk.M**2).sum(axis=(1, 2)).max()) for chunk in chunks)
    assert max(float(np.sqrt(chunk.R).max()) for chunk in chunks) / F2 <= min(
        float(chunk.caps.min()) for chunk in chunks
    )  # the theorem's condition
    W1, rng = first_functions(), np.random.default_rng(9)
    for U in (W1, chunks[-1].end, 3 * chunks[-1].end, np.zeros_like(W1), rng.standard_normal(W1.shape)):
        stepwise = safe = 0.0
        for chunk in chunks:
            ell = chunk.prediction_losses(U)
            for tau in (chunk.tau, tau_of_the_pass(chunk), 0.5 * chunk.tau):  # solved, given up early, anything
                end = chunk.start + np.tensordot(tau, chunk.M, 1)
                nearer = ((chunk.start - U) ** 2).sum() - ((end - U) ** 2).sum()
                assert nearer == pytest.approx(2 * chunk.dual(tau) - 2 * tau @ ell, abs=1e-8)
            assert chunk.R.sum() <= 2 * F2 * chunk.dual(tau_of_the_pass(chunk))
            assert chunk.dual(tau_of_the_pass(chunk)) <= chunk.dual(chunk.tau) * (1 + 1e-9)
            stepwise += chunk.tau @ ell
            safe += chunk.caps @ np.maximum(0.0, ell)
        loss, distance = sum(chunk.R.sum() for chunk in chunks), ((U - W1) ** 2).sum()
        assert loss <= F2 * (distance + 2 * stepwise) * (1 + 1e-9)
        assert loss <= F2 * (distance + 2 * safe)


def tau_of_the_pass(chunk: Chunk) -> np.ndarray:
    """The τ with which the sweeps begin: online hashing over the chunk's constraints."""
    tau, W = np.zeros(len(chunk.R)), chunk.start
    for n, M in enumerate(chunk.M):
        tau[n] = min(chunk.caps[n], (np.sqrt(chunk.R[n]) - (W * M).sum()) / (M**2).sum())
        W = W + tau[n] * M
    return tau
