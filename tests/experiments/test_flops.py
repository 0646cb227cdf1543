"""Operations of a pair: by hand, and beside a count of what a plain version of the method does."""

import numpy as np
import pytest

from onlinehash.experiments.flops import flops_per_pair, state_bytes
from onlinehash.learners import registry

RNG = np.random.default_rng(5)
X, Y = RNG.standard_normal((400, 8)), RNG.integers(3, size=400)  # noise, so that there is always something to learn


def taught(name, **parameters):
    """A learner that has seen 200 pairs, or their 400 points."""
    learner = registry.find(name)(random_state=0, **parameters)
    if learner.traits.learns_from == "pairs":
        learner.partial_fit_pairs(X[::2], X[1::2], Y[::2] == Y[1::2])
    else:
        learner.partial_fit(X, Y)
    return learner.flush()


class Counted:
    """NumPy with a meter: what the plain version of a method below is written in."""

    def __init__(self):
        self.n = 0

    def dot(self, a, b):
        self.n += 2 * len(a)
        return float(a @ b)

    def add(self, a, factor, b):
        self.n += 2 * len(a)
        return a + factor * b


def counted_online_hashing(learner, n_bits, beta=0.4, C=0.1):
    """OH once more, pair by pair, every operation on vectors counted."""
    np_ = Counted()
    first = registry.find("OH")(n_bits=n_bits, centre="none", random_state=0)
    W = first.partial_fit_pairs(X[:1], X[:1], [True]).projection_.T.copy()  # a pair of equals teaches nothing
    b = beta * n_bits
    for x, z, similar in zip(X[::2], X[1::2], Y[::2] == Y[1::2], strict=True):
        P = np.array([[np_.dot(w, x) for w in W], [np_.dot(w, z) for w in W]])
        differ = (P[0] >= 0) != (P[1] >= 0)
        D = int(differ.sum())
        R = D if similar else max(0.0, b - D)
        if R == 0:
            continue
        wrong = np.flatnonzero(differ == similar)
        n_flips = D if similar else int(np.ceil(b - 1e-9)) - D
        chosen = wrong[np.argsort(np.abs(P[:, wrong]).min(axis=0), kind="stable")][:n_flips]
        squares = np_.dot(x, x), np_.dot(z, z)
        sides = np.where(np.abs(P[0, chosen]) <= np.abs(P[1, chosen]), 0, 1)
        loss = np.sqrt(R) + 2 * np.abs(P[sides, chosen]).sum()
        tau = min(C, loss / (4 * sum(squares[side] for side in sides)))
        for k, side in zip(chosen, sides, strict=True):
            sign = -1 if P[side, k] >= 0 else 1
            W[k] = np_.add(W[k], 2 * tau * sign, (x, z)[side])
    np.testing.assert_allclose(W.T, learner.projection_, rtol=1e-9)  # so it is the same method
    return np_.n / 200


def test_online_hashing_does_what_a_plain_version_counts():
    learner = taught("OH", n_bits=16, centre="none")
    assert learner.n_updates_ > 100
    assert flops_per_pair(learner) == pytest.approx(counted_online_hashing(learner, 16), rel=1e-12)


def test_every_method_of_the_plans_has_a_formula_that_grows_with_bits():
    for name in ("OnlineHashing", "AdaptiveHashing", "MinimalLossHashing", "LegoLSH"):
        narrow, wide = (flops_per_pair(taught(name, n_bits=bits)) for bits in (4, 8))
        assert 0 < narrow < wide, name


def test_the_size_of_what_is_kept():
    few, many = (registry.find("OH")(n_bits=4, random_state=0) for _ in range(2))
    few.partial_fit_pairs(X[::2], X[1::2], Y[::2] == Y[1::2])
    for _ in range(20):
        many.partial_fit_pairs(X[::2], X[1::2], Y[::2] == Y[1::2])
    assert state_bytes(few) == state_bytes(many) >= 4 * 8 * 8
    wide = registry.find("OH")(n_bits=8, random_state=0).partial_fit_pairs(X[::2], X[1::2], Y[::2] == Y[1::2])
    assert state_bytes(wide) - state_bytes(few) >= 4 * 8 * 8
    assert state_bytes(wide) < 2 * state_bytes(few)
