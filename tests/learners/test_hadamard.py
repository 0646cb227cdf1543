"""Hadamard hashing against its slow versions, and the codewords that both methods aim at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash.learners.hadamard import HadamardHashing, HadamardMatchingHashing
from onlinehash.learners.hadamard_kernels import find_target
from tests.reference.hadamard import ReferenceHadamardHashing, ReferenceHadamardMatchingHashing
from tests.support import clusters, state_bytes

D, BITS = 23, 12
METHODS = [HadamardHashing, HadamardMatchingHashing]


def target_of(learner: Any, labels: list[int], n_padding: int = 0) -> np.ndarray:
    target = np.zeros(learner.n_bits)
    members = np.array(labels + [-1] * n_padding, np.int64)
    assert find_target(members, learner.codewords_, learner._salt, target)
    return target


def labelled(n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of one label, of several, of none, and a zero vector; the first ones bring the classes in order."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D))
    X[n // 2] = 0
    Y = (rng.random((n, n_classes)) < 0.2).astype(int)
    Y[:n_classes] = np.eye(n_classes)
    return X, Y


# ------------------------------------------------------------------ codewords


@pytest.mark.parametrize("n_bits", [4, 32])
def test_words_of_a_block_are_half_the_bits_apart_and_no_bit_is_constant(n_bits: int) -> None:
    n = 2 * n_bits + 3
    words = HadamardHashing(n_bits, random_state=3).partial_fit(np.eye(n), range(n)).codewords_.astype(int)
    for first in range(0, n, n_bits):
        block = words[first : first + n_bits]
        assert np.array_equal(block @ block.T, n_bits * np.eye(len(block)))
    for known in range(8, n):
        assert (np.abs(words[:known].sum(axis=0)) < known).all()
    assert np.array_equal(np.unique(words), [-1, 1])


# ------------------------------------------------------------------ points of several classes


def test_the_target_of_several_labels_is_the_balanced_sign_of_their_sum() -> None:
    n_bits, rng = 32, np.random.default_rng(0)
    learner = HadamardMatchingHashing(n_bits, random_state=5).partial_fit(np.eye(20), range(20))
    words, halves = learner.codewords_.astype(int), []
    for _ in range(100):
        labels = [int(label) for label in rng.choice(20, rng.integers(1, 7), replace=False)]
        summed, target = words[labels].sum(axis=0), target_of(learner, labels)
        known, zeros = summed != 0, summed == 0
        assert np.array_equal(target[known], np.sign(summed[known]))
        assert (np.abs(target) == 1).all()
        best = max(abs(np.sign(summed).sum()) - zeros.sum(), zeros.sum() and n_bits % 2)
        assert abs(target.sum()) == best, "the zeros balance as much as they can"
        assert np.array_equal(target, target_of(learner, labels[::-1], n_padding=2)), "a set has one target"
        if len(labels) == 2:
            halves.append(target[np.flatnonzero(zeros)])
    assert abs(np.mean([half[: len(half) // 2].sum() for half in halves])) < 2, "not always the leading bits"
    assert len(np.unique(np.array(halves), axis=0)) > len(halves) // 2


# ------------------------------------------------------------------ steps


def test_hcoh_is_the_slow_version() -> None:
    X, Y = labelled(150, 9)
    learner = HadamardHashing(BITS, step=0.7, centre="none", random_state=0).observe(X[:1])
    reference = ReferenceHadamardHashing(learner.projection_, 0.7)
    learner.partial_fit(X, Y)
    taught = [t for t in range(150) if X[t].any() and Y[t].any()]
    loss = sum(reference.step(X[t].astype(float), target_of(learner, list(np.flatnonzero(Y[t])))) for t in taught)
    np.testing.assert_allclose(learner.projection_, reference.W, atol=1e-12)
    assert learner.cumulative_loss_ == pytest.approx(loss, rel=1e-5)
    assert learner.version_ == learner.n_updates_ == len(taught)
    assert learner.n_bits_moved_ == BITS * len(taught)


def test_hmoh_is_the_slow_version() -> None:
    X, Y = labelled(150, 9)
    learner = HadamardMatchingHashing(BITS, centre="none", random_state=0).observe(X[:1])
    reference = ReferenceHadamardMatchingHashing(D, BITS)
    moved = wrong = 0
    for t in range(150):
        before = learner.projection_
        learner.partial_fit(X[t : t + 1], Y[t : t + 1])
        if X[t].any() and Y[t].any():
            wrong += reference.step(X[t].astype(float), target_of(learner, list(np.flatnonzero(Y[t]))))
            moved += int(reference.V[-1].any(axis=0).sum())
        np.testing.assert_allclose(learner.projection_, reference.W, atol=1e-10)
        assert learner.n_bits_moved_ == moved
        changed = (learner.projection_ != before).any(axis=0)
        assert np.array_equal(changed, reference.V[-1].any(axis=0) & (X[t].any() and Y[t].any()))
    assert learner.cumulative_loss_ == wrong > 0
    twin = HadamardMatchingHashing(BITS, centre="none", random_state=0).observe(X[:1]).partial_fit(X, Y)
    assert state_bytes(twin) == state_bytes(learner)


@pytest.mark.parametrize("method", METHODS)
def test_many_classes_are_told_apart(method: Any) -> None:
    """More classes than a block holds."""
    X, y = clusters(1500, n_classes=24, d=48)
    assert method(16, burn_in=100, random_state=0).partial_fit(X, y).score(X[:400], y[:400]) > 0.95
