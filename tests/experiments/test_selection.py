"""OH by choice: the paper's choice gives OH itself, others move as many bits of the same kind."""

from __future__ import annotations

import numpy as np

from onlinehash import OnlineHashing
from onlinehash.experiments.selection import OnlineHashingByChoice

RNG = np.random.default_rng(5)
A, B = RNG.standard_normal((2, 300, 20)) + 0.3
SIMILAR = RNG.random(300) < 0.4


def test_the_least_margins_are_online_hashing():
    parameters = {"similar_radius": 3, "dissimilar_ratio": 0.55}
    ours, slow = (cls(24, random_state=3, **parameters) for cls in (OnlineHashing, OnlineHashingByChoice))
    # Observed first: two points less their own mean have margins that are equal but for rounding.
    first, second = (learner.observe(A + B).learn_pairs(A, B, SIMILAR) for learner in (ours, slow))
    np.testing.assert_allclose(slow.projection_, ours.projection_, rtol=1e-9, atol=1e-9)
    for name in ("loss", "capped", "flips", "n_moved", "moved"):
        np.testing.assert_array_equal(getattr(second, name), getattr(first, name))
    np.testing.assert_allclose(second.step, first.step, rtol=1e-9)
